"""Nodes with nominated pods: which of them a pod does not fit on, kept per kind of pod.

A pod must fit beside the equally or more important pods that were promised the node.  To find out,
they are put on a copy of the node and the filters are run once more.  Where the filters are
node-local the answer stays true until the node or its nominations change.  `Framework` asks.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from stowplan.framework.handle import Nominated
from stowplan.framework.status import Status
from stowplan.state.node_table import NodeTable


class KeptNominations:
    __slots__ = ("_refused", "_seen", "_version")

    def __init__(self) -> None:
        self._seen: NDArray[np.int64] = np.zeros(0, np.int64)
        """The version of the row for which its answer holds; -1: there is none."""
        self._refused: dict[int, Status] = {}
        """Row -> why the pod does not fit there, as of `_seen`."""
        self._version = 0

    def catch_up(self, nodes: NodeTable, nominated: Nominated) -> None:
        """Forget what nominations changed."""
        changed = nominated.nodes_changed_since(self._version)
        if changed is None or len(self._seen) != nodes.size:
            self._seen = np.full(nodes.size, -1, np.int64)
            self._refused.clear()
        else:
            rows = [nodes.row_of[name] for name in changed if name in nodes.row_of]
            self._seen[rows] = -1
        self._version = nominated.version

    def refused(
        self, nodes: NodeTable, rows: list[int], ask: Callable[[int], Status | None]
    ) -> dict[int, Status]:
        """Which of these rows the pod does not fit on, and why; `ask` is called where unknown."""
        found = self._refused
        asked = np.array(rows, np.intp)
        for row in asked[self._seen[asked] != nodes.row_version[asked]].tolist():
            status = ask(row)
            if status is None:
                found.pop(row, None)
            else:
                found[row] = status
            self._seen[row] = nodes.version_of(row)
        return {row: found[row] for row in rows if row in found}
