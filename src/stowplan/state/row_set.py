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


class RowSet:
    __slots__ = ("_mask", "_member", "_seen", "_size", "_table", "version")

    def __init__(self, table: NodeTable, member: Member) -> None:
        self._table = table
        self._member = member
        self._mask: Mask = np.zeros(0, np.bool_)
        self._size = 0
        self._seen = -1
        self.version = 0
        """Grows whenever the set changes."""

    @property
    def mask(self) -> Mask:
        return self._mask[: self._size]

    def refresh(self) -> None:
        table = self._table
        if self._seen == table.node_version and self._size == table.size:
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
            # A node that is new to its domain matters even where the mask stays the same.
            self.version += 1
            self._mask[rows] = fresh
        self._seen = table.node_version
