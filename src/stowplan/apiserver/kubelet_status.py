"""What a kubelet reports about a pod: conditions, and if wanted addresses and containers.

Pure: the pod and the time in, the status to patch out.  Addresses are made up from names, so that
they stay the same over restarts.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

from stowplan.objects.pod import Container, Pod

Data = dict[str, Any]

RUNNING = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
"""The conditions of a pod that runs."""


def running_status(pod: Pod, now: str, detailed: bool) -> Data:
    conditions = [{"type": type_, "status": "True", "lastTransitionTime": now} for type_ in RUNNING]
    status: Data = {"phase": "Running", "startTime": now, "conditions": conditions}
    if detailed:
        running = {"running": {"startedAt": now}}
        status |= _addresses(pod)
        status["containerStatuses"] = [
            _container(pod, one, running, ready=True) for one in pod.spec.containers or ()
        ]
        if pod.spec.init_containers:
            status["initContainerStatuses"] = [
                _init_container(pod, one, now) for one in pod.spec.init_containers
            ]
    return status


def ended_status(pod: Pod, now: str, exit_code: int, detailed: bool) -> Data:
    reason = "PodCompleted" if exit_code == 0 else "PodFailed"
    conditions = [
        {"type": type_, "status": "False", "reason": reason, "lastTransitionTime": now}
        for type_ in ("PodReadyToStartContainers", "ContainersReady", "Ready")
    ]
    status: Data = {
        "phase": "Succeeded" if exit_code == 0 else "Failed",
        "conditions": conditions,
    }
    if detailed:
        ended = {
            "terminated": {
                "exitCode": exit_code,
                "reason": "Completed" if exit_code == 0 else "Error",
                "startedAt": pod.status.start_time or now,
                "finishedAt": now,
            }
        }
        status["containerStatuses"] = [
            _container(pod, one, ended, ready=False) for one in pod.spec.containers or ()
        ]
    return status


def _container(pod: Pod, container: Container, state: Data, *, ready: bool) -> Data:
    digest = f"{crc32(container.image.encode()):08x}" * 8
    return {
        "name": container.name,
        "image": container.image,
        "imageID": f"{container.image}@sha256:{digest}",
        "containerID": f"stowplan://{pod.uid}/{container.name}",
        "ready": ready,
        "started": ready,
        "restartCount": 0,
        "state": state,
        "lastState": {},
    }


def _init_container(pod: Pod, container: Container, now: str) -> Data:
    if container.restart_policy == "Always":
        return _container(pod, container, {"running": {"startedAt": now}}, ready=True)
    done = {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}
    return {**_container(pod, container, {"terminated": done}, ready=True), "started": False}


def _addresses(pod: Pod) -> Data:
    host = node_address(pod.spec.node_name)
    address = host if pod.spec.host_network else pod_address(pod.uid)
    return {
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "podIP": address,
        "podIPs": [{"ip": address}],
    }


def pod_address(uid: str) -> str:
    number = crc32(uid.encode())
    return f"10.{128 + (number >> 16 & 127)}.{number >> 8 & 255}.{1 + number % 254}"


def node_address(name: str) -> str:
    """
    >>> node_address("node-1") == node_address("node-1") != node_address("node-2")
    True
    """
    number = crc32(name.encode())
    return f"172.{16 + (number >> 16 & 15)}.{number >> 8 & 255}.{1 + number % 254}"
