"""Pods per node and per topology domain, counted once and then kept up to date.

Topology spread and pod affinity ask the same question in many forms: how many pods of some sort
are on each node, and in each zone?  A `CountColumn` is the answer per node for one sort of pods;
`Domains` says which node is in which domain, and `DomainCounts` adds the one up over the other.
All are built with a few array operations and from then on change only where a pod came or went or
a node changed.  `state.count_index` keeps them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stowplan.state.label_column import ABSENT, LabelColumn
from stowplan.state.pod_sorts import PodSort
from stowplan.state.row_follower import FEW, RowFollower

if TYPE_CHECKING:
    from stowplan.state.node_table import NodeTable
    from stowplan.state.row_set import RowSet

Counts = NDArray[np.signedinteger[Any]]
"""int32, or int64 where pods count with weights."""
Numbers = NDArray[np.intp]

_FOLLOWED_MAX = 64
"""With more labels than that to be followed, all are added up anew when somebody asks: a pod with
a thousand constraints must not make every other pod pay for them."""

_FEW_DOMAINS = 64
"""So few are gone through faster one by one than by an array operation."""


class CountColumn:
    """For one sort of pods, their number on every node."""

    __slots__ = (
        "__weakref__",
        "_cells",
        "_per_row",
        "_size",
        "in_domains",
        "retired",
        "sort",
        "total",
        "used",
    )

    def __init__(
        self,
        sort: PodSort,
        size: int,
        capacity: int,
        dtype: type[np.signedinteger[Any]] = np.int32,
    ) -> None:
        self.sort = sort
        self.in_domains: dict[DomainCounts, None] = {}
        """Those that follow it pod by pod."""
        self.total = 0
        """The sum over all nodes."""
        self.retired = False
        """Dropped to stay within bounds and no longer kept up to date: ask the index again."""
        self.used = 0
        """The table's version when somebody last asked for it."""
        self._per_row: Counts = np.zeros(capacity, dtype)
        self._cells = self._per_row.data
        """The same for single cells: an array takes twice as long for one."""
        self._size = size

    @property
    def per_row(self) -> Counts:
        return self._per_row[: self._size]

    def build(self, weights: Counts, pod_kinds: Counts, pod_rows: Counts) -> None:
        """Count all pods: `weights` per kind, `pod_kinds` (-1: none) and `pod_rows` per pod."""
        # One slot more, always 0, which -1 reaches from behind.
        per_pod = np.append(weights, 0).take(pod_kinds)
        counted = np.flatnonzero(per_pod)
        np.add.at(self._per_row, pod_rows[counted], per_pod[counted])
        self.total = int(per_pod.sum())

    def resize(self, size: int, capacity: int) -> None:
        if capacity > len(self._per_row):
            self._per_row = _grown(self._per_row, capacity, 0)
            self._cells = self._per_row.data
        self._size = size

    def on(self, row: int) -> int:
        count: int = self._cells[row]
        return count

    def add(self, row: int, amount: int) -> None:
        self._cells[row] += amount
        self.total += amount
        in_domains = self.in_domains
        if len(in_domains) > _FOLLOWED_MAX:
            for domain_counts in in_domains:
                domain_counts.fall_behind()
            in_domains.clear()
        for domain_counts in in_domains:
            domain_counts.add(row, amount)


class Domains:
    """Which domain, that is which value of a label, each node of a row set is in."""

    __slots__ = (
        "_follower",
        "_node_counts",
        "_present",
        "_table",
        "cells",
        "counted",
        "domain_count",
        "ids",
        "label",
        "node_count",
        "rows",
        "used",
        "version",
    )

    def __init__(self, table: NodeTable, label: LabelColumn, rows: RowSet) -> None:
        self.label = label
        self.rows = rows
        self.counted: dict[CountColumn, DomainCounts] = {}
        """What is added up over these domains."""
        self.ids: Counts = np.full(table.capacity, ABSENT, np.int32)
        """Per row the number of its value; ABSENT also where the row set leaves the node out."""
        self.cells = self.ids.data
        self.domain_count = 0
        """Values that nodes of the row set have."""
        self.node_count = 0
        """Nodes of the row set that have the label."""
        self.version = 0
        """Grows when a node is in another domain than before, or a domain is new."""
        self.used = 0
        self._node_counts: Counts = np.zeros(0, np.int32)
        self._present: Numbers | None = None
        self._table = table
        self._follower = RowFollower(of_nodes=True)

    @property
    def present(self) -> Numbers:
        """The values that nodes of the row set have, as numbers."""
        if self._present is None:
            self._present = np.flatnonzero(self._node_counts)
        return self._present

    @property
    def are_single_nodes(self) -> bool:
        """Whether no two nodes are in the same domain."""
        return self.domain_count == self.node_count

    @property
    def are_all_present(self) -> bool:
        return self.domain_count == len(self._node_counts)

    def refresh(self) -> None:
        table = self._table
        self.used = table.version
        changed = self._follower.changed(table, at_most=FEW)
        if changed is not None and not changed:
            return
        self.rows.refresh()
        size = len(self.label.values)
        if size > len(self._node_counts):
            self._node_counts = _grown(self._node_counts, size, 0)
            self.version += 1
        if changed is None:
            self._look_at_all()
        for row in changed or ():
            self._move(row)
        self._present = None

    def resize(self, capacity: int) -> None:
        if capacity > len(self.ids):
            self.ids = _grown(self.ids, capacity, ABSENT)
            self.cells = self.ids.data

    def _look_at_all(self) -> None:
        ids = np.where(self.rows.mask, self.label.ids, ABSENT)
        self.ids[: len(ids)] = ids
        inside = ids[ids >= 0]
        node_counts = np.bincount(inside, minlength=len(self._node_counts))
        self._node_counts = node_counts.astype(np.int32)
        self.domain_count = int(np.count_nonzero(node_counts))
        self.node_count = len(inside)
        self.version += 1

    def _move(self, row: int) -> None:
        before = int(self.ids[row])
        after = int(self.label.ids[row]) if self.rows.mask[row] else ABSENT
        if before == after:
            return
        node_counts = self._node_counts
        if before >= 0:
            node_counts[before] -= 1
            self.domain_count -= int(node_counts[before] == 0)
            self.node_count -= 1
        if after >= 0:
            self.domain_count += int(node_counts[after] == 0)
            node_counts[after] += 1
            self.node_count += 1
        self.ids[row] = after
        self.version += 1


class DomainCounts:
    """A `CountColumn` added up per domain."""

    __slots__ = (
        "__weakref__",
        "_cells",
        "_seen",
        "column",
        "domains",
        "label",
        "retired",
        "sums",
        "total",
        "used",
    )

    def __init__(self, column: CountColumn, domains: Domains) -> None:
        self.column = column
        self.domains = domains
        self.label = domains.label
        self.sums: Counts = np.zeros(1, np.int32)
        """Per value of the label, the pods on the row set's nodes with that value; and one slot
        more, always 0, which ABSENT (-1) reaches from behind."""
        self.total = 0
        """The sum of `sums`."""
        self.retired = False
        self.used = 0
        self._cells = self.sums.data
        self._seen = -1

    def refresh(self) -> None:
        """Catch up with nodes that changed; pods are followed by `add`."""
        domains = self.domains
        domains.refresh()
        self.used = self.column.used = domains.used
        if self._seen != domains.version:
            self._add_up()

    def add(self, row: int, amount: int) -> None:
        domains = self.domains
        if self._seen != domains.version:
            return  # Nodes moved: all will be added up anew.
        number = domains.cells[row]
        if number >= 0:
            self._cells[number] += amount
            self.total += amount

    def fall_behind(self) -> None:
        """Follow no longer: all is added up anew when somebody asks."""
        self._seen = -1

    def of(self, number: int) -> int:
        """The sum of a domain; ABSENT has none."""
        count: int = self._cells[number]
        return count

    def to_list(self) -> list[int]:
        """`sums` as plain numbers: with few domains, less work than arrays."""
        return self._cells.tolist()

    def lowest(self) -> int:
        """The smallest sum of a domain that has nodes; 0 if there is no domain."""
        domains = self.domains
        if domains.domain_count == 0:
            return 0
        if len(self._cells) <= _FEW_DOMAINS and domains.are_all_present:
            return min(self.to_list()[:-1])
        sums = self.sums[:-1] if domains.are_all_present else self.sums[domains.present]
        return int(np.minimum.reduce(sums))

    def _add_up(self) -> None:
        domains = self.domains
        size = len(domains.label.values) + 1
        if self.column.total:
            per_row = self.column.per_row
            ids = domains.ids[: len(per_row)]
            chosen = np.flatnonzero(ids >= 0)
            # Added up as floats, which are exact below 2**53.
            sums = np.bincount(ids[chosen], weights=per_row[chosen], minlength=size)
            self.sums = sums.astype(per_row.dtype)
            self.total = int(self.sums.sum())
        else:
            self.sums = np.zeros(size, np.int32)
            self.total = 0
        self._cells = self.sums.data
        self._seen = domains.version
        self.column.in_domains[self] = None


def _grown(column: Counts, length: int, filler: int) -> Counts:
    grown = np.full(length, filler, column.dtype)
    grown[: len(column)] = column
    return grown
