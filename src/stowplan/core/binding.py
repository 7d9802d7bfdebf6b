"""The binding cycle: from "assumed on a node" to "the API server knows".

Runs beside the scheduling of other pods.  A generator, top to bottom; every failure unreserves and
forgets before it is reported.  Mirrors `bindingCycle` in kube-scheduler's `schedule_one.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

from stowplan.core.extender import Extender, ExtenderFailed
from stowplan.core.schedule_one import Attempt
from stowplan.core.steps import Parallel, Suspend
from stowplan.core.waiting import WaitingPods
from stowplan.errors import ApiError
from stowplan.framework.cycle import Cycle
from stowplan.framework.errors import point_failed
from stowplan.framework.plugin import PreFlight
from stowplan.framework.runtime import Framework
from stowplan.framework.status import Code, Status
from stowplan.state.pod_info import PodInfo

Outcome = Status | None


@dataclass(slots=True)
class Binding:
    """One pod on its way to its node."""

    framework: Framework
    attempt: Attempt
    waiting: WaitingPods
    extenders: Sequence[Extender]
    done: Callable[[str], None]
    """The queue's `done`: from here on cluster events no longer matter to this pod."""
    announce: Callable[[PodInfo, str], None]
    """Write the expected node into the pod's status, before a binding that takes long."""
    in_pre_bind: dict[str, Binding]
    """Bindings that preemption may still call off, by uid."""
    cancelled_by: str = ""

    @property
    def pod(self) -> PodInfo:
        assert self.attempt.assumed is not None
        return self.attempt.assumed

    @property
    def node(self) -> str:
        return self.attempt.decision.node


def bind_pod(binding: Binding, waits: bool) -> Generator[Any, Any, Outcome]:
    """None once the pod is bound; otherwise why not."""
    framework, cycle, pod, node = (
        binding.framework,
        binding.attempt.cycle,
        binding.pod,
        binding.node,
    )
    groups: list[list[Any]] = []
    if framework.plugins.pre_bind:
        planned = _pre_flight(framework, cycle, pod, node)
        if isinstance(planned, Status):
            binding.waiting.allow_all(pod.uid)
            return planned
        groups = planned
    if groups or waits:
        binding.announce(pod, node)
    if waits:
        status: Status | None = yield Suspend(_wait_for_permit(binding.waiting, pod))
        if status is not None:
            return _permit_failed(status)
    binding.done(pod.uid)
    if groups:
        status = yield from _pre_bind(binding, groups)
        if status is not None:
            return status
    return (yield from _bind(binding))


def _wait_for_permit(waiting: WaitingPods, pod: PodInfo) -> Callable[[Callable[[Any], None]], None]:
    def register(resume: Callable[[Any], None]) -> None:
        found = waiting.get(pod.uid)
        if found is None:
            resume(None)
        else:
            found.resume = resume

    return register


def _permit_failed(status: Status) -> Status:
    if status.is_rejected:
        return status
    return Status(Code.ERROR, (f"waiting on permit for pod: {status.message}",), status.plugin)


def _pre_flight(
    framework: Framework, cycle: Cycle, pod: PodInfo, node: str
) -> list[list[Any]] | Status:
    """Which PreBind plugins have work, in groups that may run side by side."""
    groups: list[list[Any]] = []
    open_group = False
    for plugin in framework.plugins.pre_bind:
        name = getattr(plugin, "name", "")
        try:
            answer = plugin.pre_bind_pre_flight(cycle, pod, node)
        except Exception as cause:
            return point_failed(name, "PreBindPreFlight", cause).status
        if isinstance(answer, PreFlight):
            if not (open_group and answer.allow_parallel):
                groups.append([])
            groups[-1].append(plugin)
            open_group = answer.allow_parallel
        elif answer.code == Code.SKIP:
            open_group = False
        else:
            return point_failed(name, "PreBindPreFlight", answer.message).status
    return groups


def _pre_bind(binding: Binding, groups: list[list[Any]]) -> Generator[Any, Any, Outcome]:
    binding.in_pre_bind[binding.pod.uid] = binding
    try:
        for group in groups:
            statuses = yield Parallel([_run_pre_bind(binding, plugin) for plugin in group])
            if binding.cancelled_by:
                return Status(Code.ERROR, (binding.cancelled_by,))
            failed = next((status for status in statuses if status is not None), None)
            if failed is not None:
                result: Status = failed
                return result
    finally:
        binding.in_pre_bind.pop(binding.pod.uid, None)
    return None


def _run_pre_bind(binding: Binding, plugin: Any) -> Generator[Any, Any, Outcome]:
    """One plugin's PreBind, stopped at its next pause when preemption calls the binding off."""
    steps = plugin.pre_bind(binding.attempt.cycle, binding.pod, binding.node)
    answer: Any = None
    try:
        while True:
            wanted = steps.send(answer)
            answer = yield wanted
            if binding.cancelled_by:
                steps.close()
                return Status(Code.ERROR, (binding.cancelled_by,))
    except StopIteration as stop:
        status: Status | None = stop.value
    except Exception as cause:
        return point_failed(plugin.name, "PreBind", cause).status
    if status is None or status.is_rejected:
        return status
    return point_failed(plugin.name, "PreBind", status.message).status


def _bind(binding: Binding) -> Generator[Any, Any, Outcome]:
    pod, node = binding.pod, binding.node
    for extender in binding.extenders:
        if not extender.binds or not extender.is_interested(pod):
            continue
        answer = yield extender.bind_call(pod, node)
        try:
            extender.read_bind(answer)
        except ExtenderFailed as failure:
            if extender.ignorable:
                continue
            return Status(Code.ERROR, (str(failure),))
        return None
    for plugin in binding.framework.plugins.bind:
        name = getattr(plugin, "name", "")
        try:
            request = plugin.bind(binding.attempt.cycle, pod, node)
        except Exception as cause:
            return point_failed(name, "Bind", cause).status
        if isinstance(request, Status):
            if request.code == Code.SKIP:
                continue
            return point_failed(name, "Bind", request.message).status
        answer = yield request
        if isinstance(answer, ApiError):
            return point_failed(name, "Bind", answer.problem).status
        return None
    return Status(Code.ERROR, ("no Bind plugin took the pod",))
