"""Small objects for tests of the face."""

from __future__ import annotations

from typing import Any

Data = dict[str, Any]


def pod(name: str, cpu: str = "1", **spec: Any) -> Data:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], **spec},
    }


def workload(
    kind: str, name: str, cpu: str = "1", template: Data | None = None, **spec: Any
) -> Data:
    made = {"metadata": {"labels": {"app": name}}, "spec": pod("", cpu)["spec"], **(template or {})}
    if kind == "Job":
        made["spec"] = {**made["spec"], "restartPolicy": "Never"}
    else:
        spec["selector"] = {"matchLabels": {"app": name}}
    return {
        "apiVersion": "batch/v1" if kind == "Job" else "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"template": made, **spec},
    }


def deployment(name: str, replicas: int, cpu: str = "1") -> Data:
    return workload("Deployment", name, cpu, replicas=replicas)


def node(name: str, cpu: str = "4") -> Data:
    room = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": room},
    }
