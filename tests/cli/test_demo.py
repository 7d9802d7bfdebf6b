"""`stowplan demo`: the story it tells, under virtual time."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from stowplan.cli import _demo_report, main
from stowplan.cli._demo_run import Story, run
from stowplan.clock import VirtualClock

NODES, PODS = 60, 400


def tell(seed: int = 1) -> Story:
    clock = VirtualClock(now_s=1.7e9)
    return run(NODES, PODS, seed, clock=clock, pause=clock.advance)


def report(story: Story, capsys: pytest.CaptureFixture[str]) -> str:
    _demo_report.show(story)
    return capsys.readouterr().out


@pytest.mark.slow
def test_every_pod_is_accounted_for() -> None:
    story = tell()

    machine = story.driver.machine
    assert machine.queue.pending_counts() == {
        "active": 0,
        "backoff": 0,
        "unschedulable": len(story.pending),
        "gated": 3,
    }
    assert story.bound + len(story.pending) + 3 + len(story.preemptions) == PODS
    assert story.preemptions
    assert {victim.split("/")[1].split("-")[0] for victim, _, _ in story.preemptions} == {"batch"}
    assert {taker.split("/")[1].split("-")[0] for _, taker, _ in story.preemptions} == {"urgent"}


@pytest.mark.slow
def test_no_node_is_overcommitted() -> None:
    for info in tell().driver.machine.cache.nodes.values():
        for resource, amount in info.requested.items():
            assert amount <= info.allocatable.get(resource, 0), (info.name, resource)


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
