"""Deployment: a ReplicaSet per version of the pod template, and the way from one to the next.

Mirrors `pkg/controller/deployment`.  How many pods each ReplicaSet gets is decided in `rollout`;
what is reported is put together in `deployment_status`.
"""

from __future__ import annotations

from typing import Any

from stowplan.apiserver.controllers import rollout
from stowplan.apiserver.controllers.deployment_status import Progress, status_of
from stowplan.apiserver.controllers.readiness import is_available, ready_since
from stowplan.apiserver.controllers.rollout import Members
from stowplan.apiserver.controllers.shared import Shared
from stowplan.apiserver.controllers.workload import WorkloadController
from stowplan.objects.api import Create, Delete, Patch
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import DEPLOYMENT, POD, REPLICA_SET
from stowplan.objects.pod import ENDED_PHASES, Pod
from stowplan.objects.workload_pods import (
    HASH_LABEL,
    REVISION,
    copied_annotations,
    is_active,
    replica_set_of,
    replicas_of,
    revision_of,
)
from stowplan.objects.workloads import Deployment, ReplicaSet

HISTORY_DEFAULT = 10


class DeploymentController(WorkloadController):
    def __init__(self, shared: Shared) -> None:
        super().__init__(shared, DEPLOYMENT, REPLICA_SET)
        self._progress: dict[str, Progress] = shared.memory["deployments: progress"]
        shared.listen(POD, self._pod_changed)

    def forget(self, uid: str) -> None:
        super().forget(uid)
        self._progress.pop(uid, None)

    def _pod_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        """A pod of a ReplicaSet of a Deployment."""
        some = new if new is not None else old
        owner = None if some is None else some.metadata.controller()
        if some is None or owner is None or owner.kind != REPLICA_SET.name:
            return
        middle = self._shared.get(REPLICA_SET, f"{some.namespace}/{owner.name}")
        above = None if middle is None else middle.metadata.controller()
        if above is not None and above.kind == DEPLOYMENT.name:
            self.queue.add(f"{some.namespace}/{above.name}")

    def sync(self, key: str) -> None:
        deployment = self._shared.get(DEPLOYMENT, key)
        if not isinstance(deployment, Deployment) or not self.calls.settled(key):
            return
        sets = [one for one in self._claims.of(deployment) if isinstance(one, ReplicaSet)]
        sets.sort(key=lambda one: (one.metadata.creation_timestamp or "", one.name))
        template = deployment.spec.template
        current = next((one for one in sets if _same_template(one, template)), None)
        older = [one for one in sets if one is not current]
        if deployment.metadata.deletion_timestamp is None:
            self._move(deployment, current, older)
        self._report_status(deployment, current, older)
        if self.calls.settled(key):
            self.queue.forget(key)

    # Towards the template.

    def _move(
        self, deployment: Deployment, current: ReplicaSet | None, older: list[ReplicaSet]
    ) -> None:
        limits = rollout.limits_of(deployment)
        replicas = replicas_of(deployment)
        old = [self._members(one) for one in older]
        new = None if current is None else self._members(current)
        if deployment.spec.paused:
            if new is not None and not any(one.wanted for one in old):
                self._scale(deployment, new, replicas)
            return
        if rollout.is_recreated(deployment):
            for one in old:
                self._scale(deployment, one, 0)
            if any(self._has_pods(one) for one in older):
                return
            size = replicas
        else:
            size = rollout.new_size(replicas, limits, new, old)
        if new is None or current is None:
            self._create(deployment, size, older)
            return
        self._keep_revision(deployment, current, older)
        self._scale(deployment, new, size)
        if new.wanted == size:
            sizes = rollout.old_sizes(replicas, limits, new, old)
            for one in old:
                self._scale(deployment, one, sizes[one.key])
        self._clean_up(deployment, older)

    def _members(self, one: ReplicaSet) -> Members:
        now_s, min_ready_s = self._shared.clock.now(), one.spec.min_ready_seconds
        pods = [pod for pod in self._pods(one) if is_active(pod)]
        return Members(
            one.key,
            wanted=replicas_of(one),
            pods=len(pods),
            ready=sum(1 for pod in pods if ready_since(pod) is not None),
            available=sum(1 for pod in pods if is_available(pod, min_ready_s, now_s)),
        )

    def _pods(self, one: ReplicaSet) -> list[Pod]:
        return [pod for pod in self._shared.owned(POD, one.uid) if isinstance(pod, Pod)]

    def _has_pods(self, one: ReplicaSet) -> bool:
        return any(pod.status.phase not in ENDED_PHASES for pod in self._pods(one))

    def _create(self, deployment: Deployment, size: int, older: list[ReplicaSet]) -> None:
        body = replica_set_of(deployment, size, revision=_last_revision(older) + 1)
        self.calls.send(deployment.key, Create(REPLICA_SET, deployment.namespace, body))
        note = f"Scaled up replica set {body['metadata']['name']} from 0 to {size}"
        self._reporter.report(deployment, "ScalingReplicaSet", note)

    def _scale(self, deployment: Deployment, one: Members, size: int) -> None:
        if one.wanted == size:
            return
        namespace, _, name = one.key.rpartition("/")
        body = {"spec": {"replicas": size}}
        self.calls.send(deployment.key, Patch(REPLICA_SET, namespace, name, body, "merge"))
        word = "up" if size > one.wanted else "down"
        note = f"Scaled {word} replica set {name} from {one.wanted} to {size}"
        self._reporter.report(deployment, "ScalingReplicaSet", note)

    def _keep_revision(
        self, deployment: Deployment, current: ReplicaSet, older: list[ReplicaSet]
    ) -> None:
        """The ReplicaSet in use has the highest revision, also after going back to it."""
        revision = max(revision_of(current), _last_revision(older) + 1)
        text = str(revision)
        if revision_of(current) != revision:
            body = {"metadata": {"annotations": {**copied_annotations(deployment), REVISION: text}}}
            request = Patch(REPLICA_SET, current.namespace, current.name, body, "merge")
            self.calls.send(deployment.key, request)
        if (deployment.metadata.annotations or {}).get(REVISION) != text:
            body = {"metadata": {"annotations": {REVISION: text}}}
            request = Patch(DEPLOYMENT, deployment.namespace, deployment.name, body, "merge")
            self.calls.send(deployment.key, request)

    def _clean_up(self, deployment: Deployment, older: list[ReplicaSet]) -> None:
        """Keep only so many old ReplicaSets to go back to."""
        limit = deployment.spec.revision_history_limit
        limit = HISTORY_DEFAULT if limit is None else limit
        empty = [
            one
            for one in sorted(older, key=revision_of)
            if one.spec.replicas == 0
            and one.metadata.deletion_timestamp is None
            and not self._shared.owned(POD, one.uid)
        ]
        for one in empty[: max(0, len(empty) - limit)]:
            request = Delete(REPLICA_SET, one.namespace, one.name, uid=one.uid)
            self.calls.send(deployment.key, request)

    # What is told.

    def _report_status(
        self, deployment: Deployment, current: ReplicaSet | None, older: list[ReplicaSet]
    ) -> None:
        now_s = self._shared.clock.now()
        new = None if current is None else self._members(current)
        old = [self._members(one) for one in older]
        progress = self._progress.setdefault(deployment.uid, Progress(now_s))
        status, wait_s = status_of(deployment, new, old, progress, now_s)
        self._statuses.write(deployment, status)
        if wait_s is not None:
            self.queue.add_after(deployment.key, wait_s, idle=True)
        min_ready_s = deployment.spec.min_ready_seconds
        if min_ready_s and status["availableReplicas"] < status["readyReplicas"]:
            self.queue.add_after(deployment.key, float(min_ready_s))


def _same_template(one: ReplicaSet, template: dict[str, Any] | None) -> bool:
    found = one.spec.template or {}
    metadata = found.get("metadata") or {}
    labels = dict(metadata.get("labels") or {})
    labels.pop(HASH_LABEL, None)
    wanted = template or {}
    wanted_metadata = wanted.get("metadata") or {}
    return (
        found.get("spec") == wanted.get("spec")
        and labels == (wanted_metadata.get("labels") or {})
        and (metadata.get("annotations") or {}) == (wanted_metadata.get("annotations") or {})
    )


def _last_revision(older: list[ReplicaSet]) -> int:
    return max((revision_of(one) for one in older), default=0)
