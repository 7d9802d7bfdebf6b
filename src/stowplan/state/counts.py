"""Pods per node and per topology domain, counted once and then kept up to date.

Topology spread and pod affinity ask the same question in many forms: how many pods of some sort
are on each node, and in each zone?  A `CountColumn` is the answer per node for one sort of pods;
`DomainCounts` adds it up per value of a node label.  Both are built with a few array operations
and from then on change only where a pod came or went.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stowplan.state.label_column import LabelColumn
from stowplan.state.pod_info import PodKind

if TYPE_CHECKING:
    from stowplan.state.row_set import RowSet

Weigh = Callable[[PodKind], int]
"""How often a pod of this kind counts: 0, 1, or more when it carries a term several times."""

Ints = NDArray[np.int64]


class CountColumn:
    """For one sort of pods, their number on every node."""

    __slots__ = ("_per_row", "_size", "domains", "weigh")

    def __init__(self, weigh: Weigh, capacity: int) -> None:
        self.weigh = weigh
        self._per_row: Ints = np.zeros(capacity, np.int64)
        self._size = 0
        self.domains: list[DomainCounts] = []

    @property
    def per_row(self) -> Ints:
        return self._per_row[: self._size]

    def build(
        self, kinds: list[PodKind | None], pod_kinds: NDArray[np.int32], pod_rows: NDArray[np.int32]
    ) -> None:
        """Count all pods there are: `pod_kinds` and `pod_rows` have one entry per pod slot."""
        weights = np.array([self.weigh(k) if k is not None else 0 for k in kinds], np.int64)
        self._per_row[:] = 0
        if len(kinds) == 0 or not weights.any():
            return
        used = np.flatnonzero(pod_kinds >= 0)
        per_pod = weights[pod_kinds[used]]
        counted = per_pod != 0
        np.add.at(self._per_row, pod_rows[used][counted], per_pod[counted])

    def resize(self, size: int, capacity: int) -> None:
        if capacity > len(self._per_row):
            grown = np.zeros(capacity, np.int64)
            grown[: len(self._per_row)] = self._per_row
            self._per_row = grown
        self._size = size

    def add(self, row: int, amount: int) -> None:
        self._per_row[row] += amount
        for domain in self.domains:
            domain.add(row, amount)

    def clear_row(self, row: int) -> None:
        """The node is gone, and its pods with it.  (Domains notice by their row set's version.)"""
        self._per_row[row] = 0
        for domain in self.domains:
            domain.stale = True


class DomainCounts:
    """A `CountColumn` added up per value of a label, over the rows of a row set."""

    __slots__ = (
        "_label_version",
        "_rows_version",
        "column",
        "label",
        "present",
        "rows",
        "stale",
        "sums",
    )

    def __init__(self, column: CountColumn, label: LabelColumn, rows: RowSet) -> None:
        self.column = column
        self.label = label
        self.rows = rows
        self.sums: Ints = np.zeros(0, np.int64)
        """Per value of the label, the pods on the row set's nodes with that value."""
        self.present: NDArray[np.bool_] = np.zeros(0, np.bool_)
        """Per value of the label, whether any node of the row set has it."""
        self._label_version = self._rows_version = -1
        self.stale = True

    def refresh(self) -> None:
        """Add up anew if nodes, labels or the row set changed; pods are followed by `add`."""
        current = (
            not self.stale
            and self._label_version == self.label.version
            and self._rows_version == self.rows.version
        )
        if current:
            return
        ids = self.label.ids
        chosen = self.rows.mask & (ids >= 0)
        size = len(self.label.values)
        chosen_ids = ids[chosen]
        per_row = self.column.per_row[chosen]
        self.sums = np.bincount(chosen_ids, weights=per_row, minlength=size).astype(np.int64)
        self.present = np.bincount(chosen_ids, minlength=size) > 0
        self._label_version, self._rows_version = self.label.version, self.rows.version
        self.stale = False

    def add(self, row: int, amount: int) -> None:
        if self.stale or self._label_version != self.label.version:
            return
        number = int(self.label.ids[row])
        if number >= 0 and self.rows.mask[row]:
            self.sums[number] += amount

    def per_row(self) -> Ints:
        """Per node, the sum of its domain; 0 where the node lacks the label."""
        if not len(self.sums):
            return np.zeros(len(self.label.ids), np.int64)
        ids = self.label.ids
        return np.where(ids >= 0, self.sums[ids], 0)
