"""Ranges of costs and sizes, which stop at what 64 bits hold."""

from __future__ import annotations

import math
from typing import NamedTuple

MAX = 2**64 - 1

Path = tuple[str, ...]
"""Where a value comes from: a variable's name, then fields, `@keys`, `@values` and `@items`."""


class Range(NamedTuple):
    """From the best to the worst case, of a cost or of a size."""

    low: int
    high: int

    def __add__(self, other: Range) -> Range:  # type: ignore[override]
        return Range(min(self.low + other.low, MAX), min(self.high + other.high, MAX))

    def __mul__(self, other: Range) -> Range:  # type: ignore[override]
        return Range(min(self.low * other.low, MAX), min(self.high * other.high, MAX))

    def union(self, other: Range) -> Range:
        return Range(min(self.low, other.low), max(self.high, other.high))

    def scaled(self, factor: float) -> Range:
        """Rounded up, as upstream does it in floating point."""
        return Range(_scaled(self.low, factor), _scaled(self.high, factor))


UNKNOWN = Range(0, MAX)


class Estimate(NamedTuple):
    cost: Range
    size: Range | None = None
    """Of the result, where the call says more of it than its type does."""


def fixed(value: int) -> Range:
    return Range(value, value)


def _scaled(value: int, factor: float) -> int:
    number = float(value)
    if number > 0 and factor > 0 and number > MAX / factor:
        return MAX
    return min(math.ceil(number * factor), MAX)
