"""Victims that are kept: what preemption found on each node, per kind of pod.

Where every filter with a say is node-local, who would have to go depends on the node, on the pods
nominated to it and on the disruption budgets alone.  So what was found stays true until one of
them changes, and the next pod of the same kind only asks about those nodes: it goes through
arrays, not through nodes.  Beside `framework.kept` for Filter and Score; `DefaultPreemption` uses
it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stowplan.framework.handle import Nominated
from stowplan.framework.status import NodeMask, Rows, Status
from stowplan.plugins.default_preemption.victims import Candidate, Refusal
from stowplan.state.node_table import NodeTable

Ask = Callable[[int, Refusal | None], Candidate | Refusal]
"""Row, why it was refused when it was last looked at -> whom to evict there, or why not."""

_UNKNOWN, _REFUSED, _VIOLATING, _CLEAN = range(4)
"""What is known of a row: nothing; no victims worth evicting; victims of whom a disruption budget
protects some, or none."""


class KeptVictims:
    __slots__ = ("_budgets", "_found", "_nominations", "_seen", "_seen_at", "_state", "_state_at")

    def __init__(self) -> None:
        self._nominations = 0
        self._budgets = -1
        self._resize(0)

    def _resize(self, size: int) -> None:
        self._found: list[Any] = [None] * size
        """Per row what was found when it was last looked at: a Candidate or a Refusal, or None."""
        self._seen: NDArray[np.int64] = np.full(size, -1, np.int64)
        """The version of the row's pods then."""
        self._state: NDArray[np.uint8] = np.full(size, _UNKNOWN, np.uint8)
        """What still holds of it."""
        # Views for single cells: an array takes twice as long for one.
        self._seen_at, self._state_at = self._seen.data, self._state.data

    def catch_up(self, nodes: NodeTable, nominated: Nominated, budgets_version: int) -> None:
        """Forget what is no longer true."""
        if len(self._seen) != nodes.size:
            self._resize(nodes.size)
        changed = nominated.nodes_changed_since(self._nominations)
        if changed is None or budgets_version != self._budgets:
            self._state[:] = _UNKNOWN
        else:
            for name in changed:
                self.forget(nodes.row_of.get(name))
            self._state[self._seen != nodes.row_pods_version] = _UNKNOWN
        self._nominations, self._budgets = nominated.version, budgets_version

    def forget(self, row: int | None) -> None:
        if row is not None:
            self._state_at[row] = _UNKNOWN

    def search(
        self, nodes: NodeTable, rows: Rows, wanted: int, ask: Ask
    ) -> tuple[list[Candidate], dict[int, Status]]:
        """The candidates among the rows, in this order, until there are enough of them.

        That is, `wanted` of which one is clean.  Clean ones come first.  With none at all, the
        reason for each row.
        """
        known = bytearray(self._state.take(rows))
        failures = self._ask_unknown(nodes, rows, known, wanted, ask)
        states = np.frombuffer(known, np.uint8)
        at = (states >= _VIOLATING).nonzero()[0]
        if not len(at):
            refused = rows[states == _REFUSED].tolist()
            return [], failures | {row: self._found[row].status for row in refused}
        if _VIOLATING not in known:
            return self._candidates(rows[at[:wanted]]), failures
        return self._clean_first(rows[at], states[at] == _CLEAN, wanted), failures

    def _candidates(self, rows: Rows) -> list[Candidate]:
        return list(map(self._found.__getitem__, rows.tolist()))

    def _clean_first(self, rows: Rows, is_clean: NodeMask, wanted: int) -> list[Candidate]:
        first_clean = int(is_clean.argmax())
        if is_clean[first_clean]:
            enough = max(wanted, first_clean + 1)
            rows, is_clean = rows[:enough], is_clean[:enough]
        clean, violating = rows[is_clean][:wanted], rows[~is_clean][:wanted]
        return self._candidates(clean) + self._candidates(violating)

    def _ask_unknown(
        self, nodes: NodeTable, rows: Rows, known: bytearray, wanted: int, ask: Ask
    ) -> dict[int, Status]:
        """Ask about the rows of which nothing is known, as far as need be.

        Notes in `known` the states of the rows that were asked about; returns what went wrong.
        """
        failures: dict[int, Status] = {}
        versions = nodes.row_pods_version.data
        at = known.find(_UNKNOWN)
        while at >= 0:
            clean_count = known.count(_CLEAN, 0, at)
            if clean_count and clean_count + known.count(_VIOLATING, 0, at) >= wanted:
                break
            row = int(rows[at])
            before = self._found[row]
            found = ask(row, before if isinstance(before, Refusal) else None)
            if not isinstance(found, Refusal):
                state = _VIOLATING if found.violations else _CLEAN
            elif found.status.is_rejected:
                state = _REFUSED
            else:
                state = _UNKNOWN  # A plugin failed: it may not the next time.
                failures[row] = found.status
            if state != _UNKNOWN:
                known[at] = self._state_at[row] = state
                self._found[row], self._seen_at[row] = found, versions[row]
            at = known.find(_UNKNOWN, at + 1)
        return failures
