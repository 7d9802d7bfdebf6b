"""The framework of one profile: runs its plugins, all nodes at once.

`find_feasible` and `score` are the two halves of a decision; `core.schedule_one` calls them in
turn.  Node-local plugins are asked through `framework.kept`, cluster-wide ones every time.
Mirrors kube-scheduler's `framework/runtime/framework.go`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from stowplan.framework.cycle import Cycle
from stowplan.framework.diagnosis import Diagnoses, Diagnosis
from stowplan.framework.errors import (
    PluginFailed,
    describe,
    extension_failed,
    filter_failed,
    point_failed,
    score_failed,
)
from stowplan.framework.findings import Feasible, PreFilterVerdict, ScoreBoard
from stowplan.framework.handle import Handle
from stowplan.framework.kept import KeptAnswers, LocalAnswers
from stowplan.framework.nominations import count_nominated, filter_beside_nominated
from stowplan.framework.one_by_one import (
    filter_one_by_one,
    filter_passing,
    score_one_by_one,
)
from stowplan.framework.plan import Outline, Plan
from stowplan.framework.planning import Planner, Tallies
from stowplan.framework.plugin import PreFilterExtensions, PreFilterResult, ProfilePlugins
from stowplan.framework.status import (
    MAX_NODE_SCORE,
    SKIP_ALWAYS,
    Code,
    Normalized,
    Rows,
    Scores,
    Status,
    Verdict,
)
from stowplan.framework.timing import ERROR, SUCCESS, NoRecorder, Recorder
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import KeptPer, PodInfo

Flat = tuple[dict[str, Any], int]

Named = tuple[tuple[str, Any], ...]
"""(plugin's name, plugin), in order."""


class OnOneNode(NamedTuple):
    """Who has a say about single nodes in cycles that skip the same plugins."""

    filters: Named
    pod_filters: Named
    """Without those that read the node object alone."""
    last_node_only: int
    """The number of the last of those."""
    extensions: Named
    """Of PreFilter: to be told of pods added and removed."""


class Framework:
    def __init__(
        self,
        profile: str,
        plugins: ProfilePlugins,
        handle: Handle,
        *,
        percentage_of_nodes_to_score: int = 0,
        recorder: Recorder | None = None,
    ) -> None:
        self.profile = profile
        self.plugins = plugins
        self.handle = handle
        self.percentage_of_nodes_to_score = percentage_of_nodes_to_score
        """0: look at every node."""
        self.recorder: Recorder = recorder or NoRecorder()
        self._now = self.recorder.now
        self._pre_filter_s, self._filter_s, self._pre_score_s, self._score_s = (
            self.recorder.successes(point, profile)
            for point in ("PreFilter", "Filter", "PreScore", "Score")
        )
        self.reserve_s, self.bind_s = (
            self.recorder.successes(point, profile) for point in ("Reserve", "Bind")
        )
        self.kept = KeptAnswers()
        self.filter_names = tuple(plugin.name for plugin in plugins.filter)
        self._diagnoses = Diagnoses(self.filter_names)
        self._filters: Named = tuple((plugin.name, plugin) for plugin in plugins.filter)
        self._extensions: Named = tuple(
            (_name(p), p) for p in plugins.pre_filter if isinstance(p, PreFilterExtensions)
        )
        self._pre_score = {_name(p): p for p in plugins.pre_score}
        self._by_traits = KeptPer()
        """What is known of pods whatever their size, per `PodTraits`."""
        self.tallies: Tallies = {}
        """How often each set of plugins was asked."""
        self._planner = Planner(
            plugins,
            handle,
            self.tallies,
            self._by_traits,
            self._one_pre_filter,
            self._one_pre_score,
        )
        handle.framework = self

    # -- the plan ---------------------------------------------------------------------------

    def plan_of(self, pod: PodInfo) -> Plan:
        """What this profile does for pods of this kind, whatever has become of the cluster."""
        return self._plan_of(pod, self.handle.kept[pod.kind.ref], -1)

    def _plan_of(self, pod: PodInfo, kept: dict[str, Any], context: int) -> Plan:
        """With what is known in this context alone, if something is."""
        planner, key = self._planner, _SHORT
        known = planner.known(pod)
        if known.context != context or context < 0:
            plan: Plan | None = kept.get(_PLAN)
            if plan is not None and plan.node_count == known.node_count:
                return plan
            key, context = _PLAN, -1
        plan = planner.make(pod, known, context)
        if not planner.is_per_pod:
            kept[key] = plan
        return plan

    def _note_skip(
        self, cycle: Cycle, pod: PodInfo, name: str, answer: Status, *, to_score: bool
    ) -> None:
        """The plugin skipped the pod, and says that it will skip others like it."""
        planner, kept = self._planner, cycle.kept
        if name not in planner.remembering:
            return
        if answer == SKIP_ALWAYS:
            planner.known(pod).note(name, answer, cycle.context, to_score=to_score)
            kept.pop(_PLAN, None)
            kept.pop(_SHORT, None)
            # For the rest of this attempt too.
            cycle.plan = self._plan_of(pod, kept, -1)
        elif cycle.context >= 0:
            planner.known(pod).note(name, answer, cycle.context, to_score=to_score)
            kept.pop(_SHORT, None)

    def forget(self) -> None:
        """Drop all that is kept: the next decision is made as if it were the first."""
        self.kept.clear()
        self.handle.kept.clear()
        self._by_traits.clear()

    def _point(self, point: str, status: str, started_s: float) -> None:
        recorder = self.recorder
        recorder.point(point, self.profile, status, recorder.now() - started_s)

    # -- PreFilter --------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> PreFilterVerdict:
        """Run every PreFilter that matters; say whether to go on, and with which nodes.

        From here on the cycle has what is known of pods like this one.
        """
        handle, table = self.handle, cycle.nodes
        kept = cycle.kept = handle.kept[pod.kind.ref]
        if self.recorder.sampled:
            context, cycle.sampled = -1, True  # To be timed, all are asked.
        else:
            # Grows with all that a plugin which skips steadily may read.
            context = table.node_version + table.pods.terms_version + handle.objects.change_count
            cycle.context = context
        plan: Plan | None = kept.get(_SHORT)
        if plan is None or plan.context != context:
            try:
                plan = self._plan_of(pod, kept, context)
            except PluginFailed:
                self._point("PreFilter", ERROR, self._now())
                raise
        cycle.plan = plan
        if plan.data:
            cycle.data.update(plan.data)
        outline = plan.outline
        cycle.skip_filter = outline.skipped
        outline.tally.pre_filtered += 1
        if not outline.steps:
            self._pre_filter_s.append(0.0)
            return _GO_ON
        started_s = self._now()
        try:
            verdict = self._run_pre_filters(cycle, pod, outline)
        except BaseException:
            self._point("PreFilter", ERROR, started_s)
            raise
        if verdict.status is None:
            self._pre_filter_s.append(self._now() - started_s)
        else:
            self._point("PreFilter", verdict.status.code.label, started_s)
        return verdict

    def _run_pre_filters(self, cycle: Cycle, pod: PodInfo, outline: Outline) -> PreFilterVerdict:
        narrowed: dict[str, frozenset[str]] = {}
        rejected: Status | None = None
        for step in outline.steps:
            answer = self._one_pre_filter(cycle, pod, step.plugin) if step.asks else step.known
            if answer is None:
                continue
            if isinstance(answer, PreFilterResult):
                if answer.nodes is not None:
                    narrowed[step.name] = answer.nodes
            elif answer.code == Code.SKIP:
                cycle.skip_filter |= {step.name}
                if answer.reasons:
                    self._note_skip(cycle, pod, step.name, answer, to_score=False)
            elif answer.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                cycle.skip_filter = self._skipped_before(step.name, cycle.skip_filter)
                return PreFilterVerdict(_named(answer, step.name))
            elif answer.code == Code.UNSCHEDULABLE:
                rejected = _named(answer, step.name)
            else:
                raise point_failed(step.name, "PreFilter", answer.message)
            if narrowed and not frozenset.intersection(*narrowed.values()):
                cycle.skip_filter = self._skipped_before(step.name, cycle.skip_filter)
                return PreFilterVerdict(_nothing_left(list(narrowed)), tuple(narrowed))
        if rejected is not None:
            return PreFilterVerdict(rejected)
        if not narrowed:
            return _GO_ON
        return PreFilterVerdict(None, tuple(narrowed), frozenset.intersection(*narrowed.values()))

    def _skipped_before(self, name: str, skipped: frozenset[str]) -> frozenset[str]:
        """Who would have skipped, had all been asked in turn until this plugin ended it."""
        names = [_name(plugin) for plugin in self.plugins.pre_filter]
        return skipped.intersection(names[: names.index(name)])

    def _one_pre_filter(
        self, cycle: Cycle, pod: PodInfo, plugin: Any
    ) -> PreFilterResult | Status | None:
        started_s = self._now() if cycle.sampled else 0.0
        try:
            answer: PreFilterResult | Status | None = plugin.pre_filter(cycle, pod)
        except PluginFailed:
            raise
        except Exception as cause:
            raise point_failed(plugin.name, "PreFilter", describe(cause)) from cause
        if cycle.sampled:
            code = answer.code if isinstance(answer, Status) else Code.SUCCESS
            self.recorder.plugin(plugin.name, "PreFilter", code.label, self._now() - started_s)
        return answer

    # -- Filter, all nodes ------------------------------------------------------------------

    def find_feasible(
        self, cycle: Cycle, pod: PodInfo, nodes: frozenset[str] | None = None
    ) -> Feasible:
        """Every node that passes all filters; `nodes` is PreFilter's choice of candidates."""
        started_s = self._now()
        outline: Outline = cycle.plan.outline
        outline.tally.filtered += 1
        try:
            answers = self.local_answers(cycle, pod)
            found = Feasible(answers.passed, answers, [])
            if nodes is not None:
                table = cycle.nodes
                candidates = found.candidates = np.zeros(table.size, np.bool_)
                candidates[table.rows_of(nodes)] = True
                found.mask = found.mask & candidates
            for number, plugin in outline.cluster_filters:
                if plugin.name not in cycle.skip_filter:
                    verdict = self._filter_all(cycle, pod, plugin, found)
                    found.verdicts.append((number, verdict))
                    if not verdict.all_passed:
                        found.mask = found.mask & verdict.passed
            if self.handle.nominated.node_of:
                count_nominated(self, cycle, pod, found)
        except BaseException:
            self._point("Filter", ERROR, started_s)
            raise
        self._filter_s.append(self._now() - started_s)
        return found

    def _filter_all(self, cycle: Cycle, pod: PodInfo, plugin: Any, found: Feasible) -> Verdict:
        recorder = self.recorder
        started = recorder.now() if cycle.sampled else 0.0
        table = cycle.nodes
        verdict: Verdict
        try:
            if getattr(plugin, "only_passing", False):
                verdict = filter_passing(cycle, pod, plugin, found.mask)
            elif hasattr(plugin, "filter_nodes"):
                verdict = plugin.filter_nodes(cycle, pod, table, slice(0, table.size))
            else:
                verdict = filter_one_by_one(cycle, pod, plugin, found.mask, found.pending)
        except PluginFailed:
            raise
        except Exception as cause:
            raise filter_failed(plugin.name, describe(cause)) from cause
        if cycle.sampled:
            recorder.plugin(plugin.name, "Filter", "Success", recorder.now() - started)
        return verdict

    def local_answers(self, cycle: Cycle, pod: PodInfo) -> LocalAnswers:
        """The node-local plugins' answers for this kind of pod, true for the table as it is."""
        plan, kept = cycle.plan, self.kept
        found = kept.find(plan)
        answers = found or kept.make(plan)
        try:
            recorder = self.recorder if cycle.sampled else None
            kept.rows_asked += answers.refresh(cycle, pod, cycle.nodes, recorder)
        except PluginFailed:
            # Half-refreshed answers must not be used again.
            kept.clear()
            raise
        if found is None:
            kept.keep(plan, answers)
        return answers

    def is_node_local(self, cycle: Cycle, pod: PodInfo) -> bool:
        """Whether each filter's answer for a node depends on that node alone, in this cycle."""
        outline: Outline = cycle.plan.outline
        return all(plugin.name in cycle.skip_filter for _, plugin in outline.cluster_filters)

    # -- Filter, one node -------------------------------------------------------------------

    def on_one_node(self, cycle: Cycle) -> OnOneNode:
        """Whom a cycle does not skip; few sets are skipped."""
        outline: Outline = cycle.plan.outline
        skipped = cycle.skip_filter
        left: OnOneNode | None = outline.on_one_node.get(skipped)
        if left is None:
            filters = tuple(entry for entry in self._filters if entry[0] not in skipped)
            node_only = {each.name: each.number for each in outline.node_only.filters}
            left = outline.on_one_node[skipped] = OnOneNode(
                filters,
                tuple(entry for entry in filters if entry[0] not in node_only),
                max(node_only.values(), default=0),
                tuple(entry for entry in self._extensions if entry[0] not in skipped),
            )
        return left

    def filter_one(
        self, cycle: Cycle, pod: PodInfo, node: NodeInfo, *, pods_only: bool = False
    ) -> Status | None:
        """All filters on one node as it is given, the first failure winning.

        `pods_only` leaves out those that read the node object alone.
        """
        left: OnOneNode = cycle.plan.outline.on_one_node.get(cycle.skip_filter) or self.on_one_node(
            cycle
        )
        for name, plugin in left.pod_filters if pods_only else left.filters:
            try:
                status: Status | None = plugin.filter_node(cycle, pod, node)
            except PluginFailed:
                raise
            except Exception as cause:
                raise filter_failed(name, describe(cause)) from cause
            if status is not None:
                if not status.is_rejected:
                    raise filter_failed(name, status.message)
                return _named(status, name)
        return None

    def filter_one_with_nominated(
        self, cycle: Cycle, pod: PodInfo, node: NodeInfo
    ) -> Status | None:
        """As upstream's double pass: once with the pods nominated here counted in, once without."""
        with_nominated = filter_beside_nominated(self, cycle, pod, node)
        if with_nominated is not None:
            return with_nominated
        return self.filter_one(cycle, pod, node)

    def add_pod(self, cycle: Cycle, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        """Tell PreFilter plugins that a pod is (supposed to be) on the node now."""
        for name, plugin in self.on_one_node(cycle).extensions:
            try:
                plugin.add_pod(cycle, pod, added, node)
            except Exception as cause:
                raise extension_failed(name, "AddPod", describe(cause)) from cause

    def remove_pod(self, cycle: Cycle, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        for name, plugin in self.on_one_node(cycle).extensions:
            try:
                plugin.remove_pod(cycle, pod, removed, node)
            except Exception as cause:
                raise extension_failed(name, "RemovePod", describe(cause)) from cause

    def diagnose(self, table: NodeTable, found: Feasible) -> Diagnosis:
        """Why no node passes, or why all but these do not."""
        return self._diagnoses.make(table, found)

    # -- Score ------------------------------------------------------------------------------

    def score(self, cycle: Cycle, pod: PodInfo, found: Feasible, rows: Rows) -> ScoreBoard:
        """Weighted scores of the feasible rows, plugin by plugin and in sum."""
        outline: Outline = cycle.plan.outline
        outline.tally.scored += 1
        answers = found.answers
        flat = (outline.flat or self._flatten(cycle, pod, outline)) if answers.is_flat else None
        if flat is not None and not outline.cluster_scores:
            # Nobody has to be asked, so it takes no time.
            self._pre_score_s.append(0.0)
            self._score_s.append(0.0)
            return ScoreBoard(rows, answers, outline.plain_scores, *flat)
        started_s, point = self._now(), "PreScore"
        try:
            if outline.score_error is not None:
                raise outline.score_error
            asked = self._scorers(cycle, pod, outline.cluster_scores, rows)
            now_s = self._now()
            self._pre_score_s.append(now_s - started_s)
            started_s, point = now_s, "Score"
            board = ScoreBoard(rows, answers, outline.plain_scores)
            if flat is not None:
                board.by_plugin, board.constant = flat[0].copy(), flat[1]
            else:
                for plugin in outline.normalized_scores:
                    self._normalized_score(cycle, pod, plugin, answers, board)
            for plugin in asked:
                self._cluster_score(cycle, pod, plugin, board)
        except Exception:
            self._point(point, ERROR, started_s)
            raise
        self._score_s.append(self._now() - started_s)
        return board

    def _scorers(
        self, cycle: Cycle, pod: PodInfo, plugins: tuple[Any, ...], rows: Rows
    ) -> tuple[Any, ...]:
        """Those of the cluster-wide plugins that go on to score."""
        asked = []
        for plugin in plugins:
            status = self._one_pre_score(cycle, pod, plugin.name, rows)
            if status is None:
                asked.append(plugin)
            elif status.reasons:
                self._note_skip(cycle, pod, plugin.name, status, to_score=True)
        return tuple(asked)

    def _one_pre_score(self, cycle: Cycle, pod: PodInfo, name: str, rows: Rows) -> Status | None:
        """Run the plugin's PreScore, if it has one; a Skip leaves its Score out."""
        plugin = self._pre_score.get(name)
        if plugin is None:
            return None
        started_s = self._now() if cycle.sampled else 0.0
        try:
            status = plugin.pre_score(cycle, pod, rows)
        except Exception as cause:
            raise point_failed(name, "PreScore", describe(cause)) from cause
        if cycle.sampled:
            label = SUCCESS if status is None else status.code.label
            self.recorder.plugin(name, "PreScore", label, self._now() - started_s)
        if status is not None and status.code != Code.SKIP:
            raise point_failed(name, "PreScore", status.message)
        return status

    def _normalized_score(
        self, cycle: Cycle, pod: PodInfo, plugin: Any, answers: LocalAnswers, board: ScoreBoard
    ) -> None:
        name = plugin.name
        weight = self.plugins.weights[name]
        try:
            raw = answers.raw(name)[board.rows]
            normal = plugin.normalize_scores(cycle, pod, cycle.nodes, board.rows, raw)
        except Exception as cause:
            raise score_failed(name, describe(cause), normalizing=True) from cause
        board.add(name, weight * _checked(name, normal))

    def _flatten(self, cycle: Cycle, pod: PodInfo, outline: Outline) -> Flat:
        """What the plugins that normalise make of raw scores that are 0 everywhere, and the sum.

        The same for every pod; 1 in a profile where nobody scores.
        """
        if outline.score_error is not None:
            self._point("PreScore", ERROR, self._now())
            raise outline.score_error
        board = ScoreBoard(_ONE_ROW, constant=0 if self.plugins.score else 1)
        for plugin in outline.normalized_scores:
            name = plugin.name
            try:
                normal = plugin.normalize_scores(cycle, pod, cycle.nodes, _ONE_ROW, _ONE_ZERO)
            except Exception as cause:
                raise score_failed(name, describe(cause), normalizing=True) from cause
            board.add(name, self.plugins.weights[name] * int(_checked(name, normal)[0]))
        flat = outline.flat = board.by_plugin, board.constant
        return flat

    def _cluster_score(self, cycle: Cycle, pod: PodInfo, plugin: Any, board: ScoreBoard) -> None:
        name, rows, normalizing = plugin.name, board.rows, False
        weight, table, recorder = self.plugins.weights[name], cycle.nodes, self.recorder
        started_s = recorder.now() if cycle.sampled else 0.0
        try:
            if hasattr(plugin, "score_nodes"):
                # All rows: columns need no picking from.
                where = slice(0, table.size) if len(rows) == table.size else rows
                scores = plugin.score_nodes(cycle, pod, table, where)
            else:
                scores = score_one_by_one(cycle, pod, plugin, rows)
            normalizing = True
            if isinstance(scores, Normalized):
                scores = scores.scores
            elif not isinstance(scores, int) and hasattr(plugin, "normalize_scores"):
                raw = scores
                scores = plugin.normalize_scores(cycle, pod, table, rows, raw)
                if scores is not raw:
                    board.raw = {**(board.raw or {}), name: raw}
            board.add(name, weight * _checked(name, scores))
        except PluginFailed:
            raise
        except Exception as cause:
            raise score_failed(name, describe(cause), normalizing=normalizing) from cause
        if cycle.sampled:
            recorder.plugin(name, "Score", SUCCESS, recorder.now() - started_s)


_ONE_ROW: Rows = np.zeros(1, np.intp)
_ONE_ZERO: Scores = np.zeros(1, np.int64)
_GO_ON = PreFilterVerdict(None)
_PLAN, _SHORT = "plan", "shorter plan"
"""Where the framework keeps its own, beside what plugins keep under their names."""


def _checked(plugin: str, scores: Any) -> Any:
    if isinstance(scores, int):
        wrong = None if 0 <= scores <= MAX_NODE_SCORE else scores
    else:
        wrong = _out_of_bounds(scores)
    if wrong is not None:
        raise PluginFailed(
            plugin,
            f'plugin "{plugin}" returns an invalid score {wrong}, '
            f"it should in the range of [0, {MAX_NODE_SCORE}] after normalizing",
        )
    return scores


def _out_of_bounds(scores: Scores) -> Any:
    # Without a sign, what is below 0 is very large: one look instead of two.
    whole = scores.dtype.kind == "i"
    if whole and (not len(scores) or scores.view(f"u{scores.itemsize}").max() <= MAX_NODE_SCORE):
        return None
    wrong = scores[(scores < 0) | (scores > MAX_NODE_SCORE)]
    return wrong[0] if len(wrong) else None


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


__all__ = ["Feasible", "Framework", "PreFilterVerdict", "ScoreBoard"]
