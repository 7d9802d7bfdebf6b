"""The nodes of a cluster without machines, as their kubelets would register them.

Eight cores, 32 GiB and room for 110 pods each, in three zones.  `stowplan up --nodes N` makes them.
"""

from __future__ import annotations

from typing import Any

from stowplan.apiserver.kubelet_status import node_address
from stowplan.apiserver.version import GIT_VERSION

ZONES = ("zone-a", "zone-b", "zone-c")
CPU, MEMORY, PODS = "8", "32Gi", "110"

_HEALTHY = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID"),
    ("Ready", "True", "KubeletReady"),
)


def simulated_node(number: int, now: str) -> dict[str, Any]:
    """The node of this number, counted from 1."""
    name = f"node-{number}"
    amounts = {"cpu": CPU, "memory": MEMORY, "pods": PODS, "ephemeral-storage": "100Gi"}
    conditions = [
        {
            "type": type_,
            "status": status,
            "reason": reason,
            "message": "",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        for type_, status, reason in _HEALTHY
    ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "node.kubernetes.io/instance-type": "simulated",
                "topology.kubernetes.io/region": "simulated",
                "topology.kubernetes.io/zone": ZONES[(number - 1) % len(ZONES)],
            },
        },
        "spec": {"providerID": f"stowplan://{name}"},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": conditions,
            "addresses": [
                {"type": "InternalIP", "address": node_address(name)},
                {"type": "Hostname", "address": name},
            ],
            "nodeInfo": {
                "machineID": name,
                "systemUUID": name,
                "bootID": name,
                "kernelVersion": "simulated",
                "osImage": "Stowplan",
                "containerRuntimeVersion": "stowplan://simulated",
                "kubeletVersion": GIT_VERSION,
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
        },
    }
