"""What is served, and how: names, short names, verbs and subresources of every resource.

`paths` looks requests up here, `discovery` and `openapi` describe the same table to clients.
A stored kind is one line; events are served twice, as core/v1 and as events.k8s.io/v1, and what
claims devices in the older versions of resource.k8s.io too, from one store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any, NamedTuple

from stowplan.apiserver.http.core_events import as_core_error, from_core, to_core
from stowplan.apiserver.stored_kinds import GATED_KINDS, STORED_KINDS
from stowplan.errors import ApiError
from stowplan.objects import device_versions
from stowplan.objects.kinds import EVENT, Kind

Gates = frozenset[str]
"""Feature gates that are on."""

READ = ("get", "list", "watch")
WRITE = ("create", "delete", "deletecollection", "patch", "update")


class Conversion(NamedTuple):
    """Between the shape that is served and the one that is stored."""

    shown: Callable[[dict[str, Any]], dict[str, Any]]
    stored: Callable[[Any], Any]
    refused: Callable[[ApiError], ApiError]
    can_apply: bool


@dataclass(frozen=True)
class Resource:
    kind: Kind
    """What is stored."""
    group: str
    version: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    delete_collection: bool = True
    conversion: Conversion | None = None
    """If it is served in another shape than it is stored in."""
    gate: str = ""
    """The feature gate without which it is not served."""

    @cached_property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def full_name(self) -> str:
        """`pods`, `deployments.apps`."""
        return f"{self.kind.plural}.{self.group}" if self.group else self.kind.plural

    @property
    def singular(self) -> str:
        return self.kind.name.lower()

    @cached_property
    def verbs(self) -> tuple[str, ...]:
        verbs = [*READ, *WRITE]
        if not self.delete_collection:
            verbs.remove("deletecollection")
        return tuple(sorted(verbs))


@dataclass(frozen=True)
class SubresourceShape:
    """What a subresource reads and writes, where it is not the object itself."""

    kind: str
    group: str
    version: str
    verbs: tuple[str, ...]


SUBRESOURCE_SHAPES = {
    "scale": SubresourceShape("Scale", "autoscaling", "v1", ("get", "patch", "update")),
    "binding": SubresourceShape("Binding", "", "v1", ("create",)),
    "eviction": SubresourceShape("Eviction", "policy", "v1", ("create",)),
    "token": SubresourceShape("TokenRequest", "authentication.k8s.io", "v1", ("create",)),
}
OBJECT_VERBS = ("get", "patch", "update")

VIRTUAL: dict[tuple[str, str], dict[str, tuple[str, bool]]] = {
    ("", "v1"): {"bindings": ("Binding", True)},
    ("authentication.k8s.io", "v1"): {
        "selfsubjectreviews": ("SelfSubjectReview", False),
        "tokenreviews": ("TokenReview", False),
    },
    ("authorization.k8s.io", "v1"): {
        "localsubjectaccessreviews": ("LocalSubjectAccessReview", True),
        "selfsubjectaccessreviews": ("SelfSubjectAccessReview", False),
        "selfsubjectrulesreviews": ("SelfSubjectRulesReview", False),
        "subjectaccessreviews": ("SubjectAccessReview", False),
    },
}
"""Resources that can only be POSTed: (group, version) to plural to (kind, namespaced)."""

_SHORT_NAMES = {
    "ConfigMap": ("cm",),
    "CronJob": ("cj",),
    "HorizontalPodAutoscaler": ("hpa",),
    "Ingress": ("ing",),
    "NetworkPolicy": ("netpol",),
    "ResourceQuota": ("quota",),
    "DaemonSet": ("ds",),
    "Deployment": ("deploy",),
    "Endpoints": ("ep",),
    "Event": ("ev",),
    "Namespace": ("ns",),
    "Node": ("no",),
    "PersistentVolume": ("pv",),
    "PersistentVolumeClaim": ("pvc",),
    "Pod": ("po",),
    "PodDisruptionBudget": ("pdb",),
    "PriorityClass": ("pc",),
    "ReplicaSet": ("rs",),
    "ReplicationController": ("rc",),
    "Service": ("svc",),
    "ServiceAccount": ("sa",),
    "StatefulSet": ("sts",),
    "StorageClass": ("sc",),
}
_IN_ALL = frozenset(
    {
        "CronJob",
        "DaemonSet",
        "Deployment",
        "HorizontalPodAutoscaler",
        "Job",
        "Pod",
        "ReplicaSet",
        "ReplicationController",
        "Service",
        "StatefulSet",
    }
)
_SCALED = ("scale", "status")
_SUBRESOURCES = {
    "CronJob": ("status",),
    "HorizontalPodAutoscaler": ("status",),
    "Ingress": ("status",),
    "ResourceQuota": ("status",),
    "DaemonSet": ("status",),
    "Deployment": _SCALED,
    "Job": ("status",),
    "Namespace": ("status",),
    "Node": ("status",),
    "PersistentVolume": ("status",),
    "PersistentVolumeClaim": ("status",),
    "Pod": ("binding", "eviction", "resize", "status"),
    "PodDisruptionBudget": ("status",),
    "PodGroup": ("status",),
    "ReplicaSet": _SCALED,
    "ReplicationController": _SCALED,
    "ResourceClaim": ("status",),
    "Service": ("status",),
    "ServiceAccount": ("token",),
    "StatefulSet": _SCALED,
    "VolumeAttachment": ("status",),
}


def _resource(kind: Kind) -> Resource:
    return Resource(
        kind,
        kind.group,
        kind.version,
        short_names=_SHORT_NAMES.get(kind.name, ()),
        categories=("all",) if kind.name in _IN_ALL else (),
        subresources=_SUBRESOURCES.get(kind.name, ()),
        # Emptying a cluster of all its namespaces by accident is too easy.
        delete_collection=kind.name != "Namespace",
        gate=GATED_KINDS.get(kind, ""),
    )


CORE_EVENT = Resource(
    EVENT,
    "",
    "v1",
    short_names=("ev",),
    conversion=Conversion(to_core, from_core, as_core_error, can_apply=False),
)


def _older(resource: Resource, api_version: str) -> Resource:
    shown = partial(device_versions.as_version, api_version=api_version)
    conversion = Conversion(shown, device_versions.as_v1, lambda error: error, can_apply=True)
    version = api_version.rpartition("/")[2]
    return replace(resource, version=version, conversion=conversion)


_STORED = tuple(_resource(kind) for kind in STORED_KINDS)
_OLDER = tuple(
    _older(resource, api_version)
    for api_version in (device_versions.V1BETA2, device_versions.V1BETA1)
    for resource in _STORED
    if resource.group == device_versions.GROUP
)
RESOURCES: tuple[Resource, ...] = (*_STORED, *_OLDER, CORE_EVENT)


@cache
def served(gates: Gates) -> dict[tuple[str, str], dict[str, Resource]]:
    """(group, version) to plural to resource, where these feature gates are on."""
    found: dict[tuple[str, str], dict[str, Resource]] = {key: {} for key in VIRTUAL}
    for resource in RESOURCES:
        if not resource.gate or resource.gate in gates:
            names = found.setdefault((resource.group, resource.version), {})
            names[resource.kind.plural] = resource
    return found
