"""Pods per node and per topology domain, counted once and then kept up to date.

Topology spread and pod affinity ask the same question in many forms: how many pods of some sort
are on each node, and in each zone?  A `CountColumn` is the answer per node for one sort of pods;
`DomainCounts` adds it up per value of a node label.  Both are built with a few array operations
and from then on change only where a pod came or went or a node changed.  `state.count_index`
keeps them by what they count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stowplan.state.label_column import ABSENT, LabelColumn
from stowplan.state.pod_info import PodKind

if TYPE_CHECKING:
    from stowplan.state.node_table import NodeTable
    from stowplan.state.row_set import RowSet

Weigh = Callable[[PodKind], int]
"""How often a pod of this kind counts: 0, 1, or more when it carries a term several times."""

Ints = NDArray[np.int64]
Rows = NDArray[np.intp]

_ONE_BY_ONE_MAX = 32
"""Up to so many changed nodes are moved between domains singly; beyond, all are added up anew."""


class CountColumn:
    """For one sort of pods, their number on every node."""

    __slots__ = ("_per_row", "_size", "domains", "retired", "used", "weigh")

    def __init__(self, weigh: Weigh, size: int, capacity: int) -> None:
        self.weigh = weigh
        self.domains: list[DomainCounts] = []
        self.retired = False
        """Dropped to stay within bounds and no longer kept up to date: ask the index again."""
        self.used = 0
        """The table's version when somebody last asked for it."""
        self._per_row: Ints = np.zeros(capacity, np.int64)
        self._size = size

    @property
    def per_row(self) -> Ints:
        return self._per_row[: self._size]

    def build(
        self, kinds: list[PodKind | None], pod_kinds: NDArray[np.int32], pod_rows: NDArray[np.int32]
    ) -> None:
        """Count all pods there are: `pod_kinds` and `pod_rows` have one entry per pod slot."""
        weigh = self.weigh
        weights = np.array([weigh(k) if k is not None else 0 for k in kinds], np.int64)
        if not weights.any():
            return
        used = np.flatnonzero(pod_kinds >= 0)
        per_pod = weights[pod_kinds[used]]
        counted = np.flatnonzero(per_pod)
        np.add.at(self._per_row, pod_rows[used[counted]], per_pod[counted])

    def resize(self, size: int, capacity: int) -> None:
        if capacity > len(self._per_row):
            grown = np.zeros(capacity, np.int64)
            grown[: len(self._per_row)] = self._per_row
            self._per_row = grown
            for domain in self.domains:
                domain.resize(capacity)
        self._size = size

    def add(self, row: int, amount: int) -> None:
        self._per_row[row] += amount
        for domain in self.domains:
            domain.add(row, amount)


class DomainCounts:
    """A `CountColumn` added up per value of a label, over the rows of a row set.

    A row counts for the domain it was last seen in until `refresh` moves it, so the sums always
    agree with the column, whatever happens to nodes in between.
    """

    __slots__ = (
        "_ids",
        "_node_counts",
        "_present",
        "_seen",
        "_table",
        "column",
        "domain_count",
        "label",
        "node_count",
        "retired",
        "rows",
        "sums",
        "total",
        "used",
    )

    def __init__(
        self, table: NodeTable, column: CountColumn, label: LabelColumn, rows: RowSet
    ) -> None:
        self.column = column
        self.label = label
        self.rows = rows
        self.sums: Ints = np.zeros(1, np.int64)
        """Per value of the label, the pods on the row set's nodes with that value; and one slot
        more, always 0, which ABSENT (-1) reaches from behind."""
        self.total = 0
        """The sum of `sums`."""
        self.domain_count = 0
        """Values of the label that nodes of the row set have."""
        self.node_count = 0
        """Nodes of the row set that have the label."""
        self.retired = False
        self.used = 0
        self._node_counts: Ints = np.zeros(0, np.int64)
        self._present: Rows | None = None
        self._ids: Rows = np.full(table.capacity, ABSENT, np.intp)
        self._table = table
        self._seen = -1

    def refresh(self) -> None:
        """Catch up with nodes that changed; pods are followed by `add`."""
        table = self._table
        self.used = self.column.used = table.version
        if self._seen == table.node_version:
            return
        self.rows.refresh()
        changed = table.rows_with_nodes_newer_than(self._seen)
        self._make_room(len(self.label.values))
        if len(changed) > _ONE_BY_ONE_MAX:
            self._add_up()
        else:
            for row in changed.tolist():
                self._move(row)
        self._present = None
        self._seen = table.node_version

    def resize(self, capacity: int) -> None:
        grown = np.full(capacity, ABSENT, np.intp)
        grown[: len(self._ids)] = self._ids
        self._ids = grown

    def add(self, row: int, amount: int) -> None:
        number = self._ids[row]
        if number >= 0:
            self.sums[number] += amount
            self.total += amount

    @property
    def present(self) -> Rows:
        """The values that nodes of the row set have, as numbers."""
        if self._present is None:
            self._present = np.flatnonzero(self._node_counts)
        return self._present

    def lowest(self) -> int:
        """The smallest sum of a domain that has nodes; 0 if there is no domain."""
        if self.domain_count == 0:
            return 0
        if self.domain_count == len(self._node_counts):
            return int(self.sums[:-1].min())
        return int(self.sums[self.present].min())

    def _make_room(self, size: int) -> None:
        known = len(self._node_counts)
        if size == known:
            return
        sums, node_counts = np.zeros(size + 1, np.int64), np.zeros(size, np.int64)
        sums[:known], node_counts[:known] = self.sums[:known], self._node_counts
        self.sums, self._node_counts = sums, node_counts

    def _add_up(self) -> None:
        mask = self.rows.mask
        ids = np.where(mask, self.label.ids, ABSENT)
        self._ids[: len(ids)] = ids
        chosen = np.flatnonzero(ids >= 0)
        chosen_ids = ids[chosen]
        self.node_count = len(chosen)
        size = len(self._node_counts)
        self._node_counts = np.bincount(chosen_ids, minlength=size)
        # As floats, which are exact below 2**53.
        sums = np.bincount(chosen_ids, weights=self.column.per_row[chosen], minlength=size + 1)
        self.sums = sums.astype(np.int64)
        self.total = int(self.sums.sum())
        self.domain_count = int(np.count_nonzero(self._node_counts))

    def _move(self, row: int) -> None:
        before = int(self._ids[row])
        after = int(self.label.ids[row]) if self.rows.mask[row] else ABSENT
        if before == after:
            return
        count = int(self.column.per_row[row])
        if before >= 0:
            self.sums[before] -= count
            self.total -= count
            self.node_count -= 1
            self._node_counts[before] -= 1
            self.domain_count -= int(self._node_counts[before] == 0)
        if after >= 0:
            self.sums[after] += count
            self.total += count
            self.domain_count += int(self._node_counts[after] == 0)
            self._node_counts[after] += 1
            self.node_count += 1
        self._ids[row] = after
