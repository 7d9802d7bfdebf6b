"""Nodes for a cluster without machines: by size, or like one that is there."""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stowplan.apiserver.controllers.device_driver import GPUS, GPUS_MAX, MEMORY, MODEL
from stowplan.errors import InputError
from stowplan.objects.manifests import check
from stowplan.objects.node import Node

Taint = str | Mapping[str, str]
"""`key=value:Effect` as kubectl writes it, or its fields."""

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_LIFECYCLE = "node.kubernetes.io/"
"""Taints under this say how a node is, not what it is for."""

_COUNT_MAX = 1_000_000


def check_count(count: object) -> int:
    if not isinstance(count, int) or not 0 <= count <= _COUNT_MAX:
        raise InputError(f"{count!r} is no number of nodes", hint=f"from 0 to {_COUNT_MAX:,}")
    return count


def node_template(
    *,
    cpu: str | float = "8",
    memory: str | int = "32Gi",
    labels: Mapping[str, str] | None = None,
    taints: Iterable[Taint] = (),
    resources: Mapping[str, str | int] | None = None,
    gpus: int = 0,
) -> dict[str, Any]:
    """A node without a name; `resources` adds to cpu and memory, and may say otherwise."""
    if not isinstance(gpus, int) or not 0 <= gpus <= GPUS_MAX:
        raise InputError(f"{gpus!r} is no number of GPUs", hint=f"from 0 to {GPUS_MAX}")
    amounts: dict[str, str] = {
        "cpu": str(cpu),
        "memory": str(memory),
        "ephemeral-storage": "100Gi",
        "pods": "110",
        **{name: str(amount) for name, amount in (resources or {}).items()},
    }
    template = {
        "metadata": {
            "labels": dict(labels or {}),
            "annotations": {GPUS: str(gpus)} if gpus else {},
        },
        "spec": {"taints": [taint_fields(taint, "add_nodes: taints") for taint in taints]},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }
    check(template, Node, "add_nodes")
    return template


def node_like(node: Mapping[str, Any]) -> dict[str, Any]:
    """What another node of the same make would be: labels, taints and amounts, but no pods."""
    metadata, spec, status = (node.get(part) or {} for part in ("metadata", "spec", "status"))
    kept = [taint for taint in spec.get("taints") or () if not taint["key"].startswith(_LIFECYCLE)]
    copied = ("capacity", "allocatable", "images", "declaredFeatures")
    annotations = metadata.get("annotations") or {}
    devices = {key: annotations[key] for key in (GPUS, MODEL, MEMORY) if key in annotations}
    return {
        "metadata": {"labels": dict(metadata.get("labels") or {}), "annotations": devices},
        "spec": {"taints": kept},
        "status": {
            **{field: status[field] for field in copied if field in status},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def named_node(template: Mapping[str, Any], name: str, zone: str = "") -> dict[str, Any]:
    labels = {**template["metadata"]["labels"], HOST: name}
    if zone:
        labels[ZONE] = zone
    return {
        "apiVersion": "v1",
        "kind": "Node",
        **template,
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": dict(template["metadata"]["annotations"]),
        },
    }


def zone_names(zones: int | Sequence[str] | None) -> list[str]:
    """`zone-a`, `zone-b` and so on for a number; none for None."""
    if zones is None:
        return []
    if isinstance(zones, int):
        if not 1 <= zones <= len(string.ascii_lowercase):
            raise InputError(f"zones is {zones}", hint="a number from 1 to 26, or the zones' names")
        return [f"zone-{letter}" for letter in string.ascii_lowercase[:zones]]
    return [zones] if isinstance(zones, str) else list(zones)


def free_names(prefix: str, taken: Iterable[str], count: int) -> list[str]:
    """`prefix-N`, from the first number after all that are taken."""
    numbers = [
        int(name[len(prefix) + 1 :])
        for name in taken
        if name.startswith(f"{prefix}-") and name[len(prefix) + 1 :].isdecimal()
    ]
    first = max(numbers, default=0) + 1
    return [f"{prefix}-{number}" for number in range(first, first + count)]


def taint_fields(taint: Taint, where: str = "taint") -> dict[str, str]:
    """A taint as kubectl writes it, as an API server has it.

    >>> taint_fields("team=ml:NoSchedule")
    {'key': 'team', 'value': 'ml', 'effect': 'NoSchedule'}
    """
    if isinstance(taint, Mapping):
        return dict(taint)
    rest, _, effect = taint.rpartition(":")
    key, _, value = rest.partition("=")
    if not key or effect not in _EFFECTS:
        raise InputError(
            f"{taint!r} is no taint",
            where=where,
            hint=f"write `key=value:Effect`, with one of: {', '.join(_EFFECTS)}",
        )
    return (
        {"key": key, "value": value, "effect": effect} if value else {"key": key, "effect": effect}
    )
