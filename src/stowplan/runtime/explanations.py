"""What each plugin said about each node, for the last decisions: columns now, words on demand.

`core.algorithm` tells of every search (`Algorithm.explain`).  Copying the columns of a search takes
some 300 µs on 5,000 nodes, so there is a budget: a pod that fits nowhere is always explained, one
that was placed only as long as that takes about one per cent of the time.  Memory is bounded too.

`runtime.debug_pages` shows them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stowplan.core.algorithm import Search
from stowplan.framework.cycle import Cycle
from stowplan.framework.diagnosis import Diagnosis, Rejections
from stowplan.framework.runtime import Framework
from stowplan.framework.status import NodeMask, Rows, Status
from stowplan.queue import EXTENDER
from stowplan.state.pod_info import PodInfo

BYTES_MAX = 64 * 2**20
"""Some 300 placed pods, or 2,000 that fit nowhere, on 5,000 nodes."""
COUNT_MAX = 4096
"""Nor more than that on small clusters, where so much memory would take half an hour to fill."""
PER_SECOND = 20.0
BURST = 100.0
NODES_EACH = 5000
"""Explanations of placed pods: so many a second, and so many at once; fewer on larger clusters."""

Column = NDArray[Any]


class Explanation:
    """One search, true for ever: nothing in here belongs to the table any more."""

    __slots__ = ("_absent", "_candidates", "_names", "_overrides", "_rejections", "rows", "scores")

    def __init__(self, names: list[str], rows: Rows) -> None:
        self._names = names
        """Per row of the table as it was; empty where there was no node."""
        self.rows = rows
        """The feasible ones."""
        self.scores: dict[str, Column] = {}
        """Per plugin, its share of the total in the order of `rows`; empty when there was nothing
        to compare."""
        self._rejections: Rejections | None = None
        self._candidates: NodeMask | None = None
        self._overrides: dict[int, Status] = {}
        self._absent: Status | None = None

    @property
    def byte_count(self) -> int:
        columns: list[Any] = [self.rows, self._candidates, *self.scores.values()]
        if self._rejections is not None:
            found = self._rejections
            columns += [found.first, found.why, found.final]
        return 1000 + sum(getattr(column, "nbytes", 0) for column in columns)

    @property
    def name_width(self) -> int:
        return max(map(len, self._names), default=0)

    def turned_down(self, diagnosis: Diagnosis) -> None:
        """Keep why the other nodes were not feasible."""
        self._rejections = diagnosis.rejections
        candidates = diagnosis.candidates
        self._candidates = None if candidates is None else candidates.copy()
        self._overrides = dict(diagnosis.overrides)
        self._absent = diagnosis.absent

    def feasible(self, chosen: str) -> Iterator[tuple[str, dict[str, int]]]:
        """Each feasible node with its score per plugin: the chosen one, then the best."""
        order = np.argsort(-self.totals(), kind="stable").tolist()
        order.sort(key=lambda position: self._names[self.rows[position]] != chosen)
        for position in order:
            name = self._names[self.rows[position]]
            scores = {plugin: int(column[position]) for plugin, column in self.scores.items()}
            yield name, scores

    def totals(self) -> Column:
        total = np.zeros(len(self.rows), np.int64)
        for column in self.scores.values():
            total += column
        return total

    def rejected(self) -> Iterator[tuple[str, Status]]:
        """Each other node and why, as the table had them."""
        feasible = set(self.rows.tolist())
        for row, name in enumerate(self._names):
            if name and row not in feasible:
                status = self._status(row)
                if status is not None:
                    yield name, status

    def _status(self, row: int) -> Status | None:
        if row in self._overrides:
            return self._overrides[row]
        candidates, rejections = self._candidates, self._rejections
        if candidates is not None and candidates[row] and rejections is not None:
            return rejections.status(row)
        return self._absent


class Explanations:
    def __init__(self, bytes_max: int = BYTES_MAX, count_max: int = COUNT_MAX) -> None:
        self._kept: dict[str, Explanation] = {}
        """The oldest first."""
        self._bytes_max, self._count_max = bytes_max, count_max
        self._byte_count = 0
        self._paid_until_s = 0.0
        self._names: list[str] = []

    def of(self, key: str) -> Explanation | None:
        return self._kept.get(key)

    def note(self, framework: Framework, cycle: Cycle, pod: PodInfo, search: Search) -> None:
        """A search is over.  What was kept of an earlier one for this pod is no longer true."""
        before = self._kept.pop(pod.key, None)
        if before is not None:
            self._byte_count -= before.byte_count
        if search.row >= 0 and not self._affords(cycle):
            return
        explanation = self._explain(framework, cycle, search)
        self._kept[pod.key] = explanation
        self._byte_count += explanation.byte_count
        while self._is_too_much and len(self._kept) > 1:
            self._byte_count -= self._kept.pop(next(iter(self._kept))).byte_count

    @property
    def _is_too_much(self) -> bool:
        return self._byte_count > self._bytes_max or len(self._kept) > self._count_max

    def _explain(self, framework: Framework, cycle: Cycle, search: Search) -> Explanation:
        names = cycle.nodes.names
        if self._names != names:
            self._names = list(names)
        board = search.board
        rows = np.array([search.row] if search.row >= 0 else [], np.intp)
        if board is not None:
            rows = board.rows
        explanation = Explanation(self._names, rows.astype(np.int32))
        diagnosis = search.diagnosis
        if diagnosis is None and search.found is not None:
            diagnosis = framework.diagnose(cycle.nodes, search.found)
        if diagnosis is not None:
            explanation.turned_down(diagnosis)
        if board is not None:
            plugins = board.plugins
            explanation.scores = {name: _compact(board.of_plugin(name)) for name in plugins}
            rest = board.total - explanation.totals()
            if rest.any():
                explanation.scores[EXTENDER] = rest
        return explanation

    def _affords(self, cycle: Cycle) -> bool:
        """A bucket that fills with time, kept as the moment up to which it has been emptied."""
        now_s = cycle.handle.now()
        if self._paid_until_s > now_s + BURST / PER_SECOND:
            return False
        price = max(1.0, cycle.nodes.node_count / NODES_EACH)
        self._paid_until_s = max(self._paid_until_s, now_s) + price / PER_SECOND
        return True


def _compact(column: Column) -> Column:
    """In few bytes: nearly all scores fit into two of them."""
    fits = not len(column) or -(2**15) <= int(column.min()) <= int(column.max()) < 2**15
    return column.astype(np.int16 if fits else np.int64)
