"""The status of pods: of a new one, and after a patch, struct to struct.

A patch of conditions, a nominated node and a phase is what schedulers and kubelets write all day;
one that is more than that goes the long way, through JSON data.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from stowplan.apiserver.validation import subdomain_problem
from stowplan.objects.api import Patch
from stowplan.objects.base import Condition
from stowplan.objects.pod import Pod, PodStatus

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
_TEXT_FIELDS = {
    "phase": "phase",
    "reason": "reason",
    "message": "message",
    "startTime": "start_time",
}


Merged = dict[int, tuple[PodStatus, Any, PodStatus]]
"""What patches of one call made of which status: by the id of the status before."""


def patched_pod(pod: Pod, request: Patch, merged: Merged, version: int) -> Pod | None:
    """The pod after a patch of its status, itself if nothing changes; None for any other patch."""
    status = _patched_status(pod, request, merged)
    if status is None:
        return None
    if status == pod.status:
        return pod
    meta = replace(pod.metadata, resource_version=f"{version}")
    return replace(pod, metadata=meta, status=status)


def _patched_status(pod: Pod, request: Patch, merged: Merged) -> PodStatus | None:
    """The status after a strategic patch of it alone; None for any other patch.

    Pods that had one status and are told the same go on to have one.
    """
    if request.subresource != "status" or request.patch_type != "strategic":
        return None
    body, before = request.body, pod.status
    if not isinstance(body, dict):
        return None
    patch = body.get("status")
    # It may name this very pod, and changes nothing of its metadata.
    named = {"metadata": {"uid": pod.metadata.uid}, "status": patch}
    if body != named and body != {"status": patch}:
        return None
    known = merged.get(id(before))
    if known is not None and known[1] == patch:
        return known[2]
    after = _merge(before, patch)
    if after is not None:
        merged[id(before)] = before, patch, after
    return after


def _merge(status: PodStatus, patch: Any) -> PodStatus | None:
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
            conditions = _merge_conditions(status.conditions, value)
            if conditions is None:
                return None
            changes["conditions"] = conditions
        elif key == "nominatedNodeName":
            if not isinstance(value, str | None) or (value and subdomain_problem(value)):
                return None  # The long way says what is wrong with it.
            changes["nominated_node_name"] = value or ""
        elif key != "$setElementOrder/conditions":
            return None
    return replace(status, **changes)


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
