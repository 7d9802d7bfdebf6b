"""What the volume plugins share: the claims of a pod, and what a claim says of itself.

A pod names claims in two ways: by name, and as a generic ephemeral volume, whose claim is called
`<pod>-<volume>` and must belong to that pod.  Mirrors `component-helpers/storage`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stowplan.framework.events import Hint
from stowplan.objects.pod import Pod
from stowplan.objects.quantity import parse_quantity
from stowplan.objects.storage import PersistentVolume, PersistentVolumeClaim
from stowplan.state.pod_info import PodInfo

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"

_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"


class ClaimUse(NamedTuple):
    """A claim as a pod's volume refers to it."""

    name: str
    key: str
    """`namespace/name`"""
    is_ephemeral: bool


def claim_uses(pod: Pod) -> Iterator[ClaimUse]:
    """In the order of the pod's volumes."""
    metadata = pod.metadata
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            name, is_ephemeral = volume.persistent_volume_claim.claim_name, False
        elif volume.ephemeral is not None:
            name, is_ephemeral = f"{metadata.name}-{volume.name}", True
        else:
            continue
        yield ClaimUse(name, f"{metadata.namespace}/{name}", is_ephemeral)


def claims_of(pod: PodInfo) -> tuple[ClaimUse, ...]:
    """The same, kept with the pod."""
    found = pod.claims
    if found is None:
        found = pod.claims = tuple(claim_uses(pod.pod))
    return found


def uses_claim(pod: Pod, claim: PersistentVolumeClaim, *, ephemeral: bool = True) -> bool:
    """Whether the pod refers to this claim; by name only, unless `ephemeral`."""
    if pod.metadata.namespace != claim.metadata.namespace:
        return False
    return any(
        use.name == claim.metadata.name and (ephemeral or not use.is_ephemeral)
        for use in claim_uses(pod)
    )


def queue_if(condition: bool) -> Hint:
    return Hint.QUEUE if condition else Hint.SKIP


def not_found(claim_name: str) -> str:
    return f'persistentvolumeclaim "{claim_name}" not found'


def ownership_problem(pod: Pod, claim: PersistentVolumeClaim) -> str:
    """Why the claim of an ephemeral volume is not this pod's, or ""."""
    owner = claim.metadata.controller()
    if owner is not None and owner.uid == pod.metadata.uid:
        return ""
    return (
        f"PVC {claim.key} was not created for pod "
        f"{pod.metadata.namespace}/{pod.metadata.name} (pod is not owner)"
    )


def class_of(obj: PersistentVolumeClaim | PersistentVolume) -> str:
    """The storage class; the old annotation wins over the field."""
    annotations = obj.metadata.annotations
    if annotations and _BETA_CLASS in annotations:
        return annotations[_BETA_CLASS]
    return obj.spec.storage_class_name or ""


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    annotations = claim.metadata.annotations
    return bool(claim.spec.volume_name and annotations and BIND_COMPLETED in annotations)


def requested_nanos(claim: PersistentVolumeClaim) -> int | None:
    """The storage asked for, exactly; None when nothing is."""
    resources = claim.spec.resources
    requests = resources.requests if resources is not None else None
    if not requests or "storage" not in requests:
        return None
    return parse_quantity(requests["storage"])


def capacity_nanos(volume: PersistentVolume) -> int:
    return parse_quantity((volume.spec.capacity or {}).get("storage", 0))
