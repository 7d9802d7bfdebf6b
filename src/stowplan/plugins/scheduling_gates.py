"""SchedulingGates: a pod with scheduling gates stays out of the queue until all are removed.

Mirrors kube-scheduler's `schedulinggates/scheduling_gates.go`.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from stowplan.framework.events import Action, EventRegistration, Hint, Resource, on
from stowplan.framework.status import Status, unresolvable
from stowplan.objects.pod import Pod
from stowplan.state.pod_info import PodInfo

_gates = attrgetter("pod.spec.scheduling_gates")


class SchedulingGates:
    name = "SchedulingGates"

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        gates = pod.pod.spec.scheduling_gates
        if not gates:
            return None
        names = " ".join(gate.name for gate in gates)
        return unresolvable(f"waiting for scheduling gates: [{names}]")

    def pre_enqueue_all(self, pods: list[PodInfo]) -> list[Status | None]:
        if not any(map(_gates, pods)):
            return [None] * len(pods)
        return list(map(self.pre_enqueue, pods))

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (on(Resource.POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, _gates_gone),)


def _gates_gone(pod: Pod, old: Pod | None, new: Pod) -> Hint:
    return Hint.QUEUE if new.metadata.uid == pod.metadata.uid else Hint.SKIP
