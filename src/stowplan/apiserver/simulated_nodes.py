"""The nodes of a cluster without machines, as their kubelets would register them.

Eight cores, 32 GiB and room for 110 pods each, in three zones.  `stowplan up --nodes N` makes them;
`--nodes-file` names others, whose sizes, labels, taints and devices come from manifests.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stowplan.apiserver.controllers.device_driver import GPUS
from stowplan.apiserver.kubelet_status import node_address
from stowplan.apiserver.version import GIT_VERSION
from stowplan.errors import InputError
from stowplan.objects.yaml_reader import read_yaml_documents

ZONES = ("zone-a", "zone-b", "zone-c")
CPU, MEMORY, PODS = "8", "32Gi", "110"

_HEALTHY = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID"),
    ("Ready", "True", "KubeletReady"),
)


def read_nodes(path: Path) -> list[dict[str, Any]]:
    """The Node manifests of a file, alone or in lists."""
    where = str(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(str(error.strerror or error), where=where) from None
    found = []
    for line, document in read_yaml_documents(raw, where):
        is_list = isinstance(document, dict) and isinstance(document.get("items"), list)
        for item in document["items"] if is_list else [document]:
            place = f"{where}:{line}"
            metadata = item.get("metadata") if isinstance(item, dict) else None
            if not isinstance(metadata, dict) or not metadata.get("name"):
                raise InputError("a node needs metadata.name", where=place)
            if item.get("kind", "Node") != "Node":
                raise InputError(f"a {item['kind']} is no Node", where=place)
            found.append(item)
    return found


def with_defaults_of_a_node(manifest: dict[str, Any], now: str) -> dict[str, Any]:
    """The node of a manifest as its kubelet would register it; what it says itself stays."""
    name = str(manifest["metadata"]["name"])
    plain = simulated_node(1, now, name)
    plain["metadata"]["labels"].pop("topology.kubernetes.io/zone")
    merged: dict[str, Any] = _over(plain, manifest)
    status = manifest.get("status") or {}
    if "allocatable" not in status:
        merged["status"]["allocatable"] = merged["status"]["capacity"]
    elif "capacity" not in status:
        merged["status"]["capacity"] = merged["status"]["allocatable"]
    return merged


def _over(plain: Any, said: Any) -> Any:
    if not isinstance(plain, dict) or not isinstance(said, dict):
        return said
    return {**plain, **{key: _over(plain.get(key), value) for key, value in said.items()}}


def simulated_node(number: int, now: str, name: str = "", gpus: int = 0) -> dict[str, Any]:
    """The node of this number, counted from 1."""
    name = name or f"node-{number}"
    annotations = {"annotations": {GPUS: str(gpus)}} if gpus else {}
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
            **annotations,
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
