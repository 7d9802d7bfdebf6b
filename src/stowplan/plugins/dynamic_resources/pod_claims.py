"""The claims of a pod: by name, or made for it from a template by a controller.

Mirrors `podResourceClaims` in kube-scheduler's `dynamicresources.go` and upstream's
`dynamic-resource-allocation/resourceclaim`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from stowplan.framework.events import ANYTHING, Concerned
from stowplan.objects.devices import ResourceClaim
from stowplan.objects.pod import Pod, PodResourceClaim
from stowplan.objects.pod_groups import PodGroup
from stowplan.plugins.dynamic_resources.group_claims import is_of_group, made_for_group

Lookup = Callable[[str], ResourceClaim | None]
"""By `namespace/name`."""


class ClaimProblem(Exception):
    """The pod cannot be scheduled before this has changed."""


def claims_of(pod: Pod, lookup: Lookup, group: PodGroup | None = None) -> Iterator[ResourceClaim]:
    """In the order of the pod; one that is named twice comes twice.  Raises `ClaimProblem`."""
    return (claim for claim, _ in owned_claims_of(pod, lookup, group))


def owned_claims_of(
    pod: Pod, lookup: Lookup, group: PodGroup | None
) -> Iterator[tuple[ResourceClaim, PodGroup | None]]:
    """Each with the group that it is reserved for, if that is not the pod."""
    for reference in pod.spec.resource_claims or ():
        owner_group = group if is_of_group(reference, group) else None
        name, is_made_for_it = _name_of(pod, reference, owner_group)
        if not name:
            continue
        claim = lookup(f"{pod.metadata.namespace}/{name}")
        if claim is None:
            raise ClaimProblem(f'could not find ResourceClaim "{pod.metadata.namespace}/{name}"')
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimProblem(f'resourceclaim "{name}" is being deleted')
        if is_made_for_it:
            owner = claim.metadata.controller()
            wanted = pod.metadata.uid if owner_group is None else owner_group.uid
            if owner is None or owner.uid != wanted:
                raise ClaimProblem(
                    f"ResourceClaim {claim.key} was not created for Pod {pod.key} "
                    "(Pod is not owner)"
                )
        yield claim, owner_group


def has_freed_devices(old: ResourceClaim | None, new: ResourceClaim | None) -> bool:
    held = old is not None and old.status.allocation is not None
    return held and (new is None or new.status.allocation is None)


def is_made_for(pod: Pod, claim: ResourceClaim | None) -> bool:
    owner = claim.metadata.controller() if claim is not None else None
    return owner is not None and owner.uid == pod.metadata.uid


def names_of_pod(pod: Pod) -> Collection[str]:
    """Under which `names_of_change` mentions it: a claim made for it belongs to it."""
    names = {pod.metadata.uid}
    if pod.spec.resource_claims:
        namespace = pod.metadata.namespace
        names |= {
            f"{namespace}/{it.resource_claim_name}"
            for it in pod.spec.resource_claims
            if it.resource_claim_name is not None
        }
        if pod.spec.scheduling_group is not None:
            names.add(ANYTHING)  # What it can use is up to the group.
    return names


def names_of_change(old: ResourceClaim | None, new: ResourceClaim | None) -> Collection[str]:
    """The pods whose own claim it is."""
    claim = old if new is None else new
    if claim is None:
        return ()
    names, owner = {claim.key}, claim.metadata.controller()
    if owner is not None:
        names.add(owner.uid)
    return names


CONCERNED = Concerned(names_of_pod, names_of_change, has_freed_devices)


def _name_of(pod: Pod, reference: PodResourceClaim, group: PodGroup | None) -> tuple[str, bool]:
    """The claim's name, and whether it must belong to the pod; no name: no claim is needed."""
    if reference.resource_claim_name is not None:
        return reference.resource_claim_name, False
    if reference.resource_claim_template_name is None:
        raise ClaimProblem(
            f'pod "{pod.key}", spec.resourceClaim "{reference.name}": '
            "none of the supported fields are set"
        )
    if group is not None:
        for name in made_for_group(group, reference):
            return name, True
    for status in pod.status.resource_claim_statuses or ():
        if status.name == reference.name:
            return status.resource_claim_name or "", True
    raise ClaimProblem(f'pod "{pod.key}": ResourceClaim not created yet')
