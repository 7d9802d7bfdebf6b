"""Volumes for claims: what the volume controller and a provisioner do for the scheduler.

A volume that names a claim is bound to it; a claim whose class has a provisioner gets a volume, at
once or when the scheduler has selected its node, as the class says.  A volume made for a node is
tied to the node's zone, as those of cloud disks are.  Volumes that were made by hand are matched to
claims by the scheduler alone.  Mirrors `pkg/controller/volume/persistentvolume`, as far as that.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stowplan.apiserver.controllers.calls import Calls
from stowplan.apiserver.controllers.shared import Shared
from stowplan.objects.api import Create, Delete, Patch
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS
from stowplan.objects.storage import PersistentVolume, PersistentVolumeClaim, StorageClass

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
ON_FIRST_USE = "WaitForFirstConsumer"
DEFAULT_CLASS: dict[str, Any] = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {
        "name": "standard",
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
    },
    "provisioner": "stowplan.io/simulated",
    "volumeBindingMode": "Immediate",
}
"""What `stowplan up` has for claims that name no class."""
DELAY_S = 0.5
"""Making a volume takes its time: pods that are decided on meanwhile do not find it there."""
ZONE = "topology.kubernetes.io/zone"


class VolumeController:
    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self.queue = shared.queue("volume", self.sync)
        self.calls = Calls(shared, self.queue)
        self._reserved: dict[str, str] = {}
        """Claim, by `namespace/name` -> the volume that names it."""
        shared.listen(PERSISTENT_VOLUME, self._volume_changed)
        shared.listen(PERSISTENT_VOLUME_CLAIM, self._claim_changed)

    def _volume_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        for volume in (old, new):
            reference = volume.spec.claim_ref if isinstance(volume, PersistentVolume) else None
            if reference is None or volume is None:
                continue
            key = f"{reference.namespace}/{reference.name}"
            if volume is new:
                self._reserved[key] = volume.name
                self.queue.add_after(key, DELAY_S)
            elif self._reserved.get(key) == volume.name:
                del self._reserved[key]

    def _claim_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        if new is not None:
            self.queue.add_after(new.key, DELAY_S)
        elif isinstance(old, PersistentVolumeClaim):
            self._release(old)

    def _release(self, claim: PersistentVolumeClaim) -> None:
        """A volume that was made for a claim goes with it."""
        volume = self._shared.get(PERSISTENT_VOLUME, claim.spec.volume_name)
        if volume is not None and PROVISIONED_BY in (volume.metadata.annotations or {}):
            self.calls.send(claim.key, Delete(PERSISTENT_VOLUME, "", volume.name, uid=volume.uid))

    def sync(self, key: str) -> None:
        claim = self._shared.get(PERSISTENT_VOLUME_CLAIM, key)
        if not isinstance(claim, PersistentVolumeClaim) or not self.calls.settled(key):
            return
        if _is_bound(claim) or claim.metadata.deletion_timestamp is not None:
            return
        volume = self._shared.get(PERSISTENT_VOLUME, self._reserved.get(key, ""))
        if isinstance(volume, PersistentVolume) and _is_for(volume, claim):
            self._bind(claim, volume)
        elif not claim.spec.volume_name:
            self._provision(claim)

    def _bind(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        key = claim.key
        bound = {"status": {"phase": "Bound"}}
        body = {
            "metadata": {"annotations": {BIND_COMPLETED: "yes"}},
            "spec": {"volumeName": volume.name},
        }
        for request in (
            Patch(PERSISTENT_VOLUME, "", volume.name, bound, "merge", "status"),
            Patch(PERSISTENT_VOLUME_CLAIM, claim.namespace, claim.name, body, "merge"),
            Patch(PERSISTENT_VOLUME_CLAIM, claim.namespace, claim.name, bound, "merge", "status"),
        ):
            self.calls.send(key, request)

    def _provision(self, claim: PersistentVolumeClaim) -> None:
        found = self._shared.get(STORAGE_CLASS, claim.spec.storage_class_name or "")
        if not isinstance(found, StorageClass) or found.provisioner in ("", NO_PROVISIONER):
            return
        node = (claim.metadata.annotations or {}).get(SELECTED_NODE, "")
        if node or found.volume_binding_mode != ON_FIRST_USE:
            body = self._volume(claim, found, node)
            self.calls.send(claim.key, Create(PERSISTENT_VOLUME, "", body))

    def _volume(self, claim: PersistentVolumeClaim, of: StorageClass, node: str) -> dict[str, Any]:
        spec = claim.spec
        requests = (spec.resources.requests if spec.resources is not None else None) or {}
        body: dict[str, Any] = {
            "capacity": msgspec.to_builtins(requests),
            "accessModes": spec.access_modes or ["ReadWriteOnce"],
            "volumeMode": spec.volume_mode or "Filesystem",
            "storageClassName": of.name,
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": claim.namespace,
                "name": claim.name,
                "uid": claim.uid,
            },
            "csi": {"driver": of.provisioner, "volumeHandle": f"pvc-{claim.uid}"},
        }
        target = self._shared.get(NODE, node)
        zone = (target.metadata.labels or {}).get(ZONE) if target is not None else None
        if zone:
            expression = {"key": ZONE, "operator": "In", "values": [zone]}
            terms = [{"matchExpressions": [expression]}]
            body["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        annotations = {PROVISIONED_BY: of.provisioner}
        return {
            "metadata": {"name": f"pvc-{claim.uid}", "annotations": annotations},
            "spec": body,
        }


def _is_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volume_name) and BIND_COMPLETED in (claim.metadata.annotations or {})


def _is_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and (reference.namespace, reference.name) == (claim.namespace, claim.name)
        and reference.uid in ("", claim.uid)
        and claim.spec.volume_name in ("", volume.name)
    )
