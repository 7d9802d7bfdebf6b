"""StatefulSet: pods with names and claims of their own, made and replaced one after the other.

Mirrors `pkg/controller/statefulset`, but for one thing: there are no ControllerRevisions, so a pod
below `partition` that has to be made again is made from the latest template.
"""

from __future__ import annotations

from stowplan.apiserver.controllers.readiness import is_available, ready_since
from stowplan.apiserver.controllers.revisions import Revisions, revision_of
from stowplan.apiserver.controllers.shared import Shared
from stowplan.apiserver.controllers.workload import WorkloadController
from stowplan.objects.api import Create, Delete
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import PERSISTENT_VOLUME_CLAIM, POD, STATEFUL_SET
from stowplan.objects.pod import ENDED_PHASES, Pod
from stowplan.objects.workload_pods import (
    is_active,
    ordinals_of,
    stateful_claims,
    stateful_pod,
    stateful_revision,
)
from stowplan.objects.workloads import StatefulSet


class StatefulSetController(WorkloadController):
    def __init__(self, shared: Shared) -> None:
        super().__init__(shared, STATEFUL_SET)
        self._revisions = Revisions(shared)
        shared.listen(STATEFUL_SET, self._note_revision)

    def _note_revision(self, old: KubeObject | None, new: KubeObject | None) -> None:
        if isinstance(new, StatefulSet):
            self._revisions.note(new, stateful_revision(new))

    def forget(self, uid: str) -> None:
        super().forget(uid)
        self._revisions.forget(uid)

    def sync(self, key: str) -> None:
        owner = self._shared.get(STATEFUL_SET, key)
        if not isinstance(owner, StatefulSet) or not self.calls.settled(key):
            return
        pods: dict[int, Pod] = {}
        for child in self._claims.of(owner):
            ordinal = ordinal_of(owner.name, child.name)
            if isinstance(child, Pod) and ordinal is not None:
                pods[ordinal] = child
        wanted, revision = ordinals_of(owner), stateful_revision(owner)
        if owner.metadata.deletion_timestamp is None:
            for act in (self._fill, self._shrink, self._update):
                if not act(owner, pods, wanted, revision):
                    break
        self._write_status(owner, pods, revision)
        if self.calls.settled(key):
            self.queue.forget(key)

    # Each step says whether the next one may begin.

    def _fill(self, owner: StatefulSet, pods: dict[int, Pod], wanted: range, revision: str) -> bool:
        ordered = owner.spec.pod_management_policy != "Parallel"
        for ordinal in wanted:
            pod = pods.get(ordinal)
            if pod is None:
                self._create(owner, ordinal, revision)
            elif pod.status.phase in ENDED_PHASES and pod.metadata.deletion_timestamp is None:
                self._delete(owner, pod)
            elif self._is_healthy(owner, pod):
                continue
            if ordered:
                return False
        return True

    def _shrink(
        self, owner: StatefulSet, pods: dict[int, Pod], wanted: range, revision: str
    ) -> bool:
        ordered = owner.spec.pod_management_policy != "Parallel"
        for ordinal in sorted(pods.keys() - set(wanted), reverse=True):
            if pods[ordinal].metadata.deletion_timestamp is None:
                self._delete(owner, pods[ordinal])
            if ordered:
                return False
        return True

    def _update(
        self, owner: StatefulSet, pods: dict[int, Pod], wanted: range, revision: str
    ) -> bool:
        strategy = owner.spec.update_strategy
        if strategy is not None and strategy.type == "OnDelete":
            return True
        rolling = strategy.rolling_update if strategy is not None else None
        partition = (rolling.partition if rolling is not None else None) or 0
        for ordinal in reversed(wanted):
            if ordinal < partition:
                return True
            pod = pods.get(ordinal)
            if pod is None or pod.metadata.deletion_timestamp is not None:
                return False
            if not self._revisions.is_current(pod, owner, revision):
                self._delete(owner, pod)
                return False
            if not self._is_healthy(owner, pod):
                return False
        return True

    def _is_healthy(self, owner: StatefulSet, pod: Pod) -> bool:
        now_s, min_ready_s = self._shared.clock.now(), owner.spec.min_ready_seconds
        if is_active(pod) and is_available(pod, min_ready_s, now_s):
            return True
        if min_ready_s and ready_since(pod) is not None:
            self.queue.add_after(owner.key, float(min_ready_s))
        return False

    def _create(self, owner: StatefulSet, ordinal: int, revision: str) -> None:
        for claim in stateful_claims(owner, ordinal):
            key = f"{owner.namespace}/{claim['metadata']['name']}"
            if self._shared.get(PERSISTENT_VOLUME_CLAIM, key) is None:
                request = Create(PERSISTENT_VOLUME_CLAIM, owner.namespace, claim)
                self.calls.send(owner.key, request)
        body = stateful_pod(owner, ordinal, revision)
        self.calls.send(owner.key, Create(POD, owner.namespace, body))
        name = body["metadata"]["name"]
        note = f"create Pod {name} in StatefulSet {owner.name} successful"
        self._reporter.report(owner, "SuccessfulCreate", note)

    def _delete(self, owner: StatefulSet, pod: Pod) -> None:
        self.calls.send(owner.key, Delete(POD, pod.namespace, pod.name, uid=pod.uid))
        note = f"delete Pod {pod.name} in StatefulSet {owner.name} successful"
        self._reporter.report(owner, "SuccessfulDelete", note)

    def _write_status(self, owner: StatefulSet, pods: dict[int, Pod], revision: str) -> None:
        now_s, min_ready_s = self._shared.clock.now(), owner.spec.min_ready_seconds
        alive = [pod for pod in pods.values() if is_active(pod)]
        updated = [pod for pod in alive if revision_of(pod) == revision]
        labels = [revision_of(pod) for _, pod in sorted(pods.items())]
        older = [label for label in labels if label != revision]
        current = older[0] if older else revision
        status = {
            "observedGeneration": owner.metadata.generation,
            "replicas": len(alive),
            "readyReplicas": sum(1 for pod in alive if ready_since(pod) is not None),
            "availableReplicas": sum(1 for pod in alive if is_available(pod, min_ready_s, now_s)),
            "currentReplicas": sum(1 for pod in alive if revision_of(pod) == current),
            "updatedReplicas": len(updated),
            "currentRevision": current,
            "updateRevision": revision,
        }
        self._statuses.write(owner, status)


def ordinal_of(owner: str, pod: str) -> int | None:
    """
    >>> ordinal_of("db", "db-12"), ordinal_of("db", "db-x"), ordinal_of("db", "web-1")
    (12, None, None)
    """
    parent, _, text = pod.rpartition("-")
    return int(text) if parent == owner and text.isdecimal() else None
