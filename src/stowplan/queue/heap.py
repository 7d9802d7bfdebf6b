"""A heap whose items have names: it can be asked for, changed in and robbed of any of them.

Mirrors kube-scheduler's `backend/heap`.  Python's `heapq` cannot take an item out of the middle,
so an item that leaves or changes leaves its entry behind as garbage, which `pop` steps over.
When garbage outweighs what is alive the heap is built anew: look-ups stay O(1), the rest
O(log n) amortised, and memory follows the number of items.  Used for the active queue, both
backoff queues and the unschedulable pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import Any, Generic, TypeVar

T = TypeVar("T")

Entry = tuple[Any, int, str, T]
"""(order, turn, key, item).  Each item has a turn of its own, so items are never compared."""

GARBAGE_MIN = 64
"""Below this many left-over entries a rebuild is not worth it."""


class KeyedHeap(Generic[T]):
    """Smallest `order` first; equal orders in the order they came."""

    __slots__ = ("_heap", "_turn", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, Entry[T]] = {}
        """What is in the heap, by key.  Others may look, at full speed; only the heap writes."""
        self._heap: list[Entry[T]] = []
        self._turn = 0

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, key: str) -> bool:
        return key in self.entries

    def take_over(self, other: KeyedHeap[T], copied: Callable[[T], T]) -> None:
        """Hold a copy of each item of the other, in the same order."""
        self.entries.update(
            (key, (order, turn, key, copied(item)))
            for key, (order, turn, _, item) in other.entries.items()
        )
        self._heap = list(self.entries.values())
        heapify(self._heap)
        self._turn = other._turn

    def get(self, key: str) -> T | None:
        entry = self.entries.get(key)
        return None if entry is None else entry[3]

    def values(self) -> list[T]:
        """Every item, in the order the keys were first added."""
        return [entry[3] for entry in self.entries.values()]

    def add(self, key: str, order: Any, item: T) -> None:
        """Put an item in; one that is there under the same key gives way."""
        self._turn = turn = self._turn + 1
        entry = (order, turn, key, item)
        replaced = key in self.entries
        self.entries[key] = entry
        heappush(self._heap, entry)
        if replaced:
            self._tidy()

    def add_new(self, keys: list[str], orders: Iterable[Any], items: Iterable[T]) -> None:
        """Put many in, in this order; none of the keys is there yet."""
        turns = range(self._turn + 1, self._turn + 1 + len(keys))
        self._turn += len(keys)
        entries = list(zip(orders, turns, keys, items, strict=True))
        self.entries.update(zip(keys, entries, strict=True))
        heap = self._heap
        for entry in entries:
            heappush(heap, entry)

    def update(self, key: str, order: Any) -> None:
        """Give an item that is there another order; it keeps its turn among equals."""
        entry = self.entries[key]
        if entry[0] == order:
            return
        # An older entry of the item may be equal to the new one, down to the item, which is
        # then the same object: tuples do not compare that.
        entry = (order, *entry[1:])
        self.entries[key] = entry
        heappush(self._heap, entry)
        self._tidy()

    def delete(self, key: str) -> T | None:
        """Take an item out, wherever it is."""
        entry = self.entries.pop(key, None)
        if entry is None:
            return None
        self._tidy()
        return entry[3]

    def pop(self) -> T | None:
        """Take the first item out."""
        heap, entries = self._heap, self.entries
        while heap:
            entry = heappop(heap)
            key = entry[2]
            # Identity: an updated item has a newer entry under the same key.
            if entries.get(key) is entry:
                del entries[key]
                if not entries:
                    self._empty()
                return entry[3]
        return None

    def peek(self) -> T | None:
        """The first item, left where it is."""
        heap, entries = self._heap, self.entries
        while heap:
            entry = heap[0]
            if entries.get(entry[2]) is entry:
                return entry[3]
            heappop(heap)
        return None

    def _tidy(self) -> None:
        alive_count = len(self.entries)
        if not alive_count:
            self._empty()
        elif len(self._heap) - alive_count > max(alive_count, GARBAGE_MIN):
            self._heap = list(self.entries.values())
            heapify(self._heap)

    def _empty(self) -> None:
        # A dict keeps its table when items leave one by one; `clear` gives the memory back.
        self.entries.clear()
        self._heap.clear()
