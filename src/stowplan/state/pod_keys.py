"""What makes two pods one kind, or alike but for their size: keys that are equal then.

Names are left out in which replicas differ: of the pod, of its claims and its group, and of volumes
that need no place.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from stowplan.objects.base import ObjectMeta
from stowplan.objects.pod import (
    Container,
    Pod,
    PodResourceClaim,
    PodSchedulingGroup,
    ResourceRequirements,
    Volume,
)

_encode = msgspec.json.Encoder(order="deterministic").encode

_SOME_GROUP = PodSchedulingGroup()
_ANY_CLAIM = PodResourceClaim()


def content_key(pod: Pod) -> tuple[Any, ...]:
    """Equal for pods that are the same to scheduling."""
    metadata, spec, status = pod.metadata, pod.spec, pod.status
    if spec.volumes or spec.resource_claims:
        spec = replace(
            spec,
            node_name="",
            volumes=_unnamed(spec.volumes) if spec.volumes else None,
            resource_claims=_nameless(spec.resource_claims),
        )
    elif spec.node_name:
        spec = replace(spec, node_name="")
    if spec.scheduling_group is not None:
        spec = replace(spec, scheduling_group=_SOME_GROUP)
    return (
        metadata.namespace,
        metadata.deletion_timestamp is not None,
        _encode((metadata.labels, spec)),
        _controller_key(metadata),
        _resize_key(pod) if status.container_statuses or status.resources else b"",
    )


def traits_key(pod: Pod) -> tuple[Any, ...]:
    """Equal for pods that are the same to scheduling but for how much they ask for."""
    metadata, spec = pod.metadata, pod.spec
    spec = replace(
        spec,
        node_name="",
        resources=None,
        containers=[_sizeless(c) for c in spec.containers or ()],
        init_containers=[_sizeless(c) for c in spec.init_containers or ()],
        volumes=_unnamed(spec.volumes) if spec.volumes else None,
        resource_claims=_nameless(spec.resource_claims),
        scheduling_group=None if spec.scheduling_group is None else _SOME_GROUP,
    )
    return (
        metadata.namespace,
        metadata.deletion_timestamp is not None,
        _encode((metadata.labels, spec)),
        _controller_key(metadata),
    )


def _sizeless(container: Container) -> Container:
    """The container, however much it asks for; which extended resources it asks for stays."""
    resources = container.resources
    if resources is None:
        return container
    extended = [name for name in resources.requests or () if "/" in name]
    left = ResourceRequirements(requests=dict.fromkeys(sorted(extended), 1)) if extended else None
    return replace(container, resources=left)


def _unnamed(volumes: list[Volume]) -> list[Volume] | None:
    """Those that count, whatever claims they are for.

    The others have nothing but a name, and where an API server adds the volume with the token of a
    service account, another one in each pod.
    """
    return [
        volume
        if (claim := volume.persistent_volume_claim) is None
        else replace(volume, persistent_volume_claim=replace(claim, claim_name=""))
        for volume in volumes
        if volume != Volume(name=volume.name)
    ] or None


def _nameless(claims: list[PodResourceClaim] | None) -> list[PodResourceClaim] | None:
    """So many claims for devices, whatever they are called."""
    return claims and [_ANY_CLAIM] * len(claims)


def _controller_key(metadata: ObjectMeta) -> tuple[str, str, str] | None:
    controller = metadata.controller() if metadata.owner_references else None
    return (controller.api_version, controller.kind, controller.name) if controller else None


def _resize_key(pod: Pod) -> bytes:
    """What of the status can change the pod's requests: allocations, and a refused resize."""
    status = pod.status
    pending = [c.reason for c in status.conditions or () if c.type == "PodResizePending"]
    return _encode(
        (
            [(c.name, c.resources, c.allocated_resources) for c in status.container_statuses or ()],
            [
                (c.name, c.resources, c.allocated_resources)
                for c in status.init_container_statuses or ()
            ],
            status.resources,
            status.allocated_resources,
            pending,
        )
    )
