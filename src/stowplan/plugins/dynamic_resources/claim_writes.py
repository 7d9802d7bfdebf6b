"""What is written to claims: allocations and reservations, and taking them back.

Each is a generator that yields requests and is sent their answers.  Claims are patched on the
version that was decided on, so that fields nobody here knows of survive and a lost race is a
conflict, which is tried again on the claim as it is then.  What users left opaque in a claim must
not change by a byte, and patches change it: where there is such, lists are appended to, and an
allocation is put as a whole.  A write whose answer was lost may have arrived, or may do so yet:
until that is known the devices stay with the claim, or two claims would have them.  Mirrors
`bindClaim` and its kin in kube-scheduler's `dynamicresources.go`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import msgspec

from stowplan.errors import ApiError, Conflict, NotFound
from stowplan.framework.effects import Sleep
from stowplan.objects.api import Create, Delete, Get, Patch, Update
from stowplan.objects.devices import Allocation, ConsumerReference, ResourceClaim
from stowplan.objects.kinds import POD, RESOURCE_CLAIM
from stowplan.objects.pod import Pod, PodExtendedResourceClaimStatus
from stowplan.objects.times import format_time
from stowplan.plugins.dynamic_resources.group_claims import is_same_allocation

FINALIZER = "resource.kubernetes.io/delete-protection"
TRIES = 5
PAUSE_S = 0.01
LAST_PAUSE_S = 5.0

Writing = Generator[Any, Any, ResourceClaim]


class WriteFailed(Exception):
    """Binding cannot go on."""


class _LostRace(Exception):
    """Somebody else wrote the claim meanwhile, or nobody knows; what to say if it stays so."""


def is_reserved_for(claim: ResourceClaim, consumer: ConsumerReference) -> bool:
    return any(it.uid == consumer.uid for it in claim.status.reserved_for or ())


def bind_claim(
    claim: ResourceClaim,
    allocation: Allocation | None,
    consumer: ConsumerReference,
    now_s: float,
) -> Writing:
    """Reserve the claim, with its allocation unless it has one; `WriteFailed`."""
    problem = ""
    for number in range(TRIES):
        if number:
            yield Sleep(PAUSE_S)
            claim = yield from _read_again(claim)
        if allocation is not None and is_same_allocation(claim, allocation):
            allocation = None
        try:
            return (yield from _bind_once(claim, allocation, consumer, now_s))
        except _LostRace as race:
            problem = str(race)
    raise WriteFailed(problem)


def _read_again(claim: ResourceClaim) -> Writing:
    """The claim as it is now; asked until somebody answers, since devices are kept for it."""
    pause_s = PAUSE_S
    while True:
        answer = yield Get(RESOURCE_CLAIM, claim.metadata.namespace, claim.metadata.name)
        if not is_unsure(answer):
            break
        yield Sleep(pause_s)
        pause_s = min(5 * pause_s, LAST_PAUSE_S)
    if isinstance(answer, ApiError):
        raise WriteFailed(f"get updated claim {claim.key} after conflict: {answer.message}")
    assert isinstance(answer, ResourceClaim)
    if answer.metadata.uid != claim.metadata.uid:
        # Another of that name, which may ask for something else.
        raise WriteFailed(f"claim {claim.key} got deleted in the meantime")
    return answer


def is_unsure(answer: object) -> bool:
    """Whether it may have been carried out all the same: nobody answered, or the server broke."""
    return isinstance(answer, ApiError) and answer.code >= 500


def _bind_once(
    claim: ResourceClaim,
    allocation: Allocation | None,
    consumer: ConsumerReference,
    now_s: float,
) -> Writing:
    key = claim.key
    if claim.metadata.deletion_timestamp is not None:
        raise WriteFailed(f"claim {key} got deleted in the meantime")
    if allocation is None:
        if claim.status.allocation is None:
            raise WriteFailed(f"claim {key} got deallocated elsewhere in the meantime")
        if is_reserved_for(claim, consumer):
            return claim
        # What is allocated is not touched, not even to say when: it may not change any more.
        more = {"status": {"reservedFor": msgspec.to_builtins([consumer])}}
        exactly = _has_opaque_status(claim)
        request = _longer(claim, more, claim.status.reserved_for, exactly, "status")
        return (yield from _written(claim, request, "add reservation to claim"))
    if claim.status.allocation is not None:
        if _devices(claim.status.allocation) == _devices(allocation) and is_reserved_for(
            claim, consumer
        ):
            return claim  # Only the answer was lost.
        raise WriteFailed(f"claim {key} got allocated elsewhere in the meantime")
    finalizers = claim.metadata.finalizers or []
    if FINALIZER not in finalizers:
        more = {"metadata": {"finalizers": [FINALIZER]}}
        request = _longer(claim, more, finalizers, bool(claim.spec.devices.config), "")
        claim = yield from _written(claim, request, "add finalizer to claim")
    allocation = msgspec.structs.replace(allocation, allocation_timestamp=format_time(now_s))
    given = _allocate(claim, allocation, consumer)
    return (yield from _written(claim, given, "add allocation and reservation to claim"))


def _longer(
    claim: ResourceClaim,
    more: dict[str, dict[str, list[Any]]],
    known: Sequence[Any] | None,
    exactly: bool,
    subresource: str,
) -> Patch:
    """`more` in a list of the claim, beside what is `known` in it."""
    metadata = claim.metadata
    ((part, lists),) = more.items()
    ((name, added),) = lists.items()
    whole = added if exactly else [*msgspec.to_builtins(list(known or ())), *added]
    body = {"metadata": _metadata(claim)}
    body[part] = body.get(part, {}) | {name: whole}
    how = "append" if exactly else "merge"
    return Patch(RESOURCE_CLAIM, metadata.namespace, metadata.name, body, how, subresource)


def _allocate(
    claim: ResourceClaim, allocation: Allocation, consumer: ConsumerReference
) -> Patch | Update:
    metadata = claim.metadata
    status = {
        "allocation": msgspec.to_builtins(allocation),
        "reservedFor": msgspec.to_builtins([*(claim.status.reserved_for or ()), consumer]),
    }
    body = {"metadata": _metadata(claim), "status": status}
    if not allocation.devices.config:
        return Patch(RESOURCE_CLAIM, metadata.namespace, metadata.name, body, "merge", "status")
    # A patch would sort what is opaque, and leave out what is null in it.
    body["metadata"] |= {"namespace": metadata.namespace, "name": metadata.name}
    body["spec"] = msgspec.to_builtins(claim.spec)
    return Update(RESOURCE_CLAIM, metadata.namespace, metadata.name, body, "status")


def _devices(allocation: Allocation) -> list[tuple[str, ...]]:
    return [
        (it.request, it.driver, it.pool, it.device, it.share_id or "")
        for it in allocation.devices.results or ()
    ]


def _has_opaque_status(claim: ResourceClaim) -> bool:
    status = claim.status
    given = status.allocation is not None and status.allocation.devices.config
    return bool(given) or any(it.data is not None for it in status.devices or ())


def _written(claim: ResourceClaim, request: Patch | Update, what: str) -> Writing:
    answer = yield request
    if isinstance(answer, ApiError):
        problem = f"{what} {claim.key}: {answer.message}"
        open_ended = isinstance(answer, Conflict) or is_unsure(answer)
        raise _LostRace(problem) if open_ended else WriteFailed(problem)
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


def unreserve_claim(
    claim: ResourceClaim, consumer: ConsumerReference
) -> Generator[Any, Any, ApiError | None]:
    """It does not need the claim after all; its allocation stays."""
    metadata = claim.metadata
    gone = [{"$patch": "delete", "uid": consumer.uid}]
    body = {"metadata": {"uid": metadata.uid}, "status": {"reservedFor": gone}}
    answer = yield Patch(
        RESOURCE_CLAIM, metadata.namespace, metadata.name, body, "strategic", "status"
    )
    return answer if isinstance(answer, ApiError) else None


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
    """The special claim, whatever protects it: somebody may have, since it was last seen."""
    metadata = claim.metadata
    answer = yield Get(RESOURCE_CLAIM, metadata.namespace, metadata.name)
    if isinstance(answer, NotFound):
        return None
    if isinstance(answer, ApiError):
        return answer
    finalizers = answer.metadata.finalizers or []
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
