"""Which of the live decisions are explained: as many as there is time and memory for.

`core.schedule_one` tells of every search.  Copying the columns of one takes some 300 µs on 5,000
nodes, so there is a budget: a pod that fits nowhere is always explained, one that was placed only
as long as that takes about one per cent of the time.  Memory is bounded too: the oldest decisions
lose their explanations first.
"""

from __future__ import annotations

import numpy as np

from stowplan.core.algorithm import Search
from stowplan.core.decision import Decision
from stowplan.core.explanation import Explanation
from stowplan.framework.cycle import Cycle
from stowplan.framework.runtime import Framework

BYTES_MAX = 64 * 2**20
"""Some 300 placed pods, or 2,000 that fit nowhere, on 5,000 nodes."""
COUNT_MAX = 4096
"""Nor more than that on small clusters, where so much memory would take half an hour to fill."""
PER_SECOND = 20.0
BURST = 100.0
NODES_EACH = 5000
"""Explanations of placed pods: so many a second, and so many at once; fewer on larger clusters."""


class Explanations:
    def __init__(self, bytes_max: int = BYTES_MAX, count_max: int = COUNT_MAX) -> None:
        self._kept: dict[str, Decision] = {}
        """Those with an explanation, the oldest first."""
        self._bytes_max, self._count_max = bytes_max, count_max
        self._byte_count = 0
        self._paid_until_s = 0.0
        self._names: list[str] = []

    def note(self, framework: Framework, cycle: Cycle, decision: Decision, search: Search) -> None:
        """A search is over.  An earlier one for this pod is no longer of interest."""
        self._drop(decision.pod)
        if search.row >= 0 and not self._affords(cycle):
            return
        decision.detail = self._explain(framework, cycle, search)
        self._kept[decision.pod] = decision
        self._byte_count += decision.detail.byte_count
        while self._is_too_much and len(self._kept) > 1:
            self._drop(next(iter(self._kept)))

    def _drop(self, pod: str) -> None:
        decision = self._kept.pop(pod, None)
        if decision is not None and decision.detail is not None:
            self._byte_count -= decision.detail.byte_count
            decision.detail = None

    @property
    def _is_too_much(self) -> bool:
        return self._byte_count > self._bytes_max or len(self._kept) > self._count_max

    def _explain(self, framework: Framework, cycle: Cycle, search: Search) -> Explanation:
        names = cycle.nodes.names
        if self._names != names:
            self._names = list(names)
        board, diagnosis = search.board, search.diagnosis
        if board is not None:
            rows = board.rows
        else:
            rows = np.array([search.row] if search.row >= 0 else [], np.intp)
        if diagnosis is None and search.found is not None:
            diagnosis = framework.diagnose(cycle.nodes, search.found)
        return Explanation(self._names, rows, diagnosis, board)

    def _affords(self, cycle: Cycle) -> bool:
        """A bucket that fills with time, kept as the moment up to which it has been emptied."""
        now_s = cycle.handle.now()
        if self._paid_until_s > now_s + BURST / PER_SECOND:
            return False
        price = max(1.0, cycle.nodes.node_count / NODES_EACH)
        self._paid_until_s = max(self._paid_until_s, now_s) + price / PER_SECOND
        return True
