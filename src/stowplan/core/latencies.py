"""Durations, counted into buckets: quantiles of millions of them in a few hundred bytes.

Buckets grow by a fixed factor, so a quantile is right within a tenth, from microseconds to
minutes.  Adding one is an append; they are sorted into buckets a few hundred at a time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

SHORTEST_S = 1e-6
BUCKETS_PER_DOUBLING = 8
BUCKETS = 32 * BUCKETS_PER_DOUBLING
"""From a microsecond to more than an hour."""

BUFFER_MAX = 512


class Latencies:
    __slots__ = ("_count", "_counts", "_max_s", "_sum_s", "buffer")

    def __init__(self) -> None:
        self.buffer: list[float] = []
        """Not sorted in yet."""
        self._counts: NDArray[np.int64] = np.zeros(BUCKETS, np.int64)
        self._count = 0
        self._sum_s = 0.0
        self._max_s = 0.0

    def add(self, seconds: float) -> None:
        self.buffer.append(seconds)
        if len(self.buffer) >= BUFFER_MAX:
            self.sort_in()

    def add_many(self, seconds: list[float]) -> None:
        self.buffer += seconds
        if len(self.buffer) >= BUFFER_MAX:
            self.sort_in()

    @property
    def count(self) -> int:
        return self._count + len(self.buffer)

    @property
    def sum_s(self) -> float:
        self.sort_in()
        return self._sum_s

    @property
    def max_s(self) -> float:
        self.sort_in()
        return self._max_s

    def quantile_s(self, share: float) -> float:
        """The duration that this share of all stayed within; 0 when there are none.

        >>> latencies = Latencies()
        >>> for n in range(100):
        ...     latencies.add(0.001 * n)
        >>> 0.085 < latencies.quantile_s(0.95) < 0.105
        True
        """
        self.sort_in()
        if not self._count:
            return 0.0
        rank = share * self._count
        below = np.cumsum(self._counts)
        bucket = int(np.searchsorted(below, rank))
        before = int(below[bucket - 1]) if bucket else 0
        part = (rank - before) / max(1, int(self._counts[bucket]))
        return min(float(_start_s(bucket + part)), self._max_s)

    def merge(self, other: Latencies) -> None:
        """Count what the other has counted as well."""
        other.sort_in()
        counts, count, sum_s, max_s = other.counted()
        self._counts += counts
        self._count += count
        self._sum_s += sum_s
        self._max_s = max(self._max_s, max_s)

    def counted(self) -> tuple[NDArray[np.int64], int, float, float]:
        """What was sorted in: per bucket, how many, sum and maximum."""
        return self._counts, self._count, self._sum_s, self._max_s

    def sort_in(self) -> None:
        if not self.buffer:
            return
        seconds = np.array(self.buffer)
        self.buffer.clear()
        places = np.log2(np.maximum(seconds, SHORTEST_S) / SHORTEST_S) * BUCKETS_PER_DOUBLING
        buckets = np.minimum(places.astype(np.int64), BUCKETS - 1)
        self._counts += np.bincount(buckets, minlength=BUCKETS)
        self._count += len(seconds)
        self._sum_s += float(seconds.sum())
        self._max_s = max(self._max_s, float(seconds.max()))


def _start_s(bucket: float) -> float:
    return float(SHORTEST_S * 2 ** (bucket / BUCKETS_PER_DOUBLING))
