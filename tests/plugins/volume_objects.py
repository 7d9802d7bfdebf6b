"""Short ways to write claims, volumes and what goes with them."""

from __future__ import annotations

from typing import Any

import msgspec

from stowplan.objects.pod import Pod
from stowplan.objects.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from tests.builders import pod

JSON = dict[str, Any]

DRIVER = "csi.example.com"
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


def mounting(*claims: str, inline: list[JSON] | None = None, **rest: Any) -> Pod:
    """A pod with a volume per claim, and the inline volumes given as API JSON."""
    volumes: list[JSON] = [
        {"name": f"v{n}", "persistentVolumeClaim": {"claimName": claim}}
        for n, claim in enumerate(claims)
    ]
    volumes += [{"name": f"i{n}", **volume} for n, volume in enumerate(inline or [])]
    return pod(spec={"volumes": volumes}, **rest)


def claim(
    name: str,
    *,
    volume: str = "",
    size: str | None = "1Gi",
    modes: tuple[str, ...] = ("ReadWriteOnce",),
    storage_class: str | None = None,
    annotations: dict[str, str] | None = None,
    namespace: str = "default",
    phase: str = "",
    metadata: JSON | None = None,
    **spec: Any,
) -> PersistentVolumeClaim:
    """Bound if it names a volume, unless `annotations` are given."""
    if annotations is None:
        annotations = BOUND if volume else {}
    data = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "annotations": annotations,
            **(metadata or {}),
        },
        "spec": {
            "accessModes": list(modes),
            "volumeName": volume,
            "storageClassName": storage_class,
            "resources": {"requests": {} if size is None else {"storage": size}},
            **spec,
        },
        "status": {"phase": phase or ("Bound" if volume else "Pending")},
    }
    return msgspec.convert(data, PersistentVolumeClaim)


def volume(
    name: str,
    *,
    size: str = "1Gi",
    handle: str | None = None,
    driver: str = DRIVER,
    source: JSON | None = None,
    on: dict[str, list[str]] | None = None,
    labels: dict[str, str] | None = None,
    storage_class: str = "",
    modes: tuple[str, ...] = ("ReadWriteOnce",),
    phase: str = "Available",
    metadata: JSON | None = None,
    **spec: Any,
) -> PersistentVolume:
    """A CSI volume, or one of the given `source`; `on`: required node labels."""
    affinity = {}
    if on is not None:
        terms = [{"key": k, "operator": "In", "values": values} for k, values in on.items()]
        affinity = {
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": terms}]}}
        }
    csi = {"csi": {"driver": driver, "volumeHandle": handle or f"handle-{name}"}}
    data = {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels, **(metadata or {})},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": list(modes),
            "storageClassName": storage_class,
            **(source if source is not None else csi),
            **affinity,
            **spec,
        },
        "status": {"phase": phase},
    }
    return msgspec.convert(data, PersistentVolume)


def storage_class(
    name: str,
    *,
    mode: str | None = "WaitForFirstConsumer",
    provisioner: str = DRIVER,
    zones: list[str] | None = None,
) -> StorageClass:
    data: JSON = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}
    if zones is not None:
        data["allowedTopologies"] = [{"matchLabelExpressions": [{"key": "zone", "values": zones}]}]
    return msgspec.convert(data, StorageClass)


def csi_node(name: str, limits: dict[str, int | None], migrated: str = "") -> CSINode:
    data = {
        "metadata": {
            "name": name,
            "annotations": {"storage.alpha.kubernetes.io/migrated-plugins": migrated},
        },
        "spec": {
            "drivers": [
                {"name": driver, "nodeID": name, "allocatable": {"count": count}}
                for driver, count in limits.items()
            ]
        },
    }
    return msgspec.convert(data, CSINode)


def csi_driver(name: str = DRIVER, *, capacity: bool | None = True) -> CSIDriver:
    return msgspec.convert(
        {"metadata": {"name": name}, "spec": {"storageCapacity": capacity}}, CSIDriver
    )


def pool(
    name: str,
    storage_class: str,
    capacity: str | None,
    *,
    on: dict[str, str] | None = None,
    maximum: str | None = None,
) -> CSIStorageCapacity:
    data = {
        "metadata": {"name": name, "namespace": "kube-system"},
        "storageClassName": storage_class,
        "capacity": capacity,
        "maximumVolumeSize": maximum,
        "nodeTopology": None if on is None else {"matchLabels": on},
    }
    return msgspec.convert(data, CSIStorageCapacity)


def attachment(name: str, node: str, volume: str | None, attacher: str = DRIVER) -> Any:
    data = {
        "metadata": {"name": name},
        "spec": {
            "attacher": attacher,
            "nodeName": node,
            "source": {"persistentVolumeName": volume},
        },
    }
    return msgspec.convert(data, VolumeAttachment)


def owned_by(pod: Pod) -> JSON:
    """Metadata of an ephemeral volume's claim."""
    owner = {"kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
    return {"ownerReferences": [owner]}
