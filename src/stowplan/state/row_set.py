"""A set of nodes defined by what the nodes themselves say (labels, taints), kept as a mask.

Only rows whose node object changed are looked at again; pods coming and going change nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from stowplan.state.node_table import NodeTable

Mask = NDArray[np.bool_]
Member = Callable[["NodeTable", NDArray[np.intp]], Mask]
"""(table, rows) -> for each of these rows, whether its node belongs to the set."""

ALL_NODES = "all nodes"
"""The key of the row set of all nodes."""


def all_nodes(table: NodeTable, rows: NDArray[np.intp]) -> Mask:
    return np.ones(len(rows), np.bool_)


class RowSet:
    __slots__ = ("_mask", "_member", "_seen", "_size", "_table", "count")

    def __init__(self, table: NodeTable, member: Member) -> None:
        self._table = table
        self._member = member
        self._mask: Mask = np.zeros(0, np.bool_)
        self._size = 0
        self._seen = -1
        self.count = 0
        """How many nodes belong to the set."""

    @property
    def mask(self) -> Mask:
        return self._mask[: self._size]

    def refresh(self) -> None:
        table = self._table
        if self._seen == table.node_version:
            return
        rows = table.rows_with_nodes_newer_than(self._seen)
        if table.size > len(self._mask):
            grown = np.zeros(table.capacity, np.bool_)
            grown[: self._size] = self._mask[: self._size]
            self._mask = grown
        self._size = table.size
        if len(rows):
            fresh = table.alive[rows]
            living = rows[fresh]
            if len(living):
                fresh[fresh] = self._member(table, living)
            self._mask[rows] = fresh
            self.count = int(np.count_nonzero(self._mask))
        self._seen = table.node_version
