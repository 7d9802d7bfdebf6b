"""Short ways to write pods, nodes and clusters in tests."""

from __future__ import annotations

from itertools import count
from random import Random
from typing import Any

import msgspec

from stowplan.framework.cycle import Cycle
from stowplan.framework.handle import Handle
from stowplan.objects.base import KubeObject
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod
from stowplan.objects.pod_groups import PodGroup
from stowplan.state.cache import Cache
from stowplan.state.node_table import NodeTable
from stowplan.state.object_index import ObjectIndex
from stowplan.state.pod_info import PodInfo

_serial = count(1)


def pod(
    name: str = "",
    *,
    namespace: str = "default",
    labels: dict[str, str] | None = None,
    node: str = "",
    group: str = "",
    cpu: Any = None,
    memory: Any = None,
    requests: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    metadata: dict[str, Any] | None = None,
) -> Pod:
    """A pod with one container; `spec`, `status` and `metadata` are API JSON laid over it."""
    serial = next(_serial)
    name = name or f"pod-{serial}"
    wanted = dict(requests or {})
    if cpu is not None:
        wanted["cpu"] = cpu
    if memory is not None:
        wanted["memory"] = memory
    container = {"name": "main", "image": "app", "resources": {"requests": wanted}}
    data = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}-{serial}",
            "labels": labels or {},
            **(metadata or {}),
        },
        "spec": {
            "containers": [container],
            "schedulerName": "default-scheduler",
            **({"nodeName": node} if node else {}),
            **({"schedulingGroup": {"podGroupName": group}} if group else {}),
            **(spec or {}),
        },
        "status": {"phase": "Pending", **(status or {})},
    }
    return msgspec.convert(data, Pod)


def node(
    name: str,
    *,
    labels: dict[str, str] | None = None,
    cpu: Any = "4",
    memory: Any = "32Gi",
    pods: int = 110,
    allocatable: dict[str, Any] | None = None,
    taints: list[dict[str, str]] | None = None,
    unschedulable: bool = False,
    status: dict[str, Any] | None = None,
    metadata: dict[str, Any] | None = None,
) -> Node:
    data = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "labels": {"kubernetes.io/hostname": name, **(labels or {})},
            **(metadata or {}),
        },
        "spec": {"unschedulable": unschedulable, "taints": taints or []},
        "status": {
            "allocatable": {"cpu": cpu, "memory": memory, "pods": pods, **(allocatable or {})},
            **(status or {}),
        },
    }
    return msgspec.convert(data, Node)


def pod_group(
    name: str,
    *,
    namespace: str = "default",
    min_count: int = 0,
    topology: str = "",
    priority: int | None = None,
    whole: bool = False,
    spec: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
) -> PodGroup:
    """A gang, or a basic group with a `min_count` of 0."""
    data = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}"},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": min_count}} if min_count else {"basic": {}},
            **({"schedulingConstraints": {"topology": [{"key": topology}]}} if topology else {}),
            "disruptionMode": "PodGroup" if whole else "Pod",
            **({} if priority is None else {"priority": priority}),
            **(spec or {}),
        },
        "status": status or {},
    }
    return msgspec.convert(data, PodGroup)


class World:
    """A cache, its node table and a handle, filled with the given objects."""

    def __init__(self, *objects: KubeObject, seed: int = 0) -> None:
        self.cache = Cache()
        self.table = NodeTable()
        self.objects = ObjectIndex()
        self.handle = Handle(nodes=self.table, objects=self.objects, random=Random(seed))
        self.add(*objects)

    def add(self, *objects: KubeObject) -> World:
        for obj in objects:
            if isinstance(obj, Node):
                self.cache.add_node(obj)
            elif isinstance(obj, Pod):
                self.cache.add_pod(obj)
            else:
                self.objects.put(obj)
        self.table.refresh(self.cache)
        return self

    def cycle(self) -> Cycle:
        return Cycle(self.handle, self.handle.nodes)

    def row(self, name: str) -> int:
        return self.table.row_of[name]


def info(pod: Pod) -> PodInfo:
    return PodInfo(pod)
