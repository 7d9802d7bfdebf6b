"""What a URL path means: a resource, one object of it, or a subresource of that object.

Pure.  Mirrors apiserver's `endpoints/request/requestinfo.go`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from stowplan.apiserver.http.resources import VIRTUAL, Gates, Resource, served

_OF_NAMESPACE_ITSELF = frozenset({"status", "finalize"})


class Target(NamedTuple):
    resource: Resource
    namespace: str
    name: str
    """Empty: the whole collection."""
    subresource: str


class Virtual(NamedTuple):
    """A resource that is only ever POSTed, such as a TokenReview."""

    group: str
    version: str
    plural: str
    kind: str
    namespace: str


@lru_cache(maxsize=4096)
def parse_path(path: str, gates: Gates = frozenset()) -> Target | Virtual | None:
    """None when nothing is served there."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    resources = served(gates).get((group, version))
    if resources is None or not all(rest):
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 3 and rest[2] not in _OF_NAMESPACE_ITSELF:
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = [*rest, "", ""][:3]
    if len(rest) > 3:
        return None
    resource = resources.get(plural)
    if resource is None:
        return _virtual(group, version, namespace, rest)
    if namespace and not resource.kind.namespaced:
        return None
    if name and resource.kind.namespaced and not namespace:
        return None
    return Target(resource, namespace, name, subresource)


def _virtual(group: str, version: str, namespace: str, rest: list[str]) -> Virtual | None:
    found = VIRTUAL.get((group, version), {}).get(rest[0])
    if found is None or len(rest) > 1:
        return None
    kind, namespaced = found
    if namespaced != bool(namespace):
        return None
    return Virtual(group, version, rest[0], kind, namespace)
