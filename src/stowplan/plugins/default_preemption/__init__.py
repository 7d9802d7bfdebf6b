"""DefaultPreemption: make room for a pod that fits nowhere by evicting less important ones.

Mirrors kube-scheduler's `defaultpreemption/default_preemption.go` and `framework/preemption`.
This module decides (is the pod eligible, which nodes, which victims); `core.preemption` carries
it out.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import filterfalse, repeat
from operator import attrgetter
from typing import Any, Protocol

import numpy as np

from stowplan.framework.cycle import Cycle
from stowplan.framework.diagnosis import Diagnosis, fit_message, status_histogram
from stowplan.framework.effects import AskPreemptionExtenders
from stowplan.framework.events import Action, EventRegistration, Hint, Resource, on
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import Nominate, PostFilterResult
from stowplan.framework.runtime import Framework
from stowplan.framework.status import (
    Code,
    Rows,
    Status,
    error,
    unschedulable,
)
from stowplan.objects.pod import Pod
from stowplan.objects.pod_groups import (
    GENERIC_WORKLOAD,
    TOPOLOGY_AWARE,
    WORKLOAD_AWARE_PREEMPTION,
    PodGroup,
)
from stowplan.objects.workloads import PodDisruptionBudget
from stowplan.plugins.default_preemption.kept_victims import KeptVictims
from stowplan.plugins.default_preemption.victims import (
    NO_VICTIMS,
    Candidate,
    Refusal,
    pick_candidate,
    select_victims,
)
from stowplan.state.pod_info import PodInfo

NOT_HELPFUL = "Preemption is not helpful for scheduling"

_PREFIX = "preemption: "

_uid, _key, _terminating = map(attrgetter, ("uid", "key", "kind.terminating"))

_PREEMPTING = Status(
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
    ("waiting for the preemption for this pod to be finished",),
    "DefaultPreemption",
)
"""One for all: a gate that says the same again is known by it at a glance."""


_GROUP_PREEMPTING = Status(
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
    ("waiting for the preemption for this pod group to be finished",),
    "DefaultPreemption",
)

_NOBODY = PodInfo(Pod())
"""The last victim of a pod that evicts none: one that has left already."""


class Args(Protocol):
    min_candidate_nodes_percentage: int
    min_candidate_nodes_absolute: int


class DefaultPreemption:
    name = "DefaultPreemption"
    gates_groups = True

    def __init__(self, args: Args, handle: Handle) -> None:
        self._handle = handle
        self._percentage = args.min_candidate_nodes_percentage
        self._absolute = args.min_candidate_nodes_absolute
        self.preempting: dict[str, PodInfo | None] = {}
        """Preemptors (uid) whose victims are being deleted -> the last victim, once it is due."""
        self.preempting_groups: dict[str, PodInfo | None] = {}
        """The same for whole groups, by `namespace/name`."""

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        return self.pre_enqueue_all([pod])[0]

    def pre_enqueue_all(self, pods: list[PodInfo]) -> list[Status | None]:
        """Preemptors wait until their last victim is on its way out.

        With each victim's end all are asked about that wait for theirs: mostly in vain.
        """
        preempting = self.preempting
        if self.preempting_groups:
            return [self._held_back(pod) for pod in pods]
        if not preempting:
            return [None] * len(pods)
        victims = list(map(preempting.get, map(_uid, pods), repeat(_NOBODY)))
        due = list(filter(None, victims))
        known = filter(None, map(self._handle.pod_by_key, map(_key, due)))
        leaving = set(map(_uid, due)).difference(map(_uid, filterfalse(_terminating, known)))
        if not leaving:
            return [_PREEMPTING] * len(pods)
        return [
            None if last is not None and last.uid in leaving else _PREEMPTING for last in victims
        ]

    def _held_back(self, pod: PodInfo) -> Status | None:
        """The same for one pod, where whole groups preempt too."""
        for preempting, key, objection in (
            (self.preempting_groups, pod.group_key, _GROUP_PREEMPTING),
            (self.preempting, pod.uid, _PREEMPTING),
        ):
            if key in preempting:
                last = preempting[key]
                known = None if last is None else self._handle.pod_by_key(last.key)
                stays = known is not None and last is not None and known.uid == last.uid
                if last is None or (stays and known is not None and not _terminating(known)):
                    return objection
        return None

    def events_to_register(self) -> Sequence[EventRegistration]:
        # The plugins that rejected the pod decide whether a victim's end helps.
        return (on(Resource.POD, Action.DELETE, _never, by_kind=True),)

    def post_filter(
        self, cycle: Cycle, pod: PodInfo
    ) -> Generator[Any, Any, tuple[PostFilterResult | None, Status | None]]:
        result, status = yield from self._preempt(cycle, pod)
        if status is not None and status.reasons:
            status = Status(status.code, (_PREFIX + status.reasons[0], *status.reasons[1:]))
        return result, status

    def _preempt(
        self, cycle: Cycle, pod: PodInfo
    ) -> Generator[Any, Any, tuple[PostFilterResult | None, Status | None]]:
        current = self._handle.pod_by_key(pod.key)
        if current is None:
            return None, error(f'pod "{pod.pod.metadata.name}" not found')
        diagnosis: Diagnosis = cycle.statuses
        refusal = self._not_as_member(pod) or self._not_eligible(current, diagnosis)
        if refusal:
            return None, unschedulable(refusal)
        rows = diagnosis.resolvable_rows()
        if len(rows) and not cycle.nodes.pods.has_below(pod.priority):
            # Nobody may be evicted anywhere, so no node is worth a look.  What is drawn for the
            # first one is drawn all the same: later draws do not depend on this.
            self._handle.random.randrange(len(rows))
            message = _nothing_found(diagnosis.node_count, len(rows), {NO_VICTIMS: len(rows)})
            return PostFilterResult(Nominate("")), unschedulable(message)
        candidates, statuses = self._dry_run(cycle, pod, rows)
        if not candidates:
            failed = next((s for s in statuses.values() if s.code == Code.ERROR), None)
            if failed is not None:
                return None, failed
            counts = status_histogram(statuses.values())
            message = _nothing_found(diagnosis.node_count, len(statuses), counts)
            return PostFilterResult(Nominate("")), unschedulable(message)
        chosen = yield AskPreemptionExtenders(pod, candidates)
        if isinstance(chosen, Status):
            return None, chosen
        handle = self._handle
        best = pick_candidate(chosen, None if handle.ties_by_name else handle.random)
        if best is None:
            return None, unschedulable("no candidate node for preemption")
        return PostFilterResult(Nominate(best.node), best.victims), None

    def _not_as_member(self, pod: PodInfo) -> str:
        """Why a pod of a group may not evict others on its own account."""
        handle = self._handle
        if not pod.kind.is_member or GENERIC_WORKLOAD not in handle.features:
            return ""
        if TOPOLOGY_AWARE in handle.features:
            group = handle.objects.get(PodGroup, pod.group_key)
            if group is None:
                return "pod group for pod not found"
            if group.spec.scheduling_constraints is not None:
                return "not eligible due to placement-based pod group scheduling limitation"
        if WORKLOAD_AWARE_PREEMPTION in handle.features:
            return "not eligible due to workload aware preemption enabled"
        return ""

    def _not_eligible(self, pod: PodInfo, diagnosis: Diagnosis) -> str:
        if pod.pod.spec.preemption_policy == "Never":
            return "not eligible due to preemptionPolicy=Never."
        nominated = pod.pod.status.nominated_node_name
        node = self._handle.node(nominated) if nominated else None
        if node is None:
            return ""
        status = diagnosis.status(node.row)
        if status is not None and status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return ""
        leaving = any(
            other.priority < pod.priority and _is_preempted(other.pod)
            for other in node.pods.values()
        )
        return "not eligible due to a terminating pod on the nominated node." if leaving else ""

    def _dry_run(
        self, cycle: Cycle, pod: PodInfo, rows: Rows
    ) -> tuple[list[Candidate], dict[int, Status]]:
        """Try nodes from a random one on, until enough candidates are found."""
        if not len(rows):
            return [], {}
        count = len(rows)
        wanted = min(count, max(count * self._percentage // 100, self._absolute))
        start = self._handle.random.randrange(count)
        rows = np.concatenate((rows[start:], rows[:start]))
        nodes, handle, framework = cycle.nodes, self._handle, self._framework
        budgets = list(handle.objects.all(PodDisruptionBudget).values())

        def ask(row: int, before: Refusal | None) -> Candidate | Refusal:
            return select_victims(framework, cycle, pod, nodes.info(row), budgets, before)

        kept = self._kept(cycle, pod)
        # Its own nomination does not count against a pod, but does against its replicas.
        own = nodes.row_of.get(handle.nominated.node_of.get(pod.uid, ""))
        kept.forget(own)
        found = kept.search(nodes, rows, wanted, ask)
        kept.forget(own)
        return found

    def _kept(self, cycle: Cycle, pod: PodInfo) -> KeptVictims:
        """What is known from earlier pods of this kind; nothing if another node could matter."""
        handle = self._handle
        if not self._framework.is_node_local(cycle, pod):
            kept = KeptVictims()
        else:
            kept = cycle.kept.get(self.name) or cycle.kept.setdefault(self.name, KeptVictims())
        kept.catch_up(cycle.nodes, handle.nominated, handle.objects.version(PodDisruptionBudget))
        return kept

    @property
    def _framework(self) -> Framework:
        framework = self._handle.framework
        assert isinstance(framework, Framework)
        return framework


def _nothing_found(node_count: int, asked_count: int, counts: dict[str, int]) -> str:
    rest = node_count - asked_count
    if rest > 0:
        counts[NOT_HELPFUL] = counts.get(NOT_HELPFUL, 0) + rest
    return fit_message(node_count, counts)


def _is_preempted(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None and any(
        condition.type == "DisruptionTarget"
        and condition.status == "True"
        and condition.reason == "PreemptionByScheduler"
        for condition in pod.status.conditions or ()
    )


def _never(pod: Pod, old: Any, new: Any) -> Hint:
    return Hint.SKIP
