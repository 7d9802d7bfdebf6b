"""StatefulSet: pods with names and claims of their own, made and replaced one after the other.

Mirrors `pkg/controller/statefulset`, but for one thing: there are no ControllerRevisions, so a pod
below `partition` that has to be made again is made from the latest template.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stowplan.apiserver.controllers.calls import Calls
from stowplan.apiserver.controllers.claims import Claims
from stowplan.apiserver.controllers.reporting import Reporter
from stowplan.apiserver.controllers.shared import Shared
from stowplan.apiserver.controllers.statuses import Statuses
from stowplan.apiserver.controllers.templates import (
    is_active,
    is_available,
    pod_from,
    ready_since,
    template_hash,
)
from stowplan.objects.api import Create, Delete
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import PERSISTENT_VOLUME_CLAIM, POD, STATEFUL_SET
from stowplan.objects.pod import Pod
from stowplan.objects.storage import PersistentVolumeClaim
from stowplan.objects.workloads import StatefulSet

REVISION_LABEL = "controller-revision-hash"
NAME_LABEL = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL = "apps.kubernetes.io/pod-index"

_ENDED = frozenset({"Succeeded", "Failed"})


class StatefulSetController:
    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self.queue = shared.queue("statefulset", self.sync)
        self.calls = Calls(shared, self.queue)
        self._statuses = Statuses(shared.cluster, STATEFUL_SET)
        self._reporter = Reporter(shared, "statefulset-controller")
        shared.listen(STATEFUL_SET, self._changed)
        self._claims = Claims(
            shared,
            self.calls,
            owner_kind=STATEFUL_SET,
            child_kind=POD,
            look_again=self.queue.add,
        )

    def _changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        if new is not None:
            self.queue.add(new.key)
        elif old is not None:
            self._statuses.forget(old.uid)

    def sync(self, key: str) -> None:
        owner = self._shared.get(STATEFUL_SET, key)
        if not isinstance(owner, StatefulSet) or not self.calls.settled(key):
            return
        pods: dict[int, Pod] = {}
        for child in self._claims.of(owner):
            ordinal = ordinal_of(owner.name, child.name)
            if isinstance(child, Pod) and ordinal is not None:
                pods[ordinal] = child
        start = owner.spec.ordinals.start if owner.spec.ordinals is not None else 0
        count = owner.spec.replicas if owner.spec.replicas is not None else 1
        wanted = range(start, start + count)
        revision = f"{owner.name}-{template_hash(owner.spec.template)}"
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
            elif pod.status.phase in _ENDED and pod.metadata.deletion_timestamp is None:
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
            if _revision(pod) != revision:
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
        name = f"{owner.name}-{ordinal}"
        labels = {NAME_LABEL: name, INDEX_LABEL: str(ordinal), REVISION_LABEL: revision}
        body = pod_from(owner.spec.template, owner, name=name, labels=labels)
        templates = owner.spec.volume_claim_templates or []
        for template in templates:
            self._create_claim(owner, template, name)
        names = {template.name for template in templates}
        spec = body["spec"]
        others = [one for one in spec.get("volumes") or () if one.get("name") not in names]
        volumes = [
            {"name": it.name, "persistentVolumeClaim": {"claimName": f"{it.name}-{name}"}}
            for it in templates
        ]
        extra: dict[str, Any] = {"volumes": [*volumes, *others]} if volumes or others else {}
        body["spec"] = {**spec, **extra, "hostname": name}
        self.calls.send(owner.key, Create(POD, owner.namespace, body))
        note = f"create Pod {name} in StatefulSet {owner.name} successful"
        self._reporter.report(owner, "SuccessfulCreate", note)

    def _create_claim(self, owner: StatefulSet, template: PersistentVolumeClaim, pod: str) -> None:
        name = f"{template.name}-{pod}"
        if self._shared.get(PERSISTENT_VOLUME_CLAIM, f"{owner.namespace}/{name}") is not None:
            return
        body = msgspec.to_builtins(template)
        selector = owner.spec.selector
        metadata = body.get("metadata") or {}
        labels = {**(metadata.get("labels") or {})}
        if selector is not None:
            labels |= selector.match_labels or {}
        body["metadata"] = {"name": name, "labels": labels}
        body.pop("status", None)
        body |= {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        self.calls.send(owner.key, Create(PERSISTENT_VOLUME_CLAIM, owner.namespace, body))

    def _delete(self, owner: StatefulSet, pod: Pod) -> None:
        self.calls.send(owner.key, Delete(POD, pod.namespace, pod.name, uid=pod.uid))
        note = f"delete Pod {pod.name} in StatefulSet {owner.name} successful"
        self._reporter.report(owner, "SuccessfulDelete", note)

    def _write_status(self, owner: StatefulSet, pods: dict[int, Pod], revision: str) -> None:
        now_s, min_ready_s = self._shared.clock.now(), owner.spec.min_ready_seconds
        alive = [pod for pod in pods.values() if is_active(pod)]
        updated = [pod for pod in alive if _revision(pod) == revision]
        older = [_revision(pod) for _, pod in sorted(pods.items()) if _revision(pod) != revision]
        current = older[0] if older else revision
        status = {
            "observedGeneration": owner.metadata.generation,
            "replicas": len(alive),
            "readyReplicas": sum(1 for pod in alive if ready_since(pod) is not None),
            "availableReplicas": sum(1 for pod in alive if is_available(pod, min_ready_s, now_s)),
            "currentReplicas": sum(1 for pod in alive if _revision(pod) == current),
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


def _revision(pod: Pod) -> str:
    return (pod.metadata.labels or {}).get(REVISION_LABEL, "")
