"""The keyed heap gives back what a sorted list would, and keeps no garbage."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from stowplan.queue.heap import GARBAGE_MIN, KeyedHeap

keys = st.sampled_from([f"key-{n}" for n in range(12)])
orders = st.integers(0, 5)


class HeapMachine(RuleBasedStateMachine):
    """The model: a dict of (order, turn, item), sorted whenever somebody asks."""

    def __init__(self) -> None:
        super().__init__()
        self.heap: KeyedHeap[object] = KeyedHeap()
        self.model: dict[str, tuple[int, int, object]] = {}
        self.turns = 0

    def first(self) -> str:
        return min(self.model, key=lambda key: self.model[key][:2])

    @rule(key=keys, order=orders)
    def add(self, key: str, order: int) -> None:
        item = object()
        self.turns += 1
        self.heap.add(key, order, item)
        self.model[key] = (order, self.turns, item)

    @rule(new=st.dictionaries(keys, orders))
    def add_new(self, new: dict[str, int]) -> None:
        new = {key: order for key, order in new.items() if key not in self.model}
        items = {key: object() for key in new}
        self.heap.add_new([*new], new.values(), items.values())
        for key, order in new.items():
            self.turns += 1
            self.model[key] = (order, self.turns, items[key])

    @precondition(lambda self: self.model)
    @rule(data=st.data(), order=orders)
    def update(self, data: st.DataObject, order: int) -> None:
        key = data.draw(st.sampled_from(sorted(self.model)))
        self.heap.update(key, order)
        self.model[key] = (order, *self.model[key][1:])

    @rule(key=keys)
    def delete(self, key: str) -> None:
        expected = self.model.pop(key, (0, 0, None))[2]
        assert self.heap.delete(key) is expected

    @rule()
    def pop(self) -> None:
        expected = self.model.pop(self.first())[2] if self.model else None
        assert self.heap.pop() is expected

    @invariant()
    def same_content(self) -> None:
        first = self.model[self.first()][2] if self.model else None
        assert self.heap.peek() is first
        assert len(self.heap) == len(self.model)
        assert set(map(id, self.heap.values())) == {id(entry[2]) for entry in self.model.values()}
        for key in [f"key-{n}" for n in range(12)]:
            assert self.heap.get(key) is self.model.get(key, (0, 0, None))[2]
            assert (key in self.heap) == (key in self.model)


TestHeap = pytest.mark.slow(HeapMachine.TestCase)


def test_equal_orders_come_out_as_they_came_in() -> None:
    heap: KeyedHeap[str] = KeyedHeap()
    for name in "dacb":
        heap.add(name, 0, name)

    assert [heap.pop() for _ in range(4)] == list("dacb")


def test_an_updated_item_keeps_its_turn_and_an_added_one_does_not() -> None:
    heap: KeyedHeap[str] = KeyedHeap()
    for name in "abc":
        heap.add(name, 0, name)

    heap.update("a", 1)
    heap.update("a", 0)
    heap.add("b", 0, "b2")

    assert [heap.pop() for _ in range(4)] == ["a", "c", "b2", None]


def test_items_are_never_compared() -> None:
    heap: KeyedHeap[dict[str, int]] = KeyedHeap()
    heap.add("one", 1, {})
    heap.add("two", 1, {})

    assert heap.pop() == {}


def update_one(heap: KeyedHeap[int], n: int) -> None:
    heap.update(f"key-{n % 100}", -n)


def add_one_again(heap: KeyedHeap[int], n: int) -> None:
    heap.add(f"key-{n % 100}", n, n)


def delete_one_and_add_it(heap: KeyedHeap[int], n: int) -> None:
    heap.delete(f"key-{n % 100}")
    heap.add(f"key-{n % 100}", n, n)


@pytest.mark.parametrize("change", [update_one, add_one_again, delete_one_and_add_it])
def test_garbage_is_bounded(change: Callable[[KeyedHeap[int], int], None]) -> None:
    heap: KeyedHeap[int] = KeyedHeap()
    for n in range(100):
        heap.add(f"key-{n}", n, n)

    for n in range(10_000):
        change(heap, n)

        assert len(heap._heap) <= 2 * len(heap) + GARBAGE_MIN + 1


def test_an_emptied_heap_holds_nothing() -> None:
    heap: KeyedHeap[int] = KeyedHeap()
    for n in range(1000):
        heap.add(f"key-{n}", n, n)
    for n in range(500):
        heap.delete(f"key-{n}")
    while heap.pop() is not None:
        pass

    assert not heap._heap
    assert heap.entries.__sizeof__() == {}.__sizeof__()
