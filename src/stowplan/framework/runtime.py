"""The framework of one profile: runs its plugins, all nodes at once.

`find_feasible` and `score` are the two halves of a decision; `core.schedule_one` calls them in
turn.  Node-local plugins are asked through `framework.kept`, cluster-wide ones every time.
Mirrors kube-scheduler's `framework/runtime/framework.go`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from stowplan.framework.cycle import Cycle
from stowplan.framework.diagnosis import Diagnoses, Diagnosis
from stowplan.framework.errors import (
    PluginFailed,
    culprit,
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
    filter_the_rest,
    score_one_by_one,
)
from stowplan.framework.plan import Outline, Plan, Quiet, is_idle_if_skipped, is_node_only
from stowplan.framework.planning import Planner, Tallies
from stowplan.framework.plugin import PluginSet, PreFilterExtensions, PreFilterResult
from stowplan.framework.status import (
    MAX_NODE_SCORE,
    Code,
    Rows,
    Scores,
    Status,
    Verdict,
)
from stowplan.framework.timing import BUFFER_MAX, ERROR, SUCCESS, NoRecorder, Recorder
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import KeptPer, PodInfo

Named = tuple[tuple[str, Any], ...]
"""(plugin's name, plugin), in order."""


class _Left(NamedTuple):
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
        self._left: dict[frozenset[str], _Left] = {}
        self._working: dict[frozenset[str], tuple[tuple[Any, ...], tuple[Any, ...]]] = {}
        self._pre_score = {_name(p): p for p in plugins.pre_score}
        self._flat: dict[str, int] = {}
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
            self._pre_score_says_go,
        )
        handle.framework = self

    # -- the plan ---------------------------------------------------------------------------

    def plan_of(self, pod: PodInfo) -> Plan:
        """What this profile does for pods of this kind."""
        return self._plan_of(pod, self.handle.kept[pod.kind.ref])

    def _plan_of(self, pod: PodInfo, kept: dict[str, Any]) -> Plan:
        plan: Plan | None = kept.get(_PLAN)
        if plan is None or plan.node_count != self.handle.nodes.node_count:
            plan = kept[_PLAN] = self._planner.make(pod)
        return plan

    def _begin(self, cycle: Cycle, pod: PodInfo) -> Plan:
        """Hand the cycle what is known of pods like this one."""
        kept = cycle.kept = self.handle.kept[pod.kind.ref]
        plan = cycle.plan = self._plan_of(pod, kept)
        if plan.data:
            cycle.data.update(plan.data)
        return plan

    def forget(self) -> None:
        """Drop all that is kept: the next decision is made as if it were the first."""
        self.kept.clear()
        self.handle.kept.clear()
        self._by_traits.clear()

    def _point(self, point: str, status: str, started_s: float) -> None:
        recorder = self.recorder
        recorder.point(point, self.profile, status, recorder.now() - started_s)

    # -- nobody but node-local plugins ------------------------------------------------------

    def quiet_board(self, cycle: Cycle, pod: PodInfo) -> ScoreBoard | None:
        """PreFilter, Filter and Score in one, for a pod that node-local plugins alone decide on.

        So it is with most pods once the first of their sort went the long way.  None: others may
        have something to say.
        """
        handle = self.handle
        quiet: Quiet | None = self._by_traits[pod.kind.traits.ref].get(_QUIET)
        if quiet is None or quiet.flat is None or cycle.sampled or handle.nominated.node_of:
            return None
        if quiet.context != self._context():
            return None
        started_s = self._now()
        outline = self._begin(cycle, pod).outline
        if outline is not quiet.outline:
            return None
        cycle.quiet, cycle.skip_filter = quiet, quiet.skipped
        answers = self.local_answers(cycle, pod)
        rows = answers.passed_rows()
        self._filter_s.append(self._now() - started_s)
        self._pre_filter_s.append(0.0)
        outline.tally.filtered += 1
        outline.tally.pre_filtered += 1
        if len(rows) > 1:
            self._pre_score_s.append(0.0)
            self._score_s.append(0.0)
            outline.tally.scored += 1
        if len(self._filter_s) >= BUFFER_MAX:
            self.recorder.catch_up()
        return ScoreBoard(rows, answers, outline.plain_scores, quiet.flat, quiet.constant)

    def _context(self) -> int:
        """Grows with all that a plugin which skips steadily may read."""
        handle = self.handle
        table = handle.nodes
        return table.node_version + table.pods.terms_version + handle.objects.change_count

    # -- PreFilter --------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> PreFilterVerdict:
        """Run every PreFilter that matters; say whether to go on, and with which nodes."""
        started_s = self._now()
        try:
            verdict = self._pre_filter(cycle, pod)
        except BaseException:
            self._point("PreFilter", ERROR, started_s)
            raise
        if verdict.status is None:
            self._pre_filter_s.append(self._now() - started_s)
            if len(self._pre_filter_s) >= BUFFER_MAX:
                self.recorder.catch_up()
        else:
            self._point("PreFilter", verdict.status.code.label, started_s)
        return verdict

    def _pre_filter(self, cycle: Cycle, pod: PodInfo) -> PreFilterVerdict:
        outline = self._begin(cycle, pod).outline
        outline.tally.pre_filtered += 1
        context, by_traits = self._context(), self._by_traits[pod.kind.traits.ref]
        quiet: Quiet | None = by_traits.get(_QUIET)
        if (
            quiet is not None
            and quiet.context == context
            and quiet.outline is outline
            and not cycle.sampled
        ):
            cycle.quiet, cycle.skip_filter = quiet, quiet.skipped
            return _GO_ON
        cycle.skip_filter = outline.skipped
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
                first = cycle.skip_filter is outline.skipped
                cycle.skip_filter = step.skipped if first else cycle.skip_filter | {step.name}
            elif answer.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return PreFilterVerdict(_named(answer, step.name))
            elif answer.code == Code.UNSCHEDULABLE:
                rejected = _named(answer, step.name)
            else:
                raise point_failed(step.name, "PreFilter", answer.message)
            if narrowed and not frozenset.intersection(*narrowed.values()):
                return PreFilterVerdict(_nothing_left(list(narrowed)), tuple(narrowed))
        if rejected is not None:
            return PreFilterVerdict(rejected)
        if not narrowed:
            if len(cycle.skip_filter) == len(outline.skipped) + len(outline.steps):
                # All that were asked answered Skip.
                cycle.quiet = Quiet(context, outline, cycle.skip_filter)
                is_news = quiet is None or quiet.context != context
                if is_news and _skip_steadily((step.plugin for step in outline.steps), pod):
                    # Pods that fit nowhere never get as far as scoring.
                    by_traits[_QUIET] = cycle.quiet
            return _GO_ON
        return PreFilterVerdict(None, tuple(narrowed), frozenset.intersection(*narrowed.values()))

    def _one_pre_filter(
        self, cycle: Cycle, pod: PodInfo, plugin: Any
    ) -> PreFilterResult | Status | None:
        recorder = self.recorder
        started = recorder.now() if cycle.sampled else 0.0
        try:
            answer: PreFilterResult | Status | None = plugin.pre_filter(cycle, pod)
        except PluginFailed:
            raise
        except Exception as cause:
            raise point_failed(plugin.name, "PreFilter", describe(cause)) from cause
        if cycle.sampled:
            code = answer.code if isinstance(answer, Status) else Code.SUCCESS
            recorder.plugin(plugin.name, "PreFilter", code.label, recorder.now() - started)
        return answer

    # -- Filter, all nodes ------------------------------------------------------------------

    def find_feasible(
        self, cycle: Cycle, pod: PodInfo, nodes: frozenset[str] | None = None
    ) -> Feasible:
        """Every node that passes all filters; `nodes` is PreFilter's choice of candidates."""
        started_s = self._now()
        try:
            found = self._find_feasible(cycle, pod, nodes)
        except BaseException:
            self._point("Filter", ERROR, started_s)
            raise
        self._filter_s.append(self._now() - started_s)
        return found

    def _find_feasible(self, cycle: Cycle, pod: PodInfo, nodes: frozenset[str] | None) -> Feasible:
        table = cycle.nodes
        answers = self.local_answers(cycle, pod)
        mask = answers.passed
        candidates = None
        if nodes is not None:
            candidates = np.zeros(table.size, np.bool_)
            candidates[table.rows_of(nodes)] = True
            mask = mask & candidates
        found = Feasible(mask, answers, [], candidates=candidates)
        plan = cycle.plan or self.plan_of(pod)
        plan.outline.tally.filtered += 1
        for number, plugin in plan.outline.cluster_filters:
            if plugin.name in cycle.skip_filter:
                continue
            verdict = self._filter_all(cycle, pod, plugin, found)
            found.verdicts.append((number, verdict))
            if not verdict.all_passed:
                found.mask = found.mask & verdict.passed
        if self.handle.nominated.node_of:
            count_nominated(self, cycle, pod, found)
        return found

    def _filter_all(self, cycle: Cycle, pod: PodInfo, plugin: Any, found: Feasible) -> Verdict:
        recorder = self.recorder
        started = recorder.now() if cycle.sampled else 0.0
        table = cycle.nodes
        verdict: Verdict
        try:
            if getattr(plugin, "asks_the_rest_only", False):
                verdict = filter_the_rest(cycle, pod, plugin, found.mask)
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
        plan = cycle.plan or self.plan_of(pod)
        kept = self.kept
        found = kept.find(plan)
        answers = found or kept.make(plan)
        try:
            recorder = self.recorder if cycle.sampled else None
            kept.rows_asked += answers.refresh(cycle, pod, cycle.nodes, recorder)
        except PluginFailed:
            self.kept.clear()
            raise
        except Exception as cause:
            # Half-refreshed answers must not be used again.
            self.kept.clear()
            raise self._blame(cycle, pod, cause) from cause
        if found is None:
            kept.keep(plan, answers)
        return answers

    def _blame(self, cycle: Cycle, pod: PodInfo, cause: Exception) -> PluginFailed:
        """Say which node-local plugin raised, and at what."""
        plugins = (*self.plugins.filter, *self.plugins.score)
        name, scoring = culprit(cause, {id(plugin): plugin.name for plugin in plugins})
        failed = score_failed if scoring else filter_failed
        return failed(name, describe(cause))

    def is_node_local(self, cycle: Cycle, pod: PodInfo) -> bool:
        """Whether each filter's answer for a node depends on that node alone, in this cycle."""
        plan = cycle.plan or self.plan_of(pod)
        return all(plugin.name in cycle.skip_filter for _, plugin in plan.outline.cluster_filters)

    # -- Filter, one node -------------------------------------------------------------------

    def _left_of(self, skipped: frozenset[str]) -> _Left:
        """Whom a cycle does not skip; few sets are skipped."""
        left = self._left.get(skipped)
        if left is None:
            filters = tuple(entry for entry in self._filters if entry[0] not in skipped)
            numbers = [n for n, entry in enumerate(self._filters, 1) if is_node_only(entry[1])]
            left = self._left[skipped] = _Left(
                filters,
                tuple(entry for entry in filters if not is_node_only(entry[1])),
                max((n for n in numbers if self.filter_names[n - 1] not in skipped), default=0),
                tuple(entry for entry in self._extensions if entry[0] not in skipped),
            )
        return left

    def reservers(self, cycle: Cycle) -> tuple[Any, ...]:
        """The Reserve plugins that the pod may concern."""
        return self._at_work(cycle.skip_filter)[0]

    def pre_binders(self, cycle: Cycle) -> tuple[Any, ...]:
        return self._at_work(cycle.skip_filter)[1]

    def _at_work(self, skipped: frozenset[str]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        found = self._working.get(skipped)
        if found is None:
            reserve, pre_bind = (
                tuple(p for p in plugins if not (is_idle_if_skipped(p) and _name(p) in skipped))
                for plugins in (self.plugins.reserve, self.plugins.pre_bind)
            )
            found = self._working[skipped] = reserve, pre_bind
        return found

    def has_extensions(self, cycle: Cycle) -> bool:
        """Whether `add_pod` and `remove_pod` have anybody to tell."""
        return bool(self._left_of(cycle.skip_filter).extensions)

    def passes_itself(self, cycle: Cycle, first: int) -> bool:
        """Whether a node passes all filters that read its object alone, going by which was the
        first to turn it down (by its number; 0: unknown)."""
        return first > self._left_of(cycle.skip_filter).last_node_only

    def filter_one(
        self, cycle: Cycle, pod: PodInfo, node: NodeInfo, *, pods_only: bool = False
    ) -> Status | None:
        """All filters on one node as it is given, the first failure winning.

        `pods_only` leaves out those that read the node object alone.
        """
        left = self._left_of(cycle.skip_filter)
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
        for name, plugin in self._left_of(cycle.skip_filter).extensions:
            try:
                plugin.add_pod(cycle, pod, added, node)
            except Exception as cause:
                raise extension_failed(name, "AddPod", describe(cause)) from cause

    def remove_pod(self, cycle: Cycle, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        for name, plugin in self._left_of(cycle.skip_filter).extensions:
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
        if not self.plugins.score:
            return ScoreBoard(rows, constant=1)
        outline = (cycle.plan or self.plan_of(pod)).outline
        outline.tally.scored += 1
        answers = found.answers
        started_s, point = self._now(), "PreScore"
        try:
            if outline.score_error is not None:
                raise outline.score_error
            quiet: Quiet | None = cycle.quiet
            asked: tuple[Any, ...] = ()
            if quiet is None or not quiet.is_settled:
                asked = self._scorers(cycle, pod, outline, rows)
            now_s = self._now()
            self._pre_score_s.append(now_s - started_s)
            started_s, point = now_s, "Score"
            board = ScoreBoard(rows, answers, outline.plain_scores)
            for plugin in outline.normalized_scores:
                self._normalized_score(cycle, pod, plugin, answers, board)
            for plugin in asked:
                self._cluster_score(cycle, pod, plugin, board)
            if quiet is not None and quiet.is_settled and board.added is None:
                quiet.note(board.by_plugin, board.constant)
        except Exception:
            self._point(point, ERROR, started_s)
            raise
        self._score_s.append(self._now() - started_s)
        return board

    def _scorers(self, cycle: Cycle, pod: PodInfo, outline: Outline, rows: Rows) -> tuple[Any, ...]:
        """The cluster-wide plugins that go on to score."""
        asked = tuple(
            plugin
            for plugin in outline.cluster_scores
            if self._pre_score_says_go(cycle, pod, plugin.name, rows)
        )
        if cycle.quiet is not None and not asked:
            everyone = (*(step.plugin for step in outline.steps), *outline.cluster_scores)
            if _skip_steadily(everyone, pod):
                cycle.quiet.is_settled = True
                self._by_traits[pod.kind.traits.ref][_QUIET] = cycle.quiet
        return asked

    def _pre_score_says_go(self, cycle: Cycle, pod: PodInfo, name: str, rows: Rows) -> bool:
        """Run the plugin's PreScore, if it has one; False when it leaves its Score out."""
        plugin = self._pre_score.get(name)
        if plugin is None:
            return True
        recorder = self.recorder
        started_s = recorder.now() if cycle.sampled else 0.0
        try:
            status = plugin.pre_score(cycle, pod, rows)
        except Exception as cause:
            raise point_failed(name, "PreScore", describe(cause)) from cause
        if cycle.sampled:
            label = SUCCESS if status is None else status.code.label
            recorder.plugin(name, "PreScore", label, recorder.now() - started_s)
        if status is None:
            return True
        if status.code != Code.SKIP:
            raise point_failed(name, "PreScore", status.message)
        return False

    def _normalized_score(
        self, cycle: Cycle, pod: PodInfo, plugin: Any, answers: LocalAnswers, board: ScoreBoard
    ) -> None:
        name = plugin.name
        weight = self.plugins.weights[name]
        try:
            if not answers.has_raw(name):
                board.add(name, weight * self._score_of_zero(cycle, pod, plugin))
                return
            raw = answers.raw(name)[board.rows]
            normal = plugin.normalize_scores(cycle, pod, cycle.nodes, board.rows, raw)
        except Exception as cause:
            raise score_failed(name, describe(cause), normalizing=True) from cause
        board.add(name, weight * _checked(name, normal))

    def _score_of_zero(self, cycle: Cycle, pod: PodInfo, plugin: Any) -> int:
        """What a plugin makes of raw scores that are 0 everywhere: the same for every pod."""
        known = self._flat.get(plugin.name)
        if known is None:
            scores = plugin.normalize_scores(cycle, pod, cycle.nodes, _NO_ROWS, _ONE_ZERO)
            known = self._flat[plugin.name] = int(scores[0])
        return known

    def _cluster_score(self, cycle: Cycle, pod: PodInfo, plugin: Any, board: ScoreBoard) -> None:
        name, rows, normalizing = plugin.name, board.rows, False
        weight, table, recorder = self.plugins.weights[name], cycle.nodes, self.recorder
        started_s = recorder.now() if cycle.sampled else 0.0
        try:
            if hasattr(plugin, "weighted_scores"):
                board.add(name, plugin.weighted_scores(cycle, pod, table, rows, weight))
            else:
                if hasattr(plugin, "score_nodes"):
                    # All rows: columns need no picking from.
                    where = slice(0, table.size) if len(rows) == table.size else rows
                    scores = plugin.score_nodes(cycle, pod, table, where)
                else:
                    scores = score_one_by_one(cycle, pod, plugin, rows)
                normalizing = True
                if hasattr(plugin, "normalize_scores"):
                    scores = plugin.normalize_scores(cycle, pod, table, rows, scores)
                board.add(name, weight * _checked(name, scores))
        except PluginFailed:
            raise
        except Exception as cause:
            raise score_failed(name, describe(cause), normalizing=normalizing) from cause
        if cycle.sampled:
            recorder.plugin(name, "Score", SUCCESS, recorder.now() - started_s)


_NO_ROWS: Rows = np.zeros(0, np.intp)
_ONE_ZERO: Scores = np.zeros(1, np.int64)
_GO_ON = PreFilterVerdict(None)
_PLAN, _QUIET = "plan", "quiet"
"""Where the framework keeps its own, beside what plugins keep under their names."""


def _skip_steadily(plugins: Iterable[Any], pod: PodInfo) -> bool:
    """Whether all of them, having skipped this pod, will go on to skip pods like it."""
    return all(hasattr(p, "skips_steadily") and p.skips_steadily(pod) for p in plugins)


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


__all__ = ["Feasible", "Framework", "PreFilterVerdict", "ScoreBoard"]
