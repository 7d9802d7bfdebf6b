"""The pod's own status: conditions and nominatedNodeName, written as small patches.

Mirrors `util.PatchPodStatus`: nothing is sent when nothing would change, and failures that may
pass are tried again a few times.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from stowplan.errors import ApiError
from stowplan.framework.effects import Sleep
from stowplan.framework.plugin import Nominate
from stowplan.objects.api import Patch
from stowplan.objects.base import Condition
from stowplan.objects.kinds import POD
from stowplan.objects.pod import Pod
from stowplan.objects.times import format_time

if TYPE_CHECKING:
    from random import Random

TRIES = 4
FIRST_DELAY_S = 0.01
DELAY_FACTOR = 5
JITTER = 0.1

_NO_CONNECTION = 0
_RETRIED_CODES = frozenset({409, 500, 503, _NO_CONNECTION})


class StatusChange(Struct, frozen=True):
    condition: Condition | None = None
    nominate: Nominate | None = None


def status_patch(pod: Pod, change: StatusChange, now_s: float) -> Patch | None:
    """The patch that brings the change about; None when it is so already."""
    status: dict[str, Any] = {}
    condition = change.condition
    if condition is not None:
        known = next((c for c in pod.status.conditions or () if c.type == condition.type), None)
        if known is None or not _same(known, condition):
            status["conditions"] = [_condition(condition, known, now_s)]
    nominate = change.nominate
    if nominate is not None and nominate.node != pod.status.nominated_node_name:
        status["nominatedNodeName"] = nominate.node or None
    if not status:
        return None
    metadata = pod.metadata
    body = {"metadata": {"uid": metadata.uid}, "status": status}
    return Patch(POD, metadata.namespace, metadata.name, body, "strategic", "status")


def patch_status(
    pod: Pod, change: StatusChange, now_s: float, random: Random
) -> Generator[Any, Any, ApiError | None]:
    """Send the patch, trying again where it makes sense; what went wrong in the end, if at all."""
    patch = status_patch(pod, change, now_s)
    if patch is None:
        return None
    answer = yield patch
    return (yield from retried(patch, answer, random)) if isinstance(answer, ApiError) else None


def retried(
    patch: Patch, problem: ApiError, random: Random
) -> Generator[Any, Any, ApiError | None]:
    """Send a patch that failed again, if that makes sense; what went wrong in the end."""
    delay_s = FIRST_DELAY_S
    for _ in range(TRIES - 1):
        if problem.code not in _RETRIED_CODES:
            break
        yield Sleep(delay_s * (1 + JITTER * random.random()))
        answer = yield patch
        if not isinstance(answer, ApiError):
            return None
        problem = answer
        delay_s *= DELAY_FACTOR
    return problem


def _same(known: Condition, wanted: Condition) -> bool:
    return (
        known.status == wanted.status
        and known.reason == wanted.reason
        and known.message == wanted.message
        and known.observed_generation == wanted.observed_generation
    )


def _condition(condition: Condition, known: Condition | None, now_s: float) -> dict[str, Any]:
    moved = known is None or known.status != condition.status
    data: dict[str, Any] = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastProbeTime": None,
        "lastTransitionTime": format_time(now_s) if moved else known and known.last_transition_time,
    }
    if condition.observed_generation:
        data["observedGeneration"] = condition.observed_generation
    return data


def unschedulable_condition(pod: Pod, reason: str, message: str) -> Condition:
    return Condition(
        type="PodScheduled",
        status="False",
        reason=reason,
        message=message,
        observed_generation=pod.metadata.generation,
    )
