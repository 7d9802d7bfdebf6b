"""PreBind and Unreserve: the claims of a pod that got a node are written, and its devices awaited.

`claim_writes` has the single writes.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from stowplan.errors import ApiError
from stowplan.framework.effects import Sleep
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import BindingSteps
from stowplan.framework.status import error
from stowplan.objects.devices import ResourceClaim
from stowplan.objects.pod import PodExtendedResourceClaimStatus
from stowplan.plugins.dynamic_resources.attempt import Attempt
from stowplan.plugins.dynamic_resources.binding_conditions import (
    Readiness,
    conditional_results,
    readiness,
)
from stowplan.plugins.dynamic_resources.claim_cache import ClaimCache
from stowplan.plugins.dynamic_resources.claim_writes import (
    WriteFailed,
    bind_claim,
    create_claim,
    delete_claim,
    is_reserved_for,
    unreserve_claim,
    write_mappings,
)
from stowplan.plugins.dynamic_resources.device_counts import DeviceCounts
from stowplan.plugins.dynamic_resources.group_claims import consumer_of
from stowplan.state.pod_info import PodInfo

CONDITIONS_POLL_S = 5.0
SHOWN_TIMEOUT_S = 120.0
SHOWN_POLL_S = 1.0

Steps = Generator[Any, Any, None]


class ClaimBinding:
    def __init__(self, handle: Handle, claims: ClaimCache, timeout_s: float) -> None:
        self._handle = handle
        self._claims = claims
        self._timeout_s = timeout_s
        self._counts = handle.derived(DeviceCounts)

    # -- PreBind ----------------------------------------------------------------------------

    def bind(self, attempt: Attempt, pod: PodInfo, node: str) -> BindingSteps:
        attempt.written = {
            number: own.claim for number, own in enumerate(attempt.claims) if not own.is_special
        }
        try:
            for number, own in enumerate(attempt.claims):
                if own.is_special and number not in attempt.given and not own.is_allocated:
                    continue  # A device plugin serves it.
                if number not in attempt.given and is_reserved_for(
                    own.claim, consumer_of(pod.pod, own.group)
                ):
                    attempt.written[number] = own.claim
                else:
                    yield from self._bind_one(attempt, number, pod)
            yield from self._wait(attempt, pod, node)
        except WriteFailed as problem:
            return error(str(problem))
        return None

    def _bind_one(self, attempt: Attempt, number: int, pod: PodInfo) -> Steps:
        own = attempt.claims[number]
        allocation = attempt.given.get(number)
        if own.is_special and allocation is not None:
            own.claim = yield from self._create(own.claim)
            self._claims.begin(own.claim, allocation)
        try:
            consumer = consumer_of(pod.pod, own.group)
            claim = yield from bind_claim(own.claim, allocation, consumer, self._handle.now())
            own.claim = attempt.written[number] = claim
            if own.is_special:
                yield from self._until_shown(claim)
            self._claims.assume(claim)
            self._claims.end(claim, written=True)
        finally:
            attempt.given.pop(number, None)
            self._claims.end(own.claim)
        if own.is_special:
            status = PodExtendedResourceClaimStatus(
                resource_claim_name=claim.metadata.name, request_mappings=list(attempt.mappings)
            )
            yield from write_mappings(pod.pod, status)

    def _create(self, claim: ResourceClaim) -> Generator[Any, Any, ResourceClaim]:
        answer = yield from create_claim(claim)
        self._claims.end(claim)
        failed = isinstance(answer, ApiError)
        self._counts.creates["failure" if failed else "success"] += 1
        if isinstance(answer, ApiError):
            raise WriteFailed(f"create claim for extended resources {claim.key}: {answer.message}")
        return answer

    def _until_shown(self, claim: ResourceClaim) -> Steps:
        """Only what the watch shows can be assumed to be newer."""
        left_s = SHOWN_TIMEOUT_S
        while self._claims.get(claim.key) is None:
            if left_s <= 0:
                raise WriteFailed(
                    f"wait for claim {claim.key} in the assume cache: context deadline exceeded"
                )
            yield Sleep(SHOWN_POLL_S)
            left_s -= SHOWN_POLL_S

    # -- devices that have to be prepared ---------------------------------------------------

    def _wait(self, attempt: Attempt, pod: PodInfo, node: str) -> Steps:
        waited_for = [claim for claim in attempt.written.values() if conditional_results(claim)]
        if not waited_for:
            return
        note = f"waiting for binding conditions for device on node {node}"
        self._handle.record(pod.pod, "Normal", "BindingConditionsPending", "Scheduling", note)
        since_s, label = self._handle.now(), "error"
        try:
            yield from self._until_ready(waited_for)
            label = "success"
        except WriteFailed as problem:
            text = str(problem)
            label = "timeout" if "timeout" in text else "failure" if "failed" in text else label
            raise
        finally:
            seconds, claims = self._handle.now() - since_s, list(attempt.written.values())
            self._counts.waited(claims, pod.pod.spec.scheduler_name, label, seconds)

    def _until_ready(self, claims: list[ResourceClaim]) -> Steps:
        left_s = self._timeout_s
        while not all(self._is_ready(claim) for claim in claims):
            pause_s = min(CONDITIONS_POLL_S, left_s)
            yield Sleep(pause_s)
            left_s -= pause_s
            if left_s <= 0:
                raise WriteFailed("device binding timeout: context deadline exceeded")

    def _is_ready(self, written: ResourceClaim) -> bool:
        claim = self._claims.get(written.key)
        if claim is None:
            raise WriteFailed(f'resourceclaim "{written.metadata.name}" not found')
        name = claim.metadata.name
        state, failure = readiness(claim, self._handle.now(), self._timeout_s)
        if failure is not None:
            raise WriteFailed(
                f"device binding failed: claim={name}, reason={failure.reason}, "
                f'message="{failure.message}"'
            )
        if state is Readiness.TIMED_OUT:
            raise WriteFailed(f"device binding timeout: claim={name}")
        return state is Readiness.READY

    # -- Unreserve --------------------------------------------------------------------------

    def undo(self, attempt: Attempt, pod: PodInfo) -> None:
        for number, own in enumerate(attempt.claims):
            claim, consumer = own.claim, consumer_of(pod.pod, own.group)
            if attempt.given.pop(number, None) is not None and self._claims.end(claim):
                self._claims.restore(claim.key)
            if own.is_special:
                if claim.metadata.resource_version:
                    self._handle.start(delete_claim(claim))
            elif own.group is not None:
                continue  # Others of the group may have it.
            elif claim.status.allocation is not None and is_reserved_for(claim, consumer):
                self._handle.start(unreserve_claim(claim, consumer))
