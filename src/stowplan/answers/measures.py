"""What a cluster looks like in numbers, after everything is decided: what `compare` compares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

import numpy as np

from stowplan.objects.pod import ENDED_PHASES, Pod
from stowplan.objects.resources import pod_requests
from stowplan.world.cluster import Cluster
from stowplan.world.nodes import ZONE

MEASURES = {
    "placed": "pods with a node",
    "pending": "pods without one",
    "preemptions": "pods that were evicted to make room",
    "nodes": "nodes with a pod",
    "fill.cpu": "cpu requested on these, of what they have",
    "fill.memory": "memory requested on these, of what they have",
    "fragmentation.cpu": "free cpu on nodes that have no room for a pod of the median size",
    "fragmentation.memory": "free memory on such nodes",
    "imbalance": "standard deviation of the nodes' cpu fill",
    "spread.nodes": "nodes that a workload's replicas are on, of as many as they could be on",
    "spread.zones": "zones that they are on, of as many as they could be on",
}

_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179,
            2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086)  # fmt: skip
"""Of 1, 2, ... degrees of freedom, for 95 %; later ones are near 1.96."""


def measured(world: Cluster) -> dict[str, float]:
    """All of MEASURES; shares are from 0 to 1."""
    pods = [pod for pod in world.pods() if pod.status.phase not in ENDED_PHASES]
    placed = [pod for pod in pods if pod.spec.node_name]
    evicted = {v for last in world.decisions() for each in last.history for v in each.victims}
    whole, free = world.allocatable(), world.free()
    used = {pod.spec.node_name for pod in placed}
    in_use = np.array([name in used for name in whole.index], np.bool_)
    found: dict[str, float] = {
        "placed": len(placed),
        "pending": len(pods) - len(placed),
        "preemptions": len(evicted),
        "nodes": int(in_use.sum()),
    }
    sizes = {name: _median(placed, name) for name in ("cpu", "memory")}
    small = np.zeros(len(whole), np.bool_)
    for name, size in sizes.items():
        if name in free:
            small |= free[name] < size
    for name in sizes:
        room = whole[name] if name in whole else np.zeros(len(whole))
        left = np.maximum(free[name] if name in free else np.zeros(len(whole)), 0)
        found[f"fill.{name}"] = _share((room - left)[in_use].sum(), room[in_use].sum())
        found[f"fragmentation.{name}"] = _share(left[small].sum(), left.sum())
    cpu = whole["cpu"] if "cpu" in whole else np.zeros(0)
    shares = 1 - free["cpu"] / np.maximum(cpu, 1) if len(cpu) else np.zeros(1)
    found["imbalance"] = float(shares.std())
    found["spread.nodes"], found["spread.zones"] = _spread(world, placed)
    return {name: found[name] for name in MEASURES}


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole else 0.0


def _median(pods: list[Pod], resource: str) -> float:
    amounts = [pod_requests(pod, use_status=False).get(resource, 0) for pod in pods]
    return float(np.median(amounts)) if amounts else 0.0


def _spread(world: Cluster, placed: list[Pod]) -> tuple[float, float]:
    zone_of = {node.name: (node.metadata.labels or {}).get(ZONE, "")
               for node in world.objects("Node")}  # fmt: skip
    zones = len(set(zone_of.values()))
    replicas: dict[str, list[str]] = {}
    for pod in placed:
        owner = pod.metadata.controller()
        if owner is not None and owner.kind != "DaemonSet":
            replicas.setdefault(owner.uid, []).append(pod.spec.node_name)
    several = [nodes for nodes in replicas.values() if len(nodes) > 1]
    if not several:
        return 1.0, 1.0
    by_node = [len(set(nodes)) / min(len(nodes), len(zone_of)) for nodes in several]
    by_zone = [
        len({zone_of.get(node, "") for node in nodes}) / min(len(nodes), zones) for nodes in several
    ]
    return fmean(by_node), fmean(by_zone)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and how far the true one may be from it (95 %, by Student); 0 for a single one."""
    if len(values) < 2:
        return values[0], 0.0
    factor = _STUDENT[len(values) - 2] if len(values) - 2 < len(_STUDENT) else 1.96
    return fmean(values), factor * stdev(values) / math.sqrt(len(values))
