"""Victims that are kept: what preemption found on each node, per kind of pod.

Where every filter with a say is node-local, who would have to go depends on the node, on the pods
nominated to it and on the disruption budgets alone.  So what was found stays true until one of
them changes, and the next pod of the same kind only asks about those nodes.  Beside
`framework.kept` for Filter and Score; `DefaultPreemption` uses it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from stowplan.framework.handle import Nominated
from stowplan.framework.status import NodeMask, Rows, Status
from stowplan.plugins._shared.victims import Candidate
from stowplan.state.node_table import NodeTable


class KeptVictims:
    __slots__ = ("_budgets", "_found", "_is_refused", "_nominations", "_seen")

    def __init__(self) -> None:
        self._found: dict[int, Candidate | Status] = {}
        self._seen: NDArray[np.int64] = np.zeros(0, np.int64)
        """The version of the row for which its answer holds; -1: there is none."""
        self._is_refused: NodeMask = np.zeros(0, np.bool_)
        """Rows known to have no victims worth evicting."""
        self._nominations = 0
        self._budgets = -1

    def catch_up(self, nodes: NodeTable, nominated: Nominated, budgets_version: int) -> None:
        """Forget what is no longer true."""
        if len(self._seen) != nodes.size:
            self._seen = np.full(nodes.size, -1, np.int64)
            self._is_refused = np.zeros(nodes.size, np.bool_)
            self._found.clear()
        changed = nominated.nodes_changed_since(self._nominations)
        if changed is None or budgets_version != self._budgets:
            self._seen[:] = -1
        else:
            for name in changed:
                self.forget(nodes.row_of.get(name))
        self._is_refused &= self._seen == nodes.row_version
        self._nominations, self._budgets = nominated.version, budgets_version

    def forget(self, row: int | None) -> None:
        if row is not None:
            self._seen[row] = -1
            self._is_refused[row] = False

    def known(self, nodes: NodeTable, rows: Rows) -> Iterator[tuple[int, Candidate | None]]:
        """The rows in this order, each with its candidate as far as known; without the refused."""
        rows = rows[~self._is_refused[rows]]
        fresh = self._seen[rows] == nodes.row_version[rows]
        for row, is_fresh in zip(rows.tolist(), fresh.tolist(), strict=True):
            found = self._found[row] if is_fresh else None
            yield row, found if isinstance(found, Candidate) else None

    def put(self, nodes: NodeTable, row: int, found: Candidate | Status) -> None:
        if isinstance(found, Status):
            if not found.is_rejected:
                return  # A plugin failed: it may not the next time.
            self._is_refused[row] = True
        self._found[row] = found
        self._seen[row] = nodes.version_of(row)

    def refusals(self, rows: Rows) -> dict[int, Status]:
        """Why not, of the rows that `known` leaves out."""
        found = ((row, self._found[row]) for row in rows[self._is_refused[rows]].tolist())
        return {row: status for row, status in found if isinstance(status, Status)}
