"""The node labels that somebody asked for, one `LabelColumn` each.

A pod may name a thousand keys, of which nodes have a few dozen: keys that no node has share one
column without values.  Of the others a bounded number is kept; one that was dropped is made again
by one look at each node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from stowplan.state.label_column import LabelColumn

_LABELS_MAX = 1200
"""Columns kept; the oldest goes first."""

_NO_LABELS: Mapping[str, str] = {}


class LabelColumns:
    def __init__(self, forget: Callable[[LabelColumn], None]) -> None:
        self._forget = forget
        """Called with a column that is not kept up to date any more."""
        self._columns: dict[str, LabelColumn] = {}
        self._node_counts: dict[str, int] = {}
        """How many nodes have each key."""
        self._absent = LabelColumn("", 0)
        """For every key that no node has."""
        self.keys_version = 0
        """Grows when the first node gets a key, or the last one loses it."""

    def fork(self, forget: Callable[[LabelColumn], None]) -> LabelColumns:
        fork = LabelColumns(forget)
        fork._columns = {key: column.fork() for key, column in self._columns.items()}
        fork._node_counts = self._node_counts.copy()
        fork._absent = self._absent.fork()
        fork.keys_version = self.keys_version
        return fork

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def has(self, key: str) -> bool:
        """Whether a node has the key."""
        return key in self._node_counts

    def find(self, key: str) -> LabelColumn | None:
        """The column, unless it has to be made."""
        column = self._columns.get(key)
        if column is not None and not column.is_worn:
            return column
        return None if key in self._node_counts else self._absent

    def make(
        self, key: str, labels: Iterable[Mapping[str, str] | None], size: int, capacity: int
    ) -> LabelColumn:
        """`labels` are those of each row, None where it holds no node."""
        self._drop(key)
        if len(self._columns) >= _LABELS_MAX:
            self._drop(next(iter(self._columns)))
        column = self._columns[key] = LabelColumn(key, capacity)
        column.resize(size, capacity)
        for row, of_row in enumerate(labels):
            if of_row is not None and (value := of_row.get(key)) is not None:
                column.set(row, value)
        return column

    def write(
        self, row: int, before: Mapping[str, str] | None, after: Mapping[str, str] | None
    ) -> None:
        """The labels of a row's node; None where it holds none."""
        if before == after:
            return
        if after is not None:
            for key, column in self._columns.items():
                column.set(row, after.get(key))
        self._count(before or _NO_LABELS, after or _NO_LABELS)

    def resize(self, size: int, capacity: int) -> None:
        for column in (self._absent, *self._columns.values()):
            column.resize(size, capacity)

    def clear(self) -> None:
        for key in list(self._columns):
            self._drop(key)
        self._node_counts.clear()
        self.keys_version += 1

    def _count(self, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        counts = self._node_counts
        known = len(counts)
        for key in after.keys() - before.keys():
            counts[key] = counts.get(key, 0) + 1
        has_new = len(counts) > known
        for key in before.keys() - after.keys():
            counts[key] -= 1
            if not counts[key]:
                del counts[key]
        if has_new:
            # It may be one that the column without values stood for.
            self._forget(self._absent)
        if has_new or len(counts) < known:
            self.keys_version += 1

    def _drop(self, key: str) -> None:
        column = self._columns.pop(key, None)
        if column is not None:
            self._forget(column)
