"""The two writes of every scheduling cycle, struct to struct: bind a pod, patch its status.

They are what the store spends its time on, so they build the new pod directly and share what pods
have in common: all pods that are bound within one second have the same status object.  A patch
that is more than conditions, a nominated node and a phase goes the long way, through JSON data.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from stowplan.apiserver.answers import conflict
from stowplan.objects.base import Condition
from stowplan.objects.kinds import POD
from stowplan.objects.pod import Pod, PodStatus

BINDING_RESOURCE = "pods/binding"

PENDING = PodStatus(phase="Pending")
"""The status of a new pod."""

_CONDITION_FIELDS = {
    "type": "type",
    "status": "status",
    "reason": "reason",
    "message": "message",
    "lastProbeTime": "last_probe_time",
    "lastTransitionTime": "last_transition_time",
    "observedGeneration": "observed_generation",
}
_BODY_KEYS = frozenset({"metadata", "status"})
_TEXT_FIELDS = {
    "phase": "phase",
    "reason": "reason",
    "message": "message",
    "startTime": "start_time",
}


def check_binding(pod: Pod) -> None:
    """Raise 409 when the pod cannot be bound any more, or not yet."""
    name = pod.metadata.name
    if pod.metadata.deletion_timestamp is not None:
        why = f"pod {name} is being deleted, cannot be assigned to a host"
        raise conflict(POD, name, why, called=BINDING_RESOURCE)
    if pod.spec.node_name:
        why = f'pod {name} is already assigned to node "{pod.spec.node_name}"'
        raise conflict(POD, name, why, called=BINDING_RESOURCE)
    if pod.spec.scheduling_gates:
        why = f"pod {name} has non-empty .spec.schedulingGates"
        raise conflict(POD, name, why, called=BINDING_RESOURCE)


class BoundStatus:
    """The status of a pod that is bound now."""

    def __init__(self) -> None:
        self._now = ""
        self._scheduled = Condition()
        self._fresh = PodStatus()

    def of(self, status: PodStatus, now: str) -> PodStatus:
        if now != self._now:
            self._now = now
            self._scheduled = Condition(
                type="PodScheduled", status="True", last_transition_time=now
            )
            self._fresh = PodStatus(phase="Pending", conditions=[self._scheduled])
        if status is PENDING or status == PENDING:
            return self._fresh
        conditions = list(status.conditions or ())
        for n, condition in enumerate(conditions):
            if condition.type == "PodScheduled":
                since = condition.last_transition_time if condition.status == "True" else now
                conditions[n] = replace(self._scheduled, last_transition_time=since)
                break
        else:
            conditions.append(self._scheduled)
        return replace(status, conditions=conditions, nominated_node_name="")


def patch_status(pod: Pod, body: Any) -> PodStatus | None:
    """The status after a strategic merge patch, or None when the patch is of another kind."""
    if not isinstance(body, dict) or not body.keys() <= _BODY_KEYS:
        return None
    if "metadata" in body and not _is_about(pod, body["metadata"]):
        return None
    patch = body.get("status")
    if not isinstance(patch, dict):
        return None
    changes: dict[str, Any] = {}
    for key, value in patch.items():
        field = _TEXT_FIELDS.get(key)
        if field is not None:
            if not isinstance(value, str):
                return None
            changes[field] = value
        elif key == "conditions":
            conditions = _merge_conditions(pod.status.conditions, value)
            if conditions is None:
                return None
            changes["conditions"] = conditions
        elif key == "nominatedNodeName":
            if not isinstance(value, str | None):
                return None
            changes["nominated_node_name"] = value or ""
        elif key != "$setElementOrder/conditions":
            return None
    return replace(pod.status, **changes)


def _is_about(pod: Pod, metadata: Any) -> bool:
    """Whether a patch names this very pod and changes nothing of its metadata."""
    return isinstance(metadata, dict) and metadata == {"uid": pod.metadata.uid}


def _merge_conditions(conditions: list[Condition] | None, patches: Any) -> list[Condition] | None:
    if not isinstance(patches, list):
        return None
    merged = list(conditions or ())
    for patch in patches:
        if not isinstance(patch, dict) or not patch.keys() <= _CONDITION_FIELDS.keys():
            return None
        try:
            condition = msgspec.convert(patch, Condition)
        except msgspec.ValidationError:
            return None
        if not condition.type:
            return None
        for n, known in enumerate(merged):
            if known.type == condition.type:
                changes = {_CONDITION_FIELDS[key]: value for key, value in patch.items()}
                merged[n] = replace(known, **changes)
                break
        else:
            merged.append(condition)
    return merged
