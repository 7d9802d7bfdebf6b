"""Binding volumes for real: writing what was decided to the API, and waiting until it is done.

The scheduler only proposes: it sets a volume's `claimRef`, or a claim's selected node, and the
volume controller and the provisioners do the rest.  Mirrors `BindPodVolumes` of kube-scheduler's
`volumebinding/binder.go`, with merge patches instead of whole objects so that fields nobody here
knows of survive.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from stowplan.errors import ApiError
from stowplan.framework.effects import Sleep
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import BindingSteps
from stowplan.framework.status import error
from stowplan.objects.api import Patch
from stowplan.objects.base import KubeObject, ObjectMeta, ObjectReference
from stowplan.objects.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM
from stowplan.objects.storage import PersistentVolume, PersistentVolumeClaim
from stowplan.plugins._shared.csi_migration import TranslationError
from stowplan.plugins._shared.volumes import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    is_fully_bound,
)
from stowplan.plugins.volume_binding.volume_affinity import VolumeAffinity
from stowplan.plugins.volume_binding.volume_offers import is_bound_to
from stowplan.state.node_info import NodeInfo
from stowplan.state.pod_info import PodInfo

POLL_S = 1.0


@dataclass(slots=True)
class Binding:
    """A volume that is to be a claim's."""

    claim: PersistentVolumeClaim
    volume: PersistentVolume
    """As it is to become; once written, as the API server answered."""


@dataclass(slots=True)
class Writes:
    """What is left to do for one pod."""

    bindings: list[Binding]
    provisions: list[PersistentVolumeClaim]


class BindingProblem(Exception):
    """The binding cannot succeed any more."""


def bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """The volume set aside for the claim; the same object if it is already."""
    reference = volume.spec.claim_ref
    wanted = ObjectReference(
        api_version="v1",
        kind="PersistentVolumeClaim",
        namespace=claim.metadata.namespace,
        name=claim.metadata.name,
        uid=claim.metadata.uid,
        resource_version=claim.metadata.resource_version,
    )
    metadata = volume.metadata
    if not is_bound_to(volume, claim):
        metadata = _annotated(metadata, BOUND_BY_CONTROLLER, "yes")
    elif reference is not None and reference.uid == claim.metadata.uid:
        return volume
    spec = msgspec.structs.replace(volume.spec, claim_ref=wanted)
    return msgspec.structs.replace(volume, metadata=metadata, spec=spec)


def selected_for(claim: PersistentVolumeClaim, node: str) -> PersistentVolumeClaim:
    """The claim with the node that its volume is to be made for."""
    metadata = _annotated(claim.metadata, SELECTED_NODE, node)
    return msgspec.structs.replace(claim, metadata=metadata)


def _annotated(metadata: ObjectMeta, key: str, value: str) -> ObjectMeta:
    annotations = {**(metadata.annotations or {}), key: value}
    return msgspec.structs.replace(metadata, annotations=annotations)


def bind_volumes(
    handle: Handle, pod: PodInfo, node: str, writes: Writes, timeout_s: float
) -> BindingSteps:
    """Write, then look every second whether all claims are bound."""
    problem = yield from _write_all(writes)
    if problem is not None:
        return error(problem)
    check = BindingCheck(handle, pod, node, writes)
    left_s = timeout_s
    try:
        while left_s > 0:
            pause_s = min(POLL_S, left_s)
            yield Sleep(pause_s)
            left_s -= pause_s
            if check.is_done():
                return None
    except (BindingProblem, TranslationError) as cause:
        return error(f"binding volumes: {cause}")
    return error("binding volumes: context deadline exceeded")


def _write_all(writes: Writes) -> Generator[Any, Any, str | None]:
    for binding in writes.bindings:
        answer = yield _volume_patch(binding.volume)
        if isinstance(answer, ApiError):
            return answer.message
        if isinstance(answer, PersistentVolume):
            binding.volume = answer
    for position, claim in enumerate(writes.provisions):
        answer = yield _claim_patch(claim)
        if isinstance(answer, ApiError):
            return answer.message
        if isinstance(answer, PersistentVolumeClaim):
            writes.provisions[position] = answer
    return None


def _volume_patch(volume: PersistentVolume) -> Patch:
    reference = msgspec.to_builtins(volume.spec.claim_ref)
    body = {"metadata": _patched(volume, (BOUND_BY_CONTROLLER,)), "spec": {"claimRef": reference}}
    return Patch(PERSISTENT_VOLUME, "", volume.metadata.name, body, "merge")


def _claim_patch(claim: PersistentVolumeClaim) -> Patch:
    metadata = claim.metadata
    body = {"metadata": _patched(claim, (SELECTED_NODE,))}
    return Patch(PERSISTENT_VOLUME_CLAIM, metadata.namespace, metadata.name, body, "merge")


def _patched(obj: KubeObject, keys: Sequence[str]) -> dict[str, Any]:
    """Metadata to write: the annotations of these keys, on the version that was decided on."""
    annotations = obj.metadata.annotations or {}
    written: dict[str, Any] = {}
    if obj.metadata.resource_version:
        written["resourceVersion"] = obj.metadata.resource_version
    if found := {key: annotations[key] for key in keys if key in annotations}:
        written["annotations"] = found
    return written


class BindingCheck:
    """Is it done yet?  Raises `BindingProblem` once it never will be.

    Reads what the cluster shows, never what is assumed: that may be another pod's by now.
    """

    def __init__(self, handle: Handle, pod: PodInfo, node: str, writes: Writes) -> None:
        self._handle = handle
        self._affinity = VolumeAffinity(handle.objects)
        self._pod = pod
        self._node = node
        self._writes = writes

    def is_done(self) -> bool:
        node = self._handle.node(self._node)
        if node is None:
            raise BindingProblem(f'failed to get node "{self._node}": node not found')
        if self._handle.pod_by_key(self._pod.key) is None:
            name = self._pod.pod.metadata.name
            raise BindingProblem(f'pod does not exist any more: pod "{name}" not found')
        return all(self._is_bound(binding, node) for binding in self._writes.bindings) and all(
            self._is_provisioned(claim, node) for claim in self._writes.provisions
        )

    def _is_bound(self, binding: Binding, node: NodeInfo) -> bool:
        name = binding.volume.metadata.name
        volume = self._handle.objects.get(PersistentVolume, name)
        if volume is None:
            raise BindingProblem(
                f'failed to check binding: could not find v1.PersistentVolume "{name}"'
            )
        claim = self._claim(binding.claim.key, "failed to check binding")
        if _is_older(volume, binding.volume):
            return False
        self._check_affinity(volume, node)
        if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
            raise BindingProblem(f'ClaimRef got reset for pv "{name}"')
        return is_fully_bound(claim)

    def _is_provisioned(self, written: PersistentVolumeClaim, node: NodeInfo) -> bool:
        claim = self._claim(written.key, "failed to check provisioning pvc")
        if _is_older(claim, written):
            return False
        name, annotations = claim.metadata.name, claim.metadata.annotations
        if annotations is None:
            raise BindingProblem(f'selectedNode annotation reset for PVC "{name}"')
        if annotations.get(SELECTED_NODE, "") != self._node:
            raise BindingProblem(f'provisioning failed for PVC "{name}"')
        if claim.spec.volume_name:
            volume = self._handle.objects.get(PersistentVolume, claim.spec.volume_name)
            if volume is None:
                return False
            self._check_affinity(volume, node)
        return is_fully_bound(claim)

    def _claim(self, key: str, doing: str) -> PersistentVolumeClaim:
        claim = self._handle.objects.get(PersistentVolumeClaim, key)
        if claim is None:
            raise BindingProblem(f'{doing}: could not find v1.PersistentVolumeClaim "{key}"')
        return claim

    def _check_affinity(self, volume: PersistentVolume, node: NodeInfo) -> None:
        if not self._affinity.accepts(volume, node):
            raise BindingProblem(
                f'pv "{volume.metadata.name}" node affinity doesn\'t match node '
                f'"{node.name}": no matching NodeSelectorTerms'
            )


def _is_older(shown: KubeObject, written: KubeObject) -> bool:
    """Whether the watch has yet to show what we wrote."""
    mine, theirs = written.metadata.resource_version, shown.metadata.resource_version
    return mine.isdecimal() and theirs.isdecimal() and int(theirs) < int(mine)
