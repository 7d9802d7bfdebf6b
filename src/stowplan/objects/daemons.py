"""What the DaemonSet controller does to a pod: tolerations, the node it is for, and whether at all.

Mirrors `pkg/controller/daemon`: the pod is bound by the scheduler like any other, but may only go
to the one node that its affinity names.  Called by `objects.expand`.
"""

from __future__ import annotations

import copy
from typing import Any

from stowplan.objects.codec import convert
from stowplan.objects.node import Node
from stowplan.objects.node_selector import METADATA_NAME, required_node_affinity
from stowplan.objects.pod import Pod
from stowplan.objects.taints import NO_EXECUTE, NO_SCHEDULE, first_untolerated

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

_TOLERATED = (
    ("node.kubernetes.io/not-ready", NO_EXECUTE),
    ("node.kubernetes.io/unreachable", NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/unschedulable", NO_SCHEDULE),
)
_TOLERATED_ON_HOST_NETWORK = ("node.kubernetes.io/network-unavailable", NO_SCHEDULE)


def with_daemon_tolerations(spec: dict[str, Any]) -> dict[str, Any]:
    """Daemons run on nodes that are in trouble, too."""
    wanted = [*_TOLERATED, *([_TOLERATED_ON_HOST_NETWORK] if spec.get("hostNetwork") else [])]
    added = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in wanted]
    own = [one for one in spec.get("tolerations") or [] if _essence(one) not in added]
    return {**spec, "tolerations": own + added}


def runs_on(pod: dict[str, Any], node: Node) -> bool:
    """Should the node have this daemon?  Asked before the pod is pinned to it."""
    decoded = convert(pod, Pod)
    if decoded.spec.node_name and decoded.spec.node_name != node.name:
        return False
    if not required_node_affinity(decoded).matches(node.metadata.labels or {}, node.name):
        return False
    return first_untolerated(node.spec.taints, decoded.spec.tolerations) is None


def pin_to_node(spec: dict[str, Any], node_name: str) -> dict[str, Any]:
    """Required node affinity becomes this node and nothing else, as upstream replaces it."""
    field = {"key": METADATA_NAME, "operator": "In", "values": [node_name]}
    affinity = copy.deepcopy(spec.get("affinity") or {})
    node_affinity = affinity.get("nodeAffinity") or {}
    node_affinity[_REQUIRED] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {**spec, "affinity": {**affinity, "nodeAffinity": node_affinity}}


def _essence(toleration: dict[str, Any]) -> dict[str, Any]:
    """What makes two tolerations the same: not how long they last."""
    fields = ("key", "operator", "value", "effect")
    return {field: toleration[field] for field in fields if toleration.get(field)}
