"""Which decisions can be explained afterwards: the last ones, within a budget of time and memory.

`core.algorithm` tells of every search (`Algorithm.explain`).  Copying the columns of a search takes
some 300 µs on 5,000 nodes, so there is a budget: a pod that fits nowhere is always explained, one
that was placed only as long as that takes about one per cent of the time.  Memory is bounded too:
the oldest decisions lose their explanation and stay brief.

`runtime.debug_pages` shows them.
"""

from __future__ import annotations

from stowplan.core.algorithm import Search
from stowplan.core.decision import Decision
from stowplan.core.explanation import Explainer
from stowplan.framework.cycle import Cycle
from stowplan.framework.runtime import Framework
from stowplan.state.pod_info import PodInfo

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
        self._explainer = Explainer()
        self._explained: dict[str, tuple[Decision, int]] = {}
        """By pod: the decision that holds its explanation, and how many bytes that takes.  The
        oldest first."""
        self._bytes_max, self._count_max = bytes_max, count_max
        self._byte_count = 0
        self._paid_until_s = 0.0

    def note(
        self, framework: Framework, cycle: Cycle, pod: PodInfo, search: Search, decision: Decision
    ) -> None:
        """A search is over: explain it, if that can be afforded."""
        if pod.key in self._explained:
            self._drop(pod.key)
        if search.row >= 0 and not self._affords(cycle):
            return
        explanation = self._explainer.copy(framework, cycle, pod, search)
        decision.explanation = explanation
        self._explained[pod.key] = decision, explanation.byte_count
        self._byte_count += explanation.byte_count
        while self._is_too_much and len(self._explained) > 1:
            self._drop(next(iter(self._explained)))

    def _drop(self, key: str) -> None:
        decision, byte_count = self._explained.pop(key)
        decision.explanation = None
        self._byte_count -= byte_count

    @property
    def _is_too_much(self) -> bool:
        return self._byte_count > self._bytes_max or len(self._explained) > self._count_max

    def _affords(self, cycle: Cycle) -> bool:
        """A bucket that fills with time, kept as the moment up to which it has been emptied."""
        now_s = cycle.handle.now()
        if self._paid_until_s > now_s + BURST / PER_SECOND:
            return False
        price = max(1.0, cycle.nodes.node_count / NODES_EACH)
        self._paid_until_s = max(self._paid_until_s, now_s) + price / PER_SECOND
        return True
