"""What DynamicResources knows about one pod in one attempt.

Made by PreFilter, added to by Filter, used by all that follow.  The same for every node, so clones
of the cycle share it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stowplan.objects.devices import Allocation, ResourceClaim
from stowplan.objects.node_selector import CompiledNodeSelector
from stowplan.objects.pod import ContainerExtendedResourceRequest
from stowplan.objects.pod_groups import PodGroup
from stowplan.plugins.dynamic_resources.extended_resources import SpecialClaim
from stowplan.plugins.dynamic_resources.kept_searches import FoundOnRows, OnNode
from stowplan.plugins.dynamic_resources.requests import AllocationError, ClaimAsk


@dataclass(slots=True, eq=False)
class OwnClaim:
    """A claim of the pod."""

    claim: ResourceClaim
    is_special: bool = False
    places: CompiledNodeSelector | None = None
    """Of an allocation; None: anywhere."""
    asks: ClaimAsk | AllocationError | None = None
    """None where there is nothing to allocate, or the node decides what."""

    group: PodGroup | None = None
    """The group that it is reserved for, if that is not the pod."""
    shared: Allocation | None = None
    """What it is being given for another pod of the group, who has been decided on before."""

    @property
    def is_allocated(self) -> bool:
        return self.shared is not None or self.claim.status.allocation is not None


@dataclass(slots=True, eq=False)
class Attempt:
    claims: list[OwnClaim]
    pending: dict[int, str] = field(default_factory=dict)
    """Claims (by position) that have yet to be allocated -> their names."""
    has_failed: bool = False
    """No node was found: what is noted of nodes from now on is what preemption tries."""
    unavailable: set[int] = field(default_factory=set)
    """Claims (by position) that keep the pod off some node for where they are allocated."""
    nodes: dict[str, OnNode] = field(default_factory=dict)
    """Looked at one by one."""
    found: FoundOnRows | None = None
    """On those that were looked at all at once."""
    errors: dict[str, str] = field(default_factory=dict)
    """Node -> why it could not even be said whether the pod fits there."""
    special: dict[frozenset[str], tuple[SpecialClaim, ClaimAsk | AllocationError]] = field(
        default_factory=dict
    )
    """By the resources that are to be had as devices."""
    given: dict[int, Allocation] = field(default_factory=dict)
    """Reserved: position of a claim -> what it is to be given."""
    written: dict[int, ResourceClaim] = field(default_factory=dict)
    """PreBind: the claims as the API server has them."""
    mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    deallocated: list[str] = field(default_factory=list)
    unmet: Callable[[], list[dict[str, Any]]] | None = None
    """Says what no node has enough of, if that is why there is none."""
    told: list[dict[str, Any]] = field(default_factory=list)
    """What it said."""

    def hold(self, claims: list[OwnClaim]) -> None:
        self.claims = claims
        self.pending = {
            number: own.claim.metadata.name
            for number, own in enumerate(claims)
            if not own.is_allocated
        }

    def on(self, node: str) -> OnNode | None:
        known = self.nodes.get(node)
        return known if known is not None or self.found is None else self.found.on(node)

    @property
    def needs_devices(self) -> bool:
        return bool(self.pending)

    def details(self, *, of_nodes: bool = True) -> dict[str, Any]:
        """What the decision shows: functions, because most decisions are never shown."""
        found = self.found if of_nodes and not self.has_failed else None
        held = dict if found is None else found.hold()
        return {
            "errors": lambda: self.errors,
            "nodeAllocations": lambda: self._node_allocations(held()),
            "claims": self._claims,
            "requestMappings": self._request_mappings,
            "deallocated": lambda: self.deallocated,
            "unmetRequests": self._unmet_requests,
        }

    def _unmet_requests(self) -> list[dict[str, Any]]:
        """What was said first stays: it was closest to the decision."""
        if self.unmet is not None:
            self.told, self.unmet = self.unmet(), None
        return self.told

    def _node_allocations(self, held: Mapping[str, OnNode]) -> Mapping[str, Any]:
        names = self.pending.values()
        if self.has_failed:
            return {}
        return {
            node: {
                name: [f"{choice.ask.name}={choice.entry.name}" for choice in choices]
                for name, choices in zip(names, found.choices, strict=True)
            }
            for node, found in (*held.items(), *self.nodes.items())
            if found.choices is not None
        }

    def _claims(self) -> Mapping[str, Any]:
        if not self.written:
            return {}
        return {
            _shown_name(self.claims[position], claim): _shown_claim(claim)
            for position, claim in self.written.items()
        }

    def _request_mappings(self) -> list[str]:
        return [f"{it.container_name}:{it.resource_name}={it.request_name}" for it in self.mappings]


def _shown_name(own: OwnClaim, claim: ResourceClaim) -> str:
    """Names that an API server made up are cut where that begins."""
    made_up = own.is_special and claim.metadata.generate_name
    return f"{claim.metadata.generate_name}*" if made_up else claim.metadata.name


def _shown_claim(claim: ResourceClaim) -> dict[str, Any]:
    allocation = claim.status.allocation
    results = () if allocation is None else allocation.devices.results or ()
    selector = None if allocation is None else allocation.node_selector
    return {
        "devices": [msgspec.to_builtins(result) for result in results],
        "nodeSelector": None if selector is None else msgspec.to_builtins(selector),
        "reservedFor": [it.name for it in claim.status.reserved_for or ()],
    }
