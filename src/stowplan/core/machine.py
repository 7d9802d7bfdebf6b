"""The scheduler as a machine: an event goes in, effects come out.

Nothing here awaits, reads a clock, rolls dice of its own or opens a socket.  `runtime.driver` and
the simulator feed it events and carry out its effects; that is why a run can be replayed event by
event (`tests/core/replay.py`).  The flow of a pod: `cluster_changes` (it appears) -> queue ->
`schedule_one` -> `binding`; whatever fails comes back through `failure`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from stowplan.config import SchedulerConfig
from stowplan.core.algorithm import TieBreak
from stowplan.core.attempts import AttemptLog, Failed
from stowplan.core.binding import ASSIGNED_POD_DELETE, Binding, Bindings
from stowplan.core.building import carry_over, go_on_from, make_algorithm, make_queue
from stowplan.core.cluster_changes import ClusterChanges
from stowplan.core.decision import Decision
from stowplan.core.failure import Failure, FailureHandler
from stowplan.core.groups import GroupCycles
from stowplan.core.messages import (
    Added,
    Answered,
    Deleted,
    Effect,
    Event,
    LongAttempt,
    Reconfigure,
    RecordEvent,
    ScheduleNext,
    Stop,
    Tick,
    Updated,
)
from stowplan.core.pod_status import StatusChange, patch_status
from stowplan.core.profiles import Registry, build_frameworks
from stowplan.core.schedule_group import GroupAttempt
from stowplan.core.schedule_one import Attempt, schedule_one
from stowplan.core.steps import Stepper
from stowplan.core.waiting import WaitingPods
from stowplan.errors import ApiError
from stowplan.framework.errors import PluginFailed
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import Nominate
from stowplan.framework.runtime import Framework
from stowplan.framework.timing import NoRecorder, Recorder
from stowplan.objects.pod import Pod
from stowplan.objects.pod_groups import GENERIC_WORKLOAD, GROUP_VERSIONS, GroupVersion
from stowplan.plugins import IN_TREE
from stowplan.queue import QueuedGroup, QueuedPod
from stowplan.state.cache import Cache
from stowplan.state.groups import GroupedCache, Groups
from stowplan.state.node_table import NodeTable
from stowplan.state.object_index import ObjectIndex
from stowplan.state.pod_info import PodInfo

if TYPE_CHECKING:
    from random import Random

CHANGES_MAX = 4096
"""Changes in the cache that may wait for the next cycle; without one, they are taken in anyway."""

LONG_ATTEMPT_S = 0.02
"""From here on an attempt is long: ten times what pods of ordinary sorts take with 5,000 nodes."""

_IN_NUMBERS = frozenset({Updated, Added, Deleted, Answered})
"""Events that may be taken in many at once: none of them begins a decision."""


Beliefs = tuple[Cache, NodeTable, ObjectIndex]
"""What the scheduler knows of the cluster; the table is up to date with the cache."""


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
        beliefs: Beliefs | None = None,
        group_version: GroupVersion = GROUP_VERSIONS[-1],
    ) -> None:
        """`beliefs`: what it knows of the cluster to begin with; `group_version`: of the API that
        groups are written to, where GenericWorkload is on."""
        self.config = config
        self.group_version = group_version
        self.registry = registry
        self.random = random
        """Seeded; the only source of chance."""
        ttl_s = config.assumed_pod_ttl_seconds
        has_groups = GENERIC_WORKLOAD in config.features
        self.cache, self.table, self.objects = beliefs or (
            GroupedCache(assumed_ttl_s=ttl_s) if has_groups else Cache(assumed_ttl_s=ttl_s),
            NodeTable(),
            ObjectIndex(),
        )
        self.stepper = Stepper()
        self.waiting = WaitingPods(self.stepper)
        self.pods: dict[str, PodInfo] = {}
        """Every unfinished pod as the informer last showed it, by `namespace/name`."""
        self.bindings = Bindings(self)
        self.groups = GroupCycles(self, group_version) if has_groups else None
        """Pods that are scheduled together; None: all are on their own."""
        self.log = log or AttemptLog()
        self.recorder = recorder
        """Told how long everything takes; None: nobody asks."""
        self.clock = (recorder or NoRecorder()).now
        """For durations, and nothing else."""
        self.unschedulable_max_s = unschedulable_max_s
        self._tie_break: TieBreak = tie_break
        self.stopping = False
        self.tap: Callable[[Sequence[Event], float, list[Effect]], None] | None = None
        """Told of everything that went in, and what came out of it."""
        self.on_long_attempt: Callable[[str, float], None] | None = None
        """Told the `namespace/name` and the seconds of an attempt that took long, which is then
        the last one of its `ScheduleNext`.  Whoever takes this is to answer with `LongAttempt`."""
        self.frameworks = self._build(config)
        self.queue = make_queue(self, config, self.frameworks)
        self.algorithm = make_algorithm(config, tie_break)
        self._connect()
        self.changes = ClusterChanges(self)
        self.failure = FailureHandler(self)
        self._deciding: QueuedPod | None = None
        self._held_back: deque[Event | Callable[[], None]] = deque()
        self._was_long = False
        self._shortened: ScheduleNext | None = None
        """What was done of a `ScheduleNext` that a long attempt ended early."""
        self._asked_s = self._waited_s = 0.0
        """Since when the decision waits for an extender, and how long it waited before."""

    def fork(self, random: Random, log: AttemptLog) -> Machine:
        """Another one that knows what this one knows, and goes its own way; see `core.building`."""
        assert self._deciding is None, "a decision is being made"
        self.table.refresh(self.cache)
        cache = self.cache.fork()
        fork = Machine(
            self.config,
            random=random,
            registry=self.registry,
            tie_break=self.algorithm.tie_break,
            log=log,
            unschedulable_max_s=self.unschedulable_max_s,
            beliefs=(cache, self.table.fork(cache), self.objects.fork()),
            group_version=self.group_version,
        )
        go_on_from(fork, self)
        return fork

    def close(self) -> None:
        """Let go of the cluster at once: plugins and this refer to each other, so that it would
        live until somebody looks for garbage.  Nothing can be asked any more."""
        self.pods.clear()
        for part in (self.table.pods, self.table, self.cache, self.objects):
            vars(part).clear()

    # -- the outside ------------------------------------------------------------------------

    def handle(self, event: Event, now_s: float) -> list[Effect]:
        """Take in one event; what is to be done about it."""
        return self.handle_all((event,), now_s)

    def handle_all(self, events: Sequence[Event], now_s: float) -> list[Effect]:
        """Take in events of one type that came together, one after the other."""
        stepper = self.stepper
        stepper.now_s = now_s
        self._take(events)
        effects, stepper.effects = stepper.effects, []
        if self._shortened is not None:
            events, self._shortened = (self._shortened,), None
        if self.tap is not None:
            self.tap(events, now_s, effects)
        return effects

    def _take(self, events: Sequence[Event]) -> None:
        if self._deciding is None and type(events[0]) in _IN_NUMBERS:
            self._take_at_once(events)
        else:
            for event in events:
                self._take_or_hold_back(event)
        if len(self.cache.changes) > CHANGES_MAX and self._deciding is None:
            self.table.refresh(self.cache)

    def _take_or_hold_back(self, event: Event) -> None:
        if self._deciding is None or isinstance(event, Answered):
            self._take_at_once((event,))
        else:
            # A decision waits for an extender: the world it is made in must not change meanwhile.
            self._held_back.append(event)
        while self._held_back and self._deciding is None:
            held = self._held_back.popleft()
            if callable(held):
                held()
            else:
                self._take_at_once((held,))

    def _take_at_once(self, events: Sequence[Any]) -> None:
        event: Event = events[0]
        if isinstance(event, Updated):
            self.changes.updated(events)
        elif isinstance(event, Added):
            self.changes.added(events)
        elif isinstance(event, Answered):
            self._answered(events)
        elif isinstance(event, Deleted):
            self.changes.deleted(events)
        elif isinstance(event, ScheduleNext):
            self._schedule(event.count)
        elif isinstance(event, Tick):
            self._tick()
        elif isinstance(event, LongAttempt):
            self.queue.owe(event.pod, event.seconds)
        elif isinstance(event, Stop):
            self.stopping = True
        elif isinstance(event, Reconfigure):
            if event.registry is not None:
                self.registry = event.registry
            self.reconfigure(event.config)

    @property
    def has_work(self) -> bool:
        """Whether `ScheduleNext` would decide something now."""
        return self._deciding is None and not self.stopping and self.queue.has_next

    @property
    def is_deciding(self) -> bool:
        """Whether a decision waits for an extender."""
        return self._deciding is not None

    @property
    def deciding(self) -> QueuedPod | None:
        """The pod that a decision is being made on, now or while an extender is asked."""
        return self._deciding

    @property
    def binding_count(self) -> int:
        """Calls that have been sent and not answered."""
        return self.stepper.pending_count

    def next_wakeup_s(self) -> float | None:
        """When a `Tick` is due, if nothing else happens.

        None while a decision waits: a tick would only be held back.
        """
        if self._deciding is not None:
            return None
        times = (
            self.stepper.next_timer_s(),
            self.queue.next_wakeup_s(),
            self._next_expiry_s(),
        )
        return min((time for time in times if time is not None), default=None)

    def _next_expiry_s(self) -> float | None:
        """Assumed pods are looked at once a second, as upstream did."""
        expiry_s = self.cache.next_expiry_s()
        return None if expiry_s is None else float(int(expiry_s) + 1)

    @property
    def now_s(self) -> float:
        return self.stepper.now_s

    def reconfigure(self, config: SchedulerConfig) -> None:
        """Take a new configuration into use, between two cycles; everything pending is kept.

        A configuration that cannot be used raises ConfigError, and nothing has changed.
        """
        assert self._deciding is None, "a decision is being made"
        frameworks = self._build(config)
        queue = make_queue(self, config, frameworks)
        old_frameworks, old_queue = self.frameworks, self.queue
        self.config, self.frameworks, self.queue = config, frameworks, queue
        before = self.algorithm
        self.algorithm = make_algorithm(config, self._tie_break)
        self.algorithm.start_index, self.algorithm.explain = before.start_index, before.explain
        self._connect()
        self.cache.assumed_ttl_s = config.assumed_pod_ttl_seconds
        carry_over(self, old_frameworks, old_queue)

    def _build(self, config: SchedulerConfig) -> dict[str, Framework]:
        handle = Handle(
            nodes=self.table,
            objects=self.objects,
            random=self.random,
            ties_by_name=self._tie_break == "name",
            now=lambda: self.stepper.now_s,
            waiting=self.waiting,
            activate=lambda pods: self.queue.activate(pods),
            start=lambda steps: self.stepper.start(steps, lambda result: None),
            record=self.record,
            pod_by_key=self.pods.get,
            features=config.features,
            groups=self.cache.groups if isinstance(self.cache, GroupedCache) else Groups(),
        )
        return build_frameworks(config, handle, registry=self.registry, recorder=self.recorder)

    def _connect(self) -> None:
        for framework in self.frameworks.values():
            framework.handle.nominated = self.queue.nominator

    def is_ours(self, pod: Pod) -> bool:
        return pod.spec.scheduler_name in self.frameworks

    # -- time -------------------------------------------------------------------------------

    def _tick(self) -> None:
        self.stepper.run_due()
        self.queue.flush()
        for expired in self.cache.expire_assumed(self.now_s):
            self.queue.move_all(ASSIGNED_POD_DELETE, expired.pod, None)
            known = self.pods.get(expired.key)
            if known is not None and known.uid == expired.uid and not known.node_name:
                # Its binding was never seen to arrive: it is tried again rather than lost.
                self.queue.add(known)

    # -- one pod ----------------------------------------------------------------------------

    def _schedule(self, count: int) -> None:
        queue, cache, stepper = self.queue, self.cache, self.stepper
        if self._deciding is not None or self.stopping:
            return
        self._was_long, members_count = False, 0
        for number in range(count):
            if self._was_long:
                self._shortened = ScheduleNext(number)
                break
            if self._deciding is not None:
                break
            queued = queue.pop()
            if queued is None:
                break
            info = queued.info
            framework = self._framework_for(info)
            if framework is None:
                if isinstance(queued, QueuedGroup):
                    members_count += len(queued.members)
                    self._schedule_group(queued)
                    if members_count >= count:
                        self._shortened = ScheduleNext(number + 1)
                        break
                else:
                    queue.done(info.uid)
                continue
            self._deciding = queued
            self.log.begin(queued, stepper.now_s)
            stepper.resume(
                schedule_one(framework, cache, self.algorithm, info),
                partial(self._decided, framework, queued, self.clock()),
                None,
            )
        self._asked_s = self.clock()

    def _schedule_group(self, entry: QueuedGroup) -> None:
        """Decide on pods that are scheduled together."""
        groups = self.groups
        assert groups is not None, "only a queue with groups hands one out"
        problem = groups.mixed_profiles([*entry.members.values()])
        members = groups.members_of(entry)
        framework = self.frameworks.get(members[0].profile) if members else None
        if framework is None:
            for queued in members:
                self.queue.done(queued.info.uid)
        elif problem:
            groups.fail(entry, members, problem)
        else:
            self._deciding = entry
            self.stepper.resume(
                groups.search(framework, entry, members),
                partial(self._group_decided, framework, entry, members, self.clock()),
                None,
            )

    def _group_decided(
        self,
        framework: Framework,
        entry: QueuedGroup,
        members: Sequence[QueuedPod],
        begun_s: float,
        result: GroupAttempt,
    ) -> None:
        assert self.groups is not None
        self._deciding = None
        decided_s = self.clock()
        if decided_s - begun_s > LONG_ATTEMPT_S * len(members):
            self._took_long(members[0], decided_s - begun_s)
        self.groups.submit(framework, entry, members, result, (begun_s, decided_s))

    def _framework_for(self, info: PodInfo) -> Framework | None:
        """Who decides on a pod that comes from the queue; None if there is nothing to decide."""
        pod = info.pod
        if pod.metadata.deletion_timestamp is None:
            known = self.cache.is_assumed(info.uid)
            return None if known else self.frameworks.get(pod.spec.scheduler_name)
        if pod.spec.scheduler_name in self.frameworks:
            note = f"skip schedule deleting pod: {info.key}"
            self.record(pod, "Warning", "FailedScheduling", "Scheduling", note)
        return None

    def _decided(
        self, framework: Framework, queued: QueuedPod, begun_s: float, attempt: Attempt
    ) -> None:
        self._deciding = None
        decided_s, now_s = self.clock(), self.stepper.now_s
        seconds = decided_s - begun_s
        self.log.decided(queued, attempt.decision, now_s, seconds)
        if seconds > LONG_ATTEMPT_S and self.on_long_attempt is not None:
            self._took_long(queued, seconds)
        if attempt.problems:
            self.report(attempt.problems)
        pod = attempt.assumed
        if pod is None:
            self._not_decided(framework, queued, begun_s, attempt)
            return
        if self.queue.nominator.node_of:
            self.queue.nominator.delete(pod.uid)
        if attempt.cycle.activate:
            self.activate(attempt)
        self.bindings.start(framework, queued, attempt, begun_s, decided_s)

    def _took_long(self, queued: QueuedPod, seconds: float) -> None:
        """What an extender took is not the pod's doing."""
        seconds -= self._waited_s
        if seconds > LONG_ATTEMPT_S and self.on_long_attempt is not None:
            self._was_long = True
            self.on_long_attempt(queued.info.key, seconds)

    def _not_decided(
        self, framework: Framework, queued: QueuedPod, begun_s: float, attempt: Attempt
    ) -> None:
        status = attempt.status
        assert status is not None
        seconds = self.clock() - begun_s
        self.log.failed(Failed(queued, attempt.decision, status, seconds), self.now_s)
        preemption = self.failure.prepare(framework, attempt, queued.info)
        self.failure.handle(queued, Failure.of(attempt))
        if preemption is not None:
            self.failure.preempt(preemption)

    def _answered(self, events: Sequence[Answered]) -> None:
        """Bindings that went well are the bulk of it: they end together."""
        waiting, bindings = self.stepper.waiting, self.bindings
        bound: list[Binding] = []
        for event in events:
            asker, answer = waiting.pop(event.token, None), event.answer
            if isinstance(asker, Binding):
                if not isinstance(answer, ApiError):
                    bound.append(asker)
                    continue
                asker = partial(bindings.refused, asker)
            if bound:
                bindings.answered(bound)
                bound = []
            if asker is None:
                continue
            if self._deciding is None:
                asker(answer)
            else:
                self._go_on(asker, answer)
        if bound:
            bindings.answered(bound)

    def between_decisions(self, action: Callable[[], None]) -> None:
        """Do this now, or once the decision that is being made is over."""
        if self._deciding is None:
            action()
        else:
            self._held_back.append(action)

    def _go_on(self, asker: Callable[[Any], None], answer: Any) -> None:
        """While a decision waits for an extender: what that took is not the pod's doing."""
        self._waited_s += self.clock() - self._asked_s
        asker(answer)
        if self._deciding is not None:
            self._asked_s = self.clock()
        else:
            self._waited_s = 0.0

    def report(self, problems: list[Exception]) -> None:
        for problem in problems:
            if isinstance(problem, PluginFailed):
                cause = problem.__cause__
                raised = cause if isinstance(cause, Exception) else problem
                self.log.plugin_error(problem.plugin, problem.point, raised)
            else:
                self.log.problem(str(problem))

    def activate(self, attempt: Attempt) -> None:
        if attempt.cycle.activate:
            self.queue.activate(attempt.cycle.activate)
            attempt.cycle.activate.clear()

    def announce(self, pod: PodInfo, node: str) -> None:
        """Write the expected node into the pod's status, before a binding that takes long."""
        change = StatusChange(nominate=Nominate(node))
        self.stepper.start(
            patch_status(pod.pod, change, self.now_s, self.random), lambda problem: None
        )

    def record(self, pod: Pod, type_: str, reason: str, action: str, note: str) -> None:
        event = RecordEvent(pod, type_, reason, action, note, pod.spec.scheduler_name)
        self.stepper.effects.append(event)

    def decision_of(self, key: str) -> Decision | None:
        return self.log.decision_of(key)
