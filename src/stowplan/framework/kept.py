"""Answers that are kept: what node-local plugins said about every node, per kind of pod.

A plugin that does not read the cluster (`Reads`) answers for a node from the pod and that node
alone.  For the next pod alike only the rows that changed since are asked about again, a few one by
one, many as arrays: this is where the speed comes from.

There are two layers.  Below are the plugins that read the node object alone (`Reads.NODE`): their
answers outlive the pods, and kinds that differ only in, say, their requests share them.  Above are
those that look at the pods on the node too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from stowplan.framework.columns import all_rows, owned, rows_of, written
from stowplan.framework.cycle import Cycle
from stowplan.framework.errors import PluginFailed, describe, filter_failed, score_failed
from stowplan.framework.plan import LocalPlugins, Plan
from stowplan.framework.status import (
    NO_REASON,
    Code,
    NodeMask,
    Rows,
    Scores,
    Status,
    Verdict,
    row_numbers,
)
from stowplan.framework.timing import SUCCESS, Recorder
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import PodInfo, kind_count
from stowplan.state.row_follower import FEW, RowFollower

BYTES_MAX = 256 * 2**20
"""Memory for kept answers; the least recently used signature goes first."""

ONCE_MAX = 1
"""Answers kept for signatures that were met once.  Few, so that where no two pods are alike the
same memory is used again while it is in the processor's cache."""

GONE_MAX = 8192
"""Signatures remembered that were met once, without their answers."""

IDLE_MAX = 64
"""Answers kept beyond one for each kind of pod there is: a kind that comes back finds them."""

_FIXED_BYTES, _ROW_BYTES = 8192, 1 + 4 + 1 + 1 + 8 + 8
"""What one takes up however few nodes there are, and per node beside raw scores."""

AnyScores = NDArray[Any]
"""int64, or int32 if all who gave them did."""

_WHOLE = (np.dtype(np.int64), np.dtype(np.int32))

_NO_FIRST: NDArray[np.uint8] = np.zeros(0, np.uint8)
_NO_WHY: NDArray[np.uint32] = np.zeros(0, np.uint32)
_NO_MASK: NodeMask = np.zeros(0, np.bool_)
_NO_SCORES: AnyScores = np.zeros(0, np.int32)


class _Layer(Struct, eq=False):
    """What some of the plugins said, on top of what others did; one row per node."""

    plugins: LocalPlugins
    below: _Layer | None = None
    is_shared: bool = False
    """Whether `first`, `why` and `final` are those of the layer below: not to be written."""
    first: NDArray[np.uint8] = _NO_FIRST
    """The first filter that turned the node down, by its number; 0: none did."""
    why: NDArray[np.uint32] = _NO_WHY
    final: NodeMask = _NO_MASK
    refuses_most: bool = False
    """How good a node is that is out of the question, nobody asks: then it is not worked out."""
    reasons: dict[int, list[str]] = {}
    """Per filter, what the bits of `why` stand for."""
    raw: dict[str, AnyScores] = {}
    has_raw: set[str] = set()
    """Of plugins that normalise, those whose raw scores are not 0 on every node."""
    sum: AnyScores = _NO_SCORES
    """Weighted sum of the scores that need no normalising, of the layer below included; as
    wide as the widest of them."""
    first_at: memoryview = _NO_FIRST.data
    sum_at: memoryview = _NO_SCORES.data
    """Views for single cells: an array takes twice as long for one."""
    _scoring: tuple[tuple[str, int, Any, memoryview], ...] = ()

    def _start_scoring(self) -> tuple[tuple[str, int, Any, memoryview], ...]:
        """Name, weight, how to ask about one node, and where the answers go."""
        self._scoring = tuple(
            (name, weight, rate, self.raw[name].data)
            for name, weight, _, rate in self.plugins.scores
        )
        return self._scoring

    def ask_many(
        self,
        cycle: Cycle,
        pod: PodInfo,
        table: NodeTable,
        rows: Rows | slice,
        recorder: Recorder | None,
    ) -> None:
        """Ask about these rows; a slice stands for all, whatever was known of them."""
        first, why, final, is_shared = self._filter_many(cycle, pod, table, rows, recorder)
        if isinstance(rows, slice):
            self.first, self.why, self.final, self.is_shared = first, why, final, is_shared
            if self.below is None or not is_shared:
                self.refuses_most = bool(2 * np.count_nonzero(first) > len(first))
            else:
                self.refuses_most = self.below.refuses_most
            if self.refuses_most:
                self.raw = {
                    name: np.zeros(len(first), np.int64) for name, *_ in self.plugins.scores
                }
                self.sum = np.zeros(len(first), np.int64)
                rows = (first == 0).nonzero()[0]
        else:
            self._own()
            self.first[rows], self.why[rows], self.final[rows] = first, why, final
            if 2 * np.count_nonzero(first) > len(first):
                rows = rows[first == 0]
        self._score_many(cycle, pod, table, rows, recorder)
        self.first_at, self.sum_at, self._scoring = self.first.data, self.sum.data, ()

    def _filter_many(
        self,
        cycle: Cycle,
        pod: PodInfo,
        table: NodeTable,
        rows: Rows | slice,
        recorder: Recorder | None,
    ) -> tuple[NDArray[np.uint8], NDArray[np.uint32], NodeMask, bool]:
        """`first`, `why` and `final` of these rows; whether they are those of the layer below."""
        started_s = recorder.now() if recorder is not None else 0.0
        below, is_shared, name = self.below, False, ""
        if below is not None:
            # Of all rows they are those of the layer below, until something has to be written.
            first, why, final = below.first[rows], below.why[rows], below.final[rows]
            is_shared = isinstance(rows, slice)
        else:
            length = table.size if isinstance(rows, slice) else len(rows)
            first, why = np.zeros(length, np.uint8), np.zeros(length, np.uint32)
            final = np.zeros(length, np.bool_)
        try:
            for number, name, ask, _ in self.plugins.filters:
                verdict = ask(cycle, pod, table, rows)
                if not verdict.all_passed and verdict.why.any():
                    bits = self._translate(number, verdict)
                    if is_shared:
                        first, why, final = first.copy(), why.copy(), final.copy()
                        is_shared = False
                    earlier = (bits != 0) & ((first == 0) | (first > number))
                    first[earlier] = number
                    why[earlier] = bits[earlier]
                    final[earlier] = verdict.unresolvable[earlier]
                if recorder is not None:
                    started_s = _note(recorder, name, "Filter", started_s)
        except PluginFailed:
            raise
        except Exception as cause:
            raise filter_failed(name, describe(cause)) from cause
        return first, why, final, is_shared

    def _score_many(
        self,
        cycle: Cycle,
        pod: PodInfo,
        table: NodeTable,
        rows: Rows | slice,
        recorder: Recorder | None,
    ) -> None:
        below, every = self.below, isinstance(rows, slice)
        if below is not None:
            total = below.sum[rows]
        else:
            total = np.zeros(table.size if isinstance(rows, slice) else len(rows), np.int32)
        if not len(total):
            return
        started_s = recorder.now() if recorder is not None else 0.0
        # Of all rows it is the column of the layer below: not to be written.
        is_shared = below is not None and every
        name = ""
        try:
            for name, weight, rate, _ in self.plugins.scores:
                scores = rate(cycle, pod, table, rows)
                if scores.dtype not in _WHOLE:
                    scores = scores.astype(np.int64)
                if not every:
                    self.raw[name] = written(self.raw[name], rows, scores)
                else:
                    self.raw[name] = owned(scores)
                if weight:
                    part = scores if weight == 1 else np.int64(weight) * scores
                    if is_shared or part.dtype != total.dtype:
                        total, is_shared = total + part, False
                    else:
                        total += part
                elif scores.any():
                    self.has_raw.add(name)
                if recorder is not None:
                    started_s = _note(recorder, name, "Score", started_s)
        except PluginFailed:
            raise
        except Exception as cause:
            raise score_failed(name, describe(cause)) from cause
        if every:
            self.sum = total.copy() if is_shared else total
        else:
            self.sum = written(self.sum, rows, total)

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
            first, total = below.first_at[row], below.sum_at[row]
        if first or self.first_at[row]:
            self._start_from(below, row)
        try:
            for number, name, _, ask in self.plugins.filters:
                if first and first < number:
                    break
                status = ask(cycle, pod, info)
                if recorder is not None:
                    started_s = _note(recorder, name, "Filter", started_s)
                if status is not None:
                    self._refuse(row, number, name, status)
                    first = number
                    break
        except PluginFailed:
            raise
        except Exception as cause:
            raise filter_failed(name, describe(cause)) from cause
        if first:
            return False  # How good it would be, nobody asks.
        try:
            for name, weight, rate, raw_at in self._scoring or self._start_scoring():
                # As an array would take it, should a user's plugin give a fraction.
                raw_at[row] = score = int(rate(cycle, pod, info))
                if recorder is not None:
                    started_s = _note(recorder, name, "Score", started_s)
                if weight:
                    total += weight * score
                elif score:
                    self.has_raw.add(name)
        except PluginFailed:
            raise
        except Exception as cause:
            raise score_failed(name, describe(cause)) from cause
        self.sum_at[row] = total
        return True

    def _own(self) -> None:
        """Before writing: have columns of its own."""
        if self.is_shared:
            self.first, self.why = self.first.copy(), self.why.copy()
            self.final, self.is_shared = self.final.copy(), False
            self.first_at = self.first.data

    def _start_from(self, below: _Layer | None, row: int) -> None:
        self._own()
        if below is None:
            self.first[row] = self.why[row] = self.final[row] = 0
        else:
            self.first[row], self.why[row] = below.first[row], below.why[row]
            self.final[row] = below.final[row]

    def _refuse(self, row: int, number: int, name: str, status: Status) -> None:
        if not status.is_rejected:
            raise filter_failed(name, status.message)
        bits = 0
        for text in status.reasons or NO_REASON:
            bits |= 1 << self._bit(number, text)
        self._own()
        self.first[row], self.why[row] = number, bits
        self.final[row] = status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE

    def _translate(self, number: int, verdict: Verdict) -> NDArray[np.uint32]:
        """The verdict's bits in this entry's numbering of that plugin's reasons."""
        known = self.reasons.setdefault(number, [])
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
        known = self.reasons.setdefault(number, [])
        if text not in known:
            known.append(text)
        return known.index(text)


class NodeOnlyAnswers:
    """The lower layer: true until a node object changes."""

    __slots__ = ("_follower", "layer", "passed", "passed_rows", "seen")

    def __init__(self, plan: Plan) -> None:
        self._follower = RowFollower(of_nodes=True)
        self.seen = -1
        """The table's `node_version` when it was last refreshed."""
        self.layer = _Layer(plan.outline.node_only)
        self.passed: NodeMask = _NO_MASK
        """Rows that hold a node which no filter of this layer turned down."""
        self.passed_rows: Rows = all_rows(0)

    def refresh(
        self, cycle: Cycle, pod: PodInfo, table: NodeTable, recorder: Recorder | None
    ) -> None:
        changed = self._follower.changed(table)
        self.seen = table.node_version
        layer = self.layer
        if changed is None or len(changed) > FEW:
            layer.ask_many(cycle, pod, table, _at_once(changed, table), recorder)
        else:
            for row in changed:
                layer.ask_one(cycle, pod, table, row, recorder)
        self.passed = (layer.first == 0) & table.alive
        self.passed_rows = rows_of(self.passed)


class LocalAnswers(Struct, eq=False):
    """One signature's answers, of all node-local plugins."""

    _below: NodeOnlyAnswers
    _layer: _Layer
    _follower: RowFollower
    passed: NodeMask = _NO_MASK
    """Rows that hold a node which no local filter turned down.  Never to be written to."""
    _passed_at: memoryview = _NO_MASK.data
    known_rows: Rows | None = None
    """What `passed_rows` gave, while it holds."""
    _is_passed_shared: bool = False
    """Whether the layer below says it all: not to be written."""
    _best: NodeMask = _NO_MASK
    _best_at: memoryview = _NO_MASK.data
    _best_count: int = 0
    """0: nobody has asked, or the last of the best has gone."""
    best_sum: int = 0
    """The sum of those that `best` gave."""

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
    def sum(self) -> AnyScores:
        return self._layer.sum

    @property
    def reasons(self) -> dict[int, list[str]]:
        """Per number of a filter, what the bits of `why` stand for."""
        return self._below.layer.reasons | self._layer.reasons

    def has(self, plugin: str) -> bool:
        """Whether a plugin's scores are among these."""
        return plugin in self._layer.raw or plugin in self._below.layer.raw

    def raw(self, plugin: str) -> Scores:
        """A plugin's scores as it gave them, for every row."""
        column = self._layer.raw.get(plugin)
        if column is None:
            column = self._below.layer.raw[plugin]
        return column.astype(np.int64, copy=False)

    @property
    def is_flat(self) -> bool:
        """Whether the raw scores of all plugins that normalise are 0 on every node."""
        return not (self._layer.has_raw or self._below.layer.has_raw)

    def passed_rows(self) -> Rows:
        """The rows that pass, ascending; worked out only when a node came to pass or ceased to."""
        if self.known_rows is None:
            self.known_rows = rows_of(self.passed)
        return self.known_rows

    def best(self) -> NodeMask:
        """The rows that pass with the highest kept sum.  Never to be written to.

        While replicas fill node after node, the highest sum stays what it is for long.
        """
        if not self._best_count:
            sums, rows = self._layer.sum, self.passed_rows()
            everyone = len(rows) == len(sums)
            among = sums if everyone else sums[rows]
            # `argmax` takes half the time of `max`.
            self.best_sum = int(among[among.argmax()])
            self._best = sums == self.best_sum
            if not everyone:
                self._best &= self.passed
            self._best_at = self._best.data
            self._best_count = int(np.count_nonzero(self._best))
        return self._best

    def one_of_the_best(self, chance: Callable[[], float]) -> int:
        """A row of `best`, each as likely as any other.

        By the set alone: whoever kept more or less before (a fork, a reload) takes the same node.
        """
        rows = (self._best if self._best_count else self.best()).nonzero()[0]
        return rows.item(int(chance() * len(rows)))

    def refresh(
        self, cycle: Cycle, pod: PodInfo, table: NodeTable, recorder: Recorder | None = None
    ) -> int:
        """Catch up with the table; returns how many rows had to be asked about.

        With a recorder every plugin is timed.
        """
        changed = self._follower.changed(table)
        if self._below.seen != table.node_version:
            self._below.refresh(cycle, pod, table, recorder)
        if changed is None or len(changed) > FEW:
            return self._ask_many(cycle, pod, table, _at_once(changed, table), recorder)
        for row in changed:
            passed = self._layer.ask_one(cycle, pod, table, row, recorder)
            if self._passed_at[row] != passed:
                self._own_passed()
                self._passed_at[row] = passed
                self.known_rows = None
            if self._best_count:
                self._rank(row, passed)
        return len(changed)

    def _rank(self, row: int, passed: bool) -> None:
        """See whether a row that was asked about is among the best now."""
        total = self._layer.sum_at[row]
        if passed and total > self.best_sum:
            self._best_count = 0
            return
        is_best = passed and total == self.best_sum
        if is_best != self._best_at[row]:
            self._best_at[row] = is_best
            self._best_count += 1 if is_best else -1

    def _rank_many(self, rows: Rows, passed: NodeMask) -> None:
        """The same for many rows."""
        sums = self._layer.sum[rows]
        if (passed & (sums > self.best_sum)).any():
            self._best_count = 0
            return
        is_best = passed & (sums == self.best_sum)
        self._best_count += int(is_best.sum()) - int(self._best[rows].sum())
        self._best[rows] = is_best

    def _ask_many(
        self,
        cycle: Cycle,
        pod: PodInfo,
        table: NodeTable,
        rows: Rows | slice,
        recorder: Recorder | None,
    ) -> int:
        layer, below = self._layer, self._below
        layer.ask_many(cycle, pod, table, rows, recorder)
        if not isinstance(rows, slice):
            passed = (layer.first[rows] == 0) & table.alive[rows]
            if (passed != self.passed[rows]).any():
                self._own_passed()
                self.passed[rows] = passed
                self.known_rows = None
            if self._best_count:
                self._rank_many(rows, passed)
            return len(rows)
        self._best_count = 0
        if layer.is_shared:
            self._set_passed(below.passed)
            self.known_rows, self._is_passed_shared = below.passed_rows, True
        else:
            self._set_passed((layer.first == 0) & table.alive)
        return table.size

    def _own_passed(self) -> None:
        if self._is_passed_shared:
            self._set_passed(self.passed.copy())

    def _set_passed(self, passed: NodeMask) -> None:
        self.passed, self._is_passed_shared = passed, False
        self._passed_at, self.known_rows = passed.data, None


class KeptAnswers:
    """Kept answers by signature, within a bound on memory.

    Where no two pods are alike, most signatures never come back.  Theirs are dropped soon, so that
    they neither push out those that do nor touch ever new memory; a signature that comes back
    nonetheless is known by its hash, and its answers are kept for good from then on.
    """

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._answers: dict[Hashable, LocalAnswers] = {}
        """Of signatures met more than once."""
        self._once: dict[Hashable, LocalAnswers] = {}
        self._gone: dict[int, None] = {}
        self._node_only: dict[Hashable, NodeOnlyAnswers] = {}
        self._bytes_max = bytes_max
        self._latest_plan: Plan | None = None
        self._latest: LocalAnswers | None = None
        """What was found last, and for which plan: replicas come one after another."""
        self.hits = 0
        self.misses = 0
        self.rows_asked = 0

    def __len__(self) -> int:
        return len(self._answers) + len(self._once)

    def find(self, plan: Plan) -> LocalAnswers | None:
        if plan is self._latest_plan:
            self.hits += 1
            return self._latest
        signature = plan.signature
        found = self._answers.pop(signature, None) or self._once.pop(signature, None)
        if found is None:
            self.misses += 1
            return None
        self._answers[signature] = found
        self._latest_plan, self._latest = plan, found
        self.hits += 1
        return found

    def make(self, plan: Plan) -> LocalAnswers:
        """Answers that nobody has given yet, but for those of plugins that read the node alone."""
        below = self._node_only.pop(plan.node_signature, None)
        if below is None:
            below = NodeOnlyAnswers(plan)
        self._node_only[plan.node_signature] = below
        layer = _Layer(plan.outline.node_local, below.layer)
        return LocalAnswers(below, layer, RowFollower())

    def keep(self, plan: Plan, answers: LocalAnswers) -> None:
        """Keep answers that are up to date; pods that are gone do not need theirs for long."""
        signature = plan.signature
        self._latest_plan, self._latest = plan, answers
        if hash(signature) in self._gone:
            self._answers[signature] = answers
        else:
            self._once[signature] = answers
            if len(self._once) > ONCE_MAX:
                self._forget_oldest()
        row_bytes = _ROW_BYTES + 8 * len(plan.outline.node_local.scores)
        fits = self._bytes_max // (_FIXED_BYTES + row_bytes * len(answers.passed))
        count_max = max(1, min(fits, kind_count() + IDLE_MAX))
        while len(self._answers) + len(self._once) > count_max:
            if self._answers:
                self._answers.pop(next(iter(self._answers)))
            else:
                self._forget_oldest()
        while len(self._node_only) > count_max:
            self._node_only.pop(next(iter(self._node_only)))

    def _forget_oldest(self) -> None:
        oldest = next(iter(self._once))
        del self._once[oldest]
        self._gone[hash(oldest)] = None
        if len(self._gone) > GONE_MAX:
            del self._gone[next(iter(self._gone))]

    def clear(self) -> None:
        self._latest_plan = self._latest = None
        self._answers.clear()
        self._once.clear()
        self._node_only.clear()


def _at_once(changed: Collection[int] | None, table: NodeTable) -> Rows | slice:
    """The rows to ask about: a slice stands for all, and is cheaper than half of them."""
    if changed is None or 2 * len(changed) > table.size:
        return slice(0, table.size)
    return row_numbers(changed)


def _note(recorder: Recorder, plugin: str, point: str, started_s: float) -> float:
    now_s = recorder.now()
    recorder.plugin(plugin, point, SUCCESS, now_s - started_s)
    return now_s
