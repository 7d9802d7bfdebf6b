"""The volume controller and the provisioner, in small: claims get their volumes some time later.

A volume that the scheduler has set aside for a claim is bound to it; a claim that was given a node
gets a new volume in that node's zone, unless the provisioner fails and takes the node back.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from stowplan.errors import ApiError
from stowplan.objects.api import Create, Delete, Patch
from stowplan.objects.kinds import NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from stowplan.objects.storage import PersistentVolume, PersistentVolumeClaim
from tests.simulation import things

if TYPE_CHECKING:
    from tests.simulation.world import World

PERIOD_S = 1.3
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"


class VolumeController:
    def __init__(self, world: World) -> None:
        self.world = world
        self.random = Random(f"{world.seed}/storage")

    def work(self) -> None:
        claims = {claim.key: claim for claim in self._claims()}
        for volume in self.world.every(PERSISTENT_VOLUME):
            assert isinstance(volume, PersistentVolume)
            reference = volume.spec.claim_ref
            if reference is None or not reference.uid:
                continue
            claim = claims.get(f"{reference.namespace}/{reference.name}")
            if claim is None or claim.uid != reference.uid:
                self._do(Delete(PERSISTENT_VOLUME, "", volume.name), f"reclaim {volume.name}")
            elif not claim.spec.volume_name:
                self._bind(claim, volume.name)
            elif claim.spec.volume_name != volume.name:
                self._give_back(volume)
        for claim in self._claims():
            if not claim.spec.volume_name and claim.spec.storage_class_name == things.LATE_CLASS:
                self._provision(claim)

    def _claims(self) -> list[PersistentVolumeClaim]:
        found = self.world.every(PERSISTENT_VOLUME_CLAIM)
        return [claim for claim in found if isinstance(claim, PersistentVolumeClaim)]

    def _provision(self, claim: PersistentVolumeClaim) -> None:
        node = (claim.metadata.annotations or {}).get(SELECTED_NODE)
        if not node:
            return
        weather = self.world.weather
        failed = not self.world.calm and self.random.random() < weather.provision_fails
        found = self.world.find(NODE, "", node)
        zone = (found.metadata.labels or {}).get(things.ZONE) if found is not None else None
        if failed or zone is None:
            body: Any = {"metadata": {"annotations": {SELECTED_NODE: None}}}
            self._patch(claim, body, f"give up on {claim.name}")
            return
        name = f"for-{claim.name}-{claim.metadata.resource_version}"
        reference = {"namespace": "default", "name": claim.name, "uid": claim.uid}
        body = things.volume(name, things.LATE_CLASS, zone, reference)
        if self._do(Create(PERSISTENT_VOLUME, "", body), f"make {name} in {zone}"):
            self._bind(claim, name)

    def _bind(self, claim: PersistentVolumeClaim, volume: str) -> None:
        annotations = {BIND_COMPLETED: "yes"}
        body = {"metadata": {"annotations": annotations}, "spec": {"volumeName": volume}}
        self._patch(claim, body, f"bind {claim.name} to {volume}")
        self._patch(claim, {"status": {"phase": "Bound"}}, f"{claim.name} is bound", "status")

    def _give_back(self, volume: PersistentVolume) -> None:
        request = Patch(PERSISTENT_VOLUME, "", volume.name, {"spec": {"claimRef": None}}, "merge")
        self._do(request, f"give back {volume.name}")

    def _patch(self, claim: PersistentVolumeClaim, body: Any, what: str, sub: str = "") -> None:
        request = Patch(PERSISTENT_VOLUME_CLAIM, "default", claim.name, body, "merge", sub)
        self._do(request, what)

    def _do(self, request: Any, what: str) -> bool:
        try:
            self.world.store.execute(request)
        except ApiError as error:
            self.world.trace("storage", f"{what}: {error.code} {error.message}")
            return False
        self.world.trace("storage", what)
        return True
