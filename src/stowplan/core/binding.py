"""The binding cycle: from "assumed on a node" to "the API server knows", or undone.

Runs beside the scheduling of other pods.  `core.machine` hands over every pod that got a node to
`Bindings.start`; most need to wait for nothing but the answer to their binding, and end many at a
time.  The others go through `_bind_pod`, a generator, top to bottom: Permit's wait, PreBind, Bind.
What fails is undone in reverse order and handed to `core.failure`.  Mirrors `bindingCycle` in
kube-scheduler's `schedule_one.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from stowplan.core.attempts import Bound
from stowplan.core.bind_outcome import is_unsure, settle
from stowplan.core.extender import Extender, ExtenderFailed
from stowplan.core.messages import RecordEvent
from stowplan.core.reserving import unreserve
from stowplan.core.schedule_one import Attempt
from stowplan.core.steps import Parallel, Stepper, Suspend
from stowplan.core.together import WAITS_TOGETHER
from stowplan.core.waiting import PodAtPermit
from stowplan.errors import ApiError
from stowplan.framework.cycle import Cycle
from stowplan.framework.effects import Sleep
from stowplan.framework.errors import PluginFailed, describe, point_failed
from stowplan.framework.events import Action, ClusterEvent, Resource
from stowplan.framework.plugin import PreFlight
from stowplan.framework.runtime import Framework
from stowplan.framework.status import Code, Status
from stowplan.framework.timing import SUCCESS, WAIT_ON_PERMIT
from stowplan.objects.api import Bind
from stowplan.queue import QueuedPod
from stowplan.state.cache import CacheError
from stowplan.state.pod_info import PodInfo

if TYPE_CHECKING:
    from stowplan.core.machine import Machine

ASSIGNED_POD_DELETE = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)


class BindFailed(Struct, frozen=True):
    status: Status
    at_permit: bool = False
    """Turned away while it waited: the only failure here that an event can mend."""
    cause: Exception | None = None
    """What a plugin raised."""


Outcome = BindFailed | None

Groups = list[list[Any]]
"""PreBind plugins that have work; those of one group run side by side."""


class Binding(Struct):
    """One pod on its way to its node."""

    framework: Framework
    attempt: Attempt
    queued: QueuedPod
    stepper: Stepper
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
    is_announced: bool = False
    """Whether its node was written into the pod's status, because binding it takes long."""
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
            self.stepper.cancel(timer)
            resume(None)

    def sleep(self, seconds: float, resume: Callable[[Any], None]) -> None:
        """A pause that calling off the binding ends."""

        def wake() -> None:
            del self._sleeping[timer]
            resume(None)

        stepper = self.stepper
        timer = stepper.at(stepper.now_s + seconds, wake)
        self._sleeping[timer] = resume


class Bindings:
    """All pods that are on their way to their nodes."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.in_pre_bind: dict[str, Binding] = {}
        """Bindings that preemption may still call off, by uid."""

    def start(
        self,
        framework: Framework,
        queued: QueuedPod,
        attempt: Attempt,
        begun_s: float,
        decided_s: float,
    ) -> None:
        """Send an assumed pod on its way: when its attempt began, and when it was decided."""
        machine, pod, cycle = self._machine, attempt.assumed, attempt.cycle
        assert pod is not None, "only an assumed pod can be bound"
        node, stepper = attempt.decision.node, machine.stepper
        binding = Binding(framework, attempt, queued, stepper, pod, node, begun_s, decided_s)
        waiting = None
        if attempt.waits:
            waiting = machine.waiting.add(pod, node, attempt.waits, stepper.now_s)
        try:
            groups = None
            if cycle.plan.outline.pre_bind:
                groups = _work_of(attempt, pod)
            if groups or waiting is not None or machine.algorithm.extenders:
                steps = self._bind_pod(binding, groups or [], waiting)
                stepper.start(steps, partial(self._ended, binding))
                return
            machine.queue.done(pod.uid)
            request = _ask_plugin(binding)
        except PluginFailed as failure:
            machine.waiting.drop(pod.uid)
            self._ended(binding, _failed_by(failure))
            return
        if isinstance(request, Bind):
            stepper.ask(request, binding)  # `answered` sees to it.
        else:
            stepper.start(_finish_bind(binding, request), partial(self._ended, binding))

    def answered(self, bindings: list[Binding]) -> None:
        """The API server took these."""
        ended_s = self._machine.clock()
        for binding in bindings:
            framework, seconds = binding.framework, ended_s - binding.bind_started_s
            framework.bind_s.append(seconds)
            if binding.attempt.cycle.sampled:
                framework.recorder.plugin(binding.bind_plugin, "Bind", SUCCESS, seconds)
        self._bound(bindings)

    def refused(self, binding: Binding, answer: ApiError) -> None:
        """The API server did not, or what became of it is not known."""
        steps = _finish_bind(binding, binding.request, answer)
        self._machine.stepper.start(steps, partial(self._ended, binding))

    # -- the end ----------------------------------------------------------------------------

    def _ended(self, binding: Binding, failed: Outcome) -> None:
        if failed is None:
            self._bound([binding])
        else:
            # It takes a pod off its node: not while a decision looks at the nodes.
            self._machine.between_decisions(partial(self._failed, binding, failed))

    def _bound(self, bindings: list[Binding]) -> None:
        """These pods are bound."""
        machine = self._machine
        now_s, ended_s = machine.stepper.now_s, machine.clock()
        finish_binding, tell = machine.cache.finish_binding, machine.stepper.effects.append
        ended: list[Bound] = []
        for binding in bindings:
            pod, attempt = binding.pod, binding.attempt
            thing = pod.pod
            finish_binding(pod.uid, now_s)
            note = f"Successfully assigned {pod.key} to {binding.node}"
            speaker = thing.spec.scheduler_name
            tell(RecordEvent(thing, "Normal", "Scheduled", "Binding", note, speaker))
            ended.append(Bound(binding.queued, attempt.decision, ended_s - binding.begun_s))
            if binding.framework.plugins.post_bind or attempt.cycle.activate:
                machine.log.bound(ended, now_s)
                ended = []
                self._post_bind(binding)
                machine.activate(attempt)
        if ended:
            machine.log.bound(ended, now_s)

    def _post_bind(self, binding: Binding) -> None:
        framework, cycle = binding.framework, binding.attempt.cycle
        if not framework.plugins.post_bind:
            return
        recorder = framework.recorder
        started_s = last_s = recorder.now()
        for plugin in framework.plugins.post_bind:
            name = getattr(plugin, "name", "")
            try:
                plugin.post_bind(cycle, binding.pod, binding.node)
            except Exception as cause:
                self._machine.log.plugin_error(name, "PostBind", cause)
            if cycle.sampled:
                now_s = recorder.now()
                recorder.plugin(name, "PostBind", SUCCESS, now_s - last_s)
                last_s = now_s
        recorder.point("PostBind", framework.profile, SUCCESS, recorder.now() - started_s)

    def _failed(self, binding: Binding, failed: BindFailed) -> None:
        """Undo in reverse order, then hand the pod to the failure handler.

        Room has become free again.  After a rejection the pod itself must not be woken by that,
        so it is told later and to the others only.
        """
        machine, pod, attempt = self._machine, binding.pod, binding.attempt
        if failed.cause is not None:
            machine.report([failed.cause])
        machine.report([*unreserve(binding.framework, attempt.cycle, pod, binding.node)])
        forgotten = True
        try:
            machine.cache.forget_pod(pod)
        except CacheError as problem:
            # Confirmed meanwhile, perhaps on another node: the cluster's word stands.
            forgotten = False
            machine.log.problem(str(problem))
        if attempt.together is not None:
            attempt.together.lost(pod.uid)
        rejected = failed.status.is_rejected
        if forgotten and not rejected:
            machine.queue.move_all(ASSIGNED_POD_DELETE, pod.pod, None)
        seconds = machine.clock() - binding.begun_s
        machine.failure.binding_failed(binding.queued, failed, attempt, seconds)
        if forgotten and rejected:
            machine.queue.move_all(
                ASSIGNED_POD_DELETE, pod.pod, None, lambda other: other.uid != pod.uid
            )

    # -- step by step -----------------------------------------------------------------------

    def _bind_pod(
        self, binding: Binding, groups: Groups, waiting: PodAtPermit | None
    ) -> Generator[Any, Any, Outcome]:
        """None once the pod is bound; otherwise why not.

        `groups` is what `pre_flight` gave.
        """
        machine, framework = self._machine, binding.framework
        extenders = machine.algorithm.extenders  # Those of now, should others be configured.
        try:
            if waiting is not None:
                self.announce(binding)
                status: Status | None = yield Suspend(waiting.wait)
                waited_s = machine.stepper.now_s - waiting.since_s
                label = SUCCESS if status is None else status.code.label
                framework.recorder.point(WAIT_ON_PERMIT, framework.profile, label, waited_s)
                if status is not None:
                    return _permit_failed(status)
            machine.queue.done(binding.pod.uid)
            if groups:
                status = yield from self._pre_bind(binding, groups)
                if status is not None:
                    return BindFailed(status)
            attempt = binding.attempt
            if attempt.together is not None and WAITS_TOGETHER not in attempt.waits:
                status = yield Suspend(attempt.together.arrive(binding.pod.uid))
                if status is not None:
                    return BindFailed(status, at_permit=True)
            return (yield from _bind(binding, extenders))
        except PluginFailed as failure:
            return _failed_by(failure)

    def announce(self, binding: Binding) -> None:
        """Once there is something to wait for that is not up to us.

        Not before PreBind writes what it has to, as upstream does: that is another request for
        every pod with a claim, to say what the binding says right after it.
        """
        if not binding.is_announced:
            binding.is_announced = True
            self._machine.announce(binding.pod, binding.node)

    def _pre_bind(self, binding: Binding, groups: Groups) -> Generator[Any, Any, Status | None]:
        framework, uid = binding.framework, binding.pod.uid
        recorder = framework.recorder
        started_s = recorder.now()
        self.in_pre_bind[uid] = binding
        group = _Group(partial(self.announce, binding))
        try:
            for plugins in groups:
                yield Parallel([_run_pre_bind(binding, group, plugin) for plugin in plugins])
                if binding.called_off or group.failed is not None:
                    break
        finally:
            del self.in_pre_bind[uid]
            called_off = binding.called_off
            status = Status(Code.ERROR, (called_off,)) if called_off else group.failed
            label = SUCCESS if status is None else status.code.label
            recorder.point("PreBind", framework.profile, label, recorder.now() - started_s)
        if group.cause is not None and not binding.called_off:
            raise group.cause
        return status


def _failed_by(failure: PluginFailed) -> BindFailed:
    return BindFailed(failure.status, cause=failure)


def _permit_failed(status: Status) -> BindFailed:
    if status.is_rejected:
        return BindFailed(status, at_permit=True)
    message = f"waiting on permit for pod: {status.message}"
    return BindFailed(Status(Code.ERROR, (message,), status.plugin))


# -- PreBind --------------------------------------------------------------------------------


def _work_of(attempt: Attempt, pod: PodInfo) -> Groups:
    """What there is to do at PreBind; of a gang's member that is known already."""
    known: Groups | PluginFailed | None = attempt.pre_flight
    if isinstance(known, PluginFailed):
        raise known
    return pre_flight(attempt.cycle, pod, pod.node_name) if known is None else known


def pre_flight(cycle: Cycle, pod: PodInfo, node: str) -> Groups:
    """Which PreBind plugins have work, in groups that may run side by side."""
    groups: Groups = []
    open_group = False
    for plugin in cycle.plan.outline.pre_bind:
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

    takes_long: Callable[[], None]
    """To be told when one begins to wait for others."""
    failed: Status | None = None
    cause: PluginFailed | None = None

    def fail(self, status: Status, cause: PluginFailed | None = None) -> None:
        if self.failed is None:
            self.failed, self.cause = status, cause


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
                group.takes_long()
                wanted = Suspend(partial(binding.sleep, wanted.seconds))
            answer = yield wanted
            if binding.called_off or group.failed is not None:
                steps.close()
                return None
    except StopIteration as stop:
        status: Status | None = stop.value
        return status


# -- Bind -----------------------------------------------------------------------------------


def _bind(binding: Binding, extenders: Sequence[Extender]) -> Generator[Any, Any, Outcome]:
    binding.bind_started_s = binding.framework.recorder.now()
    try:
        outcome: Outcome = _NOBODY
        if extenders:
            outcome = yield from _bind_by_extender(binding, extenders)
        if outcome is _NOBODY:
            outcome = yield from _carry_out(binding, _ask_plugin(binding), _UNSENT)
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


def _bind_by_extender(
    binding: Binding, extenders: Sequence[Extender]
) -> Generator[Any, Any, Outcome]:
    pod = binding.pod
    for extender in extenders:
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


def _ask_plugin(binding: Binding) -> Any:
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


def _finish_bind(
    binding: Binding, request: Any, answer: Any = _UNSENT
) -> Generator[Any, Any, Outcome]:
    """From what `_ask_plugin` gave, and the answer if it was sent already, to what came of it."""
    try:
        outcome = yield from _carry_out(binding, request, answer)
    except PluginFailed as failure:
        _note_time(binding, "Error")
        return _failed_by(failure)
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
