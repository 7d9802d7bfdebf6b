"""The status of a Deployment: counts, and the conditions that `kubectl rollout` waits for.

Pure, but for the memory of when something last moved.  Mirrors `pkg/controller/deployment`'s
`sync.go` and `progress.go`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stowplan.apiserver.controllers import rollout
from stowplan.apiserver.controllers.rollout import Members
from stowplan.objects.times import format_time
from stowplan.objects.workload_pods import replicas_of
from stowplan.objects.workloads import Deployment

DEADLINE_DEFAULT_S = 600


@dataclass(slots=True)
class Progress:
    """When the numbers of a Deployment last changed."""

    since_s: float
    numbers: tuple[int, ...] = ()


def status_of(
    deployment: Deployment,
    new: Members | None,
    old: list[Members],
    progress: Progress,
    now_s: float,
) -> tuple[dict[str, Any], float | None]:
    """The status, and after how long it is worth another look."""
    every = [*old, *([new] if new is not None else [])]
    pods = sum(one.pods for one in every)
    available = sum(one.available for one in every)
    updated = new.pods if new is not None else 0
    numbers = (pods, available, updated, deployment.metadata.generation)
    if numbers != progress.numbers:
        progress.numbers, progress.since_s = numbers, now_s
    replicas = replicas_of(deployment)
    complete = (
        new is not None and updated == replicas and pods == replicas and available >= replicas
    )
    deadline_s = float(deployment.spec.progress_deadline_seconds or DEADLINE_DEFAULT_S)
    left_s = progress.since_s + deadline_s - now_s
    name = deployment.name if new is None else new.key.rpartition("/")[2]
    conditions = [
        _available(deployment, available),
        _progressing(name, complete=complete, late=left_s <= 0),
    ]
    status = {
        "observedGeneration": deployment.metadata.generation,
        "replicas": pods,
        "updatedReplicas": updated,
        "readyReplicas": sum(one.ready for one in every),
        "availableReplicas": available,
        "unavailableReplicas": max(0, replicas - available),
        "conditions": [_stamped(deployment, condition, now_s) for condition in conditions],
    }
    waits = not complete and left_s > 0 and not deployment.spec.paused
    return status, left_s if waits else None


def _available(deployment: Deployment, available: int) -> dict[str, Any]:
    limits = rollout.limits_of(deployment)
    if available >= replicas_of(deployment) - limits.max_unavailable:
        return {
            "type": "Available",
            "status": "True",
            "reason": "MinimumReplicasAvailable",
            "message": "Deployment has minimum availability.",
        }
    return {
        "type": "Available",
        "status": "False",
        "reason": "MinimumReplicasUnavailable",
        "message": "Deployment does not have minimum availability.",
    }


def _progressing(name: str, *, complete: bool, late: bool) -> dict[str, Any]:
    status, reason, message = "True", "ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.'
    if complete:
        reason, message = (
            "NewReplicaSetAvailable",
            f'ReplicaSet "{name}" has successfully progressed.',
        )
    elif late:
        status, reason = "False", "ProgressDeadlineExceeded"
        message = f'ReplicaSet "{name}" has timed out progressing.'
    return {"type": "Progressing", "status": status, "reason": reason, "message": message}


def _stamped(deployment: Deployment, condition: dict[str, Any], now_s: float) -> dict[str, Any]:
    """A condition that says what it said before keeps its time."""
    changed_at = format_time(now_s)
    for known in deployment.status.conditions or ():
        if known.type == condition["type"] and known.status == condition["status"]:
            changed_at = known.last_transition_time or changed_at
    return {**condition, "lastUpdateTime": changed_at, "lastTransitionTime": changed_at}
