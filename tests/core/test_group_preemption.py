"""Evicting others for a group: section 8, and what members do on their own account (section 6)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.core.group_preemption import GroupPreemption
from stowplan.objects.workloads import PodDisruptionBudget
from tests.builders import node, pod, pod_group
from tests.core.group_world import GANGS, PREEMPTION, GroupWorld
from tests.core.test_gangs import ASKED_TO_WAIT, members

REFUSED = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: "


def budget(name: str, app: str, allowed: int) -> PodDisruptionBudget:
    data = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed},
    }
    return msgspec.convert(data, PodDisruptionBudget)


def test_all_victims_of_a_group_go_and_it_takes_their_place() -> None:
    low = [pod(f"low-{n}", node="a", cpu=1) for n in range(2)]
    world = GroupWorld(node("a", cpu=2), *low, gates=PREEMPTION)

    world.add(pod_group("g", min_count=2, priority=9), *members("g", 2)).run()
    assert world.evicted() == ["low-0", "low-1"]
    assert world.condition("g") == ("False", "Unschedulable", "pod group is unschedulable")
    assert world.message("g-0") == (
        f"Unschedulable: {REFUSED}not eligible due to workload aware preemption enabled"
    )
    world.run(5.0)

    assert world.nodes() == {"g-0": "a", "g-1": "a"}
    assert world.condition("g")[0] == "True"
    preempted = [event for event in world.events if event.reason == "Preempted"]
    assert {event.note for event in preempted} == {"Preempted by podgroup uid-g on node cluster"}
    assert {event.related.key for event in preempted if event.related} == {"default/g"}


def test_the_group_is_held_back_until_its_victims_leave() -> None:
    low = [pod(f"low-{n}", node="a", cpu=1) for n in range(2)]
    world = GroupWorld(node("a", cpu=2), *low, gates=PREEMPTION)
    world.graceful = True

    world.add(pod_group("g", min_count=2, priority=9), *members("g", 2)).run(20.0)
    assert world.bound() == set()
    assert len(world.evicted()) == 2
    world.finish()
    world.run(5.0)

    assert world.nodes() == {"g-0": "a", "g-1": "a"}


def test_no_more_than_needed_is_evicted_and_the_most_important_stay() -> None:
    low = [pod(f"low-{n}", node="a", cpu=1, spec={"priority": n}) for n in range(4)]
    world = GroupWorld(node("a", cpu=4), *low, gates=PREEMPTION)

    world.add(pod_group("g", min_count=2, priority=9), *members("g", 2)).run()

    assert sorted(world.evicted()) == ["low-0", "low-1"]


def test_surplus_members_get_no_room() -> None:
    low = [pod(f"low-{n}", node="a", cpu=1) for n in range(3)]
    world = GroupWorld(node("a", cpu=3), *low, gates=PREEMPTION)

    world.add(pod_group("g", min_count=1, priority=9), *members("g", 3)).run()

    assert len(world.evicted()) == 1


def test_a_group_that_is_disrupted_whole_goes_whole() -> None:
    victims = [pod(f"v-{n}", group="v", node=on, cpu=1) for n, on in enumerate("ab")]
    world = GroupWorld(
        *(node(name, cpu=1) for name in "ab"),
        pod_group("v", min_count=2, whole=True, priority=1),
        *victims,
        gates=PREEMPTION,
    )

    world.add(pod_group("g", min_count=1, priority=9), *members("g", 1)).run()

    assert sorted(world.evicted()) == ["v-0", "v-1"]


def test_a_group_that_is_not_loses_one() -> None:
    victims = [pod(f"v-{n}", group="v", node=on, cpu=1) for n, on in enumerate("ab")]
    world = GroupWorld(
        *(node(name, cpu=1) for name in "ab"),
        pod_group("v", min_count=2, priority=100),
        *victims,
        gates=PREEMPTION,
    )

    world.add(pod_group("g", min_count=1, priority=9), *members("g", 1)).run()

    assert len(world.evicted()) == 1


def test_budgets_are_spared_first() -> None:
    kept = pod("kept", node="a", cpu=1, labels={"app": "x"})
    other = pod("other", node="a", cpu=1, spec={"priority": 5})
    world = GroupWorld(node("a", cpu=2), kept, other, budget("b", "x", 0), gates=PREEMPTION)

    world.add(pod_group("g", min_count=1, priority=9), *members("g", 1)).run()

    assert world.evicted() == ["other"]


def test_nothing_is_evicted_for_a_group_that_would_not_fit_anyway() -> None:
    world = GroupWorld(node("a", cpu=2), pod("low", node="a", cpu=1), gates=PREEMPTION)

    world.add(pod_group("g", min_count=3, priority=9), *members("g", 3)).run(30.0)

    assert world.evicted() == []
    told = "pod group is unschedulable, pod group is unschedulable"
    assert world.condition("g") == ("False", "Unschedulable", told)
    assert world.message("g-0") == ASKED_TO_WAIT


def test_why_nobody_is_evicted() -> None:
    world = GroupWorld(node("a", cpu=1), pod("r", node="a", cpu=1), gates=PREEMPTION)

    world.add(pod_group("same", min_count=1), *members("same", 1)).run()
    world.add(pod_group("never", min_count=1, priority=9))
    world.add(pod("never-0", group="never", cpu=1, spec={"preemptionPolicy": "Never"})).run()

    prefix = "pod group is unschedulable, "
    assert (
        world.condition("same")[2] == f"{prefix}No preemption victims found for incoming preemptor"
    )
    assert world.condition("never")[2] == f"{prefix}not eligible due to preemptionPolicy=Never."
    assert world.evicted() == []


def test_without_the_gate_members_evict_for_themselves() -> None:
    low = [pod(f"low-{n}", node=on, cpu=1) for n, on in enumerate("ab")]
    world = GroupWorld(*(node(name, cpu=1) for name in "ab"), *low, gates=GANGS)

    world.add(pod_group("g", min_count=2), *members("g", 2, priority=9)).run()
    assert sorted(world.evicted()) == ["low-0", "low-1"]
    assert world.condition("g") == (
        "False",
        "Unschedulable",
        "pod group is unschedulable, pod group is waiting for preemption to complete",
    )
    world.run(5.0)

    assert sorted(world.nodes()) == ["g-0", "g-1"]


def test_members_of_a_gang_that_cannot_fit_evict_nobody() -> None:
    """kube-scheduler 1.36 does; see docs/differences.md."""
    world = GroupWorld(node("a", cpu=1), pod("low", node="a", cpu=1), gates=GANGS)

    world.add(pod_group("g", min_count=2), *members("g", 2, priority=9)).run(30.0)

    assert world.evicted() == []
    assert world.pods["default/g-0"].status.nominated_node_name == ""


def test_pods_of_their_own_evict_single_members() -> None:
    victims = [pod(f"v-{n}", group="v", node=on, cpu=1) for n, on in enumerate("ab")]
    group = pod_group("v", min_count=2, whole=True)
    nodes = [node(name, cpu=1) for name in "ab"]
    world = GroupWorld(*nodes, group, *victims, gates=PREEMPTION)

    world.add(pod("alone", cpu=1, spec={"priority": 9})).run()

    assert len(world.evicted()) == 1


def test_a_trial_leaves_everything_as_it_was() -> None:
    low = [pod(f"low-{n}", node="a", cpu=1, spec={"priority": n % 3}) for n in range(6)]
    world = GroupWorld(node("a", cpu=6), node("b", cpu=1), *low, gates=PREEMPTION)
    machine = world.machine
    before = [*machine.cache.nodes["a"].pods]

    world.add(pod_group("g", min_count=9, priority=9), *members("g", 9)).run()

    assert world.evicted() == []
    assert [*machine.cache.nodes["a"].pods] == before
    assert machine.table.check(machine.cache) == []


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_whom_it_is_plain_to_spare_would_be_spared_anyway(data: st.DataObject) -> None:
    draw = data.draw
    nodes = [node(f"n{n}", cpu=draw(st.integers(1, 4))) for n in range(draw(st.integers(1, 4)))]
    low = [
        pod(
            f"low-{n}",
            node=draw(st.sampled_from(nodes)).name,
            group=draw(st.sampled_from(["", "", "w"])),
            cpu=draw(st.integers(1, 2)),
            spec={"priority": draw(st.integers(0, 2))},
        )
        for n in range(draw(st.integers(1, 6)))
    ]
    count = draw(st.integers(1, 4))
    group = pod_group("g", min_count=draw(st.integers(1, count)), priority=9)

    def evicted(shortcut: bool) -> list[str]:
        with pytest.MonkeyPatch.context() as patch:
            if not shortcut:
                patch.setattr(GroupPreemption, "_is_out_of_the_way", lambda *_: False)
            world = GroupWorld(*nodes, pod_group("w", whole=True), *low, gates=PREEMPTION)
            return sorted(world.add(group, *members("g", count)).run().evicted())

    assert evicted(True) == evicted(False)


def test_of_members_that_differ_only_those_are_evicted_whose_room_is_needed() -> None:
    """Whom the group cannot leave its place stays away while the others are looked at."""
    world = GroupWorld(
        node("a", cpu=3),
        node("b", cpu=1),
        node("c", cpu=1),
        pod("x", node="a", cpu=3, spec={"priority": 5}),
        pod("y", node="b", cpu=1, spec={"priority": 1}),
        pod("z", node="c", cpu=1, spec={"priority": 1}),
        pod_group("g", min_count=2, priority=10),
        gates=PREEMPTION,
    )

    spec = {"priority": 10}
    world.add(pod("g-0", group="g", cpu=2, spec=spec), pod("g-1", group="g", cpu=1, spec=spec))
    world.run(15)

    assert world.evicted() == ["x"]
    assert world.nodes().keys() >= {"g-0", "g-1"}


def test_a_constraint_is_named_before_the_gate() -> None:
    """Both keep members from evicting; kube-scheduler looks at the constraint first."""
    gates = f"{PREEMPTION},TopologyAwareWorkloadScheduling=true"
    racked = node("a", cpu=1, labels={"rack": "r"})
    world = GroupWorld(racked, pod("low", node="a", cpu=1), gates=gates)

    world.add(pod_group("g", min_count=1, priority=9, topology="rack"), *members("g", 1)).run()

    limitation = "not eligible due to placement-based pod group scheduling limitation"
    assert world.message("g-0") == f"Unschedulable: {REFUSED}{limitation}"


@pytest.mark.parametrize(("gates", "first"), [(PREEMPTION, "g"), (GANGS, "h")])
def test_a_group_stands_in_the_queue_by_its_own_priority(gates: str, first: str) -> None:
    """As it does when it evicts others; without the gate the priorities of its pods count."""
    groups = [
        pod_group(name, min_count=2, priority=priority, whole=True)
        for name, priority in (("h", 1), ("g", 9))
    ]
    world = GroupWorld(*groups, gates=gates)
    world.add(*members("h", 2, priority=5), pod("alone", cpu=1, spec={"priority": 7}))
    world.add(*members("g", 2))

    world.add(node("a", cpu=3)).run(15.0)

    assert {*world.nodes()} == {"alone", f"{first}-0", f"{first}-1"}


def test_a_group_takes_its_place_when_its_object_comes() -> None:
    world = GroupWorld(gates=PREEMPTION)
    world.add(*members("g", 2), *members("h", 2, priority=5), pod_group("h", min_count=2))
    world.add(pod_group("g", min_count=2, priority=9))

    world.add(node("a", cpu=2)).run(15.0)

    assert {*world.nodes()} == {"g-0", "g-1"}


def test_those_who_replace_the_victims_do_not_get_their_places() -> None:
    """Though they are more important than the members: the group is more important than they."""
    low = [pod(f"low-{n}", node="a", cpu=1, spec={"priority": 5}) for n in range(2)]
    world = GroupWorld(node("a", cpu=2), *low, gates=PREEMPTION)

    world.add(pod_group("g", min_count=2, priority=9), *members("g", 2)).run()
    world.add(*(pod(f"next-{n}", cpu=1, spec={"priority": 5}) for n in range(2))).run(30.0)

    assert world.nodes() == {"g-0": "a", "g-1": "a"}
    assert len(world.evicted()) == 2
