"""/metrics/resources: what every pod requests and is limited to, as scheduling counts it.

Pods of one kind request the same, so the sums are made once per kind.  A large cluster has
hundreds of thousands of lines, so they come in pieces, which `runtime.server` sends one by one.

Mirrors kube-scheduler's `metrics/resources/resources.go`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from stowplan.objects.pod import Container, Pod, PodSpec
from stowplan.objects.quantity import QuantityError, parse_quantity
from stowplan.objects.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    is_attachable,
    is_hugepages,
    pod_request_nanos,
)
from stowplan.runtime.exposition import Family, sample, text_of
from stowplan.runtime.metric_table import RESOURCE_LABELS, RESOURCE_LIMIT, RESOURCE_REQUEST
from stowplan.state.pod_info import PodInfo

_NANO = 10**9

_Amounts = list[tuple[str, str, float]]
"""(resource, unit, amount), by name."""


def resource_text(pods: Sequence[PodInfo]) -> Iterator[str]:
    """The text in pieces.  `pods`: all that are not finished."""
    for spec, amounts_of in ((RESOURCE_REQUEST, _requests), (RESOURCE_LIMIT, _limits)):
        yield text_of([Family(spec)])
        known: dict[int, _Amounts] = {}
        for info in pods:
            amounts = known.get(id(info.kind))
            if amounts is None:
                try:
                    amounts = amounts_of(info.pod)
                except QuantityError:
                    # Its attempts fail with a message; the page is there for all the others.
                    amounts = []
                known[id(info.kind)] = amounts
            if amounts:
                yield "".join(_lines(spec.name, info.pod, amounts))


def _lines(name: str, pod: Pod, amounts: _Amounts) -> Iterator[str]:
    meta, spec = pod.metadata, pod.spec
    priority = "" if spec.priority is None else str(spec.priority)
    who = (meta.namespace, meta.name, spec.node_name, spec.scheduler_name, priority)
    for resource, unit, amount in amounts:
        yield sample(name, RESOURCE_LABELS, (*who, resource, unit), amount)


def _requests(pod: Pod) -> _Amounts:
    return _amounts(pod_request_nanos(pod))


def _limits(pod: Pod) -> _Amounts:
    """Added up as requests are; overhead comes on top only where there is a limit at all."""
    spec = pod.spec
    whole = None
    if spec.resources is not None:
        whole = msgspec.structs.replace(spec.resources, requests=spec.resources.limits)
    limited = PodSpec(
        containers=[_limited(container) for container in spec.containers or ()],
        init_containers=[_limited(container) for container in spec.init_containers or ()],
        resources=whole,
    )
    nanos = pod_request_nanos(Pod(spec=limited))
    for name, quantity in (spec.overhead or {}).items():
        if nanos.get(name):
            nanos[name] += parse_quantity(quantity)
    return _amounts(nanos)


def _limited(container: Container) -> Container:
    resources = container.resources
    if resources is None:
        return container
    resources = msgspec.structs.replace(resources, requests=resources.limits)
    return msgspec.structs.replace(container, resources=resources)


def _amounts(nanos: dict[str, int]) -> _Amounts:
    return [(name, _unit(name), nanos[name] / _NANO) for name in sorted(nanos) if nanos[name]]


def _unit(resource: str) -> str:
    if resource == CPU:
        return "cores"
    if resource in (MEMORY, EPHEMERAL_STORAGE, "storage") or is_hugepages(resource):
        return "bytes"
    return "integer" if is_attachable(resource) else ""
