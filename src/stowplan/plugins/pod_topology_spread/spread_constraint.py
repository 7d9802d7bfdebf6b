"""Topology spread constraints: parsed, and tied to the counts that they are about.

A `Constraint` is what the pod (or the profile) asks for; a `Tracked` one knows how to ask the node
table for the number of matching pods per topology domain, over the nodes that count.  Mirrors
kube-scheduler's `podtopologyspread/common.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from stowplan.framework.status import NodeMask, Rows
from stowplan.objects.labels import IN, Requirement, Selector, compile_selector
from stowplan.objects.node_selector import RequiredNodeAffinity
from stowplan.objects.pod import Toleration, TopologySpreadConstraint
from stowplan.objects.taints import first_untolerated
from stowplan.plugins._shared.node_selection import affinity_mask
from stowplan.state.count_index import CountQuery, DomainQuery
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import PodKind
from stowplan.state.pod_sorts import NO_PODS, PodsMatching, PodSort

DO_NOT_SCHEDULE = "DoNotSchedule"
SCHEDULE_ANYWAY = "ScheduleAnyway"
HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class Constraint:
    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False


def parse_constraints(
    constraints: Iterable[TopologySpreadConstraint], labels: Mapping[str, str], action: str
) -> tuple[Constraint, ...]:
    """The constraints with this action.  Raises `SelectorError`."""
    return tuple(_parse(c, labels) for c in constraints if c.when_unsatisfiable == action)


def _parse(constraint: TopologySpreadConstraint, labels: Mapping[str, str]) -> Constraint:
    selector = compile_selector(constraint.label_selector)
    same = [key for key in constraint.match_label_keys or () if key in labels]
    selector = selector.and_also(*(Requirement(key, IN, frozenset((labels[key],))) for key in same))
    return Constraint(
        constraint.max_skew,
        constraint.topology_key,
        selector,
        1 if constraint.min_domains is None else constraint.min_domains,
        (constraint.node_affinity_policy or "Honor") == "Honor",
        (constraint.node_taints_policy or "Ignore") == "Honor",
    )


class Tracked:
    """A constraint of one kind of pod, with its counts."""

    __slots__ = ("constraint", "per_domain", "per_node", "self_match")

    def __init__(self, constraint: Constraint, kind: PodKind, rows: Included | None) -> None:
        """`rows`: the nodes that count, None for all of them."""
        self.constraint = constraint
        self.self_match = int(constraint.selector.matches(kind.labels))
        """Whether the pod itself will count once it runs; a match-everything selector says yes."""
        sort = _counted_pods(kind.namespace, constraint.selector)
        self.per_node = CountQuery(sort)
        self.per_domain = (
            DomainQuery(self.per_node, constraint.topology_key)
            if rows is None
            else DomainQuery(self.per_node, constraint.topology_key, rows, rows)
        )

    def includes(self, kind: PodKind, node: NodeInfo) -> bool:
        """The node inclusion policies."""
        if self.constraint.honor_affinity:
            affinity = kind.required_node_affinity
            if not affinity.is_trivial and not affinity.matches(node.labels, node.name):
                return False
        if self.constraint.honor_taints:
            return first_untolerated(node.taints, kind.tolerations) is None
        return True

    def count_on(self, node: NodeInfo) -> int:
        weigh = self.per_node.sort.weigh
        return sum(weigh(pod.kind) for pod in node.pods.values())


def _counted_pods(namespace: str, selector: Selector) -> PodSort:
    """Running pods of the namespace; for a match-everything selector upstream counts none."""
    if selector.is_everything:
        return NO_PODS
    return PodsMatching(frozenset({(frozenset({namespace}), selector)}), with_terminating=False)


def track(
    constraints: Iterable[Constraint], kind: PodKind, keys: tuple[str, ...]
) -> tuple[Tracked, ...]:
    """`keys`: the labels a node must have to count, in order; those of the constraints, or none."""
    known: dict[tuple[bool, bool], Included | None] = {}
    tracked = []
    for constraint in constraints:
        policies = constraint.honor_affinity, constraint.honor_taints
        if policies not in known:
            known[policies] = _included(keys, kind, *policies)
        tracked.append(Tracked(constraint, kind, known[policies]))
    return tuple(tracked)


def _included(
    keys: tuple[str, ...], kind: PodKind, honor_affinity: bool, honor_taints: bool
) -> Included | None:
    affinity = kind.required_node_affinity if honor_affinity else None
    if affinity is not None and affinity.is_trivial:
        affinity = None
    tolerations = kind.tolerations if honor_taints else None
    if len(keys) < 2 and affinity is None and tolerations is None:
        # Only nodes with a constraint's own key are in a domain at all.
        return None
    return Included(keys, affinity, tolerations)


class Included:
    """The nodes that count: they have the keys, and the inclusion policies let them in.

    Equal to another that says the same.  All the constraints of a pod with the same policies share
    one, so that a long list of keys is hashed once and looked at once.
    """

    __slots__ = ("_affinity", "_hash", "_keys", "_tolerations")

    def __init__(
        self,
        keys: tuple[str, ...],
        affinity: RequiredNodeAffinity | None = None,
        tolerations: tuple[Toleration, ...] | None = None,
    ) -> None:
        self._keys = keys
        self._affinity = affinity
        self._tolerations = tolerations
        self._hash = hash((keys, affinity, tolerations))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Included)
            and self._hash == other._hash
            and self._keys == other._keys
            and self._affinity == other._affinity
            and self._tolerations == other._tolerations
        )

    def __call__(self, table: NodeTable, rows: Rows) -> NodeMask:
        mask = np.ones(len(rows), np.bool_)
        for key in self._keys:
            if not table.has_label(key):
                return np.zeros(len(rows), np.bool_)
            mask &= table.label(key).ids[rows] >= 0
        if self._affinity is not None:
            mask &= affinity_mask(table, self._affinity, rows)
        if self._tolerations is not None:
            lists = table.taint_list[rows]
            for number in np.unique(lists):
                if first_untolerated(table.taint_lists[number], self._tolerations) is not None:
                    mask &= lists != number
        return mask
