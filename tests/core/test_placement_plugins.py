"""Where groups go, as users' plugins say it: placementGenerate and placementScore."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stowplan.core.plugin_answers import checked
from stowplan.plugin import GroupCycle, PlacedGroup, Placement, Status, unschedulable
from stowplan.plugins import IN_TREE
from tests.builders import node, pod_group
from tests.core.group_world import TOPOLOGY, GroupWorld
from tests.core.harness import make_plugin
from tests.core.test_gangs import members

NAMES = ("a1", "a2", "b1", "b2")


def rows(cycle: GroupCycle, *names: str) -> Any:
    return np.array(sorted(cycle.nodes.row_of[name] for name in names))


def pairs(self: Any, cycle: GroupCycle) -> list[Placement]:
    return [Placement("a", rows(cycle, "a1", "a2")), Placement("b", rows(cycle, "b1", "b2"))]


def world(count: int = 2, **methods: Any) -> GroupWorld:
    """A gang on four nodes of two cores, and a plugin that decides where it may go."""
    points = {"placementGenerate": "generate_placements", "placementScore": "score_placement"}
    plugins = {
        point: {
            "disabled": [{"name": "*"}] if point == "placementGenerate" else [],
            "enabled": [{"name": "Mine", "weight": 5} if "Score" in point else {"name": "Mine"}],
        }
        for point, method in points.items()
        if method in methods
    }
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": plugins}],
    }
    made = checked(make_plugin("Mine", **methods))
    there = GroupWorld(
        *(node(name, cpu=2, labels={"rack": name[0]}) for name in NAMES),
        pod_group("g", min_count=count, topology="rack"),
        gates=TOPOLOGY,
        config=config,
        registry={**IN_TREE, "Mine": made},
    )
    return there.add(*members("g", count)).run()


def test_a_users_plugin_says_where_a_group_may_go() -> None:
    def crosswise(self: Any, cycle: GroupCycle) -> list[Placement]:
        return [Placement("odd", rows(cycle, "a1", "b1"))]

    assert {*world(4, generate_placements=crosswise).nodes().values()} == {"a1", "b1"}


@pytest.mark.parametrize("liked", ["a", "b"])
def test_a_users_score_counts_by_its_weight(liked: str) -> None:
    def score(self: Any, cycle: GroupCycle, placed: PlacedGroup) -> int:
        assert {*placed.nodes} == {pod.uid for pod in cycle.members}
        return 10 if placed.placement.name == liked else 0

    made = world(generate_placements=pairs, score_placement=score)

    assert {name[0] for name in made.nodes().values()} == {liked}


def test_scores_that_are_normalised_may_be_anything() -> None:
    def score(self: Any, cycle: GroupCycle, placed: PlacedGroup) -> int:
        return 100_000 if placed.placement.name == "b" else -3

    def normalize(self: Any, cycle: GroupCycle, scores: list[int]) -> list[int]:
        return [100 if each == max(scores) else 0 for each in scores]

    made = world(score_placement=score, normalize_placement_scores=normalize)

    assert {name[0] for name in made.nodes().values()} == {"b"}


def test_a_status_in_place_of_placements_is_told_to_all() -> None:
    def none(self: Any, cycle: GroupCycle) -> Status:
        return unschedulable("the hall is closed")

    made = world(generate_placements=none)

    assert made.bound() == set()
    assert made.message("g-0") == made.message("g-1") == "Unschedulable: the hall is closed"
    assert made.condition("g") == ("False", "Unschedulable", "the hall is closed")


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "a",
        [("a", [0])],
        [Placement("a", [0, 1])],  # type: ignore[arg-type]
        [Placement("a", np.array([1, 0]))],
        [Placement("a", np.array([0, 99]))],
        [Placement("a", np.array([-1, 0]))],
        [Placement("a", np.array([0.0]))],
    ],
    ids=repr,
)
def test_what_is_no_placement_is_an_error(answer: Any) -> None:
    made = world(generate_placements=lambda self, cycle: answer)

    assert made.bound() == set()
    assert "generate_placements returned" in made.message("g-0")
    assert made.condition("g")[1] == "SchedulerError"


@pytest.mark.parametrize("answer", [0.5, "9", None, True])
def test_what_is_no_score_is_an_error(answer: Any) -> None:
    made = world(score_placement=lambda self, cycle, placed: answer)

    assert made.bound() == set()
    assert "score_placement returned" in made.message("g-0")


@pytest.mark.parametrize("score", [-1, 101])
def test_a_score_out_of_range_is_an_error(score: int) -> None:
    made = world(score_placement=lambda self, cycle, placed: score)

    told = f'plugin "Mine" returns an invalid score {score}, it should in the range of [0, 100]'
    assert told in made.message("g-0")
    assert made.condition("g")[1] == "SchedulerError"


def test_a_plugin_that_raises_fails_one_attempt() -> None:
    def broken(self: Any, cycle: GroupCycle) -> list[Placement]:
        raise ValueError("oh")

    made = world(generate_placements=broken)

    assert "oh" in made.message("g-0")
    assert made.machine.cache.pod_count == 0
