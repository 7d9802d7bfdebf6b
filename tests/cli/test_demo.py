"""`stowplan demo`: the story it tells, under virtual time."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from stowplan.cli import main
from stowplan.cli._demo_run import Story, run, show

NODES, PODS = 60, 400


def tell(seed: int = 1) -> Story:
    return run(NODES, PODS, seed, "virtual")


def report(story: Story, capsys: pytest.CaptureFixture[str]) -> str:
    show(story)
    return capsys.readouterr().out


@pytest.mark.slow
def test_every_pod_is_accounted_for() -> None:
    story = tell()

    counts = story.cluster.lane_counts()
    assert {lane: count for lane, count in counts.items() if count} == {
        "unschedulable": len(story.pending),
        "gated": 3,
    }
    bound = len(story.cluster.pods(pending=False))
    assert bound + len(story.pending) + 3 + len(story.preemptions) == PODS
    assert story.preemptions
    assert {victim.split("/")[1].split("-")[0] for victim, _, _ in story.preemptions} == {"batch"}
    assert {taker.split("/")[1].split("-")[0] for _, taker, _ in story.preemptions} == {"urgent"}


@pytest.mark.slow
def test_no_node_is_overcommitted() -> None:
    free = tell().cluster.free()

    assert len(free) == NODES
    assert all((free[resource] >= 0).all() for resource in ("cpu", "memory", "pods"))


@pytest.mark.slow
def test_the_report_has_what_it_promises(capsys: pytest.CaptureFixture[str]) -> None:
    text = report(tell(), capsys)

    assert re.match(r"Scheduled \d+ of 400 pods on 60 nodes in .* pods per second", text)
    assert all(f"zone-{zone}     20 " in text for zone in "abc")
    assert "Pending: 6 that fit nowhere, 3 held at a gate." in text
    assert "0/60 nodes are available: " in text
    assert "node(s) didn't match Pod's node" in text
    assert re.search(r"default/batch-\d+ made room for default/urgent-\d+ on gpu-", text)


@pytest.mark.slow
def test_the_same_seed_tells_the_same_story(capsys: pytest.CaptureFixture[str]) -> None:
    first, again, other = (
        report(tell(seed), capsys).partition("\n")[2]  # The first line has the time it took.
        for seed in (1, 1, 2)
    )

    assert first == again
    assert first != other


def test_a_story_too_small_to_tell() -> None:
    result = CliRunner().invoke(main, ["demo", "--nodes", "3"])

    assert result.exit_code == 2
    assert result.stderr.startswith("error: the story needs at least --nodes 30 and --pods 100\n")
