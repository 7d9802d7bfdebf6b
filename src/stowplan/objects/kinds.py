"""Every kind we know: its group, version, plural, scope and struct.

Informers, the embedded API server and the manifest reader all look kinds up here; adding a kind
is adding a line.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stowplan.objects.base import KubeObject
from stowplan.objects.coordination import Event, Lease
from stowplan.objects.devices import (
    DeviceClass,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod
from stowplan.objects.pod_groups import V1ALPHA2, V1BETA1, GroupWorkload, PodGroup
from stowplan.objects.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from stowplan.objects.workloads import (
    DaemonSet,
    Deployment,
    Job,
    Namespace,
    PodDisruptionBudget,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    RuntimeClass,
    Service,
    StatefulSet,
)


@dataclass(frozen=True, slots=True)
class Kind:
    group: str
    version: str
    name: str
    plural: str
    namespaced: bool
    struct: type[KubeObject]
    api_version: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        text = f"{self.group}/{self.version}" if self.group else self.version
        object.__setattr__(self, "api_version", text)

    def __str__(self) -> str:
        return self.name


def _kind(
    api_version: str, struct: type[KubeObject], plural: str, *, namespaced: bool, name: str = ""
) -> Kind:
    """`name`: of a kind that is called differently here."""
    group, _, version = api_version.rpartition("/")
    return Kind(group, version, name or struct.__name__, plural, namespaced, struct)


POD = _kind("v1", Pod, "pods", namespaced=True)
NODE = _kind("v1", Node, "nodes", namespaced=False)
NAMESPACE = _kind("v1", Namespace, "namespaces", namespaced=False)
SERVICE = _kind("v1", Service, "services", namespaced=True)
REPLICATION_CONTROLLER = _kind(
    "v1", ReplicationController, "replicationcontrollers", namespaced=True
)
PERSISTENT_VOLUME = _kind("v1", PersistentVolume, "persistentvolumes", namespaced=False)
PERSISTENT_VOLUME_CLAIM = _kind(
    "v1", PersistentVolumeClaim, "persistentvolumeclaims", namespaced=True
)
REPLICA_SET = _kind("apps/v1", ReplicaSet, "replicasets", namespaced=True)
STATEFUL_SET = _kind("apps/v1", StatefulSet, "statefulsets", namespaced=True)
DEPLOYMENT = _kind("apps/v1", Deployment, "deployments", namespaced=True)
DAEMON_SET = _kind("apps/v1", DaemonSet, "daemonsets", namespaced=True)
JOB = _kind("batch/v1", Job, "jobs", namespaced=True)
STORAGE_CLASS = _kind("storage.k8s.io/v1", StorageClass, "storageclasses", namespaced=False)
CSI_NODE = _kind("storage.k8s.io/v1", CSINode, "csinodes", namespaced=False)
CSI_DRIVER = _kind("storage.k8s.io/v1", CSIDriver, "csidrivers", namespaced=False)
CSI_STORAGE_CAPACITY = _kind(
    "storage.k8s.io/v1", CSIStorageCapacity, "csistoragecapacities", namespaced=True
)
VOLUME_ATTACHMENT = _kind(
    "storage.k8s.io/v1", VolumeAttachment, "volumeattachments", namespaced=False
)
POD_DISRUPTION_BUDGET = _kind(
    "policy/v1", PodDisruptionBudget, "poddisruptionbudgets", namespaced=True
)
PRIORITY_CLASS = _kind("scheduling.k8s.io/v1", PriorityClass, "priorityclasses", namespaced=False)
RUNTIME_CLASS = _kind("node.k8s.io/v1", RuntimeClass, "runtimeclasses", namespaced=False)
RESOURCE_CLAIM = _kind("resource.k8s.io/v1", ResourceClaim, "resourceclaims", namespaced=True)
RESOURCE_CLAIM_TEMPLATE = _kind(
    "resource.k8s.io/v1", ResourceClaimTemplate, "resourceclaimtemplates", namespaced=True
)
DEVICE_CLASS = _kind("resource.k8s.io/v1", DeviceClass, "deviceclasses", namespaced=False)
RESOURCE_SLICE = _kind("resource.k8s.io/v1", ResourceSlice, "resourceslices", namespaced=False)
LEASE = _kind("coordination.k8s.io/v1", Lease, "leases", namespaced=True)
EVENT = _kind("events.k8s.io/v1", Event, "events", namespaced=True)

POD_GROUP = _kind(V1ALPHA2, PodGroup, "podgroups", namespaced=True)
WORKLOAD = _kind(V1ALPHA2, GroupWorkload, "workloads", namespaced=True, name="Workload")
POD_GROUP_BETA = _kind(V1BETA1, PodGroup, "podgroups", namespaced=True)
WORKLOAD_BETA = _kind(V1BETA1, GroupWorkload, "workloads", namespaced=True, name="Workload")

GROUP_KINDS: tuple[Kind, ...] = (POD_GROUP_BETA, WORKLOAD_BETA, POD_GROUP, WORKLOAD)
"""Served by few API servers, and only where GenericWorkload is on: in one of two versions."""

KINDS: tuple[Kind, ...] = (
    POD,
    NODE,
    NAMESPACE,
    SERVICE,
    REPLICATION_CONTROLLER,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    REPLICA_SET,
    STATEFUL_SET,
    DEPLOYMENT,
    DAEMON_SET,
    JOB,
    STORAGE_CLASS,
    CSI_NODE,
    CSI_DRIVER,
    CSI_STORAGE_CAPACITY,
    VOLUME_ATTACHMENT,
    POD_DISRUPTION_BUDGET,
    PRIORITY_CLASS,
    RUNTIME_CLASS,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    DEVICE_CLASS,
    RESOURCE_SLICE,
    LEASE,
    EVENT,
)

KIND_BY_STRUCT: dict[type[KubeObject], Kind] = {
    kind.struct: kind for kind in (*KINDS, *GROUP_KINDS)
}
KIND_BY_NAME: dict[tuple[str, str], Kind] = {
    (kind.api_version, kind.name): kind for kind in (*KINDS, *GROUP_KINDS)
}
