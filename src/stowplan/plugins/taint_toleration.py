"""TaintToleration: keep a pod off nodes whose taints it does not tolerate.

`NoSchedule` and `NoExecute` taints turn a node down; each `PreferNoSchedule` taint that is not
tolerated makes it less welcome.  Thousands of nodes share a handful of taint lists, so the Python
loop runs once per list and set of tolerations, and one array look-up spreads the answer over all
nodes.  Mirrors kube-scheduler's `tainttoleration/taint_toleration.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stowplan.framework.cycle import Cycle
from stowplan.framework.events import Action, EventRegistration, Hint, Resource, on
from stowplan.framework.handle import Handle
from stowplan.framework.reads import Reads
from stowplan.framework.status import Rows, Scores, Status, Verdict, unresolvable, verdict_of
from stowplan.objects.node import Node, Taint
from stowplan.objects.pod import Pod, Toleration
from stowplan.objects.taints import PREFER_NO_SCHEDULE, first_untolerated, tolerates
from stowplan.plugins._shared.normalize import normalize
from stowplan.plugins._shared.rows import all_passed, all_zero, spread
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import PodInfo

UNTOLERATED = "node(s) had untolerated taint(s)"

_STATUS = unresolvable(UNTOLERATED)

_KEPT_MAX = 128
"""Sets of tolerations whose answers are remembered; the oldest goes first."""


class TaintToleration:
    name = "TaintToleration"
    reads = Reads.NODE

    def __init__(self, args: Any, handle: Handle) -> None:
        self._kept = handle.kept
        self._by_tolerations: dict[_Signature, _Answers] = {}

    def signature(self, pod: PodInfo) -> _Signature:
        return self._answers(pod).signature

    def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status | None:
        taints = node.taints
        if taints and first_untolerated(taints, pod.kind.tolerations) is not None:
            return _STATUS
        return None

    def filter_nodes(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows | slice
    ) -> Verdict:
        answers = self._answers(pod).up_to_date(nodes.taint_lists)
        if not answers.any_refused:
            return all_passed((UNTOLERATED,), nodes, rows)
        refused = spread(answers.refused, nodes.taint_list[rows])
        return verdict_of(refused, UNTOLERATED, unresolvable=True)

    def pre_score(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> Status | None:
        return None

    def score_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> int:
        taints = node.taints
        return _count_unwelcome(taints, self._answers(pod).soft) if taints else 0

    def score_nodes(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows | slice
    ) -> Scores:
        answers = self._answers(pod).up_to_date(nodes.taint_lists)
        if not answers.any_unwelcome:
            return all_zero(nodes, rows)
        return spread(answers.unwelcome, nodes.taint_list[rows])

    def normalize_scores(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows, scores: Scores
    ) -> Scores:
        return normalize(scores, reverse=True)

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (
            on(
                Resource.NODE,
                Action.ADD | Action.UPDATE_NODE_TAINT,
                _after_node_change,
                by_kind=True,
            ),
            on(Resource.POD, Action.UPDATE_POD_TOLERATION, _after_toleration_change),
        )

    def _answers(self, pod: PodInfo) -> _Answers:
        kept = self._kept[pod.kind.ref]
        found: _Answers | None = kept.get(self.name)
        if found is None:
            tolerations = pod.kind.tolerations
            signature = frozenset((t.key, t.operator, t.value, t.effect) for t in tolerations)
            found = self._by_tolerations.get(signature)
            if found is None:
                if len(self._by_tolerations) == _KEPT_MAX:
                    del self._by_tolerations[next(iter(self._by_tolerations))]
                found = self._by_tolerations[signature] = _Answers(signature, tolerations)
            kept[self.name] = found
        return found


_Signature = frozenset[tuple[str, str, str, str]]


class _Answers:
    """For one set of tolerations, the answer for each taint list there is."""

    __slots__ = (
        "_lists",
        "_tolerations",
        "any_refused",
        "any_unwelcome",
        "refused",
        "signature",
        "soft",
        "unwelcome",
    )

    def __init__(self, signature: _Signature, tolerations: tuple[Toleration, ...]) -> None:
        self.signature = signature
        self._tolerations = tolerations
        self.soft = tuple(t for t in tolerations if t.effect in ("", PREFER_NO_SCHEDULE))
        """The tolerations that count in scores."""
        self.refused: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.unwelcome: Scores = np.zeros(0, np.int64)
        self.any_refused = self.any_unwelcome = False
        self._lists: list[tuple[Taint, ...]] = []

    def up_to_date(self, taint_lists: list[tuple[Taint, ...]]) -> _Answers:
        """Look at the lists that are new; known ones never change, until all are numbered anew."""
        if taint_lists is not self._lists:
            self._lists = taint_lists
            self.refused, self.unwelcome = self.refused[:0], self.unwelcome[:0]
        known = len(self.refused)
        if known < len(taint_lists):
            new = taint_lists[known:]
            refused = [first_untolerated(t, self._tolerations) is not None for t in new]
            unwelcome = [_count_unwelcome(t, self.soft) for t in new]
            self.refused = np.append(self.refused, refused)
            self.unwelcome = np.append(self.unwelcome, unwelcome)
            self.any_refused = bool(self.refused.any())
            self.any_unwelcome = bool(self.unwelcome.any())
        return self


def _count_unwelcome(taints: Iterable[Taint], soft: tuple[Toleration, ...]) -> int:
    return sum(
        taint.effect == PREFER_NO_SCHEDULE and not any(tolerates(t, taint) for t in soft)
        for taint in taints
    )


def _after_node_change(pod: Pod, old: Node | None, new: Node) -> Hint:
    tolerations = pod.spec.tolerations
    refused_before = old is None or first_untolerated(old.spec.taints, tolerations) is not None
    refused_now = first_untolerated(new.spec.taints, tolerations) is not None
    return Hint.QUEUE if refused_before and not refused_now else Hint.SKIP


def _after_toleration_change(pod: Pod, old: Pod, new: Pod) -> Hint:
    return Hint.QUEUE if new.metadata.uid == pod.metadata.uid else Hint.SKIP
