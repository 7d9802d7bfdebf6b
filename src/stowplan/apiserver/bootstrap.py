"""What is in a cluster before anybody writes to it: four namespaces and two priority classes."""

from __future__ import annotations

from stowplan.objects.base import KubeObject, ObjectMeta
from stowplan.objects.workloads import Namespace, PriorityClass

IMMORTAL_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})

_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_PRIORITY_CLASSES = (
    ("system-cluster-critical", 2_000_000_000),
    ("system-node-critical", 2_000_001_000),
)


def first_objects() -> list[KubeObject]:
    namespaces = [Namespace(metadata=ObjectMeta(name=name)) for name in _NAMESPACES]
    classes = [
        PriorityClass(metadata=ObjectMeta(name=name), value=value)
        for name, value in _PRIORITY_CLASSES
    ]
    return [*namespaces, *classes]
