"""The binding cycle: from "assumed on a node" to "the API server knows".

Runs beside the scheduling of other pods: a generator, top to bottom, started by `core.machine`,
which also undoes the reservation when it fails.  Mirrors `bindingCycle` in kube-scheduler's
`schedule_one.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any

from msgspec import Struct, field

from stowplan.core.bind_outcome import is_unsure, settle
from stowplan.core.extender import Extender, ExtenderFailed
from stowplan.core.schedule_one import Attempt
from stowplan.core.steps import Parallel, Stepper, Suspend
from stowplan.core.waiting import WaitingPod, WaitingPods
from stowplan.errors import ApiError
from stowplan.framework.cycle import Cycle
from stowplan.framework.effects import Sleep
from stowplan.framework.errors import PluginFailed, describe, point_failed
from stowplan.framework.plugin import PreFlight
from stowplan.framework.runtime import Framework
from stowplan.framework.status import Code, Status
from stowplan.framework.timing import SUCCESS, WAIT_ON_PERMIT
from stowplan.objects.api import Bind
from stowplan.queue import QueuedPod
from stowplan.state.pod_info import PodInfo


class BindFailed(Struct, frozen=True):
    status: Status
    at_permit: bool = False
    """Turned away while it waited: the only failure here that an event can mend."""
    cause: Exception | None = None
    """What a plugin raised."""


Outcome = BindFailed | None

Groups = list[list[Any]]
"""PreBind plugins that have work; those of one group run side by side."""


class BindingTools(Struct):
    """What every binding needs of the machine."""

    waiting: WaitingPods
    extenders: Sequence[Extender]
    done: Callable[[str], None]
    """The queue's `done`: from here on cluster events no longer matter to this pod."""
    announce: Callable[[PodInfo, str], None]
    """Write the expected node into the pod's status, before a binding that takes long."""
    in_pre_bind: dict[str, Binding]
    """Bindings that preemption may still call off, by uid."""
    stepper: Stepper


class Binding(Struct):
    """One pod on its way to its node."""

    framework: Framework
    attempt: Attempt
    queued: QueuedPod
    tools: BindingTools
    pod: PodInfo
    """The assumed one."""
    node: str
    begun_s: float
    """When the attempt began; like the next one, by the recorder's clock."""
    bind_started_s: float
    binder: Any = None
    """The plugin that made the request to bind."""
    request: Any = None
    called_off: str = ""
    """Why preemption called it off."""
    _sleeping: dict[int, Callable[[Any], None]] = field(default_factory=dict)

    @property
    def bind_plugin(self) -> str:
        name: str = getattr(self.binder, "name", "")
        return name

    def call_off(self, why: str) -> None:
        """Stop PreBind where it stands: those that sleep now, those that ask when they hear."""
        self.called_off = self.called_off or why
        sleeping, self._sleeping = self._sleeping, {}
        for timer, resume in sleeping.items():
            self.tools.stepper.cancel(timer)
            resume(None)

    def sleep(self, seconds: float, resume: Callable[[Any], None]) -> None:
        """A pause that calling off the binding ends."""

        def wake() -> None:
            del self._sleeping[timer]
            resume(None)

        stepper = self.tools.stepper
        timer = stepper.at(stepper.now_s + seconds, wake)
        self._sleeping[timer] = resume


def bind_pod(
    binding: Binding, groups: Groups, waiting: WaitingPod | None
) -> Generator[Any, Any, Outcome]:
    """None once the pod is bound; otherwise why not.

    `groups` is what `pre_flight` gave.
    """
    try:
        return (yield from _bind_pod(binding, groups, waiting))
    except PluginFailed as failure:
        return failed_by(failure)


def failed_by(failure: PluginFailed) -> BindFailed:
    return BindFailed(failure.status, cause=failure)


def _bind_pod(
    binding: Binding, groups: Groups, waiting: WaitingPod | None
) -> Generator[Any, Any, Outcome]:
    framework, tools = binding.framework, binding.tools
    if groups or waiting is not None:
        tools.announce(binding.pod, binding.node)
    if waiting is not None:
        status: Status | None = yield Suspend(waiting.wait)
        waited_s = tools.stepper.now_s - waiting.since_s
        label = SUCCESS if status is None else status.code.label
        framework.recorder.point(WAIT_ON_PERMIT, framework.profile, label, waited_s)
        if status is not None:
            return _permit_failed(status)
    tools.done(binding.pod.uid)
    if groups:
        status = yield from _pre_bind(binding, groups)
        if status is not None:
            return BindFailed(status)
    return (yield from _bind(binding))


def _permit_failed(status: Status) -> BindFailed:
    if status.is_rejected:
        return BindFailed(status, at_permit=True)
    message = f"waiting on permit for pod: {status.message}"
    return BindFailed(Status(Code.ERROR, (message,), status.plugin))


# -- PreBind --------------------------------------------------------------------------------


def pre_flight(framework: Framework, cycle: Cycle, pod: PodInfo, node: str) -> Groups:
    """Which PreBind plugins have work, in groups that may run side by side."""
    groups: Groups = []
    open_group = False
    for plugin in framework.pre_binders(cycle):
        name = getattr(plugin, "name", "")
        try:
            answer = plugin.pre_bind_pre_flight(cycle, pod, node)
        except Exception as cause:
            raise _pre_flight_failed(name, describe(cause)) from cause
        if isinstance(answer, PreFlight):
            if not (open_group and answer.allow_parallel):
                groups.append([])
            groups[-1].append(plugin)
            open_group = answer.allow_parallel
        elif answer.code == Code.SKIP:
            open_group = False
        elif answer.code == Code.ERROR:
            raise _pre_flight_failed(name, answer.message)
        else:
            message = (
                f'PreBindPreFlight {name} returned "{answer.code.label}", which is unsupported. '
                "It is supposed to return Success, Skip, or Error status"
            )
            raise PluginFailed(name, message, "PreBindPreFlight")
    return groups


def _pre_flight_failed(plugin: str, cause: str) -> PluginFailed:
    message = f'running PreBindPreFlight "{plugin}": {cause}'
    return PluginFailed(plugin, message, "PreBindPreFlight")


class _Group(Struct):
    """PreBind plugins that run side by side; the first failure stops the others."""

    failed: Status | None = None
    cause: PluginFailed | None = None

    def fail(self, status: Status, cause: PluginFailed | None = None) -> None:
        if self.failed is None:
            self.failed, self.cause = status, cause


def _pre_bind(binding: Binding, groups: Groups) -> Generator[Any, Any, Status | None]:
    framework, uid = binding.framework, binding.pod.uid
    recorder = framework.recorder
    started_s = recorder.now()
    binding.tools.in_pre_bind[uid] = binding
    group = _Group()
    try:
        for plugins in groups:
            yield Parallel([_run_pre_bind(binding, group, plugin) for plugin in plugins])
            if binding.called_off or group.failed is not None:
                break
    finally:
        del binding.tools.in_pre_bind[uid]
        status = Status(Code.ERROR, (binding.called_off,)) if binding.called_off else group.failed
        label = SUCCESS if status is None else status.code.label
        recorder.point("PreBind", framework.profile, label, recorder.now() - started_s)
    if group.cause is not None and not binding.called_off:
        raise group.cause
    return status


def _run_pre_bind(binding: Binding, group: _Group, plugin: Any) -> Generator[Any, Any, None]:
    """One plugin's PreBind, stopped at its next pause when there is no point in going on."""
    framework, cycle = binding.framework, binding.attempt.cycle
    recorder, name = framework.recorder, plugin.name
    started_s = recorder.now() if cycle.sampled else 0.0
    try:
        steps = plugin.pre_bind(cycle, binding.pod, binding.node)
        if steps is None or isinstance(steps, Status):
            status = steps  # A plugin that never has to wait may answer at once.
        else:
            status = yield from _driven(binding, group, steps)
    except Exception as cause:
        failure = point_failed(name, "PreBind", describe(cause))
        failure.__cause__ = cause
        group.fail(failure.status, failure)
        return
    if cycle.sampled:
        label = SUCCESS if status is None else status.code.label
        recorder.plugin(name, "PreBind", label, recorder.now() - started_s)
    if status is not None:
        # A rejection keeps its code; who rejected does not matter, no event can help.
        failed = point_failed(name, "PreBind", status.message).status
        group.fail(Status(status.code, status.reasons) if status.is_rejected else failed)


def _driven(
    binding: Binding, group: _Group, steps: Generator[Any, Any, Status | None]
) -> Generator[Any, Any, Status | None]:
    answer: Any = None
    try:
        while True:
            wanted = steps.send(answer)
            if isinstance(wanted, Sleep):
                wanted = Suspend(partial(binding.sleep, wanted.seconds))
            answer = yield wanted
            if binding.called_off or group.failed is not None:
                steps.close()
                return None
    except StopIteration as stop:
        status: Status | None = stop.value
        return status


# -- Bind -----------------------------------------------------------------------------------


def _bind(binding: Binding) -> Generator[Any, Any, Outcome]:
    binding.bind_started_s = binding.framework.recorder.now()
    try:
        outcome: Outcome = _NOBODY
        if binding.tools.extenders:
            outcome = yield from _bind_by_extender(binding)
        if outcome is _NOBODY:
            outcome = yield from _carry_out(binding, ask_plugin(binding), _UNSENT)
    except BaseException:
        _note_time(binding, "Error")
        raise
    _note_time(binding, SUCCESS if outcome is None else outcome.status.code.label)
    return outcome


def _note_time(binding: Binding, label: str) -> None:
    framework = binding.framework
    recorder = framework.recorder
    recorder.point("Bind", framework.profile, label, recorder.now() - binding.bind_started_s)


_UNSENT = object()
_NOBODY = BindFailed(Status(Code.SKIP))


def _bind_by_extender(binding: Binding) -> Generator[Any, Any, Outcome]:
    pod = binding.pod
    for extender in binding.tools.extenders:
        if not extender.binds or not extender.is_interested(pod):
            continue
        answer = yield extender.bind_call(pod, binding.node)
        try:
            extender.read_bind(answer)
        except ExtenderFailed as failure:
            if extender.ignorable:
                continue
            return BindFailed(Status(Code.ERROR, (str(failure),)))
        return None
    return _NOBODY


def ask_plugin(binding: Binding) -> Any:
    """The request of the first Bind plugin that takes the pod, or why there is none."""
    cycle, pod, node = binding.attempt.cycle, binding.pod, binding.node
    for plugin in binding.framework.plugins.bind:
        binding.binder = plugin
        try:
            request = plugin.bind(cycle, pod, node)
        except Exception as cause:
            raise point_failed(binding.bind_plugin, "Bind", describe(cause)) from cause
        if not isinstance(request, Status):
            binding.request = request
            return request
        if request.code != Code.SKIP:
            return BindFailed(point_failed(binding.bind_plugin, "Bind", request.message).status)
    return BindFailed(Status(Code.ERROR, ("no Bind plugin took the pod",)))


def finish_bind(
    binding: Binding, request: Any, answer: Any = _UNSENT
) -> Generator[Any, Any, Outcome]:
    """From what `ask_plugin` gave, and the answer if it was sent already, to what came of it."""
    try:
        outcome = yield from _carry_out(binding, request, answer)
    except PluginFailed as failure:
        _note_time(binding, "Error")
        return failed_by(failure)
    _note_time(binding, SUCCESS if outcome is None else outcome.status.code.label)
    return outcome


def _carry_out(binding: Binding, request: Any, answer: Any) -> Generator[Any, Any, Outcome]:
    if isinstance(request, BindFailed):
        return request
    name, recorder = binding.bind_plugin, binding.framework.recorder
    try:
        if answer is _UNSENT:
            answer = yield request
        if isinstance(request, Bind) and is_unsure(answer):
            answer = yield from settle(request, answer)
    except Exception as cause:
        raise point_failed(name, "Bind", describe(cause)) from cause
    if binding.attempt.cycle.sampled:
        label = "Error" if isinstance(answer, ApiError) else SUCCESS
        recorder.plugin(name, "Bind", label, recorder.now() - binding.bind_started_s)
    if isinstance(answer, ApiError):
        return BindFailed(point_failed(name, "Bind", answer.problem).status)
    return None
