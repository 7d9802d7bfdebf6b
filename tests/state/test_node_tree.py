"""Nodes in the order in which they are looked at: round robin over their zones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stowplan.state.node_tree import NodeTree
from tests.builders import node

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"

steps = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.sampled_from(["", "x", "y", "z", None])), max_size=30
)


@given(steps)
def test_round_robin_over_zones_as_they_were_first_seen(
    steps: list[tuple[str, str | None]],
) -> None:
    """Against lists of names; a step without a zone removes the node, known or not."""
    tree = NodeTree()
    zones: dict[str, list[str]] = {}
    for name, zone in steps:
        before = next((it for it, names in zones.items() if name in names), None)
        if before is not None and before != zone:
            zones[before].remove(name)
            if not zones[before]:
                del zones[before]
        if zone is None:
            tree.remove(name)
        else:
            tree.add(node(name, labels={ZONE: zone} if zone else {}))
            if before != zone:
                zones.setdefault(zone, []).append(name)

        rounds = [names[turn] for turn in range(6) for names in zones.values() if turn < len(names)]
        assert tree.names() == rounds
        assert len(tree) == len(rounds)
    fork = tree.fork()
    expected = tree.names()
    tree.add(node("late"))
    assert (fork.names(), len(fork)) == (expected, len(expected))


def test_a_zone_is_a_zone_of_its_region() -> None:
    tree = NodeTree()
    for name, region in (("a", "east"), ("b", "east"), ("c", "west")):
        tree.add(node(name, labels={ZONE: "1", REGION: region}))

    assert tree.names() == ["a", "c", "b"]
