"""Verdicts that go by the value of one label, kept while nodes stay as they are.

With three zones a filter has at most eight things to say, and says them again and again.
"""

from __future__ import annotations

import numpy as np

from stowplan.framework.status import Verdict
from stowplan.state.label_column import LabelColumn
from stowplan.state.node_table import NodeTable

_KEPT_MAX = 16

VALUES_MAX = 64
"""Labels with more values are for arrays: it is not worth while to remember what they lead to."""


class KeptVerdicts:
    def __init__(self, reasons: tuple[str, ...], unresolvable: int) -> None:
        """`unresolvable`: the number of the reason that is final, from 1 on."""
        self._reasons = reasons
        self._unresolvable = unresolvable
        self._node_version = -1
        self._known: dict[tuple[LabelColumn, bytes], Verdict] = {}

    def of(self, nodes: NodeTable, label: LabelColumn, why: bytes) -> Verdict:
        """The verdict on all rows; `why` has a byte per value and one for nodes without the label.

        A byte is the number of a reason, from 1 on, or 0.
        """
        if self._node_version != nodes.node_version:
            self._known.clear()
            self._node_version = nodes.node_version
        key = (label, why)
        found = self._known.get(key)
        if found is None:
            if len(self._known) == _KEPT_MAX:
                self._known.clear()
            found = self._known[key] = self._make(nodes, label, why)
        return found

    def _make(self, nodes: NodeTable, label: LabelColumn, why: bytes) -> Verdict:
        numbers = np.frombuffer(why, np.uint8)
        per_row = numbers.take(label.ids)
        bits = np.array([0, *(1 << n for n in range(len(self._reasons)))], np.uint32)
        present = label.present(nodes.alive, nodes.node_version)
        found, final = bits.take(per_row), per_row == self._unresolvable
        found.setflags(write=False)
        final.setflags(write=False)
        return Verdict(self._reasons, found, final, all_passed=not numbers[present].any())
