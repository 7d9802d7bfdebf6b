"""A gang of which some members fail on the way: none is bound unless enough can be."""

from __future__ import annotations

from typing import Any

from stowplan.framework.effects import Sleep
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import BindingSteps, PreFlight
from stowplan.framework.status import SKIP, Status, error
from stowplan.plugins import IN_TREE
from stowplan.state.pod_info import PodInfo
from tests.builders import node, pod_group
from tests.core.group_world import GANGS, GroupWorld
from tests.core.test_gangs import members

CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Preparing"}]}}}],
}


class Preparing:
    """Has work for members whose number is even; fails for those in `BROKEN`."""

    name = "Preparing"

    def __init__(self, args: Any, handle: Handle) -> None:
        pass

    def pre_bind_pre_flight(self, cycle: Any, pod: PodInfo, node: str) -> PreFlight | Status:
        return PreFlight() if int(pod.key[-1]) % 2 == 0 else SKIP

    def pre_bind(self, cycle: Any, pod: PodInfo, node: str) -> BindingSteps:
        yield Sleep(1.0 + int(pod.key[-1]))
        return error("broken") if pod.key in BROKEN else None


BROKEN: set[str] = set()


def world(min_count: int, *broken: str) -> GroupWorld:
    BROKEN.clear()
    BROKEN.update(f"default/{name}" for name in broken)
    return GroupWorld(
        node("a", cpu=9),
        pod_group("g", min_count=min_count),
        gates=GANGS,
        config=CONFIG,
        registry={**IN_TREE, "Preparing": Preparing},
    )


def test_all_are_bound_once_all_are_prepared() -> None:
    made = world(4).add(*members("g", 4)).run(2.0)
    assert made.bound() == set()

    made.run(2.0)

    assert len(made.nodes()) == 4


def test_none_is_bound_if_one_that_is_needed_fails() -> None:
    made = world(4, "g-0").add(*members("g", 4)).run(3.5)

    assert made.bound() == set()
    BROKEN.clear()
    made.run(20.0)
    assert len(made.nodes()) == 4


def test_the_others_are_bound_if_they_are_enough() -> None:
    made = world(3, "g-2").add(*members("g", 4)).run(3.5)

    assert sorted(made.nodes()) == ["g-0", "g-1", "g-3"]
