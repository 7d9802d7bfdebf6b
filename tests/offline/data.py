"""Manifests as data, short to write; times and uids only where a test is about them."""

from __future__ import annotations

from typing import Any

from stowplan.objects.base import KubeObject
from stowplan.objects.pod import Pod
from stowplan.offline import build_cluster

Data = dict[str, Any]


def thing(api_version: str, kind: str, name: str, **fields: Any) -> Data:
    metadata = {"name": name, **fields.pop("metadata", {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def node(name: str, *, cpu: Any = 4, labels: Data | None = None, **spec: Any) -> Data:
    named = {"kubernetes.io/hostname": name, **(labels or {})}
    capacity = {"cpu": cpu, "memory": "8Gi", "pods": 110}
    return thing(
        "v1", "Node", name, metadata={"labels": named}, spec=spec, status={"capacity": capacity}
    )


def pod_spec(cpu: Any = None, **spec: Any) -> Data:
    resources = {} if cpu is None else {"requests": {"cpu": cpu}}
    return {"containers": [{"name": "main", "image": "app", "resources": resources}], **spec}


def pod(
    name: str,
    cpu: Any = None,
    *,
    owner: tuple[str, str] | None = None,
    metadata: Data | None = None,
    phase: str = "",
    **spec: Any,
) -> Data:
    owned: Data = {}
    if owner is not None:
        owned = {"ownerReferences": [{"kind": owner[0], "name": owner[1], "controller": True}]}
    return thing(
        "v1",
        "Pod",
        name,
        metadata={**owned, **(metadata or {})},
        spec=pod_spec(cpu, **spec),
        status={"phase": phase} if phase else {},
    )


def workload(
    kind: str, name: str, *, metadata: Data | None = None, template: Data | None = None, **spec: Any
) -> Data:
    labels = {"app": name}
    api_version = {"Job": "batch/v1", "ReplicationController": "v1"}.get(kind, "apps/v1")
    selector: Data = labels if kind == "ReplicationController" else {"matchLabels": labels}
    return thing(
        api_version,
        kind,
        name,
        metadata=metadata or {},
        spec={
            "selector": selector,
            "template": {"metadata": {"labels": labels}, "spec": template or pod_spec()},
            **spec,
        },
    )


def cluster(*objects: Data) -> list[KubeObject]:
    return build_cluster([("test.yaml", data) for data in objects])


def pods_of(*objects: Data) -> list[Pod]:
    return [obj for obj in cluster(*objects) if isinstance(obj, Pod)]
