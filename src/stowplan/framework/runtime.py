"""The framework of one profile: runs its plugins, all nodes at once.

`find_feasible` and `score` are the two halves of a decision; `core.schedule_one` calls them in
turn.  Node-local plugins are asked through `framework.kept`, cluster-wide ones every time.
Mirrors kube-scheduler's `framework/runtime/framework.go`.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stowplan.framework.cycle import Cycle
from stowplan.framework.diagnosis import Diagnosis, Rejections
from stowplan.framework.errors import PluginFailed, filter_failed, point_failed
from stowplan.framework.handle import Handle
from stowplan.framework.kept import KeptAnswers, LocalAnswers, LocalPlugins
from stowplan.framework.plugin import PluginSet, PreFilterResult
from stowplan.framework.status import (
    MAX_NODE_SCORE,
    Code,
    NodeMask,
    Rows,
    Scores,
    Status,
    Verdict,
)
from stowplan.framework.timing import NoRecorder, Recorder
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import PodInfo


@dataclass(slots=True)
class Feasible:
    """What the filters found: the nodes that passed, and the means to say why others did not."""

    mask: NodeMask
    """Per row; never to be written, it may be a kept answer."""
    answers: LocalAnswers
    verdicts: list[tuple[int, Verdict]]
    """Cluster-wide plugins: (1 + position among the Filter plugins, verdict on all rows)."""
    overrides: dict[int, Status] = field(default_factory=dict)
    candidates: NodeMask | None = None
    """Rows PreFilter left in; None: all."""
    absent: Status | None = None

    def rows(self) -> Rows:
        found: Rows = np.flatnonzero(self.mask)
        return found


class KeptScores:
    """A kept column's share of the total, multiplied out only when somebody looks at it.

    True until the next cycle: whoever wants to keep it, copies `values()`.
    """

    __slots__ = ("_raw", "_rows", "_weight")

    def __init__(self, raw: Scores, rows: Rows, weight: int) -> None:
        self._raw, self._rows, self._weight = raw, rows, weight

    def values(self) -> Scores:
        return self._weight * self._raw[self._rows]


PluginScores = Scores | KeptScores | int
"""An int stands for the same score on every node."""


@dataclass(slots=True)
class ScoreBoard:
    """Scores of the feasible rows, in the order of `rows`."""

    rows: Rows
    total: Scores
    by_plugin: dict[str, PluginScores]
    """Weighted, after normalising."""

    def of_plugin(self, name: str) -> Scores:
        scores = self.by_plugin[name]
        if isinstance(scores, KeptScores):
            return scores.values()
        if isinstance(scores, int):
            return np.full(len(self.rows), scores, np.int64)
        return scores


class Framework:
    def __init__(
        self,
        profile: str,
        plugins: PluginSet,
        handle: Handle,
        *,
        percentage_of_nodes_to_score: int | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self.profile = profile
        self.plugins = plugins
        self.handle = handle
        self.percentage_of_nodes_to_score = percentage_of_nodes_to_score
        self.recorder: Recorder = recorder or NoRecorder()
        self.kept = KeptAnswers()
        self.filter_names = tuple(plugin.name for plugin in plugins.filter)
        self._filter_number = {name: n + 1 for n, name in enumerate(self.filter_names)}
        everyone = {id(p): p for p in (*plugins.filter, *plugins.score)}
        self._signed = tuple(
            plugin for plugin in everyone.values() if callable(getattr(plugin, "signature", None))
        )
        self._pre_score = {p.name: p for p in plugins.pre_score}
        handle.framework = self

    # -- PreFilter --------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> PreFilterVerdict:
        """Run every PreFilter; say whether to go on, and with which nodes."""
        narrowed: dict[str, frozenset[str]] = {}
        rejected: Status | None = None
        for plugin in self.plugins.pre_filter:
            answer = self._one_pre_filter(cycle, pod, plugin)
            if answer is None:
                continue
            name = _name(plugin)
            if isinstance(answer, PreFilterResult):
                if answer.nodes is not None:
                    narrowed[name] = answer.nodes
            elif answer.code == Code.SKIP:
                cycle.skip_filter.add(name)
            elif answer.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return PreFilterVerdict(_named(answer, name))
            elif answer.code == Code.UNSCHEDULABLE:
                rejected = _named(answer, name)
            else:
                raise point_failed(name, "PreFilter", answer.message)
            if narrowed and not frozenset.intersection(*narrowed.values()):
                return PreFilterVerdict(_nothing_left(list(narrowed)), tuple(narrowed))
        if rejected is not None:
            return PreFilterVerdict(rejected)
        nodes = frozenset.intersection(*narrowed.values()) if narrowed else None
        return PreFilterVerdict(None, tuple(narrowed), nodes)

    def _one_pre_filter(
        self, cycle: Cycle, pod: PodInfo, plugin: Any
    ) -> PreFilterResult | Status | None:
        recorder = self.recorder
        started = recorder.now() if recorder.sampled else 0.0
        try:
            answer: PreFilterResult | Status | None = plugin.pre_filter(cycle, pod)
        except PluginFailed:
            raise
        except Exception as cause:
            raise point_failed(plugin.name, "PreFilter", _describe(cause)) from cause
        if recorder.sampled:
            code = answer.code if isinstance(answer, Status) else Code.SUCCESS
            recorder.plugin(plugin.name, "PreFilter", code.label, recorder.now() - started)
        return answer

    # -- Filter, all nodes ------------------------------------------------------------------

    def find_feasible(
        self, cycle: Cycle, pod: PodInfo, nodes: frozenset[str] | None = None
    ) -> Feasible:
        """Every node that passes all filters; `nodes` is PreFilter's choice of candidates."""
        table = cycle.nodes
        answers = self.local_answers(cycle, pod)
        mask = answers.passed
        candidates = None
        if nodes is not None:
            candidates = np.zeros(table.size, np.bool_)
            candidates[table.rows_of(nodes)] = True
            mask = mask & candidates
        verdicts: list[tuple[int, Verdict]] = []
        local = {id(plugin) for _, plugin in answers.plugins.filters}
        for number, plugin in enumerate(self.plugins.filter, 1):
            if plugin.name in cycle.skip_filter or id(plugin) in local:
                continue
            verdict = self._filter_all(cycle, pod, plugin, mask)
            verdicts.append((number, verdict))
            mask = mask & verdict.passed
        found = Feasible(mask, answers, verdicts, candidates=candidates)
        if self.handle.nominated.version:
            self._count_nominated(cycle, pod, found)
        return found

    def _filter_all(self, cycle: Cycle, pod: PodInfo, plugin: Any, passed: NodeMask) -> Verdict:
        recorder = self.recorder
        started = recorder.now() if recorder.sampled else 0.0
        table = cycle.nodes
        try:
            if hasattr(plugin, "filter_nodes"):
                verdict: Verdict = plugin.filter_nodes(cycle, pod, table, slice(0, table.size))
            else:
                verdict = _filter_one_by_one(cycle, pod, plugin, np.flatnonzero(passed))
        except PluginFailed:
            raise
        except Exception as cause:
            raise filter_failed(plugin.name, _describe(cause)) from cause
        if recorder.sampled:
            recorder.plugin(plugin.name, "Filter", "Success", recorder.now() - started)
        return verdict

    def local_answers(self, cycle: Cycle, pod: PodInfo) -> LocalAnswers:
        """The node-local plugins' answers for this kind of pod, true for the table as it is."""
        signature = self._signature(cycle, pod)
        answers = self.kept.find(signature)
        if answers is None:
            answers = LocalAnswers(self._local_plugins(cycle, pod, signature), len(self.filter_names))
            self.kept.keep(signature, answers)
        try:
            self.kept.rows_asked += answers.refresh(cycle, pod, cycle.nodes)
        except PluginFailed:
            self.kept.clear()
            raise
        except Exception as cause:
            # Half-refreshed answers must not be used again.
            self.kept.clear()
            raise self._blame(cycle, pod, cause) from cause
        return answers

    def _signature(self, cycle: Cycle, pod: PodInfo) -> tuple[Hashable, ...]:
        # Remembered per kind until nodes come or go (their number may be part of a signature).  A
        # pod that names its node is asked about itself: kinds do not know the name.
        kept = pod.kind.kept
        node_count = -1 if pod.node_name else cycle.nodes.node_count
        known: tuple[int, tuple[Hashable, ...]] | None = kept.get(self)
        if known is None or known[0] != node_count or node_count < 0:
            try:
                signature = tuple(plugin.signature(pod) for plugin in self._signed)
            except Exception as cause:
                raise self._blame(cycle, pod, cause) from cause
            known = kept[self] = (node_count, signature)
        return known[1]

    def _local_plugins(
        self, cycle: Cycle, pod: PodInfo, signature: tuple[Hashable, ...]
    ) -> LocalPlugins:
        signed = {id(p) for p, part in zip(self._signed, signature, strict=True) if part is not None}
        filters = tuple(
            (self._filter_number[plugin.name], plugin)
            for plugin in self.plugins.filter
            if id(plugin) in signed and plugin.name not in cycle.skip_filter
        )
        scores, failure = [], None
        for plugin in self.plugins.score:
            if id(plugin) not in signed:
                continue
            pre_score = self._pre_score.get(plugin.name)
            status = pre_score.pre_score(cycle, pod, _NO_ROWS) if pre_score else None
            if status is None:
                scores.append(plugin)
            elif status.code != Code.SKIP:
                failure = failure or point_failed(plugin.name, "PreScore", status.message)
        data = {
            plugin.name: cycle.data[plugin.name]
            for plugin in (*(p for _, p in filters), *scores)
            if plugin.name in cycle.data
        }
        return LocalPlugins(filters, tuple(scores), self.plugins.weights, data, failure)

    def _blame(self, cycle: Cycle, pod: PodInfo, cause: Exception) -> PluginFailed:
        """Find out which node-local plugin raised: the traceback knows its `self`."""
        trace, culprit = cause.__traceback__, ""
        names = {id(p): p.name for p in (*self.plugins.filter, *self.plugins.score)}
        while trace is not None:
            culprit = names.get(id(trace.tb_frame.f_locals.get("self")), culprit)
            trace = trace.tb_next
        return filter_failed(culprit or "unknown", _describe(cause))

    # -- Filter, one node -------------------------------------------------------------------

    def filter_one(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status | None:
        """All filters on one node as it is given, the first failure winning."""
        for plugin in self.plugins.filter:
            name = plugin.name
            if name in cycle.skip_filter:
                continue
            try:
                status: Status | None = plugin.filter_node(cycle, pod, node)
            except PluginFailed:
                raise
            except Exception as cause:
                raise filter_failed(name, _describe(cause)) from cause
            if status is not None:
                if not status.is_rejected:
                    raise filter_failed(name, status.message)
                return _named(status, name)
        return None

    def filter_one_with_nominated(
        self, cycle: Cycle, pod: PodInfo, node: NodeInfo
    ) -> Status | None:
        """As upstream's double pass: once with the pods nominated here counted in, once without."""
        with_nominated = self._nominated_pass(cycle, pod, node)
        if with_nominated is not None:
            return with_nominated
        return self.filter_one(cycle, pod, node)

    def _nominated_pass(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status | None:
        nominated = [
            other
            for other in self.handle.nominated.pods_for_node(node.name)
            if other.priority >= pod.priority and other.uid != pod.uid
        ]
        if not nominated:
            return None
        trial, trial_node = cycle.clone(), node.clone()
        for other in nominated:
            trial_node.add_pod(other)
            self.add_pod(trial, pod, other, trial_node)
        return self.filter_one(trial, pod, trial_node)

    def _count_nominated(self, cycle: Cycle, pod: PodInfo, found: Feasible) -> None:
        table = cycle.nodes
        refused: dict[int, Status] = {}
        for name in self.handle.nominated.nodes():
            row = table.row_of.get(name, -1)
            if row < 0 or (found.candidates is not None and not found.candidates[row]):
                continue
            status = self._nominated_pass(cycle, pod, table.info(row))
            if status is not None:
                refused[row] = status
        if refused:
            found.overrides.update(refused)
            found.mask = found.mask.copy()
            found.mask[list(refused)] = False

    def add_pod(self, cycle: Cycle, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        """Tell PreFilter plugins that a pod is (supposed to be) on the node now."""
        for plugin in self.plugins.pre_filter:
            if hasattr(plugin, "add_pod") and _name(plugin) not in cycle.skip_filter:
                plugin.add_pod(cycle, pod, added, node)

    def remove_pod(self, cycle: Cycle, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        for plugin in self.plugins.pre_filter:
            if hasattr(plugin, "remove_pod") and _name(plugin) not in cycle.skip_filter:
                plugin.remove_pod(cycle, pod, removed, node)

    # -- why not ----------------------------------------------------------------------------

    def diagnose(self, table: NodeTable, found: Feasible) -> Diagnosis:
        """Merge kept answers, verdicts and overrides into "the first that turned it down"."""
        answers = found.answers
        first, why, final = answers.first.copy(), answers.why.copy(), answers.final.copy()
        reasons = [list(texts) for texts in answers.reasons]
        for number, verdict in found.verdicts:
            reasons[number - 1] = list(verdict.reasons)
            earlier = (verdict.why != 0) & ((first == 0) | (first > number))
            first[earlier] = number
            why[earlier] = verdict.why[earlier]
            final[earlier] = verdict.unresolvable[earlier]
        candidates = table.alive if found.candidates is None else found.candidates & table.alive
        diagnosis = Diagnosis(
            table,
            table.node_count,
            Rejections(self.filter_names, reasons, first, why, final),
            candidates,
            dict(found.overrides),
            found.absent,
        )
        diagnosis.add_plugins()
        return diagnosis

    # -- Score ------------------------------------------------------------------------------

    def score(self, cycle: Cycle, pod: PodInfo, found: Feasible, rows: Rows) -> ScoreBoard:
        """Weighted scores of the feasible rows, plugin by plugin and in sum."""
        answers = found.answers
        by_plugin: dict[str, PluginScores] = {}
        if not self.plugins.score:
            return ScoreBoard(rows, np.ones(len(rows), np.int64), by_plugin)
        if answers.plugins.score_error is not None:
            raise answers.plugins.score_error
        total = answers.sum[rows]
        local = {plugin.name for plugin in answers.plugins.scores}
        for plugin in self.plugins.score:
            if plugin.name in local:
                self._local_score(cycle, pod, plugin, answers, rows, by_plugin)
            else:
                self._cluster_score(cycle, pod, plugin, rows, by_plugin)
            scores = by_plugin.get(plugin.name)
            if scores is not None and not isinstance(scores, KeptScores):
                total = total + scores
        return ScoreBoard(rows, total, by_plugin)

    def _local_score(
        self,
        cycle: Cycle,
        pod: PodInfo,
        plugin: Any,
        answers: LocalAnswers,
        rows: Rows,
        by_plugin: dict[str, PluginScores],
    ) -> None:
        name = plugin.name
        weight = self.plugins.weights[name]
        if not hasattr(plugin, "normalize_scores"):
            by_plugin[name] = KeptScores(answers.raw[name], rows, weight)
            return
        if not answers.has_raw[name]:
            flat = plugin.normalize_scores(cycle, pod, cycle.nodes, rows[:1], np.zeros(1, np.int64))
            by_plugin[name] = weight * int(flat[0])
            return
        raw = answers.raw[name][rows]
        normal = plugin.normalize_scores(cycle, pod, cycle.nodes, rows, raw)
        by_plugin[name] = weight * _checked(name, normal)

    def _cluster_score(
        self,
        cycle: Cycle,
        pod: PodInfo,
        plugin: Any,
        rows: Rows,
        by_plugin: dict[str, PluginScores],
    ) -> None:
        name = plugin.name
        recorder = self.recorder
        started = recorder.now() if recorder.sampled else 0.0
        try:
            pre_score = self._pre_score.get(name)
            status = pre_score.pre_score(cycle, pod, rows) if pre_score else None
            if status is not None:
                if status.code != Code.SKIP:
                    raise point_failed(name, "PreScore", status.message)
                cycle.skip_score.add(name)
                return
            if hasattr(plugin, "score_nodes"):
                scores = plugin.score_nodes(cycle, pod, cycle.nodes, rows)
            else:
                infos = cycle.nodes.infos
                scores = np.array(
                    [plugin.score_node(cycle, pod, infos[row]) for row in rows.tolist()], np.int64
                )
            if hasattr(plugin, "normalize_scores"):
                scores = plugin.normalize_scores(cycle, pod, cycle.nodes, rows, scores)
        except PluginFailed:
            raise
        except Exception as cause:
            raise point_failed(name, "Score", _describe(cause)) from cause
        by_plugin[name] = self.plugins.weights[name] * _checked(name, scores)
        if recorder.sampled:
            recorder.plugin(name, "Score", "Success", recorder.now() - started)


@dataclass(frozen=True, slots=True)
class PreFilterVerdict:
    status: Status | None
    """Why the pod as a whole was turned down."""
    narrowed_by: tuple[str, ...] = ()
    nodes: frozenset[str] | None = None


_NO_ROWS: Rows = np.zeros(0, np.intp)


def _filter_one_by_one(cycle: Cycle, pod: PodInfo, plugin: Any, rows: Rows) -> Verdict:
    """A user's one-node filter, asked about the nodes that are still in question."""
    table = cycle.nodes
    reasons: list[str] = []
    why = np.zeros(table.size, np.uint32)
    final = np.zeros(table.size, np.bool_)
    for row in rows.tolist():
        status = plugin.filter_node(cycle, pod, table.infos[row])
        if status is None:
            continue
        if not status.is_rejected:
            raise filter_failed(plugin.name, status.message)
        for text in status.reasons or ("",):
            if text not in reasons:
                if len(reasons) == _REASONS_MAX:
                    text = reasons[-1]
                else:
                    reasons.append(text)
            why[row] |= np.uint32(1 << reasons.index(text))
        final[row] = status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    return Verdict(tuple(reasons), why, final)


_REASONS_MAX = 32


def _checked(plugin: str, scores: Scores) -> Scores:
    if len(scores) and (scores.min() < 0 or scores.max() > MAX_NODE_SCORE):
        wrong = scores[(scores < 0) | (scores > MAX_NODE_SCORE)][0]
        raise PluginFailed(
            plugin,
            f'plugin "{plugin}" returns an invalid score {wrong}, '
            f"it should in the range of [0, {MAX_NODE_SCORE}] after normalizing",
        )
    return scores


def _nothing_left(names: list[str]) -> Status:
    if len(names) == 1:
        text = f"node(s) didn't satisfy plugin {names[0]}"
    else:
        text = f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously"
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))


def _named(status: Status, plugin: str) -> Status:
    return Status(status.code, status.reasons, plugin)


def _name(plugin: Any) -> str:
    name: str = plugin.name
    return name


def _describe(cause: BaseException) -> str:
    return f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__
