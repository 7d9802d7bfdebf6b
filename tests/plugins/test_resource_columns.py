"""Columns of resources follow a node table: what they say is what new ones would say."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.objects.pod import Pod
from stowplan.plugins._shared import resource_columns
from stowplan.plugins._shared.resource_columns import ResourceColumns, ResourceTable
from tests.builders import World, node, pod

NODES = 4
RESOURCES = ("cpu", "memory", "pods", "example.com/gpu", "nobody/has-it")

changes = st.lists(
    st.tuples(
        st.sampled_from(["place", "place", "place", "leave", "resize", "vanish", "return"]),
        st.integers(0, NODES - 1),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=25,
)


def same(one: ResourceColumns, other: ResourceColumns) -> None:
    for column in ("capacity", "used", "free"):
        np.testing.assert_array_equal(getattr(one, column), getattr(other, column), column)
    assert (one.present is None) == (other.present is None)
    if one.present is not None and other.present is not None:
        np.testing.assert_array_equal(one.present, other.present)
    assert one.least_capacity == other.least_capacity
    assert one.least_free <= one.free.min(initial=2**62)
    for amount in (0, 1, 333, 5000):
        assert one.percent_left(amount).tolist() == plainly_left(other, amount)


def plainly_left(columns: ResourceColumns, amount: int) -> list[int]:
    capacity = np.broadcast_to(columns.capacity, columns.free.shape)
    return [
        100 * (int(free) - amount) // int(total)
        for free, total in zip(columns.free, capacity, strict=True)
    ]


class Life:
    def __init__(self) -> None:
        self.world = World(*(node(f"n{n}", cpu="4", memory="8Gi") for n in range(NODES)))
        self.pods: list[Pod] = []

    def change(self, what: str, at: int, amount: int) -> None:
        cache, name = self.world.cache, f"n{at}"
        there = name in cache.nodes and cache.nodes[name].node is not None
        if what == "place" and there:
            gpus = {"example.com/gpu": amount} if amount else None
            placed = pod(node=name, cpu=f"{1 + 700 * amount}m", requests=gpus)
            cache.add_pod(placed)
            self.pods.append(placed)
        elif what == "leave" and self.pods:
            cache.remove_pod(self.pods.pop(at % len(self.pods)))
        elif what == "resize" and there:
            other = node(name, cpu=str(amount), memory="8Gi", allocatable={"example.com/gpu": at})
            cache.add_node(other)
        elif what == "vanish" and there:
            cache.remove_node(name)
        elif what == "return" and not there:
            cache.add_node(node(name, cpu="2", memory="1Gi"))


@settings(deadline=None, max_examples=60)
@given(changes, st.integers(1, 12))
def test_rooms_that_followed_agree_with_new_ones(
    steps: list[tuple[str, int, int]], stride: int
) -> None:
    follow(steps, stride)


@settings(deadline=None, max_examples=60)
@given(changes, st.integers(1, 12))
def test_and_if_even_one_change_is_many(steps: list[tuple[str, int, int]], stride: int) -> None:
    with patch.multiple(resource_columns, FEW=0, ROWS_PER_CHANGE=1):
        follow(steps, stride)


def follow(steps: list[tuple[str, int, int]], stride: int) -> None:
    life = Life()
    table = life.world.table
    followed = ResourceTable(table)
    for n, step in enumerate(steps):
        life.change(*step)
        if n % stride:
            continue
        table.refresh(life.world.cache)
        new, alive = ResourceTable(table), table.alive
        followed.catch_up()
        for resource in RESOURCES:
            for one, other in (
                (followed.of(resource), new.of(resource)),
                (followed.by_score(resource), new.by_score(resource)),
            ):
                same(one.at(np.flatnonzero(alive)), other.at(np.flatnonzero(alive)))


def test_amounts_too_large_for_floats_are_counted_as_whole_numbers() -> None:
    world = World(node("n", cpu="4", memory=str(2**60 + 1)))

    columns = ResourceTable(world.table).of("memory")

    assert columns.free.tolist() == [2**60 + 1]


def test_a_node_filled_far_beyond_its_size_has_less_than_nothing_left() -> None:
    world = World(node("n", cpu="4", memory="7"))
    resource_table = ResourceTable(world.table)
    assert resource_table.of("memory").percent_left(2).tolist() == [71]

    world.add(pod(node="n", memory=str(2**62)))

    resource_table.catch_up()
    assert resource_table.of("memory").percent_left(2)[0] < 0


def test_the_sum_of_absurd_requests_stays_within_64_bits() -> None:
    world = World(node("n", cpu="4", memory=str(2**60)))
    resource_table = ResourceTable(world.table)
    resource_table.of("memory")

    for _ in range(3):
        world.add(pod(node="n", memory=str(2**62)))

    resource_table.catch_up()
    assert resource_table.of("memory").used.tolist() == [2**62]
