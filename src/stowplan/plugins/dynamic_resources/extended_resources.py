"""Extended resources that are had as devices: the claim that the scheduler makes for a pod.

Which resources come from devices differs from node to node (where a device plugin offers one, it
serves it), so the requests of that special claim are made per node.  Mirrors
`dynamicresources/extendeddynamicresources.go`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from stowplan.objects.base import ObjectMeta, OwnerReference
from stowplan.objects.devices import (
    EXACT_COUNT,
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from stowplan.objects.pod import Container, ContainerExtendedResourceRequest, Pod
from stowplan.objects.quantity import ceil_value, parse_quantity

ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
SPECIAL_NAME = "<extended-resources>"
"""Of a claim that no API server knows yet."""


@dataclass(frozen=True, slots=True, eq=False)
class SpecialClaim:
    """What the pod needs as devices on some nodes."""

    claim: ResourceClaim
    mappings: tuple[ContainerExtendedResourceRequest, ...]


@dataclass(frozen=True, slots=True)
class _Use:
    """One container that wants some of a resource."""

    index: int
    container: str
    name: str
    """Of a request of its own."""
    count: int
    stays: bool
    """Whether it runs as long as the pod does."""


def new_special_claim(pod: Pod) -> ResourceClaim:
    """Without requests: those depend on the node."""
    return ResourceClaim(
        metadata=ObjectMeta(
            name=SPECIAL_NAME,
            generate_name=f"{pod.metadata.name}-extended-resources-",
            namespace=pod.metadata.namespace,
            uid=f"{SPECIAL_NAME}{pod.metadata.uid}",
            annotations={ANNOTATION: "true"},
            owner_references=[
                OwnerReference(
                    api_version="v1",
                    kind="Pod",
                    name=pod.metadata.name,
                    uid=pod.metadata.uid,
                    controller=True,
                )
            ],
        )
    )


def is_special(claim: ResourceClaim) -> bool:
    return (claim.metadata.annotations or {}).get(ANNOTATION) == "true"


def is_special_claim_of(claim: ResourceClaim, pod: Pod) -> bool:
    if not is_special(claim):
        return False
    owner = claim.metadata.controller()
    metadata = pod.metadata
    return (
        claim.metadata.namespace == metadata.namespace
        and owner is not None
        and (owner.name, owner.uid) == (metadata.name, metadata.uid)
    )


def special_claim_for(
    pod: Pod, claim: ResourceClaim, resources: frozenset[str], classes: Mapping[str, DeviceClass]
) -> SpecialClaim:
    """The claim for these resources of the pod."""
    requests: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    for resource in sorted(resources):
        made, mapped = _of_resource(pod, resource, classes[resource].metadata.name)
        requests += made
        mappings += mapped
    requests.sort(key=lambda request: request.name)
    spec = ResourceClaimSpec(devices=DeviceClaim(requests=requests or None))
    made_claim = ResourceClaim(metadata=claim.metadata, spec=spec, status=claim.status)
    return SpecialClaim(made_claim, tuple(mappings))


def _of_resource(
    pod: Pod, resource: str, class_name: str
) -> tuple[list[DeviceRequest], list[ContainerExtendedResourceRequest]]:
    uses = list(_uses(pod, resource))
    lasting = [use for use in uses if use.stays]
    requests = [_request(use.name, use.count, class_name) for use in lasting]
    mappings = [_mapping(use, resource, use.name) for use in lasting]
    largest: tuple[int, str] = (0, "")
    passing: list[tuple[_Use, str]] = []
    for use in uses:
        if use.stays:
            continue
        count = 0
        for other in lasting:
            if other.index >= use.index and count < use.count:
                passing.append((use, other.name))
                count += other.count
        if count < use.count:
            passing.append((use, ""))
            if use.count - count > largest[0]:
                largest = (use.count - count, use.name)
    if largest[0]:
        requests.append(_request(largest[1], largest[0], class_name))
    mappings += [_mapping(use, resource, name or largest[1]) for use, name in passing]
    return requests, mappings


def _uses(pod: Pod, resource: str) -> Iterator[_Use]:
    spec = pod.spec
    first = spec.init_containers or []
    for index, container in enumerate((*first, *(spec.containers or ()))):
        requests = _requests(container)
        if resource not in requests:
            continue
        count = requests[resource]
        if count > 0:
            name = f"container-{index}-request-{sorted(requests).index(resource)}"
            stays = index >= len(first) or container.restart_policy == "Always"
            yield _Use(index, container.name, name, count, stays)


def _requests(container: Container) -> dict[str, int]:
    resources = container.resources
    requests = resources.requests if resources is not None else None
    return {name: ceil_value(parse_quantity(it)) for name, it in (requests or {}).items()}


def _request(name: str, count: int, class_name: str) -> DeviceRequest:
    exactly = ExactDeviceRequest(
        device_class_name=class_name, allocation_mode=EXACT_COUNT, count=count
    )
    return DeviceRequest(name=name, exactly=exactly)


def _mapping(use: _Use, resource: str, request: str) -> ContainerExtendedResourceRequest:
    return ContainerExtendedResourceRequest(
        container_name=use.container, resource_name=resource, request_name=request
    )
