"""PodTopologySpread: keep the pods of a set evenly spread over zones, hosts or other domains.

`DoNotSchedule` constraints turn nodes down, `ScheduleAnyway` ones lower their score; a pod without
constraints of its own gets the profile's, about the pods of the same Service or owner.  How many
pods each domain has is kept by the node table (`state.counts`): an attempt compares one number per
domain and spreads the answer over the nodes with one array look-up.

Mirrors kube-scheduler's `podtopologyspread/` (plugin.go, filtering.go, scoring.go).  The parsed
constraints are in `_shared.spread_constraint`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor, log
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from stowplan.framework.cycle import Cycle
from stowplan.framework.events import Action, EventRegistration, Hint, Resource, on
from stowplan.framework.handle import Handle
from stowplan.framework.status import (
    MAX_NODE_SCORE,
    SKIP,
    NodeMask,
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
from stowplan.plugins._shared.default_selector import DefaultSelectors
from stowplan.plugins._shared.pod_kinds import PodKinds
from stowplan.plugins._shared.spread_constraint import (
    DO_NOT_SCHEDULE,
    HOSTNAME,
    SCHEDULE_ANYWAY,
    Constraint,
    Tracked,
    has_keys,
    parse_constraints,
)
from stowplan.state.counts import CountColumn, DomainCounts
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import NO_LABELS, PodInfo, PodKind
from stowplan.state.row_set import RowSet

NOT_MATCHED = "node(s) didn't match pod topology spread constraints"
MISSING_LABEL = f"{NOT_MATCHED} (missing required label)"

_REASONS = (MISSING_LABEL, NOT_MATCHED)
_MISSING, _SKEWED = np.uint32(1), np.uint32(2)
_STATUS_MISSING = unresolvable(MISSING_LABEL)
_STATUS_SKEWED = unschedulable(NOT_MATCHED)

_SYSTEM_DEFAULTS = (
    Constraint(3, HOSTNAME, EVERYTHING),
    Constraint(5, "topology.kubernetes.io/zone", EVERYTHING),
)
"""All of them `ScheduleAnyway`; the selector is filled in per pod."""

Ints = NDArray[np.int64]
Floats = NDArray[np.floating[Any]]


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

    def __init__(self, args: Args, handle: Handle) -> None:
        self._table = handle.nodes
        self._kinds = PodKinds()
        self._selectors = DefaultSelectors(handle.objects)
        self._is_system = args.defaulting_type != "List"
        given = args.default_constraints
        self._default_hard = parse_constraints(given, NO_LABELS, DO_NOT_SCHEDULE)
        self._default_soft = parse_constraints(given, NO_LABELS, SCHEDULE_ANYWAY)
        if self._is_system:
            self._default_hard, self._default_soft = (), _SYSTEM_DEFAULTS
        self._score_key = f"{self.name}/score"

    # -- the constraints of a pod -----------------------------------------------------------

    def _plan(self, kind: PodKind) -> _Plan:
        plan: _Plan | None = kind.kept.get(self)
        if plan is not None and plan.own:
            return plan
        own = kind.spec.topology_spread_constraints
        if own:
            plan = kind.kept[self] = self._own_plan(kind, own)
            return plan
        if not self._default_hard and not self._default_soft:
            return _NO_PLAN
        selector = self._selectors.of(kind)
        if plan is None or plan.selector is not selector:
            plan = kind.kept[self] = self._default_plan(kind, selector)
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
        keys = _keys(hard)
        plan.hard = tuple(Tracked(constraint, kind, keys) for constraint in hard)

    def _track_soft(self, plan: _Plan, kind: PodKind, soft: tuple[Constraint, ...]) -> None:
        # With the system's defaults a node without a zone is still spread over by host.
        require_all = plan.own or not self._is_system
        keys = _keys(soft) if require_all else ()
        plan.soft = tuple(Tracked(constraint, kind, keys) for constraint in soft)
        if require_all and soft:
            plan.soft_rows = self._table.row_set(("has keys", keys), has_keys(keys))

    # -- Filter -----------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        kind = pod.kind
        if not self._default_hard and not kind.spec.topology_spread_constraints:
            return SKIP
        plan = self._plan(kind)
        if plan.hard_problem:
            return error(plan.hard_problem)
        if not plan.hard:
            return SKIP
        table = cycle.nodes
        counted = tuple(_Counted(tracked, tracked.domains.ask(table)) for tracked in plan.hard)
        cycle.data[self.name] = _FilterState(counted, tuple({} for _ in counted))
        return None

    def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status | None:
        state: _FilterState = cycle.data[self.name]
        labels = node.labels
        for counted, changes in zip(state.counted, state.changes, strict=True):
            value = labels.get(counted.topology_key)
            if value is None:
                return _STATUS_MISSING
            if counted.of(value, changes) > counted.limit(changes):
                return _STATUS_SKEWED
        return None

    def filter_nodes(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows | slice
    ) -> Verdict:
        state: _FilterState = cycle.data[self.name]
        why: NDArray[np.uint32] | None = None
        for counted, changes in zip(state.counted, state.changes, strict=True):
            per_value = np.multiply(counted.sums(changes) > counted.limit(changes), _SKEWED)
            per_value[-1] = _MISSING
            found = per_value[counted.domains.label.ids[rows]]
            # The first constraint that fails has the word.
            why = found if why is None else np.where(why, why, found)
        assert why is not None, "PreFilter skips a pod without constraints"
        return Verdict(_REASONS, why, why == _MISSING)

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
        state: _FilterState = cycle.data[self.name]
        labels = node.labels
        if other.kind.namespace != pod.kind.namespace:
            return
        if not all(counted.topology_key in labels for counted in state.counted):
            return
        for counted, changes in zip(state.counted, state.changes, strict=True):
            tracked = counted.tracked
            matches = tracked.constraint.selector.matches(other.kind.labels)
            if matches and tracked.includes(pod.kind, node):
                value = labels[counted.topology_key]
                changes[value] = changes.get(value, 0) + delta

    # -- Score ------------------------------------------------------------------------------

    def pre_score(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> Status | None:
        plan = self._plan(pod.kind)
        if plan.soft_problem:
            return error(plan.soft_problem)
        if not plan.soft:
            return SKIP
        table = cycle.nodes
        ignored = None
        scored = rows
        if plan.soft_rows is not None:
            plan.soft_rows.refresh()
            if plan.soft_rows.count < table.node_count:
                ignored = ~plan.soft_rows.mask
                scored = rows[~ignored[rows]]
        parts = tuple(
            _scored(tracked, table, scored, require_all=plan.soft_rows is not None)
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
    ) -> Scores:
        state: _ScoreState = cycle.data[self._score_key]
        total: Floats | None = None
        for part in state.parts:
            scores = part.of_rows(nodes, rows)
            total = scores if total is None else total + scores
        assert total is not None, "PreScore skips a pod without constraints"
        rounded = (total + 0.5).astype(np.int64)
        if state.ignored is not None:
            rounded[state.ignored[rows]] = 0
        return rounded

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


class _Counted:
    """A hard constraint and its counts, as PreFilter finds them.

    `changes` are the pods that preemption or a nomination moves, per value of the topology key.
    """

    __slots__ = ("_lowest", "_two_lowest", "domains", "topology_key", "tracked")

    def __init__(self, tracked: Tracked, domains: DomainCounts) -> None:
        self.tracked = tracked
        self.domains = domains
        self.topology_key = tracked.constraint.topology_key
        self._lowest = domains.lowest()
        self._two_lowest: tuple[int, int | None] | None = None

    def of(self, value: str, changes: Mapping[str, int]) -> int:
        """Matching pods in the domain."""
        domains = self.domains
        return int(domains.sums[domains.label.id_of(value)]) + changes.get(value, 0)

    def limit(self, changes: Mapping[str, int]) -> int:
        """The most pods a domain may have now for one more to go there."""
        constraint = self.tracked.constraint
        lowest = 0
        if self.domains.domain_count >= constraint.min_domains:
            lowest = self._lowest_with(changes) if changes else self._lowest
        return constraint.max_skew - self.tracked.self_match + lowest

    def sums(self, changes: Mapping[str, int]) -> Ints:
        domains = self.domains
        if not changes:
            return domains.sums
        sums = domains.sums.copy()
        for value, delta in changes.items():
            number = domains.label.id_of(value)
            if number >= 0:
                sums[number] += delta
        return sums

    def _lowest_with(self, changes: Mapping[str, int]) -> int:
        if len(changes) > 1:
            return int(self.sums(changes)[self.domains.present].min())
        ((value, delta),) = changes.items()
        now = int(self.domains.sums[self.domains.label.id_of(value)])
        lowest, next_lowest = self._lowest_two()
        # The changed domain may be the lowest itself: then the next one is what it compares to.
        others = next_lowest if now == lowest else lowest
        return now + delta if others is None else min(others, now + delta)

    def _lowest_two(self) -> tuple[int, int | None]:
        """The two smallest sums, equal ones counted twice; None for lack of a second domain."""
        if self._two_lowest is None:
            sums = self.domains.sums[self.domains.present]
            if len(sums) > 1:
                lowest, next_lowest = np.partition(sums, 1)[:2].tolist()
                self._two_lowest = lowest, next_lowest
            else:
                self._two_lowest = int(sums[0]), None
        return self._two_lowest


@dataclass(slots=True)
class _FilterState:
    """True until the node table is refreshed; a clone costs no more than its changes."""

    counted: tuple[_Counted, ...]
    changes: tuple[dict[str, int], ...]

    def clone(self) -> _FilterState:
        return _FilterState(self.counted, tuple(changes.copy() for changes in self.changes))


class _PerNode:
    """A soft constraint over hosts: each node is its own domain, included or not."""

    __slots__ = ("_base", "_column", "_tracked", "_weight", "topology_key")

    def __init__(self, tracked: Tracked, column: CountColumn, size: int) -> None:
        self.topology_key = tracked.constraint.topology_key
        self._tracked = tracked
        self._column = column
        self._weight = log(size + 2)
        self._base = float(tracked.constraint.max_skew - 1)

    def of_node(self, node: NodeInfo, value: str) -> float:
        return self._tracked.count_on(node) * self._weight + self._base

    def of_rows(self, nodes: NodeTable, rows: Rows | slice) -> Floats:
        scores: Floats = self._column.per_row[rows] * self._weight + self._base
        named = nodes.row_set(("has keys", (HOSTNAME,)), has_keys((HOSTNAME,)))
        if named.count < nodes.node_count:
            scores[~named.mask[rows]] = 0.0
        return scores


class _PerDomain:
    """A soft constraint over any other label."""

    __slots__ = ("_base", "_domains", "_empty_value", "_weight", "topology_key")

    def __init__(
        self, tracked: Tracked, domains: DomainCounts, size: int, unlabelled: int | None
    ) -> None:
        self.topology_key = tracked.constraint.topology_key
        self._domains = domains
        self._weight = log(size + 2)
        self._base = float(tracked.constraint.max_skew - 1)
        self._empty_value = unlabelled
        """Pods on nodes without the label, where those count for the value ""."""

    def of_node(self, node: NodeInfo, value: str) -> float:
        domains = self._domains
        count = int(domains.sums[domains.label.id_of(value)])
        if value == "" and self._empty_value is not None:
            count += self._empty_value
        return count * self._weight + self._base

    def of_rows(self, nodes: NodeTable, rows: Rows | slice) -> Floats:
        domains = self._domains
        per_value: Floats = domains.sums * self._weight + self._base
        if self._empty_value is not None:
            number = domains.label.id_of("")
            count = int(domains.sums[number]) + self._empty_value
            per_value[number] = count * self._weight + self._base
        per_value[-1] = 0.0
        return per_value[domains.label.ids[rows]]


def _scored(
    tracked: Tracked, table: NodeTable, rows: Rows, *, require_all: bool
) -> _PerNode | _PerDomain:
    """Weigh a soft constraint: the more domains the feasible rows have, the more it counts."""
    if tracked.constraint.topology_key == HOSTNAME:
        return _PerNode(tracked, tracked.per_node.ask(table), len(rows))
    domains = tracked.domains.ask(table)
    label = domains.label
    seen = np.zeros(len(label.values) + 1, np.bool_)
    seen[label.ids[rows]] = True
    size = int(np.count_nonzero(seen))
    empty = label.id_of("")
    if require_all or empty < 0:
        return _PerDomain(tracked, domains, size, None)
    # A node without the label counts for the value "", should there be one.
    size -= int(seen[empty] and seen[-1])
    outside = domains.rows.mask & (label.ids < 0)
    return _PerDomain(tracked, domains, size, int(domains.column.per_row[outside].sum()))


@dataclass(frozen=True, slots=True)
class _ScoreState:
    parts: tuple[_PerNode | _PerDomain, ...]
    require_all: bool
    ignored: NodeMask | None
    """Rows that lack a key they must have; None: no row does."""


def _turned_round(scores: Scores) -> Scores:
    highest = int(scores.max(initial=0))
    if highest == 0:
        return np.full(len(scores), MAX_NODE_SCORE, np.int64)
    turned: Scores = (highest + int(scores.min()) - scores) * MAX_NODE_SCORE // highest
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
