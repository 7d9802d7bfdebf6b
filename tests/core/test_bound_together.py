"""A gang of which some members fail on the way: none is bound unless enough can be."""

from __future__ import annotations

from typing import Any

from stowplan.framework.effects import Sleep
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import BindingSteps, PreFlight, Wait
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
    """Has work for members whose number is even; fails for those in `BROKEN`.

    Pods with the label `late` wait at Permit, until they are allowed or their time is up; with
    `rash`, PreBindPreFlight raises each second time.
    """

    name = "Preparing"

    def __init__(self, args: Any, handle: Handle) -> None:
        self._asked = 0

    def permit(self, cycle: Any, pod: PodInfo, node: str) -> Wait | None:
        return Wait(2.0, "late") if "late" in pod.kind.labels else None

    def pre_bind_pre_flight(self, cycle: Any, pod: PodInfo, node: str) -> PreFlight | Status:
        if "rash" in pod.kind.labels:
            self._asked += 1
            if self._asked % 2 == 0:
                raise ValueError("rash")
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


def test_none_is_bound_if_one_that_is_needed_is_turned_away_at_permit() -> None:
    late, plain = members("g", 2, labels={"late": "yes"})[1], members("g", 4)[3]
    made = world(2).add(late, plain).run(1.5)

    assert made.bound() == set()
    made.run(0.6)
    assert made.bound() == set()
    assert "rejected due to timeout" in made.message("g-1")


def test_none_is_bound_if_pre_flight_fails_for_one_that_is_needed() -> None:
    rash = {"rash": "yes"}
    made = world(3).add(*(members("g", 6, labels=rash)[n] for n in (1, 3, 5))).run()

    assert made.bound() == set()


def test_none_is_bound_if_one_that_is_needed_goes_while_it_waits() -> None:
    pods = members("g", 3)
    made = world(3).add(*pods).run(2.0)

    made.delete(pods[0])  # It is through PreBind, and waits for the last one.
    made.run(5.0)

    assert made.bound() == set()


def test_members_that_come_meanwhile_wait_as_well() -> None:
    pods = members("g", 4)
    made = world(3, "g-2").add(*pods[:3]).run(0.5)

    made.add(pods[3]).run(0.5)
    assert made.bound() == set()
    made.run(3.0)

    # One of the first three failed, and so the fourth was needed.
    assert sorted(made.nodes()) == ["g-0", "g-1", "g-3"]


def test_members_that_come_meanwhile_do_not_count_before_they_are_ready() -> None:
    pods = [*members("g", 7)]
    made = world(3, "g-2", "g-6").add(*pods[:3]).run(0.5)

    made.add(pods[6]).run(3.5)
    assert made.bound() == set()
    made.run(4.0)

    # Nor is the fourth: two are too few.
    assert not made.nodes()
