"""The claims of a pod: by name, or made for it from a template by a controller.

Mirrors `podResourceClaims` in kube-scheduler's `dynamicresources.go` and upstream's
`dynamic-resource-allocation/resourceclaim`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from stowplan.objects.devices import ResourceClaim
from stowplan.objects.pod import Pod, PodResourceClaim

Lookup = Callable[[str], ResourceClaim | None]
"""By `namespace/name`."""


class ClaimProblem(Exception):
    """The pod cannot be scheduled before this has changed."""


def claims_of(pod: Pod, lookup: Lookup) -> Iterator[ResourceClaim]:
    """In the order of the pod; one that is named twice comes twice.  Raises `ClaimProblem`."""
    for reference in pod.spec.resource_claims or ():
        name, is_made_for_it = _name_of(pod, reference)
        if not name:
            continue
        claim = lookup(f"{pod.metadata.namespace}/{name}")
        if claim is None:
            raise ClaimProblem(f'could not find ResourceClaim "{pod.metadata.namespace}/{name}"')
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimProblem(f'resourceclaim "{name}" is being deleted')
        if is_made_for_it:
            owner = claim.metadata.controller()
            if owner is None or owner.uid != pod.metadata.uid:
                raise ClaimProblem(
                    f"ResourceClaim {claim.key} was not created for Pod {pod.key} "
                    "(Pod is not owner)"
                )
        yield claim


def _name_of(pod: Pod, reference: PodResourceClaim) -> tuple[str, bool]:
    """The claim's name, and whether it must belong to the pod; no name: no claim is needed."""
    if reference.resource_claim_name is not None:
        return reference.resource_claim_name, False
    if reference.resource_claim_template_name is None:
        raise ClaimProblem(
            f'pod "{pod.key}", spec.resourceClaim "{reference.name}": '
            "none of the supported fields are set"
        )
    for status in pod.status.resource_claim_statuses or ():
        if status.name == reference.name:
            return status.resource_claim_name or "", True
    raise ClaimProblem(f'pod "{pod.key}": ResourceClaim not created yet')
