"""Columns that a plugin keeps per kind of pod, within a bound on memory.

A column lies with its kind and goes when the last pod of that kind goes.  Beyond the bound, the
quarter goes that nobody asked for the longest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar
from weakref import WeakSet

from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import PodKind

BYTES_MAX = 64 * 2**20

_COUNT_MIN = 8
"""So many are kept however large the table is."""

_BYTES_PER_ROW = 8
_FIXED_BYTES = 4096


class Column(Protocol):
    used: int
    """The table's version when somebody last asked for it."""


Kept = TypeVar("Kept", bound=Column)


class KeptColumns(Generic[Kept]):
    def __init__(self, make: Callable[[], Kept], bytes_max: int = BYTES_MAX) -> None:
        self._make = make
        self._bytes_max = bytes_max
        self._kinds: WeakSet[PodKind] = WeakSet()

    def __len__(self) -> int:
        return len(self._kinds)

    def of(self, kind: PodKind, nodes: NodeTable) -> Kept:
        """The kind's column: for its owner to bring up to date."""
        found: Kept | None = kind.kept.get(self)
        if found is None:
            each = _FIXED_BYTES + _BYTES_PER_ROW * nodes.capacity
            if len(self._kinds) >= max(_COUNT_MIN, self._bytes_max // each):
                self._drop_some()
            found = kind.kept[self] = self._make()
            self._kinds.add(kind)
        found.used = nodes.version
        return found

    def _drop_some(self) -> None:
        by_age = sorted(self._kinds, key=lambda kind: kind.kept[self].used)
        for kind in by_age[: max(1, len(by_age) // 4)]:
            del kind.kept[self]
            self._kinds.discard(kind)
