"""Claims of groups: who they are reserved for, and allocations that members share.

A claim that a group lists is reserved for the group instead of each of its pods
(DRAWorkloadResourceClaims).  Whether listed or not, members that are decided on together may share
a claim that is only being allocated: later ones go where the devices are.
"""

from __future__ import annotations

from collections.abc import Iterator

from stowplan.framework.handle import Handle
from stowplan.objects.devices import Allocation, ConsumerReference, ResourceClaim
from stowplan.objects.pod import Pod, PodResourceClaim
from stowplan.objects.pod_groups import (
    GENERIC_WORKLOAD,
    GROUP,
    WORKLOAD_CLAIMS,
    PodGroup,
    group_key,
)


class GroupClaims:
    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._has_groups = GENERIC_WORKLOAD in handle.features
        self._is_on = WORKLOAD_CLAIMS in handle.features

    def group_of(self, pod: Pod) -> PodGroup | None:
        """The pod's group, if claims may be its own."""
        if not self._is_on or pod.spec.scheduling_group is None:
            return None
        return self._handle.objects.get(PodGroup, group_key(pod))

    def sharing(self, pod: Pod) -> str:
        """Under which name pods share allocations in flight; empty: with nobody."""
        return group_key(pod) if self._has_groups else ""

    def is_unscheduled(self, group: PodGroup) -> bool:
        return self._handle.groups.of(group.key).scheduled_count == 0


def is_of_group(reference: PodResourceClaim, group: PodGroup | None) -> bool:
    """Whether a claim that a pod names is one that its group lists."""
    return group is not None and group.lists(reference)


def made_for_group(group: PodGroup, reference: PodResourceClaim) -> Iterator[str]:
    """The name of the claim that was made of the group's template; "" where none is needed."""
    for status in group.status.resource_claim_statuses or ():
        if status.name == reference.name:
            yield status.resource_claim_name or ""


def consumer_of(pod: Pod, group: PodGroup | None) -> ConsumerReference:
    """Whom a claim is reserved for."""
    if group is not None:
        return ConsumerReference(
            api_group=GROUP, resource="podgroups", name=group.name, uid=group.uid
        )
    return ConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)


def is_same_allocation(claim: ResourceClaim, allocation: Allocation) -> bool:
    """Whether the claim has been given this by another pod that shares it."""
    given = claim.status.allocation
    return (
        given is not None
        and given.devices.results == allocation.devices.results
        and given.node_selector == allocation.node_selector
    )
