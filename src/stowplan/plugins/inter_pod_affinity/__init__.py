"""InterPodAffinity: put pods near the pods they like, away from those they do not.

Terms are symmetric in part: a running pod's anti-affinity keeps newcomers away too, and its
preferences weigh in their scores.  Pods are never looked at one by one: the node table counts, per
topology domain, the pods that a term matches and the pods that carry a term (`state.counts`), and
knows the distinct terms in use (`state.pod_table.TermUse`), of which a kind of pod matches few.

Mirrors kube-scheduler's `interpodaffinity/` (plugin.go, filtering.go, scoring.go).  Its terms and
counts are in `affinity_terms`, what becomes of them in `affinity_filtering` and
`affinity_scoring`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from stowplan.framework.cycle import Cycle
from stowplan.framework.events import Action, EventRegistration, Hint, Resource, on
from stowplan.framework.groups import GroupCycle, Placement
from stowplan.framework.handle import Handle
from stowplan.framework.reads import Reads
from stowplan.framework.status import (
    SKIP,
    SKIP_STEADILY,
    Normalized,
    Rows,
    Scores,
    Status,
    Verdict,
    error,
    unresolvable,
)
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod
from stowplan.objects.workloads import Namespace
from stowplan.plugins._shared.kept_columns import KeptColumns
from stowplan.plugins._shared.pod_kinds import PodKinds
from stowplan.plugins.inter_pod_affinity.affinity_filtering import (
    AFFINITY,
    ANTI_AFFINITY,
    EXISTING_ANTI_AFFINITY,
    AffinityCounts,
    AffinityVerdicts,
)
from stowplan.plugins.inter_pod_affinity.affinity_scoring import AffinityScores
from stowplan.plugins.inter_pod_affinity.affinity_terms import (
    Namespaces,
    PairCounts,
    Query,
    Weighted,
    carriers,
    matched_by_all,
    matched_by_each,
    matches_all,
)
from stowplan.plugins.inter_pod_affinity.host_scores import BYTES_PER_ROW, HostScores, normalized
from stowplan.state.label_column import ABSENT
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import NO_LABELS, PodInfo, PodKind
from stowplan.state.pod_sorts import term_counts


class Args(Protocol):
    hard_pod_affinity_weight: int
    ignore_preferred_terms_of_existing_pods: bool


class InterPodAffinity:
    name = "InterPodAffinity"
    reads = Reads.CLUSTER

    def __init__(self, args: Args, handle: Handle) -> None:
        self._hard_weight = args.hard_pod_affinity_weight
        self._ignore_existing = args.ignore_preferred_terms_of_existing_pods
        self._nodes = handle.nodes
        self._objects = handle.objects
        self._kept = handle.kept
        self._namespaces = Namespaces(handle.objects)
        self._kinds = PodKinds()
        self._score_key = f"{self.name}/score"
        self._host_scores = KeptColumns(HostScores, BYTES_PER_ROW)
        self._verdicts = AffinityVerdicts()

    def _terms(self, kind: PodKind) -> _KindTerms:
        """What this kind of pod asks for, and what is asked of it."""
        version = self._objects.version(Namespace)
        kept = self._kept[kind.ref]
        terms: _KindTerms | None = kept.get(self.name)
        if terms is None or terms.namespaces_version != version:
            terms = kept[self.name] = _KindTerms(kind, self._namespaces, version)
        return terms

    # -- Filter -----------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        kind = pod.kind
        table = cycle.nodes
        if not kind.has_pod_affinity and not table.pods.required_anti_affinity.terms:
            return _skip(kind)
        if kind.has_pod_affinity and kind.affinity_error:
            return unresolvable(f"parsing pod: {kind.affinity_error}")
        terms = self._terms(kind)
        against = terms.anti_affinity_against(kind, table)
        existing = PairCounts.of(table, against)
        if not terms.affinity and not terms.anti_affinity and existing.is_empty:
            return _skip(kind)
        cycle.data[self.name] = AffinityCounts(
            affinity=PairCounts.of(table, terms.affinity_counts),
            anti_affinity=PairCounts.of(
                table, (q for q in terms.anti_affinity_counts if table.has_label(q.topology_key))
            ),
            existing=existing,
            matches_itself=terms.matches_itself,
            sources=(terms.anti_affinity_counts, against),
        )
        return None

    def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status | None:
        counts: AffinityCounts = cycle.data[self.name]
        return counts.status(node.labels)

    def filter_nodes(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows | slice
    ) -> Verdict:
        counts: AffinityCounts = cycle.data[self.name]
        if isinstance(rows, slice):
            return self._verdicts.of(counts, pod.kind, nodes)
        return counts.verdict(nodes, rows)

    def most_members(self, cycle: GroupCycle, placement: Placement) -> int:
        """Members alike that keep apart are in a domain of the label each."""
        kind, most = cycle.members[0].kind, len(cycle.members)
        if not kind.required_anti_affinity or not cycle.are_alike:
            return most
        for term in self._terms(kind).anti_affinity:
            if term.matches(kind):
                ids = cycle.nodes.label(term.topology_key).ids[placement.rows]
                # Nodes without the label are in no domain: any number of them.
                most = most if (ids == ABSENT).any() else min(most, len(set(ids.tolist())))
        return most

    def add_pod(self, cycle: Cycle, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        self._update(cycle, pod, added, node, 1)

    def remove_pod(self, cycle: Cycle, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        self._update(cycle, pod, removed, node, -1)

    def _update(
        self, cycle: Cycle, pod: PodInfo, other: PodInfo, node: NodeInfo, delta: int
    ) -> None:
        state: AffinityCounts = cycle.data[self.name]
        kind, labels = pod.kind, node.labels
        terms = self._terms(kind)
        for term in other.kind.required_anti_affinity:
            if term.matches(kind.namespace, kind.labels, terms.namespace_labels):
                state.existing.change(labels, term.topology_key, delta)
        if terms.affinity and matches_all(terms.affinity, other.kind):
            for key in state.affinity.by_key:
                state.affinity.change(labels, key, delta)
        for wanted in terms.anti_affinity:
            if wanted.matches(other.kind):
                state.anti_affinity.change(labels, wanted.topology_key, delta)

    # -- Score ------------------------------------------------------------------------------

    def pre_score(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> Status | None:
        kind = pod.kind
        table = cycle.nodes
        has_preferred = kind.has_pod_affinity and bool(
            kind.preferred_affinity or kind.preferred_anti_affinity
        )
        if not has_preferred:
            pods = table.pods
            nobody_cares = not (
                pods.preferred_affinity.terms
                or pods.preferred_anti_affinity.terms
                or pods.required_affinity.terms
            )
            if self._ignore_existing or nobody_cares:
                return _skip(kind)
        if kind.has_pod_affinity and kind.affinity_error:
            return error(f"failed to parse pod: {kind.affinity_error}")
        weights = self._terms(kind).weights(kind, table, self._hard_weight)
        scores = AffinityScores(weights, table)
        if scores.is_empty:
            return _skip(kind)
        cycle.data[self._score_key] = scores
        return None

    def score_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> int:
        scores: AffinityScores = cycle.data[self._score_key]
        return scores.of_node(node.labels)

    def score_nodes(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows | slice
    ) -> Normalized | int:
        scores: AffinityScores = cycle.data[self._score_key]
        found = scores.normalized(pod.kind, nodes, rows, self._host_scores)
        return found if isinstance(found, int) else Normalized(found)

    def raw_scores(self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows) -> Scores:
        scores: AffinityScores = cycle.data[self._score_key]
        return scores.of_rows(rows)

    def normalize_scores(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows, scores: Scores
    ) -> Scores:
        found = normalized(scores) if len(scores) else 0
        return np.zeros(len(scores), np.int64) if isinstance(found, int) else found

    # -- events -----------------------------------------------------------------------------

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (
            on(
                Resource.POD,
                Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE,
                self._after_pod_change,
            ),
            on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL, self._after_node_change),
        )

    def _after_pod_change(self, pod: Pod, old: Pod | None, new: Pod | None) -> Hint:
        if old is not None and new is not None and new.metadata.uid == pod.metadata.uid:
            return Hint.QUEUE
        if not all(_is_placed(version) for version in (old, new) if version is not None):
            return Hint.SKIP
        kind = self._kinds.of(pod)
        if kind.affinity_error:
            return Hint.QUEUE
        if new is None:
            assert old is not None, "an event without an object"
            helps = self._dislikes(kind, old) or self._dislikes(self._kinds.of(old), pod)
        elif old is None:
            helps = self._likes(kind, new)
        else:
            helps = (not self._likes(kind, old) and self._likes(kind, new)) or (
                self._dislikes(kind, old) and not self._dislikes(kind, new)
            )
        if not helps and old is not None and self._likes(kind, pod):
            # With the last pod that it wants to be near, it becomes the first of its sort.
            helps = self._likes(kind, old) and (new is None or not self._likes(kind, new))
        return Hint.QUEUE if helps else Hint.SKIP

    def _likes(self, kind: PodKind, pod: Pod) -> bool:
        return self._match_all(kind, "required_affinity", pod)

    def _dislikes(self, kind: PodKind, pod: Pod) -> bool:
        return self._match_all(kind, "required_anti_affinity", pod)

    def _match_all(self, kind: PodKind, term_sort: str, pod: Pod) -> bool:
        """Whether there are terms and the pod matches each; namespace selectors are not expanded.

        Pods that come and go are often alike: what was found of the last one is remembered.
        """
        terms = term_counts(kind, term_sort)
        if not terms:
            return False
        namespace, labels = pod.metadata.namespace, pod.metadata.labels or NO_LABELS
        kept, key = self._kept[kind.ref], f"{self.name}: {term_sort} matched"
        latest: tuple[str, dict[str, str], bool] | None = kept.get(key)
        if latest is None or latest[:2] != (namespace, labels):
            matched = all(term.matches(namespace, labels, NO_LABELS) for term in terms)
            latest = kept[key] = (namespace, labels, matched)
        return latest[2]

    def _after_node_change(self, pod: Pod, old: Node | None, new: Node) -> Hint:
        kind = self._kinds.of(pod)
        if kind.affinity_error:
            return Hint.QUEUE
        after = new.metadata.labels or NO_LABELS
        # Upstream looks at the pod's own terms only, and leaves the rest to the five-minute retry.
        against = self._terms(kind).anti_affinity_against(kind, self._nodes)
        if old is None:
            helps = bool(kind.required_anti_affinity or against) or any(
                term.topology_key in after for term in kind.required_affinity
            )
            return Hint.QUEUE if helps else Hint.SKIP
        before = old.metadata.labels or NO_LABELS
        liked = {term.topology_key for term in kind.required_affinity}
        disliked = {term.topology_key for term in kind.required_anti_affinity}
        disliked |= {query.topology_key for query in against}
        if self._likes(kind, pod):
            # The pods that it wants to be near may be in no domain any more.
            disliked |= liked
        helps = any(key in after and before.get(key) != after[key] for key in liked) or any(
            key in before and before[key] != after.get(key) for key in disliked
        )
        return Hint.QUEUE if helps else Hint.SKIP


class _KindTerms:
    """The terms of one kind of pod, and those of running pods that match it, as queries.

    Made anew when a Namespace changes; the terms in use are looked through again when one appears
    or disappears.
    """

    __slots__ = (
        "_existing",
        "_existing_version",
        "_preferred",
        "_weights",
        "_weights_version",
        "affinity",
        "affinity_counts",
        "anti_affinity",
        "anti_affinity_counts",
        "matches_itself",
        "namespace_labels",
        "namespaces_version",
    )

    def __init__(self, kind: PodKind, namespaces: Namespaces, version: int) -> None:
        self.namespaces_version = version
        self.namespace_labels = namespaces.labels(kind.namespace)
        self.affinity = namespaces.expand(kind.required_affinity)
        self.affinity_counts = matched_by_all(self.affinity)
        """Per topology key, the pods that match all terms at once."""
        self.matches_itself = matches_all(self.affinity, kind)
        self.anti_affinity = namespaces.expand(kind.required_anti_affinity)
        self.anti_affinity_counts = [
            query for _, query in matched_by_each((1, term) for term in self.anti_affinity)
        ]
        self._preferred: list[Weighted] = []
        for sign, preferred in ((1, kind.preferred_affinity), (-1, kind.preferred_anti_affinity)):
            weights = (term.weight for term in preferred)
            terms = zip(weights, namespaces.expand(preferred), strict=True)
            self._preferred += _times(sign, matched_by_each(terms))
        self._existing: list[Query] = []
        self._existing_version: tuple[int, ...] = ()
        self._weights: list[Weighted] = []
        self._weights_version: tuple[int, ...] = ()

    def anti_affinity_against(self, kind: PodKind, table: NodeTable) -> list[Query]:
        """The running pods that do not want this kind near them, wherever nodes have the key."""
        use = table.pods.required_anti_affinity
        version = (use.version, table.label_keys_version)
        if self._existing_version != version:
            terms = use.matching(kind, self.namespace_labels)
            self._existing = [q for _, q in carriers("required_anti_affinity", terms, table)]
            self._existing_version = version
        return self._existing

    def weights(self, kind: PodKind, table: NodeTable, hard_weight: int) -> list[Weighted]:
        """All that counts in the score: the pod's preferences, and those about it."""
        pods = table.pods
        uses = (pods.required_affinity, pods.preferred_affinity, pods.preferred_anti_affinity)
        version = (*(use.version for use in uses), table.label_keys_version)
        if self._weights_version != version:
            required, preferred, preferred_anti = (
                use.matching(kind, self.namespace_labels) for use in uses
            )
            self._weights = [
                each for each in self._preferred if table.has_label(each[1].topology_key)
            ]
            if hard_weight > 0:
                liked = carriers("required_affinity", required, table)
                self._weights += _times(hard_weight, liked)
            self._weights += carriers("preferred_affinity", preferred, table)
            disliked = carriers("preferred_anti_affinity", preferred_anti, table)
            self._weights += _times(-1, disliked)
            self._weights_version = version
        return self._weights


def _times(factor: int, queries: Iterable[Weighted]) -> list[Weighted]:
    return [(factor * weight, query) for weight, query in queries]


def _skip(kind: PodKind) -> Status:
    """What a pod without terms meets are the terms of others; its own, anybody's labels."""
    return SKIP if kind.has_pod_affinity else SKIP_STEADILY


def _is_placed(pod: Pod) -> bool:
    return bool(pod.spec.node_name or pod.status.nominated_node_name)


__all__ = ["AFFINITY", "ANTI_AFFINITY", "EXISTING_ANTI_AFFINITY", "Args", "InterPodAffinity"]
