"""What nodes can hold of a resource, as numbers to divide by.

Scores divide by a node's allocatable amount, over and over and by the same numbers.  Kept here,
until a node changes: the column as floats, and what has to be known of it before dividing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stowplan.framework.status import NodeMask, Rows
from stowplan.objects.quantity import INT64_MAX
from stowplan.state.node_table import NodeTable

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_EXACT_MAX = 2**46
"""Below it a hundredfold is a whole number that float64 holds, so `floor(100 * a / b)` is exact."""


@dataclass(frozen=True, slots=True)
class Capacity:
    amounts: Floats
    """1 where the node has nothing of the resource, so that one can divide."""
    whole: Ints | None
    """The same as integers, where amounts are too large for exact percentages in floats."""
    present: NodeMask | None
    """Where the node has some of it; None: everywhere."""
    least: int
    """Of all nodes the smallest: who asks for no more, no node is too small for."""

    def at(self, rows: Rows | slice) -> Capacity:
        if isinstance(rows, slice) and rows == slice(0, len(self.amounts)):
            return self
        return Capacity(
            self.amounts[rows],
            None if self.whole is None else self.whole[rows],
            None if self.present is None else self.present[rows],
            self.least,
        )


class Capacities:
    """The capacities of one node table, by resource."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._seen = (-1, -1)
        self._kept: dict[str, Capacity] = {}

    def of(self, resource: str) -> Capacity:
        nodes = self._nodes
        now = nodes.node_version, nodes.size
        if now != self._seen:
            self._kept.clear()
            self._seen = now
        found = self._kept.get(resource)
        if found is None:
            found = self._kept[resource] = _capacity(nodes.allocatable(resource))
        return found


def _capacity(allocatable: Ints) -> Capacity:
    present = allocatable > 0
    divisors = np.where(present, allocatable, 1)
    large = bool(divisors.max(initial=0) >= _EXACT_MAX)
    return Capacity(
        divisors.astype(np.float64),
        divisors if large else None,
        None if present.all() else present,
        int(allocatable.min(initial=INT64_MAX)),
    )
