"""Victims that are kept: what preemption found on each node, per kind of pod.

Where every filter with a say is node-local, who would have to go depends on the node, on the pods
nominated to it and on the disruption budgets alone.  So what was found stays true until one of
them changes, and the next pod of the same kind only asks about those nodes: it goes through
arrays, not through nodes.  Beside `framework.kept` for Filter and Score; `DefaultPreemption` uses
it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from stowplan.framework.handle import Nominated
from stowplan.framework.status import NodeMask, Rows, Status
from stowplan.plugins._shared.victims import Candidate
from stowplan.state.node_table import NodeTable

Ask = Callable[[int], Candidate | Status]
"""Row -> whom to evict there, or why that would not help."""


class KeptVictims:
    __slots__ = ("_budgets", "_found", "_is_clean", "_is_refused", "_nominations", "_seen")

    def __init__(self) -> None:
        self._nominations = 0
        self._budgets = -1
        self._resize(0)

    def _resize(self, size: int) -> None:
        self._found: NDArray[np.object_] = np.empty(size, np.object_)
        """Per row a Candidate, or the Status of a row that has no victims worth evicting."""
        self._seen: NDArray[np.int64] = np.full(size, -1, np.int64)
        """The version of the row for which its answer holds; -1: there is none."""
        self._is_refused: NodeMask = np.zeros(size, np.bool_)
        """Rows known to have no victims worth evicting."""
        self._is_clean: NodeMask = np.zeros(size, np.bool_)
        """Rows whose victims no disruption budget protects, as of `_seen`."""

    def catch_up(self, nodes: NodeTable, nominated: Nominated, budgets_version: int) -> None:
        """Forget what is no longer true."""
        if len(self._seen) != nodes.size:
            self._resize(nodes.size)
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

    def search(
        self, nodes: NodeTable, rows: Rows, wanted: int, ask: Ask
    ) -> tuple[list[Candidate], dict[int, Status]]:
        """The candidates among the rows, in this order, until there are enough of them.

        That is, `wanted` of which one is clean.  Clean ones come first.  With none at all, the
        reason for each row.
        """
        left = rows[~self._is_refused[rows]]
        is_known = self._seen[left] == nodes.row_version[left]
        statuses = self._ask_unknown(nodes, left, is_known, wanted, ask)
        left = left[is_known]
        is_clean = self._is_clean[left]
        clean_at = is_clean.nonzero()[0]
        if len(clean_at):
            enough = max(wanted, int(clean_at[0]) + 1)
            left, is_clean = left[:enough], is_clean[:enough]
        clean: list[Candidate] = self._found[left[is_clean]][:wanted].tolist()
        violating: list[Candidate] = self._found[left[~is_clean]][:wanted].tolist()
        candidates = clean + violating
        if not candidates:
            refused = rows[self._is_refused[rows]]
            statuses |= zip(refused.tolist(), self._found[refused].tolist(), strict=True)
        return candidates, statuses

    def _ask_unknown(
        self, nodes: NodeTable, rows: Rows, is_known: NodeMask, wanted: int, ask: Ask
    ) -> dict[int, Status]:
        """Ask about the rows of which nothing is known, as far as need be.

        Notes candidates in `is_known`, returns the refusals.
        """
        unknown = (~is_known).nonzero()[0].tolist()
        statuses: dict[int, Status] = {}
        if not unknown:
            return statuses
        clean_at = (is_known & self._is_clean[rows]).nonzero()[0]
        first_clean = int(clean_at[0]) if len(clean_at) else len(rows)
        found_count = 0
        for n, at in enumerate(unknown):
            # All but n of the rows before this one are known.
            if at - n + found_count >= wanted and first_clean < at:
                break
            row = int(rows[at])
            found = ask(row)
            self._put(nodes, row, found)
            if isinstance(found, Status):
                statuses[row] = found
            else:
                is_known[at] = True
                found_count += 1
                if not found.violations:
                    first_clean = min(first_clean, at)
        return statuses

    def _put(self, nodes: NodeTable, row: int, found: Candidate | Status) -> None:
        if isinstance(found, Status):
            if not found.is_rejected:
                return  # A plugin failed: it may not the next time.
            self._is_refused[row] = True
        else:
            self._is_clean[row] = not found.violations
        self._found[row] = found
        self._seen[row] = nodes.version_of(row)
