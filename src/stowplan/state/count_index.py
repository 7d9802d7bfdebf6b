"""What is counted: a `CountColumn` per sort of pods, its `DomainCounts` per label and row set.

Counts are made when first asked for, shared by all who ask for the same, and dropped when too
many others were asked for since.  A plugin keeps a `CountQuery` or `DomainQuery` per kind of pod:
it finds the counts without hashing anything, and makes them again if they were dropped.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from stowplan.state.counts import CountColumn, DomainCounts, Weigh
from stowplan.state.pod_info import PodKind
from stowplan.state.row_set import ALL_NODES, Member, all_nodes

if TYPE_CHECKING:
    from stowplan.state.node_table import NodeTable

_COLUMNS_MAX = 1024
_DOMAINS_MAX = 2048
"""Counts kept of each sort.  Beyond, the quarter that nobody asked for the longest is dropped."""


class CountIndex:
    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._columns: dict[Hashable, CountColumn] = {}
        self._domains: dict[Hashable, DomainCounts] = {}
        self._made: list[CountColumn] = []
        """The columns in the order they were made."""
        self._epoch = 0
        """Grows when columns were dropped, and `_made` is a new list."""

    def column(self, key: Hashable, weigh: Weigh) -> CountColumn:
        """Pods per node, counted by `weigh`; equal keys must mean equal functions."""
        table = self._table
        column = self._columns.get(key)
        if column is None:
            column = CountColumn(weigh, table.size, table.capacity)
            column.build(table.pods.kinds, table.pods.kind_slots, table.pods.rows)
            column.used = table.version
            self._columns[key] = column
            self._made.append(column)
            if len(self._columns) > _COLUMNS_MAX:
                self._drop_columns(column)
        column.used = table.version
        return column

    def domains(self, query: DomainQuery) -> DomainCounts:
        """Pods per value of a label, over the nodes of a row set."""
        table = self._table
        key = (query.key, query.topology_key, query.rows_key)
        label = table.label(query.topology_key)
        found = self._domains.get(key)
        if found is None:
            column = self.column(query.key, query.weigh)
            rows = table.row_set(query.rows_key, query.member)
            found = self._domains[key] = DomainCounts(table, column, label, rows)
            column.domains.append(found)
            if len(self._domains) > _DOMAINS_MAX:
                found.used = table.version
                self._retire_domains(_oldest(self._domains, _DOMAINS_MAX // 4, but=found))
        found.refresh()
        return found

    def count(self, kind: PodKind, row: int, sign: int) -> None:
        """A pod of this kind came to (1) or left (-1) the row."""
        if not self._columns:
            return
        kept = kind.kept.get(self)
        if kept is None or kept[1] != len(self._made) or kept[0] != self._epoch:
            kept = self._catch_up(kind, kept)
        for column, weight in kept[2]:
            column.add(row, sign * weight)

    def resize(self, size: int, capacity: int) -> None:
        for column in self._columns.values():
            column.resize(size, capacity)

    def forget_label(self, key: str) -> None:
        """The label's values are numbered anew."""
        self._retire_domains([k for k, d in self._domains.items() if d.label.key == key])

    def _catch_up(self, kind: PodKind, kept: Any) -> Any:
        """Ask only the columns made since last time whether they count this kind."""
        counted: list[tuple[CountColumn, int]] = []
        position = 0
        if kept is not None and kept[0] == self._epoch:
            _, position, counted = kept
        for column in self._made[position:]:
            weight = column.weigh(kind)
            if weight:
                counted.append((column, weight))
        fresh = kind.kept[self] = (self._epoch, len(self._made), counted)
        return fresh

    def _drop_columns(self, newest: CountColumn) -> None:
        for key in _oldest(self._columns, _COLUMNS_MAX // 4, but=newest):
            self._columns.pop(key).retired = True
        self._retire_domains([k for k, d in self._domains.items() if d.column.retired])
        self._made = list(self._columns.values())
        self._epoch += 1

    def _retire_domains(self, keys: list[Hashable]) -> None:
        for key in keys:
            domain = self._domains.pop(key)
            domain.retired = True
            domain.column.domains.remove(domain)


def _oldest(counts: dict[Hashable, Any], amount: int, *, but: object) -> list[Hashable]:
    keys = sorted(counts, key=lambda key: counts[key].used)
    return [key for key in keys if counts[key] is not but][:amount]


class CountQuery:
    """Asks for a `CountColumn`, again and again."""

    __slots__ = ("_found", "key", "weigh")

    def __init__(self, key: Hashable, weigh: Weigh) -> None:
        self.key = key
        self.weigh = weigh
        self._found: CountColumn | None = None

    def ask(self, table: NodeTable) -> CountColumn:
        found = self._found
        if found is None or found.retired:
            found = self._found = table.counts.column(self.key, self.weigh)
        else:
            found.used = table.version
        return found


class DomainQuery:
    """Asks for `DomainCounts`, again and again."""

    __slots__ = ("_found", "key", "member", "rows_key", "topology_key", "weigh")

    def __init__(
        self,
        key: Hashable,
        weigh: Weigh,
        topology_key: str,
        rows_key: Hashable = ALL_NODES,
        member: Member = all_nodes,
    ) -> None:
        self.key = key
        self.weigh = weigh
        self.topology_key = topology_key
        self.rows_key = rows_key
        self.member = member
        self._found: DomainCounts | None = None

    def ask(self, table: NodeTable) -> DomainCounts:
        found = self._found
        if found is None or found.retired:
            found = self._found = table.counts.domains(self)
        else:
            found.refresh()
        return found
