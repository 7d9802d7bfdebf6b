"""What is counted: a `CountColumn` per sort of pods, `DomainCounts` per label and row set.

Counts are made when first asked for, shared by all who ask for the same, and dropped when too
many others were asked for since.  A plugin keeps a `CountQuery` or `DomainQuery` per kind of pod:
it finds the counts without hashing anything, and makes them again if they were dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol, TypeVar
from weakref import ref

import numpy as np

from stowplan.state.counts import CountColumn, DomainCounts, Domains
from stowplan.state.label_column import LabelColumn
from stowplan.state.pod_info import KeptPer, PodKind, kind_count
from stowplan.state.pod_sorts import Place, PodSort, filed_for, filed_for_terms
from stowplan.state.row_set import ALL_NODES, Member, all_nodes

if TYPE_CHECKING:
    from stowplan.state.count_sums import SumQuery
    from stowplan.state.node_table import NodeTable

_BYTES_MAX = 256 * 2**20
"""Memory for count columns, and as much again for domains."""

_FIXED_BYTES = 2048
"""What one takes up however few nodes there are."""

_COUNTS_MIN = 64
"""So many are kept however large the table is.  Beyond the bound, the quarter goes that nobody
asked for the longest."""

_COUNTS_IDLE = 2400
"""So many are kept if there is memory, however few kinds of pods there are: one of them may ask
for a thousand."""

_COUNTS_PER_KIND = 16
"""More are not kept for each kind of pod there is: pods that are gone ask for nothing."""

_DOMAINS_MAX = 1200

_used = attrgetter("used")


class CountIndex:
    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._columns: dict[PodSort, CountColumn] = {}
        self._columns_at: dict[Place, dict[CountColumn, None]] = {}
        self._domains: dict[Domains, tuple[LabelColumn, Hashable]] = {}
        self._domains_at: dict[LabelColumn, dict[Hashable, Domains]] = {}
        self._domain_counts: dict[DomainCounts, None] = {}
        self._counting = KeptPer()
        """Per kind of pod the columns in which its pods count, as of a version."""
        self._version = 0
        """Grows when columns were made or dropped."""
        self.is_summed = False
        """Somebody adds up all pods (`count_sums`): every change of a pod's kind matters."""

    def column(self, sort: PodSort) -> CountColumn:
        """Pods of this sort per node."""
        column = self._columns.get(sort)
        if column is None:
            if len(self._columns) >= self._counts_max:
                self._drop_columns()
            column = self._columns[sort] = self._counted(sort)
            for place in sort.places:
                self._columns_at.setdefault(place, {})[column] = None
            self._version += 1
        column.used = self._table.version
        return column

    def domain_counts(self, query: DomainQuery) -> DomainCounts:
        """Pods per value of a label, over the nodes of a row set."""
        domains, column = self.domains_of(query), query.per_node.ask(self._table)
        found = domains.counted.get(column)
        if found is None:
            if len(self._domain_counts) >= self._counts_max:
                self._retire(_oldest(self._domain_counts))
            found = domains.counted[column] = DomainCounts(column, domains)
            self._domain_counts[found] = None
        found.refresh()
        return found

    def count(self, kind: PodKind, row: int, sign: int) -> None:
        """A pod of this kind came to (1) or left (-1) the row."""
        if self._columns:
            for column, weight in self._columns_counting(kind):
                column.add(row, sign * weight)

    def recount(self, old: PodKind, new: PodKind, row: int) -> bool:
        """A pod on the row is of another kind now.  Whether some sort makes a difference."""
        if not self._columns or self._columns_counting(old) == self._columns_counting(new):
            return self.is_summed
        self.count(old, row, -1)
        self.count(new, row, 1)
        return True

    def resize(self, size: int, capacity: int) -> None:
        for domains in self._domains:
            domains.resize(capacity)
        for column in self._columns.values():
            column.resize(size, capacity)

    def clear(self) -> None:
        """Forget all counts: they are made again when somebody asks."""
        self._retire_domains([*self._domains])
        for column in self._columns.values():
            column.retired = True
        self._columns.clear()
        self._columns_at.clear()
        self._version += 1
        self.is_summed = False

    def forget_label(self, label: LabelColumn) -> None:
        """The column does not follow its label any more."""
        self._retire_domains([*self._domains_at.get(label, {}).values()])

    @property
    def _counts_max(self) -> int:
        by_memory = _BYTES_MAX // (4 * self._table.capacity + _FIXED_BYTES)
        wanted = max(_COUNTS_IDLE, _COUNTS_PER_KIND * kind_count())
        return max(_COUNTS_MIN, min(by_memory, wanted))

    def _counted(self, sort: PodSort) -> CountColumn:
        table = self._table
        pods = table.pods
        column = CountColumn(sort, table.size, table.capacity)
        weights = np.zeros(len(pods.kinds), np.int32)
        found = False
        for slot, kind in pods.kinds_at(sort.places):
            weight = sort.weigh(kind)
            if weight:
                weights[slot] = weight
                found = True
        if found:
            column.build(weights, pods.kind_slots, pods.rows)
        return column

    def _columns_counting(self, kind: PodKind) -> list[tuple[CountColumn, int]]:
        """The columns in which pods of this kind count, and how often."""
        kept = self._counting[kind.ref]
        if kept.get("version") != self._version:
            kept["version"] = self._version
            at = self._columns_at
            kept["columns"] = [
                (column, weight)
                for column in (*filed_for(kind, at), *filed_for_terms(kind, at))
                if (weight := column.sort.weigh(kind))
            ]
        counting: list[tuple[CountColumn, int]] = kept["columns"]
        return counting

    def domains_of(self, query: DomainQuery | SumQuery) -> Domains:
        """Which node is in which domain."""
        table = self._table
        label, rows_key = table.label(query.topology_key), query.rows_key
        domains = self._domains_at.get(label, {}).get(rows_key)
        if domains is None:
            if len(self._domains) >= _DOMAINS_MAX:
                self._retire_domains(_oldest(self._domains))
            rows = table.row_set(rows_key, query.member)
            domains = Domains(table, label, rows)
            self._domains[domains] = (label, rows_key)
            self._domains_at.setdefault(label, {})[rows_key] = domains
        return domains

    def _drop_columns(self) -> None:
        for column in _oldest(self._columns.values()):
            sort = column.sort
            del self._columns[sort]
            column.retired = True
            for place in sort.places:
                columns = self._columns_at[place]
                del columns[column]
                if not columns:
                    del self._columns_at[place]
        self._version += 1
        self._retire([counts for counts in self._domain_counts if counts.column.retired])

    def _retire_domains(self, gone: list[Domains]) -> None:
        for domains in gone:
            label, rows_key = self._domains.pop(domains)
            at = self._domains_at[label]
            del at[rows_key]
            if not at:
                del self._domains_at[label]
            self._retire([*domains.counted.values()])

    def _retire(self, gone: list[DomainCounts]) -> None:
        for counts in gone:
            del self._domain_counts[counts]
            del counts.domains.counted[counts.column]
            counts.column.in_domains.pop(counts, None)
            counts.retired = True


class _Dated(Protocol):
    used: int


_Item = TypeVar("_Item", bound=_Dated)


def _oldest(items: Collection[_Item]) -> list[_Item]:
    """The quarter that nobody asked for the longest."""
    return sorted(items, key=_used)[: max(1, len(items) // 4)]


class CountQuery:
    """Asks for a `CountColumn`, again and again."""

    __slots__ = ("_found", "sort")

    def __init__(self, sort: PodSort) -> None:
        self.sort = sort
        self._found: ref[CountColumn] | None = None

    def ask(self, table: NodeTable) -> CountColumn:
        # Held weakly: what was dropped must not live on in every kind of pod that asked once.
        found = None if self._found is None else self._found()
        if found is None or found.retired:
            found = table.counts.column(self.sort)
            self._found = ref(found)
        else:
            found.used = table.version
        return found


class DomainQuery:
    """Asks for `DomainCounts`, again and again."""

    __slots__ = ("_found", "member", "per_node", "rows_key", "topology_key")

    def __init__(
        self,
        per_node: CountQuery,
        topology_key: str,
        rows_key: Hashable = ALL_NODES,
        member: Member = all_nodes,
    ) -> None:
        self.per_node = per_node
        """What is added up; shared by queries about the same pods, which are long to compare."""
        self.topology_key = topology_key
        self.rows_key = rows_key
        """Equal keys must mean equal `member` functions."""
        self.member = member
        self._found: ref[DomainCounts] | None = None

    def ask(self, table: NodeTable) -> DomainCounts:
        found = None if self._found is None else self._found()
        if found is None or found.retired:
            found = table.counts.domain_counts(self)
            self._found = ref(found)
        else:
            found.refresh()
        return found
