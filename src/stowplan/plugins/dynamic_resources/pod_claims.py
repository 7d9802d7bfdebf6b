"""The claims of a pod: by name, or made for it from a template by a controller.

Mirrors `podResourceClaims` in kube-scheduler's `dynamicresources.go` and upstream's
`dynamic-resource-allocation/resourceclaim`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

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


def concerned_by_claim(
    old: ResourceClaim | None, new: ResourceClaim | None
) -> Callable[[Pod], bool] | None:
    """Which pods a change of the claim can help; None: any, because devices became free."""
    if has_freed_devices(old, new):
        return None
    if new is None:
        return lambda pod: is_made_for(pod, old)
    namespace, name = new.metadata.namespace, new.metadata.name

    def names_it(pod: Pod) -> bool:
        # Asked of every pod that waits, with every claim that is written.
        for reference in pod.spec.resource_claims or ():
            # Of a group's template, the group knows the name.
            if reference.resource_claim_name == name or (
                reference.resource_claim_template_name and pod.spec.scheduling_group
            ):
                return pod.metadata.namespace == namespace
        for status in pod.status.resource_claim_statuses or ():
            if status.resource_claim_name == name:
                return pod.metadata.namespace == namespace
        return False

    return names_it


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
