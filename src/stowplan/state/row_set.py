"""A set of nodes defined by what the nodes themselves say (labels, taints), kept as a mask.

Only rows whose node object changed are looked at again; pods coming and going change nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stowplan.state.row_follower import RowFollower

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
    __slots__ = ("_follower", "_member", "_table", "count", "mask")

    def __init__(self, table: NodeTable, member: Member) -> None:
        self._table = table
        self._member = member
        self._follower = RowFollower(of_nodes=True)
        self.mask: Mask = np.zeros(0, np.bool_)
        self.count = 0
        """How many nodes belong to the set."""

    def refresh(self) -> None:
        table = self._table
        changed = self._follower.changed(table)
        if changed is None:
            self.mask, rows = np.zeros(table.size, np.bool_), np.arange(table.size)
        elif changed:
            rows = np.fromiter(changed, np.intp, len(changed))
        else:
            return
        fresh = table.alive[rows]
        living = rows[fresh]
        if len(living):
            fresh[fresh] = self._member(table, living)
        self.mask[rows] = fresh
        self.count = int(np.count_nonzero(self.mask))
