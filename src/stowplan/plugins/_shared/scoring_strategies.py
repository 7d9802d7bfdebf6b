"""The three ways NodeResourcesFit rates how full a node would be: spread out, pack, or by a curve.

A strategy rates one resource on one node (`rate`) or on many (`rates`); the rest, weighing the
resources against each other, is the same for all.  Mirrors kube-scheduler's
`noderesources/least_allocated.go`, `most_allocated.go` and `requested_to_capacity_ratio.go`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from stowplan.framework.status import MAX_NODE_SCORE, Scores
from stowplan.plugins._shared.resource_columns import Amounts, ResourceColumns, percent

_MAX_SHAPE_SCORE = 10


class Strategy(Protocol):
    counts_zero: bool
    """Whether a resource that is rated 0 weighs in.  If not, the mean is rounded as well."""

    def rate(self, requested: int, capacity: int) -> int: ...

    def rates(self, columns: ResourceColumns, amount: int) -> Amounts:
        """With `amount` on top of what is used; an array of its own."""


class LeastAllocated:
    counts_zero = True

    def rate(self, requested: int, capacity: int) -> int:
        free = capacity - requested
        return free * MAX_NODE_SCORE // capacity if free > 0 else 0

    def rates(self, columns: ResourceColumns, amount: int) -> Amounts:
        rated = columns.percent_left(amount)
        return np.maximum(rated, 0, out=rated) if amount > columns.least_free else rated


class MostAllocated:
    counts_zero = True

    def rate(self, requested: int, capacity: int) -> int:
        return requested * MAX_NODE_SCORE // capacity if requested < capacity else MAX_NODE_SCORE

    def rates(self, columns: ResourceColumns, amount: int) -> Amounts:
        return percent(_requested(columns, amount), columns.capacity)


class RequestedToCapacityRatio:
    """Utilization in whole percent is a number of 0..100, so the curve is a table."""

    counts_zero = False

    def __init__(self, shape: Sequence[tuple[int, int]]) -> None:
        """`shape`: points (utilization in percent, score of 0..10), by rising utilization."""
        self._scores = [score_at(shape, percent) for percent in range(101)]
        self._table = np.array(self._scores, np.float64)

    def rate(self, requested: int, capacity: int) -> int:
        percent = requested * 100 // capacity if requested < capacity else 100
        return self._scores[percent]

    def rates(self, columns: ResourceColumns, amount: int) -> Amounts:
        used = percent(_requested(columns, amount), columns.capacity)
        rated: Amounts = self._table[used.astype(np.intp)]
        return rated


def score_at(shape: Sequence[tuple[int, int]], percent: int) -> int:
    """The curve at one point.  Quotients are cut toward zero, on slopes that fall as well.

    >>> score_at([(0, 10), (50, 2), (100, 0)], 37)
    41
    """
    unit = MAX_NODE_SCORE // _MAX_SHAPE_SCORE
    before, low = shape[0][0], shape[0][1] * unit
    for utilization, score in shape:
        high = score * unit
        if percent <= utilization:
            if utilization == before:
                return high
            rise, run = (high - low) * (percent - before), utilization - before
            return low + (rise // run if rise >= 0 else -(-rise // run))
        before, low = utilization, high
    return low


def weigh_many(strategy: Strategy, parts: Sequence[tuple[int, int, ResourceColumns]]) -> Scores:
    """The weighted mean over (weight, amount, columns), one at least, of what each node has."""
    total: Amounts | None = None
    fixed_weight = 0
    weights: Amounts | None = None
    for weight, amount, columns in parts:
        rated = strategy.rates(columns, amount)
        counted = columns.present
        if not strategy.counts_zero:
            counted = rated > 0 if counted is None else counted & (rated > 0)
        if counted is None:
            fixed_weight += weight
        else:
            rated = rated * counted
            weighed = counted * weight
            weights = weighed if weights is None else weights + weighed
        if weight != 1:
            rated *= weight
        if total is None:
            total = rated
        elif rated.dtype == total.dtype:
            total += rated
        else:
            total = total + rated
    assert total is not None
    if weights is not None:
        total = total / np.maximum(weights + fixed_weight, 1)
    elif fixed_weight & (fixed_weight - 1) != 0:
        total = total / fixed_weight
    elif total.dtype.kind == "i":
        # A power of two, as by default: shifting is as exact, and faster; and so is multiplying.
        total >>= fixed_weight.bit_length() - 1
        return total
    else:
        total *= 1 / fixed_weight
    if not strategy.counts_zero:
        total += 0.5
    return total.astype(np.int64)


def _requested(columns: ResourceColumns, amount: int) -> Amounts:
    requested: Amounts = columns.used + amount
    return np.minimum(requested, columns.capacity, out=requested)
