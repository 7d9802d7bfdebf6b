"""Answers that are kept: what node-local plugins said about every node, per kind of pod.

A plugin with a `signature` answers for a node from the pod and that node alone.  So its answers
stay true until the node changes: for the next pod with the same signatures only the rows that
changed since are asked about again, a few one by one, many as arrays.  This is where the speed
comes from; `Framework` merges the kept answers with those of the cluster-wide plugins.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stowplan.framework.cycle import Cycle
from stowplan.framework.errors import filter_failed
from stowplan.framework.one_by_one import filter_rows, score_one_by_one
from stowplan.framework.plan import Plan
from stowplan.framework.status import Code, NodeMask, Rows, Scores, Status, Verdict
from stowplan.framework.timing import SUCCESS, Recorder
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import PodInfo

ONE_BY_ONE_MAX = 3
"""Up to so many changed rows are asked about singly: cheaper than arrays of that length."""


class _Filter(NamedTuple):
    number: int
    name: str
    ask: Callable[[Cycle, PodInfo, NodeInfo], Status | None]


class _Score(NamedTuple):
    name: str
    weight: int
    """0 when the scores are normalised first: they are no part of the kept sum."""
    ask: Callable[[Cycle, PodInfo, NodeInfo], int]


BYTES_MAX = 256 * 2**20
"""Memory for kept answers; the least recently used signature goes first."""


class LocalAnswers:
    """One signature's answers, one row per node."""

    __slots__ = (
        "_filters",
        "_fixed",
        "_node_seen",
        "_one_filters",
        "_one_scores",
        "_passed_rows",
        "_pod_filters",
        "_pod_scores",
        "_scores",
        "_weights",
        "final",
        "first",
        "has_raw",
        "passed",
        "raw",
        "reasons",
        "seen",
        "sum",
        "why",
    )

    def __init__(self, plan: Plan, weights: dict[str, int], filter_count: int) -> None:
        self._filters = plan.local_filters
        self._scores = plan.local_scores
        self._weights = weights
        self._one_filters = [_Filter(n, p.name, p.filter_node) for n, p in plan.local_filters]
        self._one_scores = [
            _Score(p.name, 0 if hasattr(p, "normalize_scores") else weights[p.name], p.score_node)
            for p in plan.local_scores
        ]
        node_only = {
            p.name
            for p in (*(p for _, p in plan.local_filters), *plan.local_scores)
            if _node_only(p)
        }
        self._pod_filters = [each for each in self._one_filters if each.name not in node_only]
        self._pod_scores = [each for each in self._one_scores if each.name not in node_only]
        """Without the plugins that look at the node alone, not at the pods on it."""
        self.seen = -1
        """The table's version these answers are true for."""
        self._node_seen = -1
        """Likewise, of the node objects."""
        self.first: NDArray[np.uint8] = np.zeros(0, np.uint8)
        self.why: NDArray[np.uint32] = np.zeros(0, np.uint32)
        self.final: NodeMask = np.zeros(0, np.bool_)
        self.passed: NodeMask = np.zeros(0, np.bool_)
        self.reasons: list[list[str]] = [[] for _ in range(filter_count)]
        self._passed_rows: Rows | None = None
        self.raw: dict[str, Scores] = {p.name: np.zeros(0, np.int64) for p in self._scores}
        self.has_raw: dict[str, bool] = {
            p.name: False for p in self._scores if hasattr(p, "normalize_scores")
        }
        """Of plugins that normalise: False while their raw scores are 0 on every node."""
        self.sum: Scores = np.zeros(0, np.int64)
        """Weighted sum of the scores that need no normalising."""
        self._fixed: Scores = np.zeros(0, np.int64)
        """The part of it that changes only with the node object."""

    @property
    def byte_count(self) -> int:
        return len(self.first) * (1 + 4 + 1 + 1 + 8 + 8 + 8 * len(self.raw))

    def passed_rows(self) -> Rows:
        """The rows that pass, ascending; worked out only when a node came to pass or ceased to."""
        if self._passed_rows is None:
            self._passed_rows = self.passed.nonzero()[0]
        return self._passed_rows

    def refresh(
        self, cycle: Cycle, pod: PodInfo, table: NodeTable, recorder: Recorder | None = None
    ) -> int:
        """Catch up with the table; returns how many rows had to be asked about.

        With a recorder every plugin is timed.
        """
        if self.seen == table.version and len(self.first) == table.size:
            return 0
        if len(self.first) != table.size:
            self._resize(table.size)
        few = table.few_rows_newer_than(self.seen, ONE_BY_ONE_MAX)
        if few is not None:
            for row in few:
                self._ask_one(cycle, pod, table, row, recorder)
            count = len(few)
        else:
            rows = table.rows_newer_than(self.seen)
            count = len(rows)
            every = self.seen < 0 or 2 * count > table.size
            self._ask_many(cycle, pod, table, slice(0, table.size) if every else rows, recorder)
        self.seen, self._node_seen = table.version, table.node_version
        return count

    def _resize(self, size: int) -> None:
        self.first = _grown(self.first, size)
        self.why = _grown(self.why, size)
        self.final = _grown(self.final, size)
        self.passed = _grown(self.passed, size)
        self._passed_rows = None
        self.sum = _grown(self.sum, size)
        self._fixed = _grown(self._fixed, size)
        self.raw = {name: _grown(column, size) for name, column in self.raw.items()}

    def _ask_many(
        self,
        cycle: Cycle,
        pod: PodInfo,
        table: NodeTable,
        rows: Rows | slice,
        recorder: Recorder | None,
    ) -> None:
        started_s = recorder.now() if recorder is not None else 0.0
        length = table.size if isinstance(rows, slice) else len(rows)
        first = np.zeros(length, np.uint8)
        why = np.zeros(length, np.uint32)
        final = np.zeros(length, np.bool_)
        for number, plugin in self._filters:
            if hasattr(plugin, "filter_nodes"):
                verdict = plugin.filter_nodes(cycle, pod, table, rows)
            else:
                verdict = filter_rows(cycle, pod, plugin, rows)
            bits = self.translate(number, verdict)
            fresh = (first == 0) & (bits != 0)
            if fresh.any():
                first[fresh] = number
                why[fresh] = bits[fresh]
                final[fresh] = verdict.unresolvable[fresh]
            if recorder is not None:
                started_s = _note(recorder, plugin.name, "Filter", started_s)
        self.first[rows], self.why[rows], self.final[rows] = first, why, final
        self.passed[rows] = (first == 0) & table.alive[rows]
        self._passed_rows = None
        total = np.zeros(length, np.int64)
        fixed = np.zeros(length, np.int64)
        for scorer in self._scores:
            if hasattr(scorer, "score_nodes"):
                scores = scorer.score_nodes(cycle, pod, table, rows)
            else:
                scores = score_one_by_one(cycle, pod, scorer, rows)
            self.raw[scorer.name][rows] = scores
            if scorer.name in self.has_raw:
                self.has_raw[scorer.name] |= bool(scores.any())
            else:
                part = fixed if _node_only(scorer) else total
                part += self._weights[scorer.name] * scores
            if recorder is not None:
                started_s = _note(recorder, scorer.name, "Score", started_s)
        self.sum[rows] = total + fixed
        self._fixed[rows] = fixed

    def _ask_one(
        self, cycle: Cycle, pod: PodInfo, table: NodeTable, row: int, recorder: Recorder | None
    ) -> None:
        info = table.infos[row]
        if info is None:
            self._set_passed(row, False)
            return
        # Of a node that passed and has other pods now, only those who look at pods are asked.
        filters, scores, fixed = self._pod_filters, self._pod_scores, 0
        if self.passed[row] and not table.is_node_newer_than(row, self._node_seen):
            fixed = int(self._fixed[row])
        else:
            filters, scores = self._one_filters, self._one_scores
        started_s = recorder.now() if recorder is not None else 0.0
        status = None
        for number, name, ask in filters:
            status = ask(cycle, pod, info)
            if recorder is not None:
                started_s = _note(recorder, name, "Filter", started_s)
            if status is not None:
                self._refuse(row, number, name, status)
                break
        if status is None and not self.passed[row]:
            self.first[row] = self.why[row] = 0
        self._set_passed(row, status is None)
        total = fixed
        for name, weight, rate in scores:
            score = rate(cycle, pod, info)
            if recorder is not None:
                started_s = _note(recorder, name, "Score", started_s)
            self.raw[name][row] = score
            if weight:
                total += weight * score
            elif score:
                self.has_raw[name] = True
        self.sum[row] = total
        if scores is self._one_scores:
            self._fixed[row] = total - self._pod_share(row)

    def _pod_share(self, row: int) -> int:
        return sum(weight * int(self.raw[name][row]) for name, weight, _ in self._pod_scores)

    def _refuse(self, row: int, number: int, name: str, status: Status) -> None:
        if not status.is_rejected:
            raise filter_failed(name, status.message)
        self.first[row], self.why[row] = number, self._bits(number, status)
        self.final[row] = status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE

    def _set_passed(self, row: int, passed: bool) -> None:
        if self.passed[row] != passed:
            self.passed[row] = passed
            self._passed_rows = None

    def translate(self, number: int, verdict: Verdict) -> NDArray[np.uint32]:
        """The verdict's bits in this entry's numbering of that plugin's reasons."""
        known = self.reasons[number - 1]
        if not known:
            known.extend(verdict.reasons)
        if known[: len(verdict.reasons)] == list(verdict.reasons):
            return verdict.why
        bits = np.zeros(len(verdict.why), np.uint32)
        for n, text in enumerate(verdict.reasons):
            bit = np.uint32(1 << self._bit(number, text))
            bits |= np.where(verdict.why & np.uint32(1 << n), bit, np.uint32(0))
        return bits

    def _bits(self, number: int, status: Status) -> int:
        bits = 0
        for text in status.reasons:
            bits |= 1 << self._bit(number, text)
        return bits

    def _bit(self, number: int, text: str) -> int:
        known = self.reasons[number - 1]
        if text not in known:
            known.append(text)
        return known.index(text)


class KeptAnswers:
    """Kept answers by signature, within a bound on memory."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._answers: dict[Hashable, LocalAnswers] = {}
        self._bytes_max = bytes_max
        self.hits = 0
        self.misses = 0
        self.rows_asked = 0

    def find(self, signature: Hashable) -> LocalAnswers | None:
        found = self._answers.pop(signature, None)
        if found is None:
            self.misses += 1
            return None
        self._answers[signature] = found
        self.hits += 1
        return found

    def keep(self, signature: Hashable, answers: LocalAnswers) -> None:
        self._answers[signature] = answers
        size = max(1, answers.byte_count)
        while len(self._answers) > max(1, self._bytes_max // size):
            self._answers.pop(next(iter(self._answers)))

    def clear(self) -> None:
        self._answers.clear()


def _node_only(plugin: Any) -> bool:
    return getattr(plugin, "node_only", False)


def _note(recorder: Recorder, plugin: str, point: str, started_s: float) -> float:
    now_s = recorder.now()
    recorder.plugin(plugin, point, SUCCESS, now_s - started_s)
    return now_s


def _grown(column: NDArray[Any], size: int) -> NDArray[Any]:
    grown = np.zeros(size, column.dtype)
    kept = min(size, len(column))
    grown[:kept] = column[:kept]
    return grown
