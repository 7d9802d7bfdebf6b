"""State of a plugin per node: numbers that follow from a node and the pods on it.

    class Licences(PerNode):
        width = 1

        def work_out(self, node: NodeInfo) -> Sequence[int]:
            return [sum(wanted(pod) for pod in node.pods.values())]

`handle.shared(Licences)` is one table for all plugins of a profile.  Nothing has to be told to it:
pods that are assumed, bound by others or deleted are counted as the node table counts them, and a
node that preemption tries out without some of its pods is worked out as it is given.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.row_follower import RowFollower


class PerNode(ABC):
    width: int
    """How many numbers a node has."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._follower = RowFollower()
        self._columns: NDArray[np.int64] = np.zeros((0, self.width), np.int64)

    @abstractmethod
    def work_out(self, node: NodeInfo) -> Sequence[int]:
        """The numbers of a node with the pods it has here."""

    def columns(self) -> NDArray[np.int64]:
        """One row per node, up to date; to be read only.  Rows that hold no node are 0."""
        nodes = self._nodes
        changed = self._follower.changed(nodes)
        if changed is None:
            changed = range(nodes.size)
            self._columns = np.zeros((nodes.size, self.width), np.int64)
        for row in changed:
            node = nodes.infos[row]
            self._columns[row] = 0 if node is None else self.work_out(node)
        return self._columns

    def of(self, node: NodeInfo) -> Sequence[int]:
        """Of one node, as it is given."""
        if self._nodes.infos[node.row] is node:
            return self.columns()[node.row].tolist()  # type: ignore[no-any-return]
        return self.work_out(node)
