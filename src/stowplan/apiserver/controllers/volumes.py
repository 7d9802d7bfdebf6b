"""Simulated volumes: a claim of the simulated StorageClass gets a volume of its own, at once.

There is nothing behind it.  Workloads with claims (a StatefulSet, a chart's database) come up as
they would on a cluster whose storage class provisions.  The volume goes with its claim.  What
`kube-controller-manager` and an external provisioner do together.
"""

from __future__ import annotations

from typing import Any

from stowplan.apiserver.controllers.calls import Calls
from stowplan.apiserver.controllers.shared import Shared
from stowplan.objects.api import Create, Delete, Patch
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS
from stowplan.objects.storage import PersistentVolume, PersistentVolumeClaim, StorageClass

PROVISIONER = "stowplan.io/simulated"
CLASS_NAME = "standard"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
"""Without it, a scheduler takes a claim for one that is still being bound."""

DEFAULT_CLASS: dict[str, Any] = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {
        "name": CLASS_NAME,
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
    },
    "provisioner": PROVISIONER,
    "volumeBindingMode": "Immediate",
}


class VolumeController:
    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self.queue = shared.queue("volumes", self.sync)
        self.calls = Calls(shared, self.queue)
        shared.listen(PERSISTENT_VOLUME_CLAIM, self._claim_changed)
        shared.listen(PERSISTENT_VOLUME, self._volume_changed)
        shared.listen(STORAGE_CLASS, self._class_changed)

    def _claim_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        if new is not None:
            self.queue.add(new.key)
        elif isinstance(old, PersistentVolumeClaim) and old.spec.volume_name:
            self._release(old)

    def _volume_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        reference = new.spec.claim_ref if isinstance(new, PersistentVolume) else None
        if reference is not None:
            self.queue.add(f"{reference.namespace}/{reference.name}")

    def _class_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        if old is None:
            for claim in self._shared.every(PERSISTENT_VOLUME_CLAIM):
                self.queue.add(claim.key)

    def sync(self, key: str) -> None:
        claim = self._shared.get(PERSISTENT_VOLUME_CLAIM, key)
        if not isinstance(claim, PersistentVolumeClaim) or not self.calls.settled(key):
            return
        if claim.metadata.deletion_timestamp is not None or not self._is_simulated(claim):
            return
        name = f"pvc-{claim.uid}"
        if self._shared.get(PERSISTENT_VOLUME, name) is None:
            self.calls.send(key, Create(PERSISTENT_VOLUME, "", _volume(name, claim)))
        elif claim.spec.volume_name != name:
            done = {"metadata": {"annotations": {BIND_COMPLETED: "yes"}}}
            self._patch(claim, {"spec": {"volumeName": name}, **done}, "")
        elif claim.status.phase != "Bound":
            modes = claim.spec.access_modes
            status = {"phase": "Bound", "accessModes": modes, "capacity": _requests(claim)}
            self._patch(claim, {"status": status}, "status")
            bound = {"status": {"phase": "Bound"}}
            self.calls.send(key, Patch(PERSISTENT_VOLUME, "", name, bound, "merge", "status"))

    def _is_simulated(self, claim: PersistentVolumeClaim) -> bool:
        if claim.spec.volume_name not in ("", f"pvc-{claim.uid}"):
            return False
        found = self._shared.get(STORAGE_CLASS, claim.spec.storage_class_name or "")
        return isinstance(found, StorageClass) and found.provisioner == PROVISIONER

    def _patch(self, claim: PersistentVolumeClaim, body: dict[str, Any], subresource: str) -> None:
        body = {**body, "metadata": {"uid": claim.uid, **body.get("metadata", {})}}
        kind, namespace, name = PERSISTENT_VOLUME_CLAIM, claim.namespace, claim.name
        self.calls.send(claim.key, Patch(kind, namespace, name, body, "merge", subresource))

    def _release(self, claim: PersistentVolumeClaim) -> None:
        volume = self._shared.get(PERSISTENT_VOLUME, claim.spec.volume_name)
        annotations = {} if volume is None else volume.metadata.annotations or {}
        if volume is not None and annotations.get(PROVISIONED_BY) == PROVISIONER:
            self.calls.send(claim.key, Delete(PERSISTENT_VOLUME, "", volume.name, uid=volume.uid))


def _requests(claim: PersistentVolumeClaim) -> dict[str, Any]:
    resources = claim.spec.resources
    requests = {} if resources is None else resources.requests or {}
    return {"storage": requests.get("storage", "1Gi")}


def _volume(name: str, claim: PersistentVolumeClaim) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "capacity": _requests(claim),
            "accessModes": claim.spec.access_modes,
            "volumeMode": claim.spec.volume_mode,
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": claim.spec.storage_class_name,
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": claim.namespace,
                "name": claim.name,
                "uid": claim.uid,
            },
            "hostPath": {"path": f"/simulated/{name}"},
        },
    }
