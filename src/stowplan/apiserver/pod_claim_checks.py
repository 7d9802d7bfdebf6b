"""What must hold of the claims that a pod names, its containers use, and its status lists.

Checks of `rules.txt`, kept apart because they look at several fields at once.  Mirrors
`pkg/apis/core/validation`, as far as resource claims go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stowplan.apiserver.answers import Problem, duplicate, invalid, required
from stowplan.apiserver.checks import Check, subdomain_if_given
from stowplan.apiserver.device_checks import Scope, label

Data = dict[str, Any]

_SOURCES = ("resourceClaimName", "resourceClaimTemplateName")
_AT_MOST_ONE = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
_ONE = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
_CONTAINERS = ("containers", "initContainers")
_UNKNOWN_RESOURCE = (
    "must match the extended resource name of an entry in spec.initContainers.resources.requests "
    "or spec.containers.resources.requests"
)
_UNKNOWN_CONTAINER = (
    "must match the name of an entry in spec.initContainers.name or spec.containers.name"
)


def pod_claims(where: str, value: Any) -> Iterator[Problem]:
    """The list of claims of a pod."""
    seen = set()
    for n, claim in enumerate(value or ()):
        place, name = f"{where}[{n}]", claim.get("name") or ""
        if not name:
            yield required(f"{place}.name")
        elif name in seen:
            yield duplicate(f"{place}.name", name)
        else:
            yield from label(f"{place}.name", name, Scope())
            seen.add(name)
        given = [source for source in _SOURCES if claim.get(source) is not None]
        if len(given) != 1:
            shown = {"Name": name} | {f"R{source[1:]}": claim.get(source) for source in _SOURCES}
            yield invalid(place, shown, _AT_MOST_ONE if given else _ONE)
        for source in given:
            yield from subdomain_if_given(f"{place}.{source}", claim[source])


def claims_of_containers(where: str, value: Any) -> Iterator[Problem]:
    """What containers use of them, in the spec of a pod."""
    known = sorted({it.get("name") or "" for it in value.get("resourceClaims") or ()})
    for field in _CONTAINERS:
        for n, container in enumerate(value.get(field) or ()):
            claims = (container.get("resources") or {}).get("claims")
            if claims:
                place = f"{where}.{field}[{n}].resources.claims"
                yield from _used(place, claims, known)


def _used(where: str, claims: list[Data], known: list[str]) -> Iterator[Problem]:
    seen: set[str] = set()
    for n, claim in enumerate(claims):
        place = f"{where}[{n}]"
        name, request = claim.get("name") or "", claim.get("request") or ""
        if not name:
            yield required(place)
            continue
        if name in seen:
            yield duplicate(place, name)
        else:
            if request:
                yield from label(f"{place}.request", request, Scope())
            key = f"{name}/{request}" if request else name
            if key in seen:
                yield duplicate(place, key)
            elif not request:
                for _ in (it for it in seen if it.startswith(f"{name}/")):
                    yield duplicate(place, name)
            seen.add(key)
        if name not in known:
            listed = f": {', '.join(known)}" if known else " which is empty"
            text = f'Not found: "{name}": must be one of the names in pod.spec.resourceClaims'
            yield Problem(place, "FieldValueNotFound", f"{text}{listed}")


def claim_statuses(where: str, value: Any) -> Iterator[Problem]:
    """What the status of a pod says of its claims."""
    spec, status = value.get("spec") or {}, value.get("status") or {}
    known = {it.get("name") for it in spec.get("resourceClaims") or ()}
    seen = set()
    for n, item in enumerate(status.get("resourceClaimStatuses") or ()):
        place, name = f"status.resourceClaimStatuses[{n}]", item.get("name") or ""
        if name not in known:
            text = "must match the name of an entry in `spec.resourceClaims`"
            yield invalid(f"{place}.name", name, text)
        if name in seen:
            yield duplicate(f"{place}.name", name)
        seen.add(name)
        yield from subdomain_if_given(f"{place}.resourceClaimName", item.get("resourceClaimName"))
    extended = status.get("extendedResourceClaimStatus")
    if extended is not None:
        yield from _extended("status.extendedResourceClaimStatus", extended, spec)


def _extended(where: str, status: Data, spec: Data) -> Iterator[Problem]:
    requests = {
        container.get("name"): (container.get("resources") or {}).get("requests") or {}
        for field in reversed(_CONTAINERS)
        for container in spec.get(field) or ()
    }
    mappings = status.get("requestMappings") or ()
    if not mappings:
        text = "at least one request mapping is required"
        yield required(f"{where}.requestMappings", text)
    seen = set()
    for n, item in enumerate(mappings):
        place = f"{where}.requestMappings[{n}]"
        names = ("containerName", "resourceName", "requestName")
        container, resource, request = key = tuple(item.get(name) or "" for name in names)
        if container not in requests:
            yield invalid(f"{place}.containerName", container, _UNKNOWN_CONTAINER)
        elif resource not in requests[container]:
            yield invalid(f"{place}.resourceName", resource, _UNKNOWN_RESOURCE)
        yield from label(f"{where}.requestName", request, Scope())
        if key in seen:
            for name, text in zip(names, key, strict=True):
                yield duplicate(f"{place}.{name}", text)
        seen.add(key)
    if claim := status.get("resourceClaimName"):
        yield from subdomain_if_given(f"{where}.resourceClaimName", claim)
    else:
        yield required(f"{where}.resourceClaimName")


POD_CLAIM_CHECKS: dict[str, Check] = {
    it.__name__: it for it in (pod_claims, claims_of_containers, claim_statuses)
}
