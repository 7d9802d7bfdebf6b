"""What nodes have of a resource, what is taken of it and what is left, as numbers to reckon with.

Where no two pods are alike in size, filters and scores go over all nodes for every pod, and
always over the same columns.  Kept here, as floats, and brought up to date where rows changed; with
the least that any node has left, which mostly tells without looking that a pod fits everywhere.
NodeResourcesFit and NodeResourcesBalancedAllocation share them (`Handle.shared`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stowplan.framework.status import NodeMask, Rows, row_numbers
from stowplan.objects.quantity import INT64_MAX
from stowplan.objects.resources import CPU, MEMORY, PODS
from stowplan.state.node_table import NodeTable
from stowplan.state.row_follower import FEW, ROWS_PER_CHANGE, RowFollower

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
ShortInts = NDArray[np.int32]
Amounts = NDArray[Any]
"""float64, or int64 where float64 would not be exact."""

_EXACT_MAX = 2**46
"""Below it a hundredfold is a whole number that float64 holds, so `floor(100 * a / b)` is exact."""
_PERCENT_MIN = -(2**29)
"""Twice as much is still a 32-bit number."""
_COLUMNS_MAX = 64


@dataclass(slots=True)
class ResourceColumns:
    """Of one resource, per row."""

    capacity: Amounts
    """1 where the node has nothing of the resource, so that one can divide.  A single number where
    all nodes have the same: there is less to read then."""
    used: Amounts
    free: Amounts
    """Below 0 where more is used than there is."""
    percent: tuple[ShortInts, Floats] | None
    """`100 * free` divided by the capacity, and what that leaves over; None where the nodes do not
    all have the same capacity, or these types would not be exact."""
    present: NodeMask | None
    """Where the node has some of it; None: everywhere."""
    least_capacity: int
    """Of all nodes the smallest: who asks for no more, no node is too small for."""
    least_free: int
    """No node has less left; it may be that none has so little."""

    def percent_left(self, amount: int) -> Amounts:
        """What is free once `amount` is taken, in whole percent; an array of its own."""
        if self.percent is None:
            return percent(self.free - amount, self.capacity)
        # Without dividing: one less where what is left over does not cover that of the amount.
        free, over = self.percent
        whole, rest = divmod(100 * amount, int(self.capacity[0]))
        left = free - min(whole, -_PERCENT_MIN)
        left -= over < rest
        return left

    def at(self, rows: Rows | slice) -> ResourceColumns:
        """Of these rows; a slice stands for all."""
        if isinstance(rows, slice):
            return self
        return ResourceColumns(
            self.capacity if len(self.capacity) == 1 else self.capacity[rows],
            self.used[rows],
            self.free[rows],
            None if self.percent is None else (self.percent[0][rows], self.percent[1][rows]),
            None if self.present is None else self.present[rows],
            self.least_capacity,
            self.least_free,
        )


class _Followed(NamedTuple):
    """Columns with views of them, and of those they are taken from, for single cells."""

    columns: ResourceColumns
    source_at: memoryview
    total_at: memoryview
    used_at: memoryview
    free_at: memoryview
    percent_at: Any
    over_at: Any
    """Both, or None."""


class ResourceTable:
    """The columns of one node table, by resource; `catch_up` first, then ask."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._follower = RowFollower()
        self._seen = -1
        self._requested: dict[str, ResourceColumns] = {}
        self._scored: dict[str, ResourceColumns] = {}
        self._followed: list[_Followed] = []
        self._alike: list[tuple[memoryview, memoryview]] = []
        """Columns that are equal as long as all pods say what they request: two in one."""

    def of(self, resource: str) -> ResourceColumns:
        """What requests take, and leave; of `pods`, how many there are."""
        return self._requested.get(resource) or self._make(resource, self._requested)

    def by_score(self, resource: str) -> ResourceColumns:
        """With the defaults that scores count for containers without requests."""
        return self._scored.get(resource) or self._make(resource, self._scored)

    def catch_up(self) -> None:
        nodes = self._nodes
        if self._seen == nodes.version:
            return
        self._seen = nodes.version
        basis = nodes.node_version, nodes.columns_version
        at_most = FEW + nodes.size // ROWS_PER_CHANGE
        changed = self._follower.changed(nodes, basis, at_most)
        if changed is None:
            self._forget()
        elif len(changed) > FEW:
            self._follow_many(row_numbers(changed))
        else:
            self._follow_few(changed)

    def _follow_few(self, changed: Collection[int]) -> None:
        for row in changed:
            for one, other in self._alike:
                if one[row] != other[row]:
                    self._forget()
                    return
            for (
                columns,
                source_at,
                total_at,
                used_at,
                free_at,
                percent_at,
                over_at,
            ) in self._followed:
                used_at[row] = used = source_at[row]
                total = total_at[row]
                free_at[row] = free = total - used
                if free < columns.least_free:
                    columns.least_free = free
                if percent_at is not None:
                    in_percent, over_at[row] = divmod(100 * free, total)
                    if in_percent < _PERCENT_MIN:
                        self._forget()
                        return
                    percent_at[row] = in_percent

    def _follow_many(self, rows: Rows) -> None:
        for one, other in self._alike:
            if (np.asarray(one)[rows] != np.asarray(other)[rows]).any():
                self._forget()
                return
        for columns, source_at, total_at, *_ in self._followed:
            total, used = np.asarray(total_at)[rows], np.asarray(source_at)[rows]
            free = total - used
            if free.min() <= -_EXACT_MAX:
                self._forget()
                return
            columns.used[rows], columns.free[rows] = used, free
            columns.least_free = min(columns.least_free, int(free.min()))
            if columns.percent is not None:
                in_percent, over = np.divmod(100 * free, total)
                if in_percent.min() < _PERCENT_MIN:
                    self._forget()
                    return
                columns.percent[0][rows], columns.percent[1][rows] = in_percent, over

    def _forget(self) -> None:
        self._requested.clear()
        self._scored.clear()
        self._followed.clear()
        self._alike.clear()

    def _make(self, resource: str, kept: dict[str, ResourceColumns]) -> ResourceColumns:
        if len(self._followed) == _COLUMNS_MAX:
            self._forget()
        nodes = self._nodes
        totals, used = nodes.allocatable(resource).copy(), nodes.requested(resource)
        if resource == PODS:
            used = nodes.pod_count
        elif kept is self._scored and resource in (CPU, MEMORY):
            requested = used
            used = nodes.nonzero_milli_cpu if resource == CPU else nodes.nonzero_memory
            if np.array_equal(used, requested):
                self._alike.append((used.data, requested.data))
                columns = kept[resource] = self.of(resource)
                return columns
        columns = kept[resource] = make_columns(totals, used)
        views = used.data, totals.data, columns.used.data, columns.free.data
        if columns.percent is None or resource == PODS:
            # Nobody rates how many pods there are.
            columns.percent = None
            self._followed.append(_Followed(columns, *views, None, None))
        else:
            percent_of, over = columns.percent
            self._followed.append(_Followed(columns, *views, percent_of.data, over.data))
        return columns


def make_columns(totals: Ints, used: Ints) -> ResourceColumns:
    present, free = totals > 0, totals - used
    capacity = np.where(present, totals, 1)
    dtype = np.int64 if capacity.max(initial=0) >= _EXACT_MAX else np.float64
    in_percent = None
    if len(totals) and totals[0] > 0 and (totals == totals[0]).all():
        capacity = capacity[:1]
        if dtype == np.float64 and free.min() > -_EXACT_MAX:
            quotient, over = np.divmod(100 * free, capacity)
            if quotient.min() >= _PERCENT_MIN:
                in_percent = quotient.astype(np.int32), over.astype(np.float64)
    return ResourceColumns(
        capacity.astype(dtype),
        used.astype(dtype),
        free.astype(dtype),
        in_percent,
        None if present.all() else present,
        int(totals.min(initial=INT64_MAX)),
        int(free.min(initial=INT64_MAX)),
    )


def percent(part: Amounts, whole: Amounts) -> Amounts:
    """`100 * part // whole`, written over `part`."""
    part *= 100
    if part.dtype == np.int64:
        part //= whole
        return part
    part /= whole
    return np.floor(part, out=part)
