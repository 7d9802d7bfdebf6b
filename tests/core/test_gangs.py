"""Groups, from the queue to the binding: sections 4, 5, 6, 9 and 10 of the specification."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from stowplan.core.attempts import AttemptLog
from stowplan.core.messages import Added, Call, ScheduleNext, Tick
from stowplan.errors import Conflict
from stowplan.objects.api import Bind
from stowplan.objects.pod import Pod
from stowplan.objects.pod_groups import GangPolicy, PodGroup, SchedulingPolicy
from tests.builders import node, pod, pod_group
from tests.core.group_world import GANGS, GroupWorld

ASKED_TO_WAIT = (
    "Unschedulable: pod group is unschedulable, waiting for minCount pods from a gang to be "
    "scheduled, one or more plugins asked to wait and no plugin rejected pod"
)


def members(
    group: str, count: int, cpu: int = 1, first: int = 0, priority: int = 0, **more: Any
) -> list[Pod]:
    spec = {"priority": priority}
    names = [f"{group}-{number}" for number in range(first, first + count)]
    return [pod(name, group=group, cpu=cpu, spec=spec, **more) for name in names]


def test_a_gang_that_fits_is_bound_as_a_whole() -> None:
    world = GroupWorld(node("a", cpu=2), node("b", cpu=2), pod_group("g", min_count=3))

    world.add(*members("g", 3)).run()

    assert world.nodes().keys() == {"g-0", "g-1", "g-2"}
    assert world.condition("g") == ("True", "Scheduled", "")
    assert len(world.machine.cache.groups) == 1  # type: ignore[attr-defined]


def test_a_gang_that_does_not_fit_is_not_bound_at_all() -> None:
    world = GroupWorld(node("a", cpu=2), pod_group("g", min_count=3))

    world.add(*members("g", 3)).run()

    assert world.bound() == set()
    assert world.message("g-0") == world.message("g-1") == ASKED_TO_WAIT
    assert world.message("g-2") == (
        "Unschedulable: 0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )
    assert world.condition("g") == ("False", "Unschedulable", "pod group is unschedulable")
    assert world.machine.cache.pod_count == 0
    assert [event.reason for event in world.events] == ["FailedScheduling"] * 3


def test_it_is_bound_once_there_is_room() -> None:
    world = GroupWorld(node("a", cpu=2), pod_group("g", min_count=3)).add(*members("g", 3)).run()

    world.add(node("b", cpu=2)).run(3.0)

    assert len(world.nodes()) == 3
    assert world.condition("g")[0] == "True"


def test_without_news_a_gang_that_failed_is_left_alone() -> None:
    world = GroupWorld(node("a", cpu=2), pod_group("g", min_count=3)).add(*members("g", 3)).run()
    attempts = world.machine.queue.cycle

    world.run(60.0)

    assert world.machine.queue.cycle == attempts


def test_members_wait_for_their_group_and_for_each_other() -> None:
    world = GroupWorld(node("a"))

    world.add(*members("g", 2)).run()
    assert world.place("g-0") == "gated"
    world.add(pod_group("g", min_count=3)).run()
    assert world.place("g-1") == "gated"
    assert world.machine.queue.pending_counts()["gated"] == 2
    assert (
        world.machine.queue.metrics.unschedulable_pods["GangScheduling", "default-scheduler"] == 2
    )
    assert world.requests == []

    world.add(*members("g", 1, first=2)).run()

    assert len(world.nodes()) == 3
    assert (
        world.machine.queue.metrics.unschedulable_pods["GangScheduling", "default-scheduler"] == 0
    )


def test_a_gated_member_counts_and_is_left_out() -> None:
    gated = pod("g-9", group="g", spec={"schedulingGates": [{"name": "x"}]})
    world = GroupWorld(node("a"), pod_group("g", min_count=3))

    world.add(*members("g", 2), gated).run()

    assert world.bound() == set()
    assert world.message("g-0") == ASKED_TO_WAIT
    assert world.place("g-9") == "gated"


def test_a_gate_that_opens_lets_the_gang_go() -> None:
    gated = pod("g-9", group="g", spec={"schedulingGates": [{"name": "x"}]})
    world = GroupWorld(node("a"), pod_group("g", min_count=3)).add(*members("g", 2), gated).run()

    open_ = pod("g-9", group="g", metadata={"uid": gated.metadata.uid, "resourceVersion": "7"})
    world.update(open_)
    world.run(3.0)

    assert len(world.nodes()) == 3


def test_surplus_members_that_do_not_fit_wait_on() -> None:
    world = GroupWorld(node("a", cpu=2), pod_group("g", min_count=2))

    world.add(*members("g", 3)).run()

    assert len(world.nodes()) == 2
    assert world.message("g-2").startswith("Unschedulable: 0/1 nodes are available")
    assert world.condition("g") == ("True", "Scheduled", "")
    world.add(node("b")).run(3.0)
    assert len(world.nodes()) == 3


def test_true_is_not_taken_back() -> None:
    world = GroupWorld(node("a", cpu=2), pod_group("g", min_count=2)).add(*members("g", 2)).run()

    world.add(*members("g", 1, first=5)).run(20.0)

    assert world.message("g-5").startswith("Unschedulable")
    assert world.condition("g") == ("True", "Scheduled", "")


def test_a_basic_group_takes_whoever_fits() -> None:
    world = GroupWorld(node("a", cpu=2), pod_group("g"))

    world.add(*members("g", 3)).run()

    assert len(world.nodes()) == 2
    assert world.condition("g") == ("True", "Scheduled", "")


def test_the_higher_priority_goes_first() -> None:
    low, high = members("g", 1, cpu=2), members("g", 1, cpu=2, first=1, priority=9)
    world = GroupWorld(node("a", cpu=2), pod_group("g"))

    world.add(*low, *high).run()

    assert world.nodes() == {"g-1": "a"}


def test_later_members_see_the_earlier_ones() -> None:
    away = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "labelSelector": {"matchLabels": {"app": "x"}},
                    "topologyKey": "kubernetes.io/hostname",
                }
            ]
        }
    }
    some = [
        pod(f"g-{n}", group="g", labels={"app": "x"}, spec={"affinity": away}) for n in range(3)
    ]
    world = GroupWorld(node("a"), node("b"), pod_group("g", min_count=3))

    world.add(*some).run()
    assert world.bound() == set()
    world.add(node("c")).run(3.0)

    assert sorted(world.nodes().values()) == ["a", "b", "c"]


def test_members_of_two_profiles_are_an_error() -> None:
    other = pod("g-9", group="g", spec={"schedulerName": "other"})
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler"}, {"schedulerName": "other"}],
    }
    world = GroupWorld(node("a"), pod_group("g", min_count=2), config=config)

    world.add(*members("g", 1), other).run()

    told = (
        "SchedulerError: all pods in a single pod group should have the same .spec.schedulerName "
        'set, got: "other" and "default-scheduler"'
    )
    assert world.message("g-0") == world.message("g-9") == told
    assert world.condition("g") == ("", "", "")


def test_a_group_that_is_deleted_fails_at_permit() -> None:
    group = pod_group("g", min_count=3)
    world = GroupWorld(node("a", cpu=2), group).add(*members("g", 3)).run()

    world.delete(group)
    world.run(3.0)

    told = (
        'SchedulerError: running Permit plugin "GangScheduling": failed to get podGroup default/g:'
        ' podgroup.scheduling.k8s.io "g" not found'
    )
    assert world.message("g-0") == told
    assert world.place("g-0") == "gated"


def test_a_member_whose_binding_fails_is_tried_again_alone() -> None:
    world = GroupWorld(node("a"), pod_group("g", min_count=2))
    failures = iter([Conflict("no")])
    world.refuse = lambda r: (
        next(failures, None) if isinstance(r, Bind) and r.name == "g-1" else None
    )

    world.add(*members("g", 2)).run()
    assert world.nodes() == {"g-0": "a"}
    world.run(5.0)

    assert world.nodes() == {"g-0": "a", "g-1": "a"}


def test_gates_off_means_pods_of_their_own() -> None:
    world = GroupWorld(node("a", cpu=2), gates="")

    world.add(*members("g", 3)).run()

    assert len(world.nodes()) == 2


def test_without_gang_scheduling_a_group_need_not_be_there() -> None:
    world = GroupWorld(node("a", cpu=2), gates="GenericWorkload=true")

    world.add(*members("g", 3)).run()

    assert len(world.nodes()) == 2


def test_pods_of_their_own_are_not_concerned() -> None:
    world = GroupWorld(node("a", cpu=2), pod_group("g", min_count=3), gates=GANGS)

    world.add(*members("g", 3), pod("alone", cpu=2)).run()

    assert world.nodes() == {"alone": "a"}


def test_a_fork_goes_on_with_the_groups_that_wait() -> None:
    world = GroupWorld(node("a", cpu=2), pod_group("g", min_count=3)).add(*members("g", 3)).run()
    fork = world.machine.fork(Random(0), AttemptLog())

    fork.handle(Added(node("b", cpu=2)), world.now_s)
    fork.handle(Tick(), world.now_s + 5)
    effects = fork.handle(ScheduleNext(1), world.now_s + 5)

    bound = {e.request.name for e in effects if isinstance(e, Call) and isinstance(e.request, Bind)}
    assert bound == {"g-0", "g-1", "g-2"}
    assert world.run(10.0).bound() == set()


def test_a_new_configuration_keeps_the_groups_that_wait() -> None:
    world = GroupWorld(node("a", cpu=2), pod_group("g", min_count=3)).add(*members("g", 3)).run()

    world.machine.reconfigure(world.machine.config)
    world.run(3.0)
    assert world.bound() == set()
    gauge = world.machine.queue.metrics.unschedulable_pods
    assert {plugin: count for (plugin, _), count in gauge.items() if count} == {
        "NodeResourcesFit": 1
    }
    world.add(node("b", cpu=2)).run(10.0)

    assert len(world.nodes()) == 3


def _asking_for(group: PodGroup, min_count: int) -> PodGroup:
    policy = SchedulingPolicy(gang=GangPolicy(min_count=min_count))
    return replace(group, spec=replace(group.spec, scheduling_policy=policy))


@pytest.mark.parametrize("there", [2, 3], ids=["too few members", "too little room"])
def test_a_gang_that_asks_for_less_is_tried_again(there: int) -> None:
    """`minCount` may change in v1beta1."""
    world = GroupWorld(node("a", cpu=2), pod_group("g", min_count=3)).add(*members("g", there))
    assert world.run(15.0).bound() == set()

    world.update(_asking_for(world.groups["default/g"], 2))
    world.run(15.0)

    assert len(world.bound()) == 2
    assert world.condition("g")[0] == "True"


def test_a_gang_that_asks_for_more_waits_for_more_members() -> None:
    world = GroupWorld(node("a", cpu=1), pod_group("g", min_count=2)).add(*members("g", 2)).run()

    world.update(_asking_for(world.groups["default/g"], 3))
    world.add(node("b", cpu=5)).run(15.0)
    assert world.bound() == set()

    world.add(*members("g", 1, first=2)).run(15.0)
    assert len(world.bound()) == 3
