"""What an update of a node means for scheduling, as cluster events.

Mirrors `nodeSchedulingPropertiesChange` of kube-scheduler's `eventhandlers.go`: a heartbeat means
nothing, anything a filter reads means something.
"""

from __future__ import annotations

from collections.abc import Iterator

from stowplan.framework.events import Action, ClusterEvent, Resource
from stowplan.objects.node import Node

NODE_ADD = ClusterEvent(Resource.NODE, Action.ADD)
NODE_DELETE = ClusterEvent(Resource.NODE, Action.DELETE)


def node_update_events(old: Node, new: Node) -> list[ClusterEvent]:
    return [ClusterEvent(Resource.NODE, action) for action in _changes(old, new)]


def _changes(old: Node, new: Node) -> Iterator[Action]:
    if old.spec.unschedulable and not new.spec.unschedulable:
        yield Action.UPDATE_NODE_TAINT
    if old.status.allocatable != new.status.allocatable:
        yield Action.UPDATE_NODE_ALLOCATABLE
    if (old.metadata.labels or {}) != (new.metadata.labels or {}):
        yield Action.UPDATE_NODE_LABEL
    if (old.spec.taints or []) != (new.spec.taints or []):
        yield Action.UPDATE_NODE_TAINT
    if _condition_states(old) != _condition_states(new):
        yield Action.UPDATE_NODE_CONDITION
    if (old.metadata.annotations or {}) != (new.metadata.annotations or {}):
        yield Action.UPDATE_NODE_ANNOTATION
    if (old.status.declared_features or []) != (new.status.declared_features or []):
        yield Action.UPDATE_NODE_DECLARED_FEATURE


def _condition_states(node: Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions or ()}
