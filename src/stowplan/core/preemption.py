"""Carrying out a preemption: victims get their condition and are deleted, in the background.

`plugins.default_preemption` chose them, `core.failure` sets this in motion.  While it runs the
preemptor is held at PreEnqueue, so that it is not tried before its place is free.  Mirrors
kube-scheduler's `framework/preemption/executor.go`.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from stowplan.core.messages import RecordEvent
from stowplan.core.pod_status import StatusChange, patch_status, retried, status_patch
from stowplan.core.steps import Parallel
from stowplan.errors import ApiError
from stowplan.framework.plugin import Nominate
from stowplan.objects.api import Delete
from stowplan.objects.base import Condition
from stowplan.objects.kinds import POD
from stowplan.objects.pod import Pod
from stowplan.objects.pod_groups import PodGroup
from stowplan.state.pod_info import PodInfo

if TYPE_CHECKING:
    from stowplan.core.machine import Machine

_NOT_FOUND = 404


class Preemption(Struct):
    """One preemptor and what it needs to take its place."""

    machine: Machine
    preemptor: PodInfo
    node: str
    victims: list[PodInfo]
    """Those not on their way out already."""
    preempting: dict[str, PodInfo | None]
    """DefaultPreemption's list of preemptors in progress -> the last victim, once it is due."""
    group: PodGroup | None = None
    """The group that the preemptor is one of, if they go for all of it."""
    key: str = ""
    """Under which it is listed: the pod's uid, or the key of the group."""
    speaker: str = ""
    related: Pod | PodGroup | None = None
    note: str = ""
    message: str = ""
    """What victims are told: by whom, on whose behalf, in an event, and in their condition."""

    def __post_init__(self) -> None:
        self.related = related = self.group or self.preemptor.pod
        sort, uid = ("pod" if self.group is None else "podgroup"), related.uid
        self.key = uid if self.group is None else self.group.key
        self.note = f"Preempted by {sort} {uid} on node {self.node}"
        self.speaker = self.preemptor.pod.spec.scheduler_name
        self.message = f"{self.speaker}: preempting to accommodate a higher priority {sort}"

    def record(self, victim: Pod, note: str) -> None:
        """Tell the victim's owner."""
        self.machine.stepper.effects.append(
            RecordEvent(
                victim, "Normal", "Preempted", "Preempting", note, self.speaker, self.related
            )
        )

    def mark(self) -> None:
        """From here on the preemptor is held back."""
        self.preempting[self.key] = None


def preempt(
    preemption: Preemption, nominees: list[PodInfo]
) -> Generator[Any, Any, ApiError | None]:
    """Evict all victims, the last one last; the first error, if any.

    `nominees` are less important pods that were promised the same node: they lose the promise.
    """
    key, victims = preemption.key, preemption.victims
    failed: ApiError | None = None
    try:
        if nominees:
            yield Parallel([_clear_nomination(preemption, pod) for pod in nominees])
        if len(victims) > 1:
            results = yield Parallel([_evict(preemption, victim) for victim in victims[:-1]])
            failed = next((result for result in results if result is not None), None)
        if failed is None and victims:
            # Once the last victim is on its way, its end may wake the preemptor.
            preemption.preempting[key] = victims[-1]
            failed = yield from _evict(preemption, victims[-1])
    finally:
        preemption.preempting.pop(key, None)
    return failed


def _clear_nomination(preemption: Preemption, nominee: PodInfo) -> Generator[Any, Any, None]:
    """A failure is not the preemptor's business; upstream only logs it."""
    change = StatusChange(nominate=Nominate(""))
    yield from patch_status(
        nominee.pod, change, preemption.machine.now_s, preemption.machine.random
    )


def _evict(preemption: Preemption, victim: PodInfo) -> Generator[Any, Any, ApiError | None]:
    pod, machine = victim.pod, preemption.machine
    if _called_off(machine, victim):
        preemption.record(pod, f"{preemption.note} (in kube-scheduler memory).")
        return None
    condition = Condition(
        type="DisruptionTarget",
        status="True",
        reason="PreemptionByScheduler",
        message=preemption.message,
        observed_generation=pod.metadata.generation,
    )
    patch = status_patch(pod, StatusChange(condition), machine.stepper.now_s)
    if patch is not None:
        answer = yield patch
        if isinstance(answer, ApiError):
            problem = yield from retried(patch, answer, machine.random)
            if problem is not None:
                return _unless_gone(problem)
    answer = yield Delete(POD, pod.metadata.namespace, pod.metadata.name)
    if isinstance(answer, ApiError):
        return _unless_gone(answer)
    preemption.record(pod, preemption.note)
    return None


def _unless_gone(problem: ApiError) -> ApiError | None:
    return None if problem.code == _NOT_FOUND else problem


def _called_off(machine: Machine, victim: PodInfo) -> bool:
    """A victim that has not been bound yet is stopped where it stands, without the API server."""
    if machine.waiting.fail(victim.uid, "preempted"):
        return True
    binding = machine.bindings.in_pre_bind.get(victim.uid)
    if binding is None:
        return False
    binding.call_off("preempted by DefaultPreemption")
    return True
