"""Carrying out a preemption: victims get their condition and are deleted, in the background.

`plugins.default_preemption` chose them, `core.failure` sets this in motion.  While it runs the
preemptor is held at PreEnqueue, so that it is not tried before its place is free.  Mirrors
kube-scheduler's `framework/preemption/executor.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from stowplan.core.binding import Binding
from stowplan.core.pod_status import StatusChange, patch_status, retried, status_patch
from stowplan.core.steps import Parallel, Stepper
from stowplan.core.waiting import WaitingPods
from stowplan.errors import ApiError
from stowplan.framework.plugin import Nominate
from stowplan.objects.api import Delete
from stowplan.objects.base import Condition
from stowplan.objects.kinds import POD
from stowplan.objects.pod import Pod
from stowplan.state.pod_info import PodInfo

if TYPE_CHECKING:
    from random import Random

_NOT_FOUND = 404


class Preemption(Struct):
    """One preemptor and what it needs to take its place."""

    preemptor: PodInfo
    node: str
    victims: list[PodInfo]
    """Those not on their way out already; at least one."""
    waiting: WaitingPods
    in_pre_bind: dict[str, Binding]
    stepper: Stepper
    random: Random
    record: Callable[[Pod, str, Pod], None]
    """Tell the victim's owner: (victim, note, preemptor)."""
    preempting: dict[str, PodInfo | None]
    """DefaultPreemption's list of preemptors in progress -> the last victim, once it is due."""

    def mark(self) -> None:
        """From here on the preemptor is held back."""
        self.preempting[self.preemptor.uid] = None


def preempt(
    preemption: Preemption, nominees: list[PodInfo]
) -> Generator[Any, Any, ApiError | None]:
    """Evict all victims, the last one last; the first error, if any.

    `nominees` are less important pods that were promised the same node: they lose the promise.
    """
    uid, victims = preemption.preemptor.uid, preemption.victims
    failed: ApiError | None = None
    try:
        if nominees:
            yield Parallel([_clear_nomination(preemption, pod) for pod in nominees])
        if len(victims) > 1:
            results = yield Parallel([_evict(preemption, victim) for victim in victims[:-1]])
            failed = next((result for result in results if result is not None), None)
        if failed is None:
            # Once the last victim is on its way, its end may wake the preemptor.
            preemption.preempting[uid] = victims[-1]
            failed = yield from _evict(preemption, victims[-1])
    finally:
        preemption.preempting.pop(uid, None)
    return failed


def _clear_nomination(preemption: Preemption, nominee: PodInfo) -> Generator[Any, Any, None]:
    """A failure is not the preemptor's business; upstream only logs it."""
    change = StatusChange(nominate=Nominate(""))
    yield from patch_status(nominee.pod, change, preemption.stepper.now_s, preemption.random)


def _evict(preemption: Preemption, victim: PodInfo) -> Generator[Any, Any, ApiError | None]:
    preemptor = preemption.preemptor
    note = f"Preempted by pod {preemptor.uid} on node {preemption.node}"
    if _called_off(preemption, victim):
        note += " (in kube-scheduler memory)."
        preemption.record(victim.pod, note, preemptor.pod)
        return None
    condition = Condition(
        type="DisruptionTarget",
        status="True",
        reason="PreemptionByScheduler",
        message=(
            f"{preemptor.pod.spec.scheduler_name}: preempting to accommodate a higher priority pod"
        ),
        observed_generation=victim.pod.metadata.generation,
    )
    pod = victim.pod
    patch = status_patch(pod, StatusChange(condition), preemption.stepper.now_s)
    if patch is not None:
        answer = yield patch
        if isinstance(answer, ApiError):
            problem = yield from retried(patch, answer, preemption.random)
            if problem is not None:
                return _unless_gone(problem)
    answer = yield Delete(POD, pod.metadata.namespace, pod.metadata.name)
    if isinstance(answer, ApiError):
        return _unless_gone(answer)
    preemption.record(pod, note, preemptor.pod)
    return None


def _unless_gone(problem: ApiError) -> ApiError | None:
    return None if problem.code == _NOT_FOUND else problem


def _called_off(preemption: Preemption, victim: PodInfo) -> bool:
    """A victim that has not been bound yet is stopped where it stands, without the API server."""
    if preemption.waiting.fail(victim.uid, "preempted"):
        return True
    binding = preemption.in_pre_bind.get(victim.uid)
    if binding is None:
        return False
    binding.call_off("preempted by DefaultPreemption")
    return True
