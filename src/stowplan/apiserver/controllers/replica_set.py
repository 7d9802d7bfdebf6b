"""ReplicaSet: as many pods as asked for, no more and no fewer.

Mirrors `pkg/controller/replicaset`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from stowplan.apiserver.controllers.readiness import is_available, ready_since
from stowplan.apiserver.controllers.reporting import NOTES_PER_SYNC_MAX
from stowplan.apiserver.controllers.shared import Shared
from stowplan.apiserver.controllers.workload import WorkloadController
from stowplan.objects.api import Create, Delete
from stowplan.objects.kinds import POD, REPLICA_SET
from stowplan.objects.pod import Pod
from stowplan.objects.workload_pods import is_active, pod_from, replicas_of
from stowplan.objects.workloads import ReplicaSet

BURST_MAX = 200
"""Pods made or deleted at one look; the rest follows when these are known."""

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASE_ORDER = {"Pending": 0, "Unknown": 1, "": 1, "Running": 2}


class ReplicaSetController(WorkloadController):
    def __init__(self, shared: Shared) -> None:
        super().__init__(shared, REPLICA_SET)

    def sync(self, key: str) -> None:
        thing = self._shared.get(REPLICA_SET, key)
        if not isinstance(thing, ReplicaSet) or not self.calls.settled(key):
            return
        children = self._claims.of(thing)
        pods = [pod for pod in children if isinstance(pod, Pod) and is_active(pod)]
        wanted = replicas_of(thing)
        if thing.metadata.deletion_timestamp is None:
            if len(pods) < wanted:
                # When the last ones were refused, one is enough to see whether this still is so.
                burst = 1 if self.queue.is_failing(key) else BURST_MAX
                self._create(thing, min(wanted - len(pods), burst))
            elif len(pods) > wanted:
                self._delete(thing, pods, min(len(pods) - wanted, BURST_MAX))
        self._write_status(thing, pods)
        if self.calls.settled(key):
            self.queue.forget(key)

    def _create(self, owner: ReplicaSet, count: int) -> None:
        body = pod_from(owner)
        for number in range(count):
            request = Create(POD, owner.namespace, body)
            self.calls.send(owner.key, request, self._reporter.creation(owner, number))

    def _delete(self, owner: ReplicaSet, pods: list[Pod], count: int) -> None:
        for number, pod in enumerate(first_to_go(pods)[:count]):
            self.calls.send(owner.key, Delete(POD, pod.namespace, pod.name, uid=pod.uid))
            if number < NOTES_PER_SYNC_MAX:
                self._reporter.report(owner, "SuccessfulDelete", f"Deleted pod: {pod.name}")

    def _write_status(self, owner: ReplicaSet, pods: list[Pod]) -> None:
        now_s, min_ready_s = self._shared.clock.now(), owner.spec.min_ready_seconds
        ready = sum(1 for pod in pods if ready_since(pod) is not None)
        available = sum(1 for pod in pods if is_available(pod, min_ready_s, now_s))
        status: dict[str, Any] = {
            "replicas": len(pods),
            "fullyLabeledReplicas": len(pods),
            "readyReplicas": ready,
            "availableReplicas": available,
            "observedGeneration": owner.metadata.generation,
        }
        self._statuses.write(owner, status)
        if available < ready:
            self.queue.add_after(owner.key, float(min_ready_s))


def first_to_go(pods: list[Pod]) -> list[Pod]:
    """The order in which pods are given up: those first that do the least.

    Not yet on a node, not running, not ready, cheap to delete, many on one node, young.
    """
    crowd = Counter(pod.spec.node_name for pod in pods)

    def order(pod: Pod) -> tuple[Any, ...]:
        since = ready_since(pod)
        return (
            bool(pod.spec.node_name),
            _PHASE_ORDER.get(pod.status.phase, 1),
            since is not None,
            _deletion_cost(pod),
            -crowd[pod.spec.node_name],
            -(since or 0.0),
            _Later(pod.metadata.creation_timestamp or ""),
            _Later(pod.name),
        )

    return sorted(pods, key=order)


class _Later(str):
    """Sorts the other way round: the youngest goes first."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)


def _deletion_cost(pod: Pod) -> int:
    text = (pod.metadata.annotations or {}).get(DELETION_COST, "0")
    try:
        return int(text)
    except ValueError:
        return 0
