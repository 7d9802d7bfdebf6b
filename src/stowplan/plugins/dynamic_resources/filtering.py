"""Filter: can the pod have its claims on this node, and which devices would it get there?"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stowplan.objects.devices import DeviceClass, ResourceClaim
from stowplan.plugins._shared.device_classes import ResourceClasses, may_be_devices
from stowplan.plugins.dynamic_resources.allocator import Choices, NodeSearch, TimedOut
from stowplan.plugins.dynamic_resources.attempt import Attempt, OnNode, OwnClaim
from stowplan.plugins.dynamic_resources.binding_conditions import Readiness, readiness
from stowplan.plugins.dynamic_resources.claim_cache import ClaimCache
from stowplan.plugins.dynamic_resources.extended_resources import (
    SPECIAL_NAME,
    SpecialClaim,
    special_claim_for,
)
from stowplan.plugins.dynamic_resources.pools import Slices
from stowplan.plugins.dynamic_resources.requests import AllocationError, ClaimAsk, read_claim
from stowplan.state.node_info import NodeInfo
from stowplan.state.pod_info import PodInfo

CANNOT_ALLOCATE = "cannot allocate all claims"
INVALID_POOLS = "invalid resource pools were encountered"
NOT_AVAILABLE = "resourceclaim not available on the node"
LEFT_OVER = "cannot schedule extended resource claim"
CANNOT_FIT = "cannot fit resource"
REASONS = (CANNOT_ALLOCATE, INVALID_POOLS, NOT_AVAILABLE, LEFT_OVER, CANNOT_FIT)

STEPS_PER_SECOND = 100_000
"""Devices looked at: what `filterTimeout` is counted in, so that equal runs give equal results."""

_UNLIMITED = 2**62


class DeviceFilter:
    def __init__(
        self,
        claims: ClaimCache,
        slices: Slices,
        resources: ResourceClasses,
        classes: Mapping[str, DeviceClass],
        now: Callable[[], float],
        timeouts_s: tuple[float, float],
    ) -> None:
        """`timeouts_s` are that of the search on one node and that of binding conditions."""
        self._claims = claims
        self._slices = slices
        self._resources = resources
        self._classes = classes
        self._now = now
        timeout_s, self._binding_timeout_s = timeouts_s
        self._steps_max = int(timeout_s * STEPS_PER_SECOND) if timeout_s else _UNLIMITED

    def begin(self, attempt: Attempt) -> None:
        """Before the first node."""
        self._slices.catch_up()
        for own in attempt.claims:
            if not own.is_allocated and not own.is_special:
                own.asks = self._read(own.claim)

    def _read(self, claim: ResourceClaim) -> ClaimAsk | AllocationError:
        try:
            return read_claim(claim, self._classes)
        except AllocationError as problem:
            return problem

    # -- one node ---------------------------------------------------------------------------

    def on_node(self, attempt: Attempt, pod: PodInfo, node: NodeInfo) -> str | None:
        """The reason against it, one of `REASONS`; `AllocationError` when that cannot be said.

        What is found is noted.
        """
        special: SpecialClaim | None = None
        asks: ClaimAsk | AllocationError | None = None
        if attempt.claims[-1].is_special:
            resources = self._needed(attempt, pod, node)
            if isinstance(resources, str):
                return resources
            if not resources and len(attempt.claims) == 1:
                return None
            special, asks = self._special(attempt, pod, resources)
        unavailable = [
            number
            for number, own in enumerate(attempt.claims)
            if own.is_allocated and not self._is_available(own, node)
        ]
        choices: Choices | None = None
        if attempt.needs_devices:
            own = (attempt.claims[number] for number in attempt.pending)
            wanted = [asks if it.is_special else it.asks for it in own]
            found = self._search(wanted, node)
            if isinstance(found, str):
                return found
            choices = found
        if unavailable:
            attempt.unavailable.update(unavailable)
            return NOT_AVAILABLE
        attempt.nodes[node.name] = OnNode(choices, special)
        return None

    def _is_available(self, own: OwnClaim, node: NodeInfo) -> bool:
        if own.places is not None and not own.places.matches(node.labels, node.name):
            return False
        state, _ = readiness(own.claim, self._now(), self._binding_timeout_s)
        return state not in (Readiness.FAILED, Readiness.TIMED_OUT)

    def _search(
        self, wanted: list[ClaimAsk | AllocationError | None], node: NodeInfo
    ) -> Choices | str:
        claims: list[ClaimAsk] = []
        for asks in wanted:
            if isinstance(asks, AllocationError):
                raise asks
            assert asks is not None, "a claim without allocation was read"
            claims.append(asks)
        search = NodeSearch(node, self._slices.pools(node), self._claims.held, self._steps_max)
        try:
            choices = search.run(claims)
        except TimedOut:
            raise AllocationError(
                f"node {node.name}: timed out trying to allocate devices"
            ) from None
        if choices is not None:
            return choices
        return INVALID_POOLS if search.has_invalid_pool else CANNOT_ALLOCATE

    # -- extended resources -----------------------------------------------------------------

    def _needed(self, attempt: Attempt, pod: PodInfo, node: NodeInfo) -> frozenset[str] | str:
        """The resources that are to be had as devices here, or the reason against the node."""
        special = attempt.claims[-1].claim
        if special.metadata.name != SPECIAL_NAME and special.spec.devices.requests:
            return LEFT_OVER
        needed = set()
        for resource, amount in pod.kind.requests.items():
            if amount <= 0 or not may_be_devices(resource):
                continue
            if resource in self._resources.by_resource and node.allocatable.get(resource, 0) <= 0:
                needed.add(resource)
            elif resource not in node.allocatable:
                return CANNOT_FIT
        return frozenset(needed)

    def _special(
        self, attempt: Attempt, pod: PodInfo, resources: frozenset[str]
    ) -> tuple[SpecialClaim, ClaimAsk | AllocationError]:
        found = attempt.special.get(resources)
        if found is None:
            by_resource, claim = self._resources.by_resource, attempt.claims[-1].claim
            special = special_claim_for(pod.pod, claim, resources, by_resource)
            found = attempt.special[resources] = (special, self._read(special.claim))
        return found
