"""Small objects for puzzles, and what a puzzle is."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from stowplan.apiserver.patch import apply_json_patch

Data = dict[str, Any]
HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


@dataclass
class Puzzle:
    """A cluster, a pod of it that has no node, and the smallest change that gives it one."""

    name: str
    objects: list[Data]
    changes: list[tuple[str, str, Data]] = field(default_factory=list)
    """Kind, name, and path -> value; `GONE` for a path that is removed, `NEW` for one added."""
    create: list[str] = field(default_factory=list)
    """Kinds."""
    delete: list[str] = field(default_factory=list)
    """Names of pods."""
    evicts: list[str] = field(default_factory=list)
    pod: str = "default/p"
    covers: str = ""
    """The plugins that it is about."""

    def __str__(self) -> str:
        return self.name


GONE = object()


def node(name: str, cpu: str = "4", memory: str = "8Gi", pods: str = "110", **more: Any) -> Data:
    labels = {HOST: name, **more.pop("labels", {})}
    zone = more.pop("zone", "")
    if zone:
        labels[ZONE] = zone
    room = {"cpu": cpu, "memory": memory, "pods": pods, **more.pop("room", {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": more,
        "status": {"allocatable": room, "capacity": room},
    }


def pod(name: str = "p", cpu: str = "1", on: str = "", **more: Any) -> Data:
    requests = {"cpu": cpu, **more.pop("room", {})}
    metadata: Data = {"name": name, "namespace": more.pop("namespace", "default")}
    if "labels" in more:
        metadata["labels"] = more.pop("labels")
    container: Data = {"name": "main", "image": "app", "resources": {"requests": requests}}
    if "ports" in more:
        container["ports"] = more.pop("ports")
    spec: Data = {"containers": [container], **more}
    if on:
        spec["nodeName"] = on
    status = {"phase": "Running"} if on else {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> Data:
    return (
        {"key": key, "value": value, "effect": effect} if value else {"key": key, "effect": effect}
    )


def claim(
    name: str = "data", size: str = "1Gi", *, mode: str = "ReadWriteOnce", **spec: Any
) -> Data:
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if "volumeName" in spec else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {"accessModes": [mode], "resources": {"requests": {"storage": size}}, **spec},
    }


def volume(name: str, size: str = "1Gi", *, labels: Data | None = None, **spec: Any) -> Data:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            **({} if "csi" in spec else {"local": {"path": "/mnt/disk"}}),
            **spec,
        },
        "status": {"phase": "Bound" if "claimRef" in spec else "Available"},
    }


def storage_class(
    name: str, *, wait: bool = True, provisioner: str = "disk.example", **more: Any
) -> Data:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer" if wait else "Immediate",
        **more,
    }


def uses(*claims: str) -> list[Data]:
    return [
        {"name": f"v{n}", "persistentVolumeClaim": {"claimName": c}} for n, c in enumerate(claims)
    ]


def applied(objects: list[Data], fix: Data) -> list[Data]:
    """The input with a fix applied to it, as anybody would who has read the JSON."""
    after = deepcopy(objects)
    for change in fix["changes"]:
        place = next(n for n, each in enumerate(after) if is_it(each, change))
        after[place] = apply_json_patch(after[place], change["patch"])
    gone = fix["delete"]
    after = [each for each in after if not any(is_it(each, one) for one in gone)]
    return after + fix["create"]


def is_it(data: Data, reference: Data) -> bool:
    metadata = data["metadata"]
    return (data["apiVersion"], data["kind"], metadata["name"]) == (
        reference["apiVersion"],
        reference["kind"],
        reference["name"],
    ) and reference.get("namespace") in (None, metadata.get("namespace", "default"))
