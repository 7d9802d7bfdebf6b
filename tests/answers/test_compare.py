"""`compare`: what differs, who tipped it, and gates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import stowplan as sp
from stowplan.answers.gates import read_gate
from stowplan.answers.measures import interval
from stowplan.errors import InputError
from tests.answers.building import Data, node, pod
from tests.answers.test_why import run, written

PACKED: Data = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "plugins": {"score": {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]}},
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {
                        "scoringStrategy": {
                            "type": "MostAllocated",
                            "resources": [{"name": "cpu", "weight": 1}],
                        }
                    },
                }
            ],
        }
    ],
}


def cluster(*objects: Data) -> sp.Cluster:
    return sp.Cluster.from_dump([*objects])


def halves() -> list[Data]:
    return [node("a"), node("b"), pod("old", on="a"), pod("p")]


def test_a_decision_that_differs_names_the_plugin_that_tipped_it() -> None:
    answer = cluster(*halves()).compare(PACKED)

    (found,) = answer.differences
    assert (found.pod, found.base, found.other) == ("default/p", "b", "a")
    assert found.plugin == "NodeResourcesFit"
    assert answer.base["nodes"] == [2]
    assert answer.other["nodes"] == [1]
    assert answer.other["fill.cpu"] == [pytest.approx(0.5)]


def test_a_filter_that_is_off_tips_too() -> None:
    config: Data = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": "NodeUnschedulable"},
                                                              {"name": "TaintToleration"}]}}}],
    }  # fmt: skip

    answer = cluster(node("a", unschedulable=True), pod("p")).compare(
        config, fail_if=["pending < base", "pending > base"]
    )

    (found,) = answer.differences
    assert (found.base, found.other, found.plugin) == ("", "a", "NodeUnschedulable")
    assert answer.failed == ["pending < base"]
    assert not answer


def test_running_pods_are_decided_anew_when_asked() -> None:
    running = [pod(f"p{n}", on=f"n{n}") for n in range(3)]
    objects = [*(node(f"n{n}") for n in range(3)), *running]

    still = cluster(*objects).compare(PACKED)
    anew = cluster(*objects).compare(PACKED, anew=True)

    assert (still.decided, still.other["nodes"]) == (0, [3])
    assert (anew.decided, anew.other["nodes"]) == (3, [1])
    assert anew.base["nodes"] == [3]


def test_several_seeds_give_intervals_and_the_same_seed_gives_no_difference() -> None:
    objects = [*(node(f"n{n}") for n in range(9)), *(pod(f"p{n}", cpu="2") for n in range(9))]

    seeds = cluster(*objects).compare(new_seed=7, seeds=4)
    same = cluster(*objects).compare(PACKED | {}, seed=3)

    assert all(len(values) == 4 for values in seeds.base.values())
    assert seeds.seeds == [0, 1, 2, 3]
    assert seeds.differences
    assert same.decided == 9
    assert not cluster(*objects).compare(seed=5).differences


def test_an_interval_is_students() -> None:
    mean, margin = interval([1.0, 2.0, 3.0])

    assert mean == 2.0
    assert margin == pytest.approx(4.303 / 3**0.5)
    assert interval([4.0]) == (4.0, 0.0)


@pytest.mark.parametrize(
    ("text", "now", "base", "holds"),
    [
        ("pending > base", 2, 1, True),
        ("pending > base", 1, 1, False),
        ("pending>=base*1.5", 3, 2, True),
        ("pending > (base + 1) * 2", 4, 1, False),
        ("pending < base - 10%", 0.85, 1, True),
        ("pending != 3", 3, 0, False),
        ("pending == -1 + 2 / 2", 0, 0, True),
    ],
)
def test_conditions(text: str, now: float, base: float, holds: bool) -> None:
    assert read_gate(text, ["pending"]).holds(now, base) is holds


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("pending", "no condition"),
        ("pendign > base", "no measure 'pendign'"),
        ("pending > ", "cannot be read"),
        ("pending > base base", "cannot be read"),
        ("pending > (base", "cannot be read"),
        ("pending > other", "cannot be read"),
        ("pending > 1 / 0", "divides by zero"),
        ("pending > " + "(" * 500, "no condition"),
    ],
)
def test_a_wrong_condition_is_said_before_anything_is_decided(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        read_gate(text, ["pending"])


def test_the_command_is_a_gate(tmp_path: Path) -> None:
    path = written(tmp_path, halves())
    config = tmp_path / "config.json"
    config.write_text(json.dumps(PACKED))

    passed = run("compare", "-f", path, "--config", str(config), "--fail-if", "nodes > base")
    failed = run("compare", "-f", path, "--config", str(config), "--fail-if", "nodes < base",
                 "-o", "json")  # fmt: skip
    wrong = run("compare", "-f", path)

    assert (passed[0], failed[0], wrong[0]) == (0, 1, 2)
    assert "NodeResourcesFit" in passed[1]
    assert json.loads(failed[1])["failed"] == ["nodes < base"]
