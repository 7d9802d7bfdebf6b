"""What is served, and how: names, short names, verbs and subresources of every resource.

`paths` looks requests up here, `discovery` and `openapi` describe the same table to clients.
A stored kind is one line; events are served twice, as core/v1 and as events.k8s.io/v1, from one
store.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from stowplan.apiserver.stored_kinds import STORED_KINDS
from stowplan.objects.kinds import EVENT, Kind

READ = ("get", "list", "watch")
WRITE = ("create", "delete", "deletecollection", "patch", "update")


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
    converted: bool = False
    """Served in another shape than it is stored in: core/v1 events."""

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
    )


CORE_EVENT = Resource(EVENT, "", "v1", short_names=("ev",), converted=True)

RESOURCES: tuple[Resource, ...] = (*(_resource(kind) for kind in STORED_KINDS), CORE_EVENT)


def _by_group_version() -> dict[tuple[str, str], dict[str, Resource]]:
    found: dict[tuple[str, str], dict[str, Resource]] = {key: {} for key in VIRTUAL}
    for resource in RESOURCES:
        names = found.setdefault((resource.group, resource.version), {})
        names[resource.kind.plural] = resource
    return found


SERVED = _by_group_version()
"""(group, version) to plural to resource."""
