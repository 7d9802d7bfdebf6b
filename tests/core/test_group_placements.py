"""Groups within a topology: section 7 of the specification."""

from __future__ import annotations

import pytest

from stowplan.objects.node import Node
from tests.builders import node, pod, pod_group
from tests.core.group_world import TOPOLOGY, GroupWorld
from tests.core.test_gangs import members


def racks(**cpus: int) -> list[Node]:
    """A node for each entry, in the rack that the letters of its name say."""
    return [
        node(name, cpu=cpu, labels={"rack": name.rstrip("0123456789")})
        for name, cpu in cpus.items()
    ]


def test_a_group_goes_to_one_domain() -> None:
    world = GroupWorld(*racks(a1=2, a2=2, b1=2, c1=3), node("x", cpu=9), gates=TOPOLOGY)

    world.add(pod_group("g", min_count=4, topology="rack"), *members("g", 4)).run()

    assert sorted(world.nodes().values()) == ["a1", "a1", "a2", "a2"]
    assert world.condition("g") == ("True", "Scheduled", "")


def test_no_domain_is_large_enough() -> None:
    world = GroupWorld(*racks(a1=1, a2=1, b1=2), gates=TOPOLOGY)

    world.add(pod_group("g", min_count=3, topology="rack"), *members("g", 3)).run()

    assert world.bound() == set()
    assert world.condition("g") == (
        "False",
        "Unschedulable",
        "0/2 placements are available, first placement status: pod group is unschedulable",
    )
    told = {world.message(f"g-{n}") for n in range(3)}
    assert any("/2 nodes are available: 2 Insufficient cpu." in text for text in told) or any(
        "/1 nodes are available: 1 Insufficient cpu." in text for text in told
    )
    assert any("not eligible due to placement-based pod group scheduling limi" in t for t in told)


def test_no_node_has_the_label() -> None:
    world = GroupWorld(*racks(a1=4), gates=TOPOLOGY)

    world.add(pod_group("g", min_count=1, topology="row"), *members("g", 1)).run()

    assert world.message("g-0") == "Unschedulable: no feasible placements found"
    assert world.condition("g")[2] == "no feasible placements found"
    world.add(node("b", labels={"row": "1"})).run(3.0)
    assert world.nodes() == {"g-0": "b"}


def test_the_domain_of_members_that_run_is_kept_to() -> None:
    running = pod("g-9", group="g", node="b1", cpu=1)
    world = GroupWorld(*racks(a1=8, b1=2), running, gates=TOPOLOGY)

    world.add(pod_group("g", min_count=2, topology="rack"), *members("g", 2)).run()

    assert {world.nodes()[name] for name in world.bound()} == {"b1"}


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        (
            {"g-8": "a1", "g-9": "b1"},
            "more than 1 domain found for pod group: a, b",
        ),
        (
            {"g-9": "x"},
            "no topology domain found for pod default/g-9",
        ),
    ],
)
def test_members_that_run_elsewhere_are_an_error(nodes: dict[str, str], told: str) -> None:
    running = [pod(name, group="g", node=on) for name, on in nodes.items()]
    world = GroupWorld(*racks(a1=4, b1=4), node("x"), *running, gates=TOPOLOGY)

    world.add(pod_group("g", min_count=1, topology="rack"), *members("g", 1)).run()

    told = f"cannot determine domain for already scheduled pods: {told}"
    assert world.message("g-0") == f"SchedulerError: {told}"
    assert world.condition("g") == ("False", "SchedulerError", told)


def test_the_fuller_domain_is_packed() -> None:
    """NodeResourcesFit has a say besides PodGroupPodsCount."""
    running = pod("r", node="b1", cpu=2)
    world = GroupWorld(*racks(a1=8, b1=8), running, gates=TOPOLOGY)

    world.add(pod_group("g", min_count=2, topology="rack"), *members("g", 2)).run()

    assert {world.nodes()[name] for name in world.bound()} == {"b1"}


def test_more_pods_are_worth_more_than_a_fuller_domain() -> None:
    running = pod("r", node="b1", cpu=1)
    world = GroupWorld(*racks(a1=8, b1=4), running, gates=TOPOLOGY)

    world.add(pod_group("g", topology="rack"), *members("g", 8)).run()

    assert sorted(world.nodes()[name] for name in world.bound()) == ["a1"] * 8


def test_a_constraint_is_ignored_without_the_gate() -> None:
    world = GroupWorld(*racks(a1=1, b1=1))

    world.add(pod_group("g", min_count=2, topology="rack"), *members("g", 2)).run()

    assert sorted(world.nodes().values()) == ["a1", "b1"]
