"""Numbers counted into buckets: millions of them in a few hundred bytes.

What the metrics export, what hints take, and what `core.bottlenecks` reports.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Bounds, made as Prometheus' Go library makes them: the last digits are part of the label.

    >>> exponential(0.001, 2, 4)
    (0.001, 0.002, 0.004, 0.008)
    """
    bounds = []
    for _ in range(count):
        bounds.append(start)
        start *= factor
    return tuple(bounds)


@lru_cache(maxsize=64)
def _array(bounds: tuple[float, ...]) -> NDArray[np.float64]:
    return np.array(bounds)


class Histogram:
    __slots__ = ("bounds", "counts", "max", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """Per bucket, not cumulated; the last one is for what exceeds every bound."""
        self.sum = 0.0
        self.max = 0.0

    def observe(self, value: float, count: int = 1) -> None:
        """`count` times it was this."""
        self.counts[bisect_left(self.bounds, value)] += count
        self.sum += value * count
        if value > self.max:
            self.max = value

    def observe_many(self, values: list[float]) -> None:
        places = _array(self.bounds).searchsorted(values)
        added = np.bincount(places, minlength=len(self.counts)).tolist()
        self.counts = [count + more for count, more in zip(self.counts, added, strict=True)]
        self.sum += sum(values)
        self.max = max(self.max, max(values, default=0.0))

    def take(self, values: list[float]) -> None:
        """Count what has been collected, and empty the list."""
        if values:
            self.observe_many(values)
            values.clear()

    def merge(self, other: Histogram) -> None:
        self.counts = [one + more for one, more in zip(self.counts, other.counts, strict=True)]
        self.sum += other.sum
        self.max = max(self.max, other.max)

    @property
    def count(self) -> int:
        return sum(self.counts)

    def quantile(self, share: float) -> float:
        """What this share of all stayed within, interpolated; 0 when there are none.

        >>> histogram = Histogram((1.0, 2.0, 4.0))
        >>> for value in (0.5, 1.5, 1.5, 3.0):
        ...     histogram.observe(value)
        >>> histogram.quantile(0.5)
        1.5
        """
        rank, below, start = share * self.count, 0, 0.0
        for bound, count in zip(self.bounds, self.counts, strict=False):
            if below + count >= rank:
                return start + (bound - start) * (rank - below) / max(1, count)
            below += count
            start = bound
        return start
