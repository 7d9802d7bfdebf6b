"""NodeAffinity: a pod's `nodeSelector` and node affinity, and the affinity a profile adds to all.

Required terms turn nodes down; preferred ones add their weights to the score.  A term that only
names nodes narrows the search to them before any filter runs.  Mirrors kube-scheduler's
`nodeaffinity/node_affinity.go`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
import numpy as np

from stowplan.errors import ConfigError
from stowplan.framework.cycle import Cycle
from stowplan.framework.events import Action, EventRegistration, Hint, Resource, on
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import PreFilterResult
from stowplan.framework.reads import Reads
from stowplan.framework.status import (
    SKIP,
    Rows,
    Scores,
    Status,
    Verdict,
    error,
    unresolvable,
)
from stowplan.objects.labels import SelectorError
from stowplan.objects.node import Node
from stowplan.objects.node_selector import (
    CompiledNodeSelector,
    NodeTerm,
    compile_node_selector,
    compile_preferred,
    metadata_name_values,
)
from stowplan.objects.pod import NodeAffinity as Affinity
from stowplan.objects.pod import Pod
from stowplan.plugins._shared.node_selection import affinity_mask, selector_mask, term_mask
from stowplan.plugins._shared.normalize import normalize
from stowplan.plugins._shared.pod_kinds import PodKinds
from stowplan.plugins._shared.rows import all_zero
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import PodInfo, PodKind

ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
POD_AFFINITY = "node(s) didn't match Pod's node affinity/selector"
CONFLICT = "pod affinity terms conflict"

_ENFORCED_STATUS = unresolvable(ENFORCED)
_POD_STATUS = unresolvable(POD_AFFINITY)

WeightedTerms = tuple[tuple[int, NodeTerm], ...]


class Args(Protocol):
    added_affinity: Affinity | None


@dataclass(frozen=True, slots=True)
class _Wish:
    """What one kind of pod says about nodes, parsed."""

    pre_filter: PreFilterResult | Status | None
    preferred: WeightedTerms
    pre_score: Status | None
    signature: bytes


class NodeAffinity:
    name = "NodeAffinity"
    reads = Reads.NODE

    def __init__(self, args: Args | None, handle: Handle) -> None:
        added = args.added_affinity if args is not None else None
        self._kept = handle.kept
        self._added_required = _added_required(added)
        self._added_preferred = _added_preferred(added)
        self._kinds = PodKinds()

    def signature(self, pod: PodInfo) -> bytes:
        return self._wish(pod).signature

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> PreFilterResult | Status | None:
        return self._wish(pod).pre_filter

    def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status | None:
        added = self._added_required
        if added is not None and not added.matches(node.labels, node.name):
            return _ENFORCED_STATUS
        if not pod.kind.required_node_affinity.matches(node.labels, node.name):
            return _POD_STATUS
        return None

    def filter_nodes(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows | slice
    ) -> Verdict:
        refused = ~affinity_mask(nodes, pod.kind.required_node_affinity, rows)
        why = refused.astype(np.uint32)
        final = np.ones(len(why), np.bool_)
        if self._added_required is None:
            return Verdict((POD_AFFINITY,), why, final)
        why[~selector_mask(nodes, self._added_required, rows)] = 2
        return Verdict((POD_AFFINITY, ENFORCED), why, final)

    def pre_score(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> Status | None:
        return self._wish(pod).pre_score

    def score_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> int:
        labels, name = node.labels, node.name
        terms = (*self._added_preferred, *self._wish(pod).preferred)
        return sum(weight for weight, term in terms if term.matches(labels, name))

    def score_nodes(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows | slice
    ) -> Scores:
        scores = all_zero(nodes, rows)
        for weight, term in (*self._added_preferred, *self._wish(pod).preferred):
            scores += weight * term_mask(nodes, term, rows)
        return scores

    def normalize_scores(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows, scores: Scores
    ) -> Scores:
        return normalize(scores, reverse=False)

    def events_to_register(self) -> Sequence[EventRegistration]:
        added_or_relabelled = Action.ADD | Action.UPDATE_NODE_LABEL
        return (on(Resource.NODE, added_or_relabelled, self._after_node_change, by_kind=True),)

    def _after_node_change(self, pod: Pod, old: Node | None, new: Node) -> Hint:
        if not self._accepts(pod, new):
            return Hint.SKIP
        return Hint.QUEUE if old is None or not self._accepts(pod, old) else Hint.SKIP

    def _accepts(self, pod: Pod, node: Node) -> bool:
        labels, name = node.metadata.labels or {}, node.metadata.name
        added = self._added_required
        required = self._kinds.of(pod).required_node_affinity
        return (added is None or added.matches(labels, name)) and required.matches(labels, name)

    def _wish(self, pod: PodInfo) -> _Wish:
        kept = self._kept[pod.kind.ref]
        wish: _Wish | None = kept.get(self.name)
        if wish is None:
            wish = kept[self.name] = self._parse(pod.kind)
        return wish

    def _parse(self, kind: PodKind) -> _Wish:
        affinity = _affinity_of(kind.pod)
        signature = _encode((kind.spec.node_selector or {}, affinity))
        try:
            preferred = compile_preferred(affinity.preferred)
        except SelectorError as problem:
            return _Wish(self._pre_filter(kind.pod), (), error(str(problem)), signature)
        nothing_preferred = affinity.preferred is None and not self._added_preferred
        pre_score = SKIP if nothing_preferred else None
        return _Wish(self._pre_filter(kind.pod), preferred, pre_score, signature)

    def _pre_filter(self, pod: Pod) -> PreFilterResult | Status | None:
        required = _affinity_of(pod).required
        if required is None:
            unconcerned = self._added_required is None and pod.spec.node_selector is None
            return SKIP if unconcerned else None
        names: set[str] = set()
        per_term = metadata_name_values(required)
        for named in per_term:
            if named is None:
                return None
            names |= named
        if per_term and not names:
            return unresolvable(CONFLICT)
        return PreFilterResult(frozenset(names)) if names else None


_NO_AFFINITY = Affinity()
_encode = msgspec.json.Encoder(order="deterministic").encode


def _affinity_of(pod: Pod) -> Affinity:
    affinity = pod.spec.affinity
    return (affinity.node_affinity if affinity is not None else None) or _NO_AFFINITY


def _added_required(added: Affinity | None) -> CompiledNodeSelector | None:
    selector = compile_node_selector(added.required) if added is not None else None
    if selector is not None and selector.problems:
        raise _config_error("required", selector.problems[0])
    return selector


def _added_preferred(added: Affinity | None) -> WeightedTerms:
    try:
        return compile_preferred(added.preferred) if added is not None else ()
    except SelectorError as problem:
        raise _config_error("preferred", str(problem)) from problem


def _config_error(part: str, problem: str) -> ConfigError:
    return ConfigError(
        problem,
        where=f"NodeAffinityArgs.addedAffinity.{part}DuringSchedulingIgnoredDuringExecution",
    )
