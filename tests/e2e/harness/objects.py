"""Kubernetes objects as JSON data, with what the tests care about in the arguments."""

from __future__ import annotations

from typing import Any

Data = dict[str, Any]

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
NAMESPACE = "default"

COLLECTIONS = {
    "Node": "/api/v1/nodes",
    "Pod": f"/api/v1/namespaces/{NAMESPACE}/pods",
    "PersistentVolume": "/api/v1/persistentvolumes",
    "PersistentVolumeClaim": f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "Lease": "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
    "Event": f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings",
}


def path_of(kind: str, name: str) -> str:
    return f"{COLLECTIONS[kind]}/{name}"


def node(
    name: str,
    *,
    cpu: str = "4",
    pods: str = "110",
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> Data:
    room = {"cpu": cpu, "memory": "16Gi", "pods": pods}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {HOSTNAME: name, **(labels or {})}},
        "spec": spec,
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def pod(name: str, *, cpu: str = "100m", labels: dict[str, str] | None = None, **spec: Any) -> Data:
    container = {
        "name": "main",
        "image": "registry.example/app:1",
        "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels or {}},
        "spec": {"containers": [container], **spec},
    }


def anti_affinity(labels: dict[str, str], topology_key: str = HOSTNAME) -> Data:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": topology_key}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def pod_affinity(labels: dict[str, str], topology_key: str) -> Data:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": topology_key}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def node_selector(key: str, *values: str) -> Data:
    """As in a PersistentVolume, and below `required` in a node affinity."""
    expression = {"key": key, "operator": "In", "values": list(values)}
    return {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}


def spread(labels: dict[str, str], topology_key: str) -> Data:
    return {
        "maxSkew": 1,
        "topologyKey": topology_key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
    }


def storage_class(name: str, provisioner: str) -> Data:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def claim(name: str, storage_class_name: str) -> Data:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class_name,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }


def claimed(claim_name: str) -> list[Data]:
    """The volumes of a pod that uses a claim."""
    return [{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}]


def volume(name: str, storage_class_name: str, on_node: str) -> Data:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "storageClassName": storage_class_name,
            "local": {"path": "/data"},
            "nodeAffinity": {"required": node_selector(HOSTNAME, on_node)},
        },
    }


def priority_class(name: str, value: int) -> Data:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }
