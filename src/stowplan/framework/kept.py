"""Answers that are kept: what node-local plugins said about every node, per kind of pod.

A plugin with a `signature` answers for a node from the pod and that node alone.  So its answers
stay true until the node changes: for the next pod with the same signatures only the rows that
changed since are asked about again, a few one by one, many as arrays.  This is where the speed
comes from; `Framework` merges the kept answers with those of the cluster-wide plugins.

There are two layers.  Below are the plugins that read the node object alone (`node_only`): their
answers outlive the coming and going of pods, and kinds that differ only in, say, their requests
share them.  Above are those that look at the pods on the node too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stowplan.framework.cycle import Cycle
from stowplan.framework.errors import filter_failed
from stowplan.framework.one_by_one import filter_rows, score_one_by_one
from stowplan.framework.plan import Plan, is_node_only, normalizes
from stowplan.framework.status import Code, NodeMask, Rows, Scores, Status, Verdict
from stowplan.framework.timing import SUCCESS, Recorder
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import PodInfo, kind_count

ONE_BY_ONE_MAX = 3
"""Up to so many changed rows are asked about singly: cheaper than arrays of that length."""

BYTES_MAX = 256 * 2**20
"""Memory for kept answers; the least recently used signature goes first."""

IDLE_MAX = 64
"""Answers kept beyond one for each kind of pod there is: a kind that comes back finds them."""

_FIXED_BYTES = 8192
"""What one takes up however few nodes there are."""


class _Filter(NamedTuple):
    number: int
    name: str
    ask: Callable[[Cycle, PodInfo, NodeInfo], Status | None]


class _Score(NamedTuple):
    name: str
    weight: int
    """0 when the scores are normalised first: they are no part of the kept sum."""
    ask: Callable[[Cycle, PodInfo, NodeInfo], int]


class _Layer:
    """What some of the plugins said, on top of what others did; one row per node."""

    __slots__ = (
        "_filters",
        "_one_filters",
        "_one_scores",
        "_scores",
        "_weights",
        "below",
        "final",
        "first",
        "has_raw",
        "raw",
        "reasons",
        "seen",
        "sum",
        "why",
    )

    def __init__(
        self,
        filters: list[tuple[int, Any]],
        scores: list[Any],
        weights: dict[str, int],
        below: _Layer | None = None,
    ) -> None:
        self.below = below
        self._filters = filters
        self._scores = scores
        self._weights = weights
        self._one_filters = [_Filter(n, plugin.name, plugin.filter_node) for n, plugin in filters]
        self._one_scores = [
            _Score(p.name, 0 if normalizes(p) else weights[p.name], p.score_node) for p in scores
        ]
        self.seen = -1
        """The version of the table (below: of its node objects) these answers are true for."""
        self.first: NDArray[np.uint8] = np.zeros(0, np.uint8)
        """The first filter that turned the node down, by its number; 0: none did."""
        self.why: NDArray[np.uint32] = np.zeros(0, np.uint32)
        self.final: NodeMask = np.zeros(0, np.bool_)
        self.reasons: dict[int, list[str]] = {number: [] for number, _ in filters}
        """Per filter, what the bits of `why` stand for."""
        self.raw: dict[str, Scores] = {plugin.name: np.zeros(0, np.int64) for plugin in scores}
        self.has_raw = {plugin.name: False for plugin in scores if normalizes(plugin)}
        """Of plugins that normalise: False while their raw scores are 0 on every node."""
        self.sum: Scores = np.zeros(0, np.int64)
        """Weighted sum of the scores that need no normalising, of the layer below included."""

    def resize(self, size: int) -> None:
        self.first = _grown(self.first, size)
        self.why = _grown(self.why, size)
        self.final = _grown(self.final, size)
        self.sum = _grown(self.sum, size)
        self.raw = {name: _grown(column, size) for name, column in self.raw.items()}

    def ask_many(
        self,
        cycle: Cycle,
        pod: PodInfo,
        table: NodeTable,
        rows: Rows | slice,
        recorder: Recorder | None,
    ) -> None:
        started_s = recorder.now() if recorder is not None else 0.0
        below = self.below
        if below is None:
            length = table.size if isinstance(rows, slice) else len(rows)
            first, why = np.zeros(length, np.uint8), np.zeros(length, np.uint32)
            final, total = np.zeros(length, np.bool_), np.zeros(length, np.int64)
        else:
            first, why = below.first[rows].copy(), below.why[rows].copy()
            final, total = below.final[rows].copy(), below.sum[rows].copy()
        for number, plugin in self._filters:
            if hasattr(plugin, "filter_nodes"):
                verdict = plugin.filter_nodes(cycle, pod, table, rows)
            else:
                verdict = filter_rows(cycle, pod, plugin, rows)
            bits = self._translate(number, verdict)
            if bits.any():
                earlier = (bits != 0) & ((first == 0) | (first > number))
                first[earlier] = number
                why[earlier] = bits[earlier]
                final[earlier] = verdict.unresolvable[earlier]
            if recorder is not None:
                started_s = _note(recorder, plugin.name, "Filter", started_s)
        self.first[rows], self.why[rows], self.final[rows] = first, why, final
        for scorer in self._scores:
            if hasattr(scorer, "score_nodes"):
                scores = scorer.score_nodes(cycle, pod, table, rows)
            else:
                scores = score_one_by_one(cycle, pod, scorer, rows)
            self.raw[scorer.name][rows] = scores
            if scorer.name in self.has_raw:
                self.has_raw[scorer.name] |= bool(scores.any())
            else:
                total += self._weights[scorer.name] * scores
            if recorder is not None:
                started_s = _note(recorder, scorer.name, "Score", started_s)
        self.sum[rows] = total

    def ask_one(
        self, cycle: Cycle, pod: PodInfo, table: NodeTable, row: int, recorder: Recorder | None
    ) -> bool:
        """The same for one row, in plain numbers; whether the node passed."""
        info, below = table.infos[row], self.below
        if info is None:
            return False
        started_s = recorder.now() if recorder is not None else 0.0
        first, total = 0, 0
        if below is not None:
            first, total = int(below.first[row]), int(below.sum[row])
        if first or self.first[row]:
            self._start_from(below, row)
        for number, name, ask in self._one_filters:
            if first and first < number:
                break
            status = ask(cycle, pod, info)
            if recorder is not None:
                started_s = _note(recorder, name, "Filter", started_s)
            if status is not None:
                self._refuse(row, number, name, status)
                first = number
                break
        for name, weight, rate in self._one_scores:
            score = rate(cycle, pod, info)
            if recorder is not None:
                started_s = _note(recorder, name, "Score", started_s)
            self.raw[name][row] = score
            if weight:
                total += weight * score
            elif score:
                self.has_raw[name] = True
        self.sum[row] = total
        return first == 0

    def _start_from(self, below: _Layer | None, row: int) -> None:
        if below is None:
            self.first[row] = self.why[row] = self.final[row] = 0
        else:
            self.first[row], self.why[row] = below.first[row], below.why[row]
            self.final[row] = below.final[row]

    def _refuse(self, row: int, number: int, name: str, status: Status) -> None:
        if not status.is_rejected:
            raise filter_failed(name, status.message)
        bits = 0
        for text in status.reasons:
            bits |= 1 << self._bit(number, text)
        self.first[row], self.why[row] = number, bits
        self.final[row] = status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE

    def _translate(self, number: int, verdict: Verdict) -> NDArray[np.uint32]:
        """The verdict's bits in this entry's numbering of that plugin's reasons."""
        known = self.reasons[number]
        if not known:
            known.extend(verdict.reasons)
        if known[: len(verdict.reasons)] == list(verdict.reasons):
            return verdict.why
        bits = np.zeros(len(verdict.why), np.uint32)
        for n, text in enumerate(verdict.reasons):
            bit = np.uint32(1 << self._bit(number, text))
            bits |= np.where(verdict.why & np.uint32(1 << n), bit, np.uint32(0))
        return bits

    def _bit(self, number: int, text: str) -> int:
        known = self.reasons[number]
        if text not in known:
            known.append(text)
        return known.index(text)


class NodeOnlyAnswers:
    """The lower layer: true until a node object changes."""

    __slots__ = ("layer",)

    def __init__(self, plan: Plan, weights: dict[str, int]) -> None:
        filters = [
            (number, plugin) for number, plugin in plan.local_filters if is_node_only(plugin)
        ]
        scores = [plugin for plugin in plan.local_scores if is_node_only(plugin)]
        self.layer = _Layer(filters, scores, weights)

    def refresh(
        self, cycle: Cycle, pod: PodInfo, table: NodeTable, recorder: Recorder | None
    ) -> None:
        layer = self.layer
        if layer.seen == table.node_version and len(layer.first) == table.size:
            return
        if len(layer.first) != table.size:
            layer.resize(table.size)
        rows = table.rows_with_nodes_newer_than(layer.seen)
        if layer.seen < 0 or 2 * len(rows) > table.size:
            layer.ask_many(cycle, pod, table, slice(0, table.size), recorder)
        elif len(rows) > ONE_BY_ONE_MAX:
            layer.ask_many(cycle, pod, table, rows, recorder)
        else:
            for row in rows.tolist():
                layer.ask_one(cycle, pod, table, row, recorder)
        layer.seen = table.node_version


class LocalAnswers:
    """One signature's answers, of all node-local plugins."""

    __slots__ = ("_below", "_layer", "_passed_rows", "passed")

    def __init__(self, plan: Plan, weights: dict[str, int], below: NodeOnlyAnswers) -> None:
        filters = [(n, plugin) for n, plugin in plan.local_filters if not is_node_only(plugin)]
        scores = [plugin for plugin in plan.local_scores if not is_node_only(plugin)]
        self._below = below
        self._layer = _Layer(filters, scores, weights, below.layer)
        self.passed: NodeMask = np.zeros(0, np.bool_)
        """Rows that hold a node which no local filter turned down.  Never to be written to."""
        self._passed_rows: Rows | None = None

    @property
    def byte_count(self) -> int:
        layer = self._layer
        return _FIXED_BYTES + len(layer.first) * (1 + 4 + 1 + 1 + 8 + 8 * len(layer.raw))

    @property
    def first(self) -> NDArray[np.uint8]:
        return self._layer.first

    @property
    def why(self) -> NDArray[np.uint32]:
        return self._layer.why

    @property
    def final(self) -> NodeMask:
        return self._layer.final

    @property
    def sum(self) -> Scores:
        return self._layer.sum

    @property
    def reasons(self) -> dict[int, list[str]]:
        """Per number of a filter, what the bits of `why` stand for."""
        return self._below.layer.reasons | self._layer.reasons

    def raw(self, plugin: str) -> Scores:
        """A plugin's scores as it gave them, for every row."""
        column = self._layer.raw.get(plugin)
        return self._below.layer.raw[plugin] if column is None else column

    def has_raw(self, plugin: str) -> bool:
        """Of a plugin that normalises: False while its raw scores are 0 on every node."""
        return self._layer.has_raw.get(plugin) or self._below.layer.has_raw.get(plugin, False)

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
        layer = self._layer
        if layer.seen == table.version and len(layer.first) == table.size:
            return 0
        self._below.refresh(cycle, pod, table, recorder)
        if len(layer.first) != table.size:
            layer.resize(table.size)
            self.passed = _grown(self.passed, table.size)
            self._passed_rows = None
        few = table.few_rows_newer_than(layer.seen, ONE_BY_ONE_MAX)
        count = self._ask_many(cycle, pod, table, recorder) if few is None else len(few)
        for row in few or ():
            passed = layer.ask_one(cycle, pod, table, row, recorder)
            if self.passed[row] != passed:
                self.passed[row] = passed
                self._passed_rows = None
        layer.seen = table.version
        return count

    def _ask_many(
        self, cycle: Cycle, pod: PodInfo, table: NodeTable, recorder: Recorder | None
    ) -> int:
        layer = self._layer
        changed = table.rows_newer_than(layer.seen)
        every = layer.seen < 0 or 2 * len(changed) > table.size
        rows = slice(0, table.size) if every else changed
        layer.ask_many(cycle, pod, table, rows, recorder)
        self.passed[rows] = (layer.first[rows] == 0) & table.alive[rows]
        self._passed_rows = None
        return len(changed)


class KeptAnswers:
    """Kept answers by signature, within a bound on memory."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._answers: dict[Hashable, LocalAnswers] = {}
        self._node_only: dict[Hashable, NodeOnlyAnswers] = {}
        self._bytes_max = bytes_max
        self.hits = 0
        self.misses = 0
        self.rows_asked = 0

    def __len__(self) -> int:
        return len(self._answers)

    def find(self, signature: Hashable) -> LocalAnswers | None:
        found = self._answers.pop(signature, None)
        if found is None:
            self.misses += 1
            return None
        self._answers[signature] = found
        self.hits += 1
        return found

    def make(self, plan: Plan, weights: dict[str, int]) -> LocalAnswers:
        """Answers that nobody has given yet, but for those of plugins that read the node alone."""
        below = self._node_only.pop(plan.node_signature, None)
        if below is None:
            below = NodeOnlyAnswers(plan, weights)
        self._node_only[plan.node_signature] = below
        return LocalAnswers(plan, weights, below)

    def keep(self, signature: Hashable, answers: LocalAnswers) -> None:
        """Keep answers that are up to date; pods that are gone do not need theirs for long."""
        self._answers[signature] = answers
        count_max = max(1, min(self._bytes_max // answers.byte_count, kind_count() + IDLE_MAX))
        while len(self._answers) > count_max:
            self._answers.pop(next(iter(self._answers)))
        while len(self._node_only) > count_max:
            self._node_only.pop(next(iter(self._node_only)))

    def clear(self) -> None:
        self._answers.clear()
        self._node_only.clear()


def _note(recorder: Recorder, plugin: str, point: str, started_s: float) -> float:
    now_s = recorder.now()
    recorder.plugin(plugin, point, SUCCESS, now_s - started_s)
    return now_s


def _grown(column: NDArray[Any], size: int) -> NDArray[Any]:
    grown = np.zeros(size, column.dtype)
    kept = min(size, len(column))
    grown[:kept] = column[:kept]
    return grown
