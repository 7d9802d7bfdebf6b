"""The plugins of groups by themselves: spec/plugins.md, 2.8 (PlacementScore), 2.20, 2.22, 2.23."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from stowplan.framework.events import Action, Hint, Resource
from stowplan.framework.groups import GroupCycle, PlacedGroup, Placement
from stowplan.framework.plugin import Wait
from stowplan.framework.status import Code, Status
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod
from stowplan.objects.pod_groups import GANG_SCHEDULING, PodGroup
from stowplan.plugins.gang_scheduling import GangScheduling
from stowplan.plugins.node_resources_fit import NodeResourcesFit
from stowplan.plugins.pod_group_pods_count import PodGroupPodsCount
from stowplan.plugins.topology_placement_generator import TopologyPlacementGenerator
from tests.builders import World, info, node, pod, pod_group
from tests.plugins.asking import hint

KEY = "default/g"


def member(name: str, **fields: Any) -> Pod:
    return pod(name, group="g", **fields)


def cycle_of(
    world: World,
    members: list[Pod],
    *,
    scheduled: list[Pod] | None = None,
    group: PodGroup | None = None,
) -> GroupCycle:
    for one in scheduled or ():
        world.handle.groups.assign(info(one))
    infos = tuple(map(info, members))
    return GroupCycle(KEY, group, infos, world.handle.groups.of(KEY), world.table)


def rows(world: World, *names: str) -> Any:
    return np.array(sorted(world.row(name) for name in names), np.intp)


# -- PodGroupPodsCount -------------------------------------------------------------------------


def test_a_placement_counts_those_that_have_a_node_and_those_that_found_one() -> None:
    world = World(node("a"))
    members = [member(name) for name in "xyz"]
    cycle = cycle_of(world, members, scheduled=[member("s", node="a"), member("t", node="a")])
    placement = Placement("p", rows(world, "a"))
    counting = PodGroupPodsCount()

    for count in range(4):
        nodes = {one.uid: "a" for one in members[:count]}
        assert counting.score_placement(cycle, PlacedGroup(placement, nodes)) == 2 + count
    assert counting.most_for_placement(cycle, placement) == 100


@pytest.mark.parametrize(
    ("scores", "normal"),
    [([3, 5, 5], [60, 100, 100]), ([2, 5, 7], [28, 71, 100]), ([0, 4], [0, 100])],
)
def test_counts_become_shares_of_the_highest(scores: list[int], normal: list[int]) -> None:
    cycle = cycle_of(World(node("a")), [])
    assert PodGroupPodsCount().normalize_placement_scores(cycle, scores) == normal


def test_no_pods_anywhere_is_an_error() -> None:
    with pytest.raises(ValueError, match="no pods from pod group are assigned"):
        PodGroupPodsCount().normalize_placement_scores(cycle_of(World(node("a")), []), [0, 0])


# -- NodeResourcesFit --------------------------------------------------------------------------


def fit(world: World, *resources: tuple[str, int]) -> NodeResourcesFit:
    if not resources:
        return NodeResourcesFit(None, world.handle)
    named = [SimpleNamespace(name=name, weight=weight) for name, weight in resources]
    strategy = SimpleNamespace(
        type="LeastAllocated", resources=named, requested_to_capacity_ratio=None
    )
    args = SimpleNamespace(
        scoring_strategy=strategy, ignored_resources=(), ignored_resource_groups=()
    )
    return NodeResourcesFit(args, world.handle)  # type: ignore[arg-type]


SIZE = {"cpu": "4", "memory": "8Gi"}


@pytest.mark.parametrize(
    ("resources", "placed", "score"),
    [
        # 8 cores and 16 GiB; on them 1 core and 2 GiB, and per pod 1 core and 1 GiB.
        ((), 0, (12 + 12) // 2),
        ((), 1, (25 + 18) // 2),
        ((), 3, (50 + 31) // 2),
        ((("cpu", 1), ("memory", 3)), 3, (50 + 3 * 31) // 4),
        ((("cpu", 1),), 3, 50),
        ((("example.com/gpu", 1),), 3, 0),
        ((("cpu", 1), ("example.com/gpu", 5)), 3, 50),
    ],
)
def test_a_placement_scores_how_full_its_nodes_would_be(
    resources: tuple[tuple[str, int], ...], placed: int, score: int
) -> None:
    """Packed, whatever the strategy for nodes is; of the placement's nodes together."""
    world = World(node("a", **SIZE), node("b", **SIZE), node("c", **SIZE))
    world.add(pod("there", cpu="1", memory="2Gi", node="a"), pod("else", cpu="4", node="c"))
    members = [member(name, cpu="1", memory="1Gi") for name in "xyz"]
    cycle = cycle_of(world, members)
    placement = Placement("p", rows(world, "a", "b"))
    nodes = {one.uid: "b" for one in members[:placed]}

    asked = fit(world, *resources)
    assert asked.score_placement(cycle, PlacedGroup(placement, nodes)) == score
    if placed == len(members):
        assert asked.most_for_placement(cycle, placement) == score


def test_pods_that_request_nothing_count_for_a_little() -> None:
    world = World(node("a", cpu="1", memory="1000Mi"))
    cycle = cycle_of(world, [member("x"), member("y")])

    score = fit(world).most_for_placement(cycle, Placement("p", rows(world, "a")))
    assert score == (20 + 40) // 2


def test_a_resource_that_is_asked_for_counts_by_what_is_requested_of_it() -> None:
    gpus = {"allocatable": {"example.com/gpu": 4}}
    world = World(node("a", **gpus), node("b"))
    world.add(pod("there", requests={"example.com/gpu": 1}, node="a"))
    members = [member("x", requests={"example.com/gpu": 1})]
    placement = Placement("p", rows(world, "a", "b"))

    asked = fit(world, ("example.com/gpu", 1))
    assert asked.most_for_placement(cycle_of(world, members), placement) == 50
    assert asked.most_for_placement(cycle_of(world, [member("y")]), placement) == 0


@pytest.mark.parametrize(
    ("members", "most"),
    [
        ([member(f"m{n}", cpu="1") for n in range(9)], 5),
        ([member(f"m{n}", cpu="1") for n in range(4)], 4),
        ([member(f"m{n}", cpu="1500m") for n in range(9)], 3),
        ([member(f"m{n}", cpu="1", memory="9Gi") for n in range(9)], 0),
        ([member(f"m{n}", memory="3Gi") for n in range(9)], 4),
        ([member(f"m{n}") for n in range(9)], 7),
        ([member("m", cpu="4"), member("n", cpu="3"), member("o", cpu="4")], 3),
    ],
    ids=["cpu", "few", "whole ones", "none", "memory", "pods", "not alike: who knows"],
)
def test_for_how_many_members_there_is_room_at_most(members: list[Pod], most: int) -> None:
    """The first node is full: what is missing there is not taken from the others."""
    world = World(
        node("full", cpu="1", pods=1, memory="8Gi"),
        node("a", cpu="4", memory="8Gi", pods=5),
        node("b", cpu="4", memory="8Gi", pods=4),
        node("not asked", cpu="64"),
    )
    world.add(*(pod(f"there{n}", cpu="1", node="full") for n in range(3)))
    world.add(pod("p", cpu="2", memory="1Gi", node="a"), pod("q", node="b"))

    cycle, placement = cycle_of(world, members), Placement("p", rows(world, "full", "a", "b"))
    assert fit(world).most_members(cycle, placement) == most


# -- TopologyPlacementGenerator ----------------------------------------------------------------


def zoned(name: str, zone: str | None) -> Node:
    return node(name, labels={} if zone is None else {"zone": zone})


NODES = [zoned("a1", "a"), zoned("b1", "b"), zoned("none", None), zoned("a2", "a"), zoned("e", "")]


def placements(
    world: World, group: PodGroup | None, *scheduled: Pod
) -> dict[str, list[str]] | Status:
    cycle = cycle_of(world, [], scheduled=list(scheduled), group=group)
    found = TopologyPlacementGenerator(None, world.handle).generate_placements(cycle)
    if isinstance(found, Status):
        return found
    assert all(sorted(it.rows.tolist()) == it.rows.tolist() for it in found)
    return {it.name: [world.table.names[row] for row in it.rows] for it in found}


def test_a_placement_for_each_value_of_the_label_or_one_of_all_nodes() -> None:
    in_zones, anywhere = pod_group("g", topology="zone"), pod_group("g")

    found = placements(World(*NODES), in_zones)
    assert isinstance(found, dict)
    assert {name: set(nodes) for name, nodes in found.items()} == {
        "a": {"a1", "a2"},
        "b": {"b1"},
        "": {"e"},
    }
    everywhere = placements(World(*NODES), anywhere)
    assert isinstance(everywhere, dict)
    assert set(everywhere) == {""}
    assert set(everywhere[""]) == {"a1", "a2", "b1", "none", "e"}
    assert placements(World(), in_zones) == {}


def test_a_node_that_is_gone_is_in_no_placement() -> None:
    world = World(*NODES)
    world.cache.remove_node("a1")
    world.add()

    found = placements(world, pod_group("g", topology="zone"))
    assert isinstance(found, dict)
    assert found["a"] == ["a2"]
    everywhere = placements(world, pod_group("g"))
    assert isinstance(everywhere, dict)
    assert "a1" not in everywhere[""]


def test_members_that_have_a_node_say_which_domain_it_is() -> None:
    in_zones = pod_group("g", topology="zone")

    def after(*scheduled: Pod) -> Any:
        found = placements(World(*NODES), in_zones, *scheduled)
        return (
            found.reasons[0] if isinstance(found, Status) else {k: {*v} for k, v in found.items()}
        )

    problem = "cannot determine domain for already scheduled pods: "
    assert after(member("s", node="a1")) == {"a": {"a1", "a2"}}
    assert after(member("s", node="a1"), member("t", node="a2")) == {"a": {"a1", "a2"}}
    assert after(member("s", node="e")) == {"": {"e"}}
    assert after(member("s", node="a1"), member("t", node="b1")) == (
        f"{problem}more than 1 domain found for pod group: a, b"
    )
    assert after(member("s", node="none")) == (
        f"{problem}no topology domain found for pod default/s"
    )
    assert after(member("s", node="gone")).startswith(f"{problem}getting node for pod default/s: ")


def test_a_group_that_nobody_has_seen_is_an_error() -> None:
    found = placements(World(*NODES), None)

    assert isinstance(found, Status)
    assert (found.code, found.reasons) == (
        Code.ERROR,
        ('podgroup.scheduling.k8s.io "g" not found',),
    )


def test_the_last_member_that_leaves_its_node_wakes_a_group_with_a_topology() -> None:
    about = (Resource.POD, Action.DELETE)
    for group, scheduled, expected in (
        (pod_group("g", topology="zone"), [], Hint.QUEUE),
        (pod_group("g", topology="zone"), [member("s", node="a1")], Hint.SKIP),
        (pod_group("g"), [], Hint.SKIP),
        (None, [], Hint.SKIP),
    ):
        world = World(*NODES, *([] if group is None else [group]))
        cycle_of(world, [], scheduled=scheduled)
        asked = TopologyPlacementGenerator(None, world.handle)
        assert hint(asked, *about, member("w"), member("left", node="a1"), None) is expected


# -- GangScheduling ----------------------------------------------------------------------------


def gang(world: World, *, is_on: bool = True) -> GangScheduling:
    world.handle.features = frozenset({GANG_SCHEDULING} if is_on else ())
    return GangScheduling(None, world.handle)


MISSING = 'waiting for pods\'s pod group "g" to appear in scheduling queue'
TOO_FEW = "waiting for minCount pods from a gang to appear in scheduling queue"


@pytest.mark.parametrize(
    ("group", "waiting", "assigned", "objection"),
    [
        (None, 3, 0, MISSING),
        (pod_group("g", min_count=3), 2, 0, TOO_FEW),
        (pod_group("g", min_count=3), 3, 0, None),
        (pod_group("g", min_count=3), 1, 2, None),
        (pod_group("g", min_count=3), 1, 1, TOO_FEW),
        (pod_group("g"), 1, 0, None),
    ],
)
def test_members_wait_for_their_group_and_for_enough_of_them(
    group: PodGroup | None, waiting: int, assigned: int, objection: str | None
) -> None:
    world = World(node("a"), *([] if group is None else [group]))
    members = [info(member(f"w{n}")) for n in range(waiting)]
    world.handle.groups.waits(members)
    for n in range(assigned):
        world.handle.groups.assign(info(member(f"s{n}", node="a")))

    asked = gang(world)
    status = asked.pre_enqueue(members[0])
    assert (None if status is None else status.reasons[0]) == objection
    assert status is None or status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    others = info(pod("alone"))
    assert asked.pre_enqueue_all([others, members[0], others]) == [None, status, None]
    assert gang(world, is_on=False).pre_enqueue(members[0]) is None


def test_a_member_waits_at_permit_until_enough_have_a_node_and_then_all_may_go() -> None:
    world = World(node("a"), pod_group("g", min_count=3))
    allowed: list[tuple[str, str]] = []
    world.handle.waiting = SimpleNamespace(allow=lambda *told: allowed.append(told))  # type: ignore[assignment]
    asked, groups = gang(world), world.handle.groups
    members = [info(member(f"m{n}")) for n in range(3)]
    groups.assign(info(member("there", node="a")))

    assert asked.permit(world.cycle(), info(pod("alone")), "a") is None
    groups.assume(members[0])
    waits = asked.permit(world.cycle(), members[0], "a")
    assert waits == Wait(300.0, "waiting for minCount pods from a gang to be scheduled")
    assert not allowed
    groups.assume(members[1])
    assert asked.permit(world.cycle(), members[1], "a") is None
    assert allowed == [(one.uid, "GangScheduling") for one in members[:2]]
    assert gang(world, is_on=False).permit(world.cycle(), members[2], "a") is None


def test_a_group_that_went_meanwhile_is_an_error_at_permit() -> None:
    world = World(node("a"))
    status = gang(world).permit(world.cycle(), info(member("m")), "a")

    assert isinstance(status, Status)
    text = 'failed to get podGroup default/g: podgroup.scheduling.k8s.io "g" not found'
    assert (status.code, status.reasons) == (Code.ERROR, (text,))


def test_members_and_their_group_wake_the_others() -> None:
    asked, mine = gang(World()), member("m")
    group, fewer = pod_group("g", min_count=3), pod_group("g", min_count=2)

    def after(resource: str, old: Any, new: Any) -> Hint | None:
        return hint(asked, resource, Action.ADD if old is None else Action.UPDATE, mine, old, new)

    assert after(Resource.POD, None, member("other")) is Hint.QUEUE
    assert after(Resource.POD, None, pod("other", group="h")) is Hint.SKIP
    assert after(Resource.POD, None, pod("other", group="g", namespace="x")) is Hint.SKIP
    assert after(Resource.POD_GROUP, None, group) is Hint.QUEUE
    assert after(Resource.POD_GROUP, None, pod_group("h")) is Hint.SKIP
    assert after(Resource.POD_GROUP, group, fewer) is Hint.QUEUE
    assert after(Resource.POD_GROUP, fewer, group) is Hint.SKIP
    assert after(Resource.POD_GROUP, group, group) is Hint.SKIP
    assert after(Resource.POD_GROUP, pod_group("h", min_count=3), pod_group("h")) is Hint.SKIP
