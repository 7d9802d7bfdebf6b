"""What the DaemonSet controller does to a pod: tolerations, the node it is for, and whether at all.

Mirrors `pkg/controller/daemon`: the pod is bound by the scheduler like any other, but may only go
to the one node that its affinity names.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import msgspec

from stowplan.objects.codec import convert
from stowplan.objects.node import Node
from stowplan.objects.node_selector import METADATA_NAME, required_node_affinity
from stowplan.objects.pod import Pod
from stowplan.objects.taints import NO_EXECUTE, NO_SCHEDULE, first_untolerated

Suits = Callable[[Node, bool], bool]
"""Whether a node should have the daemon; one that has it already keeps it more easily."""

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


def suits(body: dict[str, Any]) -> Suits:
    """Of a daemon's pod that is not pinned yet, for which nodes it is."""
    try:
        pod = convert(body, Pod)
    except msgspec.ValidationError:
        return lambda node, has_it: has_it
    affinity = required_node_affinity(pod)

    def suits_node(node: Node, has_it: bool) -> bool:
        if pod.spec.node_name not in ("", node.name):
            return False
        if not affinity.matches(node.metadata.labels or {}, node.name):
            return False
        taints = node.spec.taints or []
        if has_it:
            taints = [taint for taint in taints if taint.effect == NO_EXECUTE]
        return first_untolerated(taints, pod.spec.tolerations) is None

    return suits_node


def node_of(pod: Pod) -> str:
    """The node that a daemon's pod is on, or is meant for."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity
    required = affinity.node_affinity and affinity.node_affinity.required if affinity else None
    for term in (required.node_selector_terms if required else None) or ():
        for field in term.match_fields or ():
            if field.key == METADATA_NAME and field.values:
                return field.values[0]
    return ""


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
