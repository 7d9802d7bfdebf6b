"""What an update of a pod means for scheduling, as cluster events.

Mirrors `PodSchedulingPropertiesChange` of kube-scheduler's `framework/events.go`.  Called by the
queue for pods that wait, and by the core's event handlers for pods that run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stowplan.framework.events import Action, ClusterEvent, Resource
from stowplan.state.pod_info import PodInfo


def _events_for(resource: str) -> dict[Action, ClusterEvent]:
    actions = (
        Action.UPDATE_POD_LABEL,
        Action.UPDATE_POD_SCALE_DOWN,
        Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
        Action.UPDATE_POD_TOLERATION,
        Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM,
        Action.UPDATE,
    )
    return {action: ClusterEvent(resource, action) for action in actions}


_ASSIGNED = _events_for(Resource.ASSIGNED_POD)
_UNSCHEDULABLE = _events_for(Resource.UNSCHEDULABLE_POD)
_JUST_ASSIGNED = (_ASSIGNED[Action.UPDATE],)
_JUST_UNSCHEDULABLE = (_UNSCHEDULABLE[Action.UPDATE],)


def pod_update_events(old: PodInfo, new: PodInfo, assigned: bool) -> Sequence[ClusterEvent]:
    """One event per property that changed; a generic Update when none of them did."""
    claims = new.pod.status.resource_claim_statuses
    if old.kind is new.kind and old.pod.status.resource_claim_statuses == claims:
        # Pods of one kind have equal labels, spec and requests: only the status can differ.
        return _JUST_ASSIGNED if assigned else _JUST_UNSCHEDULABLE
    events = _ASSIGNED if assigned else _UNSCHEDULABLE
    return [events[action] for action in _changes(old, new)] or [events[Action.UPDATE]]


def _changes(old: PodInfo, new: PodInfo) -> Iterator[Action]:
    old_spec, new_spec = old.pod.spec, new.pod.spec
    if (old.pod.metadata.labels or {}) != (new.pod.metadata.labels or {}):
        yield Action.UPDATE_POD_LABEL
    if _scaled_down(old.kind.running_requests, new.kind.running_requests):
        yield Action.UPDATE_POD_SCALE_DOWN
    if old_spec.scheduling_gates and not new_spec.scheduling_gates:
        yield Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
    # Tolerations can only be added to, so upstream compares how many there are.
    if len(old_spec.tolerations or ()) != len(new_spec.tolerations or ()):
        yield Action.UPDATE_POD_TOLERATION
    if (old.pod.status.resource_claim_statuses or []) != (
        new.pod.status.resource_claim_statuses or []
    ):
        yield Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM


def _scaled_down(old: dict[str, int], new: dict[str, int]) -> bool:
    """Whether any request is lower or gone."""
    return any(name not in new or new[name] < amount for name, amount in old.items())
