"""What is written to claims: allocations and reservations, and taking them back.

Each is a generator that yields requests and is sent their answers.  Claims are patched on the
version that was decided on, so that fields nobody here knows of survive and a lost race is a
conflict, which is tried again on the claim as it is then.  Mirrors `bindClaim` and its kin in
kube-scheduler's `dynamicresources.go`.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import msgspec

from stowplan.errors import ApiError, Conflict, NotFound
from stowplan.framework.effects import Sleep
from stowplan.objects.api import Create, Delete, Get, Patch
from stowplan.objects.devices import Allocation, ConsumerReference, ResourceClaim
from stowplan.objects.kinds import POD, RESOURCE_CLAIM
from stowplan.objects.pod import Pod, PodExtendedResourceClaimStatus
from stowplan.objects.times import format_time

FINALIZER = "resource.kubernetes.io/delete-protection"
TRIES = 5
PAUSE_S = 0.01

Writing = Generator[Any, Any, ResourceClaim]


class WriteFailed(Exception):
    """Binding cannot go on."""


class _LostRace(Exception):
    """Somebody else wrote the claim meanwhile; carries what to say if it stays so."""


def is_reserved_for(claim: ResourceClaim, pod: Pod) -> bool:
    return any(it.uid == pod.metadata.uid for it in claim.status.reserved_for or ())


def bind_claim(
    claim: ResourceClaim, allocation: Allocation | None, pod: Pod, now_s: float
) -> Writing:
    """Reserve the claim for the pod, with its allocation unless it has one; `WriteFailed`."""
    problem = ""
    for number in range(TRIES):
        if number:
            yield Sleep(PAUSE_S)
            answer = yield Get(RESOURCE_CLAIM, claim.metadata.namespace, claim.metadata.name)
            if isinstance(answer, ApiError):
                raise WriteFailed(f"get updated claim {claim.key} after conflict: {answer.message}")
            claim = answer
        try:
            return (yield from _bind_once(claim, allocation, pod, now_s))
        except _LostRace as race:
            problem = str(race)
    raise WriteFailed(problem)


def _bind_once(
    claim: ResourceClaim, allocation: Allocation | None, pod: Pod, now_s: float
) -> Writing:
    key = claim.key
    if claim.metadata.deletion_timestamp is not None:
        raise WriteFailed(f"claim {key} got deleted in the meantime")
    what = "add reservation to claim"
    if allocation is not None:
        if claim.status.allocation is not None:
            raise WriteFailed(f"claim {key} got allocated elsewhere in the meantime")
        what = "add allocation and reservation to claim"
        finalizers = claim.metadata.finalizers or []
        if FINALIZER not in finalizers:
            body = {"metadata": _metadata(claim) | {"finalizers": [*finalizers, FINALIZER]}}
            claim = yield from _patched(claim, body, "", "add finalizer to claim")
    else:
        allocation = claim.status.allocation
        if allocation is None:
            raise WriteFailed(f"claim {key} got deallocated elsewhere in the meantime")
    if allocation.allocation_timestamp is None:
        allocation = msgspec.structs.replace(allocation, allocation_timestamp=format_time(now_s))
    metadata = pod.metadata
    consumer = ConsumerReference(resource="pods", name=metadata.name, uid=metadata.uid)
    status = {
        "allocation": msgspec.to_builtins(allocation),
        "reservedFor": msgspec.to_builtins([*(claim.status.reserved_for or ()), consumer]),
    }
    body = {"metadata": _metadata(claim), "status": status}
    return (yield from _patched(claim, body, "status", what))


def _patched(claim: ResourceClaim, body: Any, subresource: str, what: str) -> Writing:
    metadata = claim.metadata
    answer = yield Patch(
        RESOURCE_CLAIM, metadata.namespace, metadata.name, body, "merge", subresource
    )
    if isinstance(answer, ApiError):
        problem = f"{what} {claim.key}: {answer.message}"
        raise _LostRace(problem) if isinstance(answer, Conflict) else WriteFailed(problem)
    assert isinstance(answer, ResourceClaim)
    return answer


def _metadata(claim: ResourceClaim) -> dict[str, Any]:
    """The version that was decided on; another object of the same name is not meant either."""
    metadata = claim.metadata
    written = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
    return {name: value for name, value in written.items() if value}


def deallocate(claim: ResourceClaim) -> Generator[Any, Any, ApiError | None]:
    """Take allocation, reservations and what drivers said off a claim."""
    cleared = {"allocation": None, "reservedFor": None}
    if claim.status.devices:
        cleared["devices"] = None  # A right of its own, so only where it is needed.
    metadata = claim.metadata
    body = {"metadata": _metadata(claim), "status": cleared}
    answer = yield Patch(RESOURCE_CLAIM, metadata.namespace, metadata.name, body, "merge", "status")
    return answer if isinstance(answer, ApiError) else None


def unreserve_claim(claim: ResourceClaim, pod: Pod) -> Generator[Any, Any, None]:
    """The pod does not need the claim after all; its allocation stays."""
    metadata = claim.metadata
    gone = [{"$patch": "delete", "uid": pod.metadata.uid}]
    body = {"metadata": {"uid": metadata.uid}, "status": {"reservedFor": gone}}
    yield Patch(RESOURCE_CLAIM, metadata.namespace, metadata.name, body, "strategic", "status")


def create_claim(claim: ResourceClaim) -> Generator[Any, Any, ResourceClaim | ApiError]:
    """The special claim, under a name that the API server makes up."""
    metadata = msgspec.structs.replace(claim.metadata, name="", uid="", resource_version="")
    body = ResourceClaim(
        api_version=RESOURCE_CLAIM.api_version,
        kind=RESOURCE_CLAIM.name,
        metadata=metadata,
        spec=claim.spec,
    )
    answer = yield Create(RESOURCE_CLAIM, metadata.namespace, body)
    assert isinstance(answer, ResourceClaim | ApiError)
    return answer


def delete_claim(claim: ResourceClaim) -> Generator[Any, Any, ApiError | None]:
    """The special claim, whatever protects it."""
    metadata = claim.metadata
    finalizers = metadata.finalizers or []
    if FINALIZER in finalizers:
        left = [it for it in finalizers if it != FINALIZER] or None
        body = {"metadata": {"uid": metadata.uid, "finalizers": left}}
        answer = yield Patch(RESOURCE_CLAIM, metadata.namespace, metadata.name, body, "merge")
        if isinstance(answer, NotFound):
            return None
        if isinstance(answer, ApiError):
            return answer
    answer = yield Delete(RESOURCE_CLAIM, metadata.namespace, metadata.name, metadata.uid)
    return answer if isinstance(answer, ApiError) and not isinstance(answer, NotFound) else None


def write_mappings(pod: Pod, status: PodExtendedResourceClaimStatus) -> Generator[Any, Any, None]:
    """Tell the kubelet which container gets which devices of the special claim."""
    metadata = pod.metadata
    if not status.request_mappings:
        raise WriteFailed(
            f"nil or empty request mappings, no update of pod {pod.key} ExtendedResourceClaimStatus"
        )
    written = {"extendedResourceClaimStatus": msgspec.to_builtins(status)}
    body = {"metadata": {"uid": metadata.uid}, "status": written}
    answer = yield Patch(POD, metadata.namespace, metadata.name, body, "strategic", "status")
    if isinstance(answer, ApiError):
        raise WriteFailed(f"update pod {pod.key} ExtendedResourceClaimStatus: {answer.message}")
