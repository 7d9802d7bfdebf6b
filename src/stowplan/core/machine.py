"""The scheduler as a machine: an event goes in, effects come out.

Nothing here awaits, reads a clock, rolls dice of its own or opens a socket.  `runtime.driver` and
the simulator feed it events and carry out its effects; that is why a run can be replayed event by
event.  The flow of a pod: `cluster_changes` (it appears) -> queue -> `schedule_one` -> `binding`;
whatever fails comes back through `failed`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stowplan.config import SchedulerConfig
from stowplan.core.algorithm import Algorithm, TieBreak
from stowplan.core.attempts import AttemptLog
from stowplan.core.binding import Binding, bind_pod
from stowplan.core.cluster_changes import ClusterChanges
from stowplan.core.decision import Decision
from stowplan.core.extender import Extender
from stowplan.core.failure import Failure, FailureHandler
from stowplan.core.messages import (
    Added,
    Answered,
    Deleted,
    Effect,
    Event,
    RecordEvent,
    ScheduleNext,
    Stop,
    Tick,
    Updated,
)
from stowplan.core.pod_status import StatusChange, patch_status
from stowplan.core.profiles import Registry, build_frameworks
from stowplan.core.schedule_one import Attempt, schedule_one, unreserve
from stowplan.core.steps import Stepper
from stowplan.core.waiting import WaitingPods
from stowplan.framework.events import Action, ClusterEvent, Resource
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import Nominate
from stowplan.framework.runtime import Framework
from stowplan.framework.status import Status
from stowplan.framework.timing import Recorder
from stowplan.objects.pod import Pod
from stowplan.plugins import IN_TREE
from stowplan.queue import ProfileQueueing, QueuedPod, SchedulingQueue, build_hint_map
from stowplan.state.cache import Cache
from stowplan.state.node_table import NodeTable
from stowplan.state.object_index import ObjectIndex
from stowplan.state.pod_info import PodInfo

if TYPE_CHECKING:
    from random import Random

ASSIGNED_POD_DELETE = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)


class Machine:
    def __init__(
        self,
        config: SchedulerConfig,
        *,
        random: Random,
        registry: Registry = IN_TREE,
        tie_break: TieBreak = "random",
        recorder: Recorder | None = None,
        log: AttemptLog | None = None,
        unschedulable_max_s: float = 300.0,
    ) -> None:
        self.config = config
        self.registry = registry
        self.random = random
        """Seeded; the only source of chance."""
        self.cache = Cache(assumed_ttl_s=config.assumed_pod_ttl_seconds)
        self.table = NodeTable()
        self.objects = ObjectIndex()
        self.stepper = Stepper()
        self.waiting = WaitingPods(self.stepper)
        self.pods: dict[str, PodInfo] = {}
        """Every unfinished pod as the informer last showed it, by `namespace/name`."""
        self.in_pre_bind: dict[str, Binding] = {}
        self.log = log or AttemptLog()
        self.stopping = False
        self._recorder = recorder
        self._unschedulable_max_s = unschedulable_max_s
        self.frameworks = self._build(config)
        self.queue = self._make_queue(config, self.frameworks)
        self._connect(self.frameworks)
        self.algorithm = self._make_algorithm(config, tie_break)
        self.changes = ClusterChanges(self)
        self.failure = FailureHandler(self)
        self._deciding: QueuedPod | None = None
        self._held_back: deque[Event] = deque()
        self._handlers: dict[type, Callable[[Any], None]] = {
            Added: lambda event: self.changes.added(event.object),
            Updated: lambda event: self.changes.updated(event.old, event.new),
            Deleted: lambda event: self.changes.deleted(event.object),
            Answered: lambda event: self._answered(event),
            Tick: lambda event: self._tick(),
            ScheduleNext: lambda event: self._schedule_next(),
            Stop: lambda event: self._stop(),
        }

    # -- the outside ------------------------------------------------------------------------

    def handle(self, event: Event, now_s: float) -> list[Effect]:
        """Take in one event; what is to be done about it."""
        stepper = self.stepper
        stepper.now_s = now_s
        if self._deciding is not None and not isinstance(event, Answered):
            # A decision waits for an extender: the world it is made in must not change meanwhile.
            self._held_back.append(event)
        else:
            self._handlers[type(event)](event)
            while self._held_back and self._deciding is None:
                held = self._held_back.popleft()
                self._handlers[type(held)](held)
        effects, stepper.effects = stepper.effects, []
        return effects

    @property
    def has_work(self) -> bool:
        """Whether `ScheduleNext` would decide something now."""
        return self._deciding is None and not self.stopping and self.queue.has_next

    @property
    def binding_count(self) -> int:
        """Calls that have been sent and not answered."""
        return self.stepper.pending_count

    def next_wakeup_s(self) -> float | None:
        """When a `Tick` is due, if nothing else happens."""
        times = [
            time
            for time in (self.stepper.next_timer_s(), self.queue.next_wakeup_s())
            if time is not None
        ]
        if self.cache.assumed_ttl_s and self.cache.assumed_count:
            times.append(self.now_s + 1)
        return min(times, default=None)

    @property
    def now_s(self) -> float:
        return self.stepper.now_s

    def reconfigure(self, config: SchedulerConfig) -> None:
        """Take a new configuration into use, between two cycles; everything pending is kept."""
        assert self._deciding is None, "a decision is being made"
        frameworks = self._build(config)
        queue = self._make_queue(config, frameworks)
        self.config, self.frameworks = config, frameworks
        pending, _ = self.queue.pending_pods()
        in_flight = [uid for uid, place in self.queue.places() if place == "in flight"]
        self.queue, old_queue = queue, self.queue
        self._connect(frameworks)
        self.algorithm = self._make_algorithm(config, self.algorithm.tie_break)
        self.cache.assumed_ttl_s = config.assumed_pod_ttl_seconds
        for pod in pending:
            if pod.pod.spec.scheduler_name in frameworks:
                queue.add(pod)
        for uid in in_flight:
            old_queue.done(uid)
        for info in self.pods.values():
            unqueued = not info.node_name and not self.cache.is_assumed(info.uid)
            if unqueued and self.is_ours(info.pod) and queue.get(info.key) is None:
                queue.add(info)

    # -- putting it together ----------------------------------------------------------------

    def _build(self, config: SchedulerConfig) -> dict[str, Framework]:
        handle = Handle(
            nodes=self.table,
            objects=self.objects,
            random=self.random,
            now=lambda: self.stepper.now_s,
            waiting=self.waiting,
            activate=lambda pods: self.queue.activate(pods),
            pod_by_key=self.pods.get,
        )
        return build_frameworks(config, handle, registry=self.registry, recorder=self._recorder)

    def _connect(self, frameworks: dict[str, Framework]) -> None:
        for framework in frameworks.values():
            framework.handle.nominated = self.queue.nominator

    def _make_queue(
        self, config: SchedulerConfig, frameworks: dict[str, Framework]
    ) -> SchedulingQueue:
        extenders = bool(config.extenders)
        profiles = {
            name: ProfileQueueing(
                framework.plugins.pre_enqueue,
                build_hint_map(framework.plugins.instances.values(), has_extenders=extenders),
            )
            for name, framework in frameworks.items()
        }
        sort = next(iter(frameworks.values())).plugins.queue_sort
        return SchedulingQueue(
            sort.sort_key,
            lambda: self.stepper.now_s,
            profiles,
            initial_backoff_s=config.pod_initial_backoff_seconds,
            max_backoff_s=config.pod_max_backoff_seconds,
            unschedulable_max_s=self._unschedulable_max_s,
            live_pod=self.pods.get,
            recorder=self._recorder,
        )

    @staticmethod
    def _make_algorithm(config: SchedulerConfig, tie_break: TieBreak) -> Algorithm:
        extenders = [Extender(entry) for entry in config.extenders]
        return Algorithm(
            extenders=sorted(extenders, key=lambda extender: extender.ignorable),
            percentage_of_nodes_to_score=config.percentage_of_nodes_to_score,
            tie_break=tie_break,
        )

    def is_ours(self, pod: Pod) -> bool:
        return pod.spec.scheduler_name in self.frameworks

    def _answered(self, event: Answered) -> None:
        self.stepper.answer(event.token, event.answer)

    # -- time -------------------------------------------------------------------------------

    def _tick(self) -> None:
        self.stepper.run_due()
        self.queue.flush()
        for expired in self.cache.expire_assumed(self.now_s):
            self.queue.move_all(ASSIGNED_POD_DELETE, expired.pod, None)

    def _stop(self) -> None:
        self.stopping = True

    # -- one pod ----------------------------------------------------------------------------

    def _schedule_next(self) -> None:
        if self.stopping:
            return
        queued = self.queue.pop()
        if queued is None:
            return
        info = queued.info
        framework = self.frameworks.get(info.pod.spec.scheduler_name)
        if framework is None or self._skipped(queued, framework):
            self.queue.done(info.uid)
            return
        self._deciding = queued
        self.log.begin(framework.profile)
        self.stepper.start(
            schedule_one(framework, self.cache, self.algorithm, info),
            lambda attempt: self._decided(framework, queued, attempt),
        )

    def _skipped(self, queued: QueuedPod, framework: Framework) -> bool:
        pod = queued.info.pod
        if pod.metadata.deletion_timestamp is not None:
            note = f"skip schedule deleting pod: {queued.info.key}"
            self.record(pod, "Warning", "FailedScheduling", "Scheduling", note)
            return True
        return self.cache.is_assumed(queued.info.uid)

    def _decided(self, framework: Framework, queued: QueuedPod, attempt: Attempt) -> None:
        self._deciding = None
        if attempt.assumed is None:
            self.log.end(queued, attempt.decision, attempt.status, self.now_s)
            self.failure.handle(framework, queued, Failure.of(attempt))
            self.failure.preempt(framework, queued, attempt)
            self._activate(attempt)
            return
        self.queue.nominator.delete(queued.info.uid)
        waits = attempt.waits
        if waits:
            self.waiting.add(attempt.assumed, attempt.decision.node, waits, self.now_s)
        self._activate(attempt)
        binding = Binding(
            framework,
            attempt,
            self.waiting,
            self.algorithm.extenders,
            self.queue.done,
            self._announce,
            self.in_pre_bind,
        )
        self.stepper.start(
            bind_pod(binding, bool(waits)), lambda status: self._bound(binding, queued, status)
        )

    def _activate(self, attempt: Attempt) -> None:
        if attempt.cycle.activate:
            self.queue.activate(attempt.cycle.activate)
            attempt.cycle.activate.clear()

    def _announce(self, pod: PodInfo, node: str) -> None:
        change = StatusChange(nominate=Nominate(node))
        self.stepper.start(
            patch_status(pod.pod, change, self.now_s, self.random), lambda problem: None
        )

    def _bound(self, binding: Binding, queued: QueuedPod, status: Status | None) -> None:
        pod, node, attempt = binding.pod, binding.node, binding.attempt
        if status is not None:
            self._bind_failed(binding, queued, status)
            return
        self.cache.finish_binding(pod.uid, self.now_s)
        note = f"Successfully assigned {pod.key} to {node}"
        self.record(pod.pod, "Normal", "Scheduled", "Binding", note)
        self.log.end(queued, attempt.decision, None, self.now_s)
        for plugin in binding.framework.plugins.post_bind:
            try:
                plugin.post_bind(attempt.cycle, pod, node)
            except Exception as cause:
                self.log.plugin_error(getattr(plugin, "name", ""), "PostBind", cause)
        self._activate(attempt)

    def _bind_failed(self, binding: Binding, queued: QueuedPod, status: Status) -> None:
        """Undo in reverse order, then hand the pod to the failure handler.

        Room has become free again.  After a rejection the pod itself must not be woken by that,
        so it is told later and to the others only.
        """
        pod, attempt = binding.pod, binding.attempt
        unreserve(binding.framework, attempt.cycle, pod, binding.node)
        forgotten = self.cache.is_assumed(pod.uid)
        if forgotten:
            self.cache.forget_pod(pod)
        failure = Failure.of_binding(status, attempt)
        self.log.end(queued, failure.decision, status, self.now_s)
        if forgotten and not status.is_rejected:
            self.queue.move_all(ASSIGNED_POD_DELETE, pod.pod, None)
        self.failure.handle(binding.framework, queued, failure)
        if forgotten and status.is_rejected:
            self.queue.move_all(
                ASSIGNED_POD_DELETE, pod.pod, None, lambda other: other.uid != pod.uid
            )

    def record(self, pod: Pod, type_: str, reason: str, action: str, note: str) -> None:
        controller = pod.spec.scheduler_name
        self.stepper.effects.append(RecordEvent(pod, type_, reason, action, note, controller))

    def decision_of(self, key: str) -> Decision | None:
        return self.log.decision_of(key)
