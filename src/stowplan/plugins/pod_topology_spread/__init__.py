"""PodTopologySpread: keep the pods of a set evenly spread over zones, hosts or other domains.

`DoNotSchedule` constraints turn nodes down, `ScheduleAnyway` ones lower their score; a pod without
constraints of its own gets the profile's, about the pods of the same Service or owner.  How many
pods each domain has is kept by the node table (`state.counts`): an attempt compares one number per
domain and spreads the answer over the nodes with one array look-up.

Mirrors kube-scheduler's `podtopologyspread/`.  The constraints and their arithmetic are in
`spread_constraint`, `spread_filtering` and `spread_scoring`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import floor
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stowplan.framework.cycle import Cycle
from stowplan.framework.events import Action, EventRegistration, Hint, Resource, on
from stowplan.framework.handle import Handle
from stowplan.framework.reads import Reads
from stowplan.framework.status import (
    MAX_NODE_SCORE,
    SKIP_STEADILY,
    NodeMask,
    Normalized,
    Rows,
    Scores,
    Status,
    Verdict,
    error,
    unresolvable,
    unschedulable,
)
from stowplan.objects.labels import EVERYTHING, Selector, SelectorError
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod, TopologySpreadConstraint
from stowplan.plugins._shared.kept_columns import KeptColumns
from stowplan.plugins._shared.kept_verdicts import VALUES_MAX, KeptVerdicts
from stowplan.plugins._shared.pod_kinds import PodKinds
from stowplan.plugins.pod_topology_spread.default_selector import DefaultSelectors
from stowplan.plugins.pod_topology_spread.row_classes import RowClasses
from stowplan.plugins.pod_topology_spread.spread_constraint import (
    DO_NOT_SCHEDULE,
    HOSTNAME,
    SCHEDULE_ANYWAY,
    Constraint,
    Included,
    Tracked,
    parse_constraints,
    track,
)
from stowplan.plugins.pod_topology_spread.spread_filtering import Counted, SpreadCounts
from stowplan.plugins.pod_topology_spread.spread_scoring import Floats, Part, weighed
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import NO_LABELS, PodInfo, PodKind
from stowplan.state.row_set import RowSet

NOT_MATCHED = "node(s) didn't match pod topology spread constraints"
MISSING_LABEL = f"{NOT_MATCHED} (missing required label)"

_REASONS = (MISSING_LABEL, NOT_MATCHED)
_MISSING, _SKEWED = 1, 2
"""One more than the place of the reason, and its bit."""
_STATUS_MISSING = unresolvable(MISSING_LABEL)
_STATUS_SKEWED = unschedulable(NOT_MATCHED)

_SYSTEM_DEFAULTS = (
    Constraint(3, HOSTNAME, EVERYTHING),
    Constraint(5, "topology.kubernetes.io/zone", EVERYTHING),
)
"""All of them `ScheduleAnyway`; the selector is filled in per pod."""


class Args(Protocol):
    defaulting_type: str
    default_constraints: Sequence[TopologySpreadConstraint]


@dataclass(slots=True)
class _Plan:
    """What spreading means for one kind of pod."""

    own: bool
    """The pod's own constraints, not the profile's."""
    hard: tuple[Tracked, ...] = ()
    soft: tuple[Tracked, ...] = ()
    soft_rows: RowSet | None = None
    """The nodes that have the keys of all soft constraints; None where a node may lack some."""
    selector: Selector | None = None
    """The default selector this was made with."""
    hard_problem: str = ""
    soft_problem: str = ""


class PodTopologySpread:
    name = "PodTopologySpread"
    reads = Reads.CLUSTER

    def __init__(self, args: Args, handle: Handle) -> None:
        self._table = handle.nodes
        self._kinds = PodKinds()
        self._kept = handle.kept
        self._selectors = DefaultSelectors(handle.objects, handle.kept)
        self._is_system = args.defaulting_type != "List"
        given = args.default_constraints
        self._default_hard = parse_constraints(given, NO_LABELS, DO_NOT_SCHEDULE)
        self._default_soft = parse_constraints(given, NO_LABELS, SCHEDULE_ANYWAY)
        if self._is_system:
            self._default_hard, self._default_soft = (), _SYSTEM_DEFAULTS
        self._score_key = f"{self.name}/score"
        self._row_classes = KeptColumns(RowClasses, bytes_per_row=8)
        self._verdicts = KeptVerdicts(_REASONS, unresolvable=_MISSING)

    # -- the constraints of a pod -----------------------------------------------------------

    def _plan(self, kind: PodKind) -> _Plan:
        kept = self._kept[kind.ref]
        plan: _Plan | None = kept.get(self.name)
        if plan is not None and plan.own:
            return plan
        own = kind.spec.topology_spread_constraints
        if own:
            plan = kept[self.name] = self._own_plan(kind, own)
            return plan
        if not self._default_hard and not self._default_soft:
            return _NO_PLAN
        selector = self._selectors.of(kind)
        if plan is None or plan.selector is not selector:
            plan = kept[self.name] = self._default_plan(kind, selector)
        return plan

    def _own_plan(self, kind: PodKind, given: Sequence[TopologySpreadConstraint]) -> _Plan:
        plan = _Plan(own=True)
        try:
            self._track_hard(plan, kind, parse_constraints(given, kind.labels, DO_NOT_SCHEDULE))
        except SelectorError as problem:
            plan.hard_problem = f"obtaining pod's hard topology spread constraints: {problem}"
        try:
            self._track_soft(plan, kind, parse_constraints(given, kind.labels, SCHEDULE_ANYWAY))
        except SelectorError as problem:
            plan.soft_problem = (
                "calculating preScoreState: "
                f"obtaining pod's soft topology spread constraints: {problem}"
            )
        return plan

    def _default_plan(self, kind: PodKind, selector: Selector) -> _Plan:
        plan = _Plan(own=False, selector=selector)
        if not selector.is_everything:
            self._track_hard(plan, kind, _about(selector, self._default_hard))
            self._track_soft(plan, kind, _about(selector, self._default_soft))
        return plan

    def _track_hard(self, plan: _Plan, kind: PodKind, hard: tuple[Constraint, ...]) -> None:
        plan.hard = track(hard, kind, _keys(hard))

    def _track_soft(self, plan: _Plan, kind: PodKind, soft: tuple[Constraint, ...]) -> None:
        # With the system's defaults a node without a zone is still spread over by host.
        require_all = plan.own or not self._is_system
        keys = _keys(soft) if require_all else ()
        plan.soft = track(soft, kind, keys)
        if require_all and soft:
            rows = Included(keys)
            plan.soft_rows = self._table.row_set(rows, rows)

    # -- Filter -----------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        if not self._default_hard and not pod.kind.spec.topology_spread_constraints:
            return SKIP_STEADILY
        plan = self._plan(pod.kind)
        if plan.hard_problem:
            return error(plan.hard_problem)
        if not plan.hard:
            # It gets some only by Services and owners.
            return SKIP_STEADILY
        table = cycle.nodes
        counted = tuple(Counted(tracked, tracked.per_domain.ask(table)) for tracked in plan.hard)
        cycle.data[self.name] = SpreadCounts(counted)
        return None

    def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status | None:
        state: SpreadCounts = cycle.data[self.name]
        labels = node.labels
        for counted, changes in state.with_changes():
            value = labels.get(counted.topology_key)
            if value is None:
                return _STATUS_MISSING
            if counted.of(value, changes) > counted.limit(changes):
                return _STATUS_SKEWED
        return None

    def filter_nodes(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows | slice
    ) -> Verdict:
        state: SpreadCounts = cycle.data[self.name]
        if isinstance(rows, slice) and (verdict := self._by_one_key(state, nodes)) is not None:
            return verdict
        why: NDArray[np.uint8] | None = None
        for counted, changes in state.with_changes():
            skewed = counted.sums(changes) > counted.limit(changes)
            per_value = skewed.view(np.uint8) * np.uint8(_SKEWED)
            per_value[-1] = _MISSING
            found = per_value[counted.counts.label.ids[rows]]
            # The first constraint that fails has the word.
            why = found if why is None else np.where(why, why, found)
            if why.all():
                break
        assert why is not None, "PreFilter skips a pod without constraints"
        return Verdict(_REASONS, why.astype(np.uint32), why == _MISSING)

    def _by_one_key(self, state: SpreadCounts, nodes: NodeTable) -> Verdict | None:
        """The same for all rows, where one constraint has few domains; else None."""
        if len(state.counted) > 1 or state.changes:
            return None
        [counted] = state.counted
        label = counted.counts.label
        if len(label.values) > VALUES_MAX:
            return None
        limit = counted.limit({})
        why = [_SKEWED if count > limit else 0 for count in counted.counts.to_list()]
        why[-1] = _MISSING
        return self._verdicts.of(nodes, label, bytes(why))

    def add_pod(self, cycle: Cycle, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        self._update(cycle, pod, added, node, 1)

    def remove_pod(self, cycle: Cycle, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        self._update(cycle, pod, removed, node, -1)

    def _update(
        self, cycle: Cycle, pod: PodInfo, other: PodInfo, node: NodeInfo, delta: int
    ) -> None:
        """Unlike counting, this looks neither at termination nor for a match-everything selector.

        That is how upstream does it.
        """
        state: SpreadCounts = cycle.data[self.name]
        labels = node.labels
        if other.kind.namespace != pod.kind.namespace:
            return
        if not all(counted.topology_key in labels for counted in state.counted):
            return
        for counted in state.counted:
            tracked = counted.tracked
            matches = tracked.constraint.selector.matches(other.kind.labels)
            if matches and tracked.includes(pod.kind, node):
                state.change(counted, labels[counted.topology_key], delta)

    # -- Score ------------------------------------------------------------------------------

    def pre_score(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> Status | None:
        plan = self._plan(pod.kind)
        if plan.soft_problem:
            return error(plan.soft_problem)
        if not plan.soft:
            return SKIP_STEADILY
        table = cycle.nodes
        ignored = None
        scored = rows
        if plan.soft_rows is not None:
            plan.soft_rows.refresh()
            if plan.soft_rows.count < table.node_count:
                ignored = ~plan.soft_rows.mask
                scored = rows[~ignored[rows]]
        parts = tuple(
            weighed(tracked, table, scored, require_all=plan.soft_rows is not None)
            for tracked in plan.soft
        )
        cycle.data[self._score_key] = _ScoreState(parts, plan.soft_rows is not None, ignored)
        return None

    def score_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> int:
        state: _ScoreState = cycle.data[self._score_key]
        labels = node.labels
        if state.require_all and not all(part.topology_key in labels for part in state.parts):
            return 0
        total = 0.0
        for part in state.parts:
            value = labels.get(part.topology_key)
            if value is not None:
                total += part.of_node(node, value)
        return floor(total + 0.5)

    def score_nodes(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows | slice
    ) -> Scores | Normalized | int:
        """Worked out for each class of rows, of which there are few, and looked up for each row."""
        state: _ScoreState = cycle.data[self._score_key]
        parts = state.parts
        kept = self._row_classes.of(pod.kind, nodes)
        if state.ignored is not None or not kept.catch_up(nodes, parts):
            return _raw_scores(state, nodes, rows)
        of_row, classes = kept.of_rows(nodes, rows)
        raw = kept.raw_scores(parts, classes)
        highest, lowest = max(raw.values()), min(raw.values())
        if highest == lowest:
            return MAX_NODE_SCORE
        normal = {
            number: (highest + lowest - score) * MAX_NODE_SCORE // highest
            for number, score in raw.items()
        }
        return Normalized(kept.spread(normal, of_row))

    def raw_scores(self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        state: _ScoreState = cycle.data[self._score_key]
        return _raw_scores(state, nodes, rows)

    def normalize_scores(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows, scores: Scores
    ) -> Scores:
        """Few pods score high.  Nodes that lack a key get 0 and no say in what is high."""
        state: _ScoreState = cycle.data[self._score_key]
        if state.ignored is None:
            return _turned_round(scores)
        normal = np.zeros(len(scores), np.int64)
        valid = ~state.ignored[rows]
        normal[valid] = _turned_round(scores[valid])
        return normal

    # -- events -----------------------------------------------------------------------------

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (
            on(
                Resource.POD,
                Action.ADD | Action.UPDATE_POD_LABEL | Action.UPDATE_POD_TOLERATION | Action.DELETE,
                self._after_pod_change,
            ),
            on(
                Resource.NODE,
                Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT,
                self._after_node_change,
            ),
        )

    def _after_pod_change(self, pod: Pod, old: Pod | None, new: Pod | None) -> Hint:
        if not all(_is_involved(version, pod) for version in (old, new) if version is not None):
            return Hint.SKIP
        plan = self._plan(self._kinds.of(pod))
        if plan.hard_problem:
            return Hint.QUEUE
        constraints = [tracked.constraint for tracked in plan.hard]
        if old is not None and new is not None:
            return _after_pod_update(pod, old, new, constraints)
        changed = new if new is not None else old
        assert changed is not None, "an event without an object"
        labels = changed.metadata.labels or NO_LABELS
        return _queue_if(any(c.selector.matches(labels) for c in constraints))

    def _after_node_change(self, pod: Pod, old: Node | None, new: Node | None) -> Hint:
        plan = self._plan(self._kinds.of(pod))
        if plan.hard_problem:
            return Hint.QUEUE
        keys = [tracked.constraint.topology_key for tracked in plan.hard]
        before = (old.metadata.labels or NO_LABELS) if old is not None else NO_LABELS
        after = (new.metadata.labels or NO_LABELS) if new is not None else NO_LABELS
        held, holds = (all(key in labels for key in keys) for labels in (before, after))
        if old is None:
            return _queue_if(holds)
        if new is None:
            return _queue_if(held)
        if held != holds:
            return Hint.QUEUE
        changed = any(before.get(key, "") != after.get(key, "") for key in keys)
        return _queue_if(holds and (changed or (old.spec.taints or []) != (new.spec.taints or [])))


_NO_PLAN = _Plan(own=False)


def _about(selector: Selector, defaults: Iterable[Constraint]) -> tuple[Constraint, ...]:
    return tuple(replace(constraint, selector=selector) for constraint in defaults)


def _keys(constraints: Iterable[Constraint]) -> tuple[str, ...]:
    return tuple(sorted({constraint.topology_key for constraint in constraints}))


@dataclass(frozen=True, slots=True)
class _ScoreState:
    parts: tuple[Part, ...]
    require_all: bool
    ignored: NodeMask | None
    """Rows that lack a key they must have; None: no row does."""


def _raw_scores(state: _ScoreState, nodes: NodeTable, rows: Rows | slice) -> Scores:
    total: Floats | None = None
    for part in state.parts:
        scores = part.of_rows(nodes, rows)
        total = scores if total is None else np.add(total, scores, out=total)
    assert total is not None, "PreScore skips a pod without constraints"
    total += 0.5
    rounded = total.astype(np.int64)
    if state.ignored is not None:
        rounded[state.ignored[rows]] = 0
    return rounded


def _turned_round(scores: Scores) -> Scores:
    highest = int(scores.max(initial=0))
    if highest == 0:
        return np.full(len(scores), MAX_NODE_SCORE, np.int64)
    lowest = int(scores.min())
    if highest - lowest < len(scores):
        # Cheaper for each score there can be than for each node.
        possible = np.arange(highest, lowest - 1, -1) * MAX_NODE_SCORE // highest
        return possible[scores - lowest]
    turned: Scores = (highest + lowest - scores) * MAX_NODE_SCORE // highest
    return turned


def _is_involved(other: Pod, pod: Pod) -> bool:
    if other.metadata.uid == pod.metadata.uid:
        return True
    placed = bool(other.spec.node_name or other.status.nominated_node_name)
    return placed and other.metadata.namespace == pod.metadata.namespace


def _after_pod_update(pod: Pod, old: Pod, new: Pod, constraints: Iterable[Constraint]) -> Hint:
    if new.metadata.uid == pod.metadata.uid:
        same = (new.spec.tolerations or []) == (old.spec.tolerations or [])
        if not same and any(constraint.honor_taints for constraint in constraints):
            return Hint.QUEUE
    before, after = old.metadata.labels or NO_LABELS, new.metadata.labels or NO_LABELS
    if before == after:
        return Hint.SKIP
    return _queue_if(
        any(c.selector.matches(before) != c.selector.matches(after) for c in constraints)
    )


def _queue_if(worth_it: bool) -> Hint:
    return Hint.QUEUE if worth_it else Hint.SKIP
