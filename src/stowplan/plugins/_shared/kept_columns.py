"""Columns that a plugin keeps per kind of pod, within a bound on memory.

A column goes when the last pod of its kind goes.  Beyond the bound, the quarter goes that nobody
asked for the longest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar
from weakref import ref

from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import PodKind

BYTES_MAX = 64 * 2**20

_COUNT_MIN = 8
"""So many are kept however large the table is."""

_FIXED_BYTES = 4096
"""What one takes up however few nodes there are."""


class Column(Protocol):
    used: int
    """The table's version when somebody last asked for it."""


Kept = TypeVar("Kept", bound=Column)


class KeptColumns(Generic[Kept]):
    def __init__(
        self, make: Callable[[], Kept], bytes_per_row: int, bytes_max: int = BYTES_MAX
    ) -> None:
        self._make = make
        self._bytes_per_row = bytes_per_row
        self._bytes_max = bytes_max
        self._columns: dict[ref[PodKind], Kept] = {}

    def __len__(self) -> int:
        return len(self._columns)

    def of(self, kind: PodKind, nodes: NodeTable) -> Kept:
        """The kind's column: for its owner to bring up to date."""
        found = self._columns.get(kind.ref)
        if found is None:
            each = _FIXED_BYTES + self._bytes_per_row * nodes.capacity
            if len(self._columns) >= max(_COUNT_MIN, self._bytes_max // each):
                self._drop_some()
            found = self._columns[ref(kind, self._columns.pop)] = self._make()
        found.used = nodes.version
        return found

    def _drop_some(self) -> None:
        by_age = sorted(self._columns.items(), key=lambda item: item[1].used)
        for kind, _ in by_age[: max(1, len(by_age) // 4)]:
            del self._columns[kind]
