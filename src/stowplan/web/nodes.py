"""The map and the nodes: compact arrays for the picture, pages for the table, one node in full."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

import numpy as np

from stowplan.errors import InputError
from stowplan.objects.node import Node
from stowplan.objects.pod import ENDED_PHASES, Pod
from stowplan.objects.resources import pod_requests
from stowplan.web.asking import Ask, page_of
from stowplan.web.devices import OfDriver, devices
from stowplan.world.cluster import Cluster
from stowplan.world.table import Table

ZONE = "topology.kubernetes.io/zone"
CORDONED, TAINTED, FULL = 1, 2, 4
"""Flags of a node on the map."""
FULL_SHARE = 0.95
GROUPS_MAX = 64
"""A label with more values than these groups nothing."""
KEYS_MAX = 40
PODS_AT_ONCE = 400
"""Nodes whose pods are sent at one time: more than fit on a screen with room for pods."""
TURNED_AWAY_MAX = 100
FOUND_MAX = 5000
CAUSES_OF_MAX = 5000
"""More waiting pods than these are counted, once a second, and not asked why."""
_CORDON = "node.kubernetes.io/unschedulable"


def nodes_by_name(cluster: Cluster) -> dict[str, Node]:
    return {node.name: cast(Node, node) for node in cluster.objects("Node")}


def running(cluster: Cluster) -> list[Pod]:
    return [
        pod for pod in cluster.pods() if pod.spec.node_name and pod.status.phase not in ENDED_PHASES
    ]


def flag_of(node: Node) -> int:
    tainted = any(taint.key != _CORDON for taint in node.spec.taints or ())
    return (CORDONED if node.spec.unschedulable else 0) | (TAINTED if tainted else 0)


def taint_text(taint: Any) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def amounts_used(whole: Table, free: Table) -> dict[str, Any]:
    """Resource -> how much is taken on each node."""
    return {name: whole[name] - free[name] for name in whole.columns}


def map_view(cluster: Cluster, ask: Ask) -> dict[str, Any]:
    """Every node as a position in arrays, for one resource."""
    whole, free = cluster.allocatable(), cluster.free()
    by_driver = devices(cluster)
    resources = [*_resources(whole), *by_driver]
    resource = ask.text("resource", "cpu")
    of_driver = by_driver.get(resource, OfDriver())
    if resource in by_driver:
        counts = [of_driver.by_node.get(name, (0, 0)) for name in whole.index]
        there, taken = [count[0] for count in counts], [count[1] for count in counts]
    elif resource in whole:
        there = whole[resource].tolist()
        taken = (whole[resource] - free[resource]).tolist()
    else:
        raise InputError(f"no node has {resource!r}", hint=f"there are: {', '.join(resources)}")
    nodes = nodes_by_name(cluster)
    ordered = [nodes[name] for name in whole.index]
    keys = _group_keys(ordered)
    group = ask.text("group", ZONE if ZONE in keys else "")
    values = [(node.metadata.labels or {}).get(group, "") if group else "" for node in ordered]
    groups = sorted(set(values))
    place = {name: n for n, name in enumerate(groups)}
    return {
        "resource": resource,
        "resources": resources,
        "groupedBy": group,
        "groupKeys": keys,
        "groups": groups,
        "names": whole.index,
        "group": [place[value] for value in values],
        "whole": there,
        "used": taken,
        "pods": (whole["pods"] - free["pods"]).tolist(),
        "flags": [flag_of(node) for node in ordered],
        "shared": of_driver.rows(ordered),
    }


def _resources(whole: Table) -> list[str]:
    """Those that some node has, the usual ones first."""
    usual = [name for name in ("cpu", "memory", "pods", "ephemeral-storage") if name in whole]
    rest = [name for name in whole.columns if name not in usual]
    return [name for name in (*usual, *rest) if whole[name].any()] or ["cpu"]


def _group_keys(nodes: list[Node]) -> list[str]:
    values: dict[str, set[str]] = {}
    for node in nodes:
        for key, value in (node.metadata.labels or {}).items():
            known = values.setdefault(key, set())
            if len(known) <= GROUPS_MAX:
                known.add(value)
    fit = [key for key, known in values.items() if len(known) <= GROUPS_MAX]
    return sorted(fit, key=lambda key: (key != ZONE, key))[:KEYS_MAX]


def map_pods(cluster: Cluster, ask: Ask) -> dict[str, Any]:
    """The pods of some nodes, each with its share of the node's resource."""
    names = [name for name in ask.text("nodes").split(",") if name][:PODS_AT_ONCE]
    resource = ask.text("resource", "cpu")
    found: dict[str, list[list[Any]]] = {name: [] for name in names}
    for pod in running(cluster):
        if pod.spec.node_name in found:
            amount = (
                1 if resource == "pods" else pod_requests(pod, use_status=True).get(resource, 0)
            )
            found[pod.spec.node_name].append([pod.key, amount])
    return {"nodes": found}


def search(cluster: Cluster, ask: Ask) -> dict[str, Any]:
    """Nodes and pods that match: a part of a name, `key=value` of a label, a part of a taint."""
    query = ask.text("q").strip().lower()
    if not query:
        return {"nodes": [], "pods": []}
    rows = [row for row, node in enumerate(_in_order(cluster)) if _matches(node, query)]
    pods = [pod for pod in cluster.pods() if query in pod.key.lower()]
    place = {name: n for n, name in enumerate(cluster.allocatable().index)}
    rows += [place[pod.spec.node_name] for pod in pods if pod.spec.node_name in place]
    return {
        "nodes": list(dict.fromkeys(rows))[:FOUND_MAX],
        "pods": [[pod.key, pod.spec.node_name] for pod in pods[: ask.limit]],
        "podCount": len(pods),
    }


def _in_order(cluster: Cluster) -> list[Node]:
    nodes = nodes_by_name(cluster)
    return [nodes[name] for name in cluster.allocatable().index]


def _matches(node: Node, query: str) -> bool:
    if query in node.name.lower():
        return True
    labels = (f"{key}={value}".lower() for key, value in (node.metadata.labels or {}).items())
    taints = (taint_text(taint).lower() for taint in node.spec.taints or ())
    return any(query in text for text in (*labels, *taints))


def node_table(cluster: Cluster, ask: Ask) -> dict[str, Any]:
    """The map as a table, in pages; sorted here."""
    whole, free = cluster.allocatable(), cluster.free()
    used = amounts_used(whole, free)
    nodes = nodes_by_name(cluster)
    query = ask.text("q").strip().lower()
    rows = [
        _row(nodes[name], n, whole, used)
        for n, name in enumerate(whole.index)
        if not query or _matches(nodes[name], query)
    ]
    sort = ask.text("sort", "name")
    if rows and sort not in rows[0]:
        raise InputError(f"nodes are not sorted by {sort!r}")
    rows.sort(key=lambda row: row[sort], reverse=ask.descending)
    return page_of(rows, ask)


def _row(node: Node, n: int, whole: Table, used: dict[str, Any]) -> dict[str, Any]:
    def share(resource: str) -> float:
        there = int(whole[resource][n]) if resource in whole else 0
        return int(used[resource][n]) / there if there else 0.0

    return {
        "name": node.name,
        "zone": (node.metadata.labels or {}).get(ZONE, ""),
        "cpu": share("cpu"),
        "memory": share("memory"),
        "pods": int(used["pods"][n]),
        "cordoned": bool(node.spec.unschedulable),
        "taints": [taint_text(taint) for taint in node.spec.taints or ()],
    }


def node_view(cluster: Cluster, ask: Ask) -> dict[str, Any]:
    """One node: sums, pods, taints, labels, and who was turned away from it."""
    (name,) = ask.parts
    node = _node(cluster, name)
    whole, free = cluster.allocatable(), cluster.free()
    pods = sorted((p for p in running(cluster) if p.spec.node_name == name), key=lambda p: p.key)
    there = whole.row(name) if name in whole.index else {}
    left = free.row(name) if name in free.index else {}
    return {
        "name": name,
        "labels": node.metadata.labels or {},
        "taints": [taint_text(taint) for taint in node.spec.taints or ()],
        "cordoned": bool(node.spec.unschedulable),
        "amounts": [
            {"resource": resource, "used": there[resource] - left[resource], "whole": amount}
            for resource, amount in there.items()
            if amount or there[resource] != left[resource]
        ]
        + [
            {"resource": resource, "used": each.by_node[name][1], "whole": each.by_node[name][0]}
            for resource, each in devices(cluster).items()
            if name in each.by_node
        ],
        "pods": page_of([_pod_row(pod) for pod in pods], ask),
        "turnedAway": turned_away(cluster, name),
        "manifest": cluster.get("Node", name),
    }


def _node(cluster: Cluster, name: str) -> Node:
    found = nodes_by_name(cluster).get(name)
    if found is None:
        cluster.get("Node", name)  # Raises, in words of the face.
        raise InputError(f"there is no Node {name!r}")
    return found


def _pod_row(pod: Pod) -> dict[str, Any]:
    requests = pod_requests(pod, use_status=True)
    return {
        "pod": pod.key,
        "cpu": requests.get("cpu", 0),
        "memory": requests.get("memory", 0),
        "priority": pod.spec.priority or 0,
        "phase": pod.status.phase or "Pending",
    }


def turned_away(cluster: Cluster, name: str) -> list[dict[str, Any]]:
    """Pending pods that this node was looked at for, in vain: who turned them down, and why."""
    found = []
    for pod in cluster.pods(pending=True)[:TURNED_AWAY_MAX]:
        try:
            decision = cluster.decision(pod.key)
        except InputError:
            continue
        rejected = decision.rejected
        if name in rejected.index:
            row = rejected.row(name)
            found.append({"pod": pod.key, "plugin": row["plugin"], "reasons": list(row["reasons"])})
    return found


def fill(cluster: Cluster) -> dict[str, float]:
    """Resource -> which share of it is taken, in all."""
    whole, free = cluster.allocatable(), cluster.free()
    shares = {}
    for name in _resources(whole):
        there = float(np.sum(whole[name], dtype=np.float64))
        left = float(np.sum(free[name], dtype=np.float64))
        shares[name] = (there - left) / there if there else 0.0
    return shares


def reasons_of_pending(cluster: Cluster, most: int) -> dict[str, int]:
    """Plugin that turned pods down -> how many wait because of it, the largest first."""
    waiting_count = sum(cluster.lane_counts().values())
    if waiting_count > CAUSES_OF_MAX:
        return {"more than are looked at": waiting_count}
    counts: Counter[str] = Counter()
    lanes = cluster.lanes()
    for lane in ("unschedulable", "backoff", "gated"):
        for waiting in lanes[lane]:
            counts.update(waiting.plugins or ("not tried yet",))
    return dict(counts.most_common(most))
