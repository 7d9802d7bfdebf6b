"""The driver: feeds the machine what the informers see, and carries out what it decides.

No await and no loop of its own.  Whatever happens (a watch event, an answer, a timer) lands in one
inbox and asks for a `turn`; a turn handles the inbox, lets the machine decide pod after pod, and
hands its effects to the cluster.  Live, asyncio grants the turns; in tests and simulations the
virtual clock does.  Next in the flow: `core.machine`, then `core.schedule_one`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby, islice
from operator import attrgetter
from random import Random
from time import perf_counter
from typing import Any, Protocol

from stowplan.clock import Clock
from stowplan.cluster.informer import Informer
from stowplan.cluster.port import Answer, Cluster, ListOptions
from stowplan.cluster.reflector import CallLater
from stowplan.config import SchedulerConfig
from stowplan.core.extender import CallExtender, ExtenderAnswer
from stowplan.core.machine import Machine
from stowplan.core.messages import (
    Answered,
    AskExtender,
    Call,
    Effect,
    Event,
    LongAttempt,
    Reconfigure,
    RecordEvent,
    ScheduleNext,
    Stop,
    Tick,
)
from stowplan.core.profiles import Registry, check_config
from stowplan.objects.kinds import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    DEVICE_CLASS,
    KIND_BY_NAME,
    NAMESPACE,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_DISRUPTION_BUDGET,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
    SERVICE,
    STATEFUL_SET,
    STORAGE_CLASS,
    VOLUME_ATTACHMENT,
    Kind,
)
from stowplan.objects.pod_groups import GroupVersion
from stowplan.runtime.event_recorder import EventRecorder

UNFINISHED = ListOptions(field_selector="status.phase!=Succeeded,status.phase!=Failed")

WATCHED: tuple[tuple[Kind, ListOptions], ...] = (
    # Nodes and what plugins look up come first: pods are decided on once all are there.
    (NODE, ListOptions()),
    (NAMESPACE, ListOptions()),
    (PERSISTENT_VOLUME, ListOptions()),
    (PERSISTENT_VOLUME_CLAIM, ListOptions()),
    (SERVICE, ListOptions()),
    (REPLICATION_CONTROLLER, ListOptions()),
    (REPLICA_SET, ListOptions()),
    (STATEFUL_SET, ListOptions()),
    (POD_DISRUPTION_BUDGET, ListOptions()),
    (STORAGE_CLASS, ListOptions()),
    (CSI_NODE, ListOptions()),
    (CSI_DRIVER, ListOptions()),
    (CSI_STORAGE_CAPACITY, ListOptions()),
    (VOLUME_ATTACHMENT, ListOptions()),
    (DEVICE_CLASS, ListOptions()),
    (RESOURCE_SLICE, ListOptions()),
    (RESOURCE_CLAIM, ListOptions()),
    (POD, UNFINISHED),
)


def watched(group_version: GroupVersion | None) -> tuple[tuple[Kind, ListOptions], ...]:
    """`WATCHED`, and groups in this version, if the scheduler looks at them."""
    if group_version is None:
        return WATCHED
    groups = KIND_BY_NAME[group_version.api_version, "PodGroup"]
    return ((groups, ListOptions()), *WATCHED)


CYCLES_PER_TURN = 128
"""Decisions before others (the API server in this process, timers) get their chance."""


CYCLES_PER_BATCH = 64
"""Decisions whose effects are sent together."""

CALLS_MAX = 1024
"""Calls without an answer from which on nothing more is decided: a pod with claims needs several,
one after the other, and each would wait behind the first ones of all pods that came later."""

EVENTS_PER_BATCH = 1024
"""Events that are taken in before their effects are carried out."""

_token = attrgetter("token")
_request = attrgetter("request")


class ExtenderClient(Protocol):
    def call(self, call: CallExtender, done: Callable[[ExtenderAnswer], None]) -> None: ...


class Driver:
    def __init__(
        self,
        machine: Machine,
        cluster: Cluster,
        *,
        clock: Clock,
        call_later: CallLater,
        recorder: EventRecorder,
        random: Random,
        extender_client: ExtenderClient | None = None,
        is_fair: bool = False,
    ) -> None:
        """`is_fair`: tell the machine of long attempts, so that others get their turn.  Time is
        then real: equal seeds no longer give equal runs."""
        self.machine = machine
        self._cluster = cluster
        self._clock = clock
        self._call_later = call_later
        self.recorder = recorder
        self._random = random
        self._extender_client = extender_client
        self._inbox: list[Event] = []
        self._turn_asked = False
        self._tick_due_s: float | None = None
        self._active = True
        self._closed = False
        self.caught_up = False
        """Every informer has its first list, and the machine has taken all of it in."""
        self.failure: BaseException | None = None
        """What broke the machine.  It takes no more turns: start a new one."""
        self.on_failure: Callable[[BaseException], None] | None = None
        self.on_caught_up: Callable[[], None] | None = None
        self.on_idle: Callable[[], None] | None = None
        """Told at the end of every turn that leaves nothing under way (see `busy`)."""
        followed = watched(None if machine.groups is None else machine.group_version)
        self.informers = {kind: self._informer(kind, options) for kind, options in followed}
        self.on_effect: Callable[[Effect], None] | None = None
        self.on_handled: Callable[[Sequence[Event], float], None] | None = None
        """Told of everything that came in, events of one type together, and how many seconds it
        took to take them in."""
        if is_fair:
            machine.on_long_attempt = self._long_attempt

    # -- life -------------------------------------------------------------------------------

    def start(self) -> None:
        for informer in self.informers.values():
            informer.start()
        self._ask_for_turn()

    def resume(self, other: Driver, resource_version: str) -> None:
        """Go on where another one is, whose machine and cluster ours are forks of.

        Timers are not planned anew: whoever forks them does that.
        """
        for kind, informer in self.informers.items():
            informer.resume(other.informers[kind], resource_version)
        self._inbox = other._inbox[:]
        self._turn_asked, self._tick_due_s = other._turn_asked, other._tick_due_s
        self._active, self.caught_up = other._active, other.caught_up

    def stop(self) -> None:
        """Take no more pods.  What is being bound goes on; `busy` says until when."""
        self._put(Stop())

    def close(self) -> None:
        """Decide and send nothing from now on, whatever was under way."""
        self._closed = True
        for informer in self.informers.values():
            informer.stop()

    @property
    def active(self) -> bool:
        """False while another replica leads: everything is followed, nothing is decided."""
        return self._active

    @active.setter
    def active(self, active: bool) -> None:
        self._active = active
        self.wake()

    def reconfigure(self, config: SchedulerConfig, registry: Registry | None = None) -> None:
        """Take a new configuration into use before the next decision; raises if it is wrong.

        `registry` has the plugins that it is made of; None: as before.
        """
        known = self.machine.registry if registry is None else registry
        check_config(config, random=self._random, registry=known)
        self._put(Reconfigure(config, registry))

    @property
    def synced(self) -> bool:
        return all(informer.synced for informer in self.informers.values())

    @property
    def busy(self) -> bool:
        machine = self.machine
        return bool(self._inbox or machine.binding_count or machine.bindings.in_pre_bind)

    # -- in ---------------------------------------------------------------------------------

    def _informer(self, kind: Kind, options: ListOptions) -> Informer:
        return Informer(
            self._cluster,
            kind,
            self._put_all,
            # The last list may be empty, and pods of the others wait for it.
            on_synced=self.wake,
            options=options,
            clock=self._clock,
            call_later=self._call_later,
            random=self._random,
        )

    def _long_attempt(self, pod: str, seconds: float) -> None:
        self._put(LongAttempt(pod, seconds))

    def _put(self, event: Event) -> None:
        self._put_all((event,))

    def _put_all(self, events: Iterable[Event]) -> None:
        self._inbox.extend(events)
        if not self._turn_asked:
            self._ask_for_turn()

    def wake(self) -> None:
        """See that a turn is taken."""
        if not self._turn_asked:
            self._ask_for_turn()

    def _ask_for_turn(self) -> None:
        self._turn_asked = True
        self._call_later(0.0, self.turn)

    # -- the turn ---------------------------------------------------------------------------

    def turn(self) -> None:
        """Handle what has come in, decide a number of pods, and see that the rest gets a turn."""
        if self.failure is not None or self._closed:
            return
        self._turn_asked = True
        try:
            more = self._take_turn()
        except BaseException as failure:
            # What the machine believes can no longer be trusted; nothing is decided on it.
            self.failure = failure
            if self.on_failure is not None:
                self.on_failure(failure)
            raise
        self._turn_asked = False
        if more or self._inbox:
            self._ask_for_turn()
            return
        self._plan_tick()
        if self.on_idle is not None and not self.busy:
            self.on_idle()

    def _take_turn(self) -> bool:
        """True when there may be more to decide."""
        machine = self.machine
        cycles = 0
        while True:
            self._take_in()
            if not self.caught_up and self.synced:
                self.caught_up = True
                if self.on_caught_up is not None:
                    self.on_caught_up()
            if cycles >= CYCLES_PER_TURN or not (self._active and self.caught_up):
                break
            if not machine.has_work or machine.binding_count > CALLS_MAX:
                break
            self._carry_out(machine.handle(_SCHEDULE_NEXT, self._clock.now()))
            cycles += CYCLES_PER_BATCH
        self.recorder.flush(pressed=machine.binding_count > 0)
        return cycles >= CYCLES_PER_TURN

    def _take_in(self) -> None:
        """Empty the inbox.  What lies there together has come at one moment."""
        now_s = self._clock.now()
        while self._inbox:
            events, self._inbox = self._inbox, []
            for _, alike in groupby(events, type):
                while batch := list(islice(alike, EVENTS_PER_BATCH)):
                    self._take_in_batch(batch, now_s)

    def _take_in_batch(self, events: list[Event], now_s: float) -> None:
        started_s = perf_counter()
        effects = self.machine.handle_all(events, now_s)
        if self.on_handled is not None:
            self.on_handled(events, perf_counter() - started_s)
        if effects:
            self._carry_out(effects)

    def _plan_tick(self) -> None:
        due_s = self.machine.next_wakeup_s()
        if due_s is None or (self._tick_due_s is not None and self._tick_due_s <= due_s):
            return
        self._tick_due_s = due_s
        self._call_later(max(0.0, due_s - self._clock.now()), partial(self._tick, due_s))

    def _tick(self, due_s: float) -> None:
        if self._tick_due_s == due_s:
            self._tick_due_s = None
            self._put(Tick())

    # -- out --------------------------------------------------------------------------------

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        if self.on_effect is not None:
            effects = [*effects]
            for effect in effects:
                self.on_effect(effect)
        calls: list[Call] = []
        events: list[RecordEvent] = []
        for type_, alike in groupby(effects, type):
            some: Any = alike
            if type_ is Call:
                calls += some
            elif type_ is RecordEvent:
                events += some
            else:
                self._send(calls)
                calls = []
                for effect in some:
                    self._ask_extender(effect)
        if events:
            self.recorder.record(events)
        self._send(calls)

    def _send(self, calls: list[Call]) -> None:
        if calls:
            self._cluster.call([*map(_request, calls)], partial(self._answered, calls))

    def _answered(self, calls: list[Call], first: int, answers: Sequence[Answer]) -> None:
        self._put_all(map(Answered, map(_token, islice(calls, first, None)), answers))

    def _extender_answered(self, token: int, answer: ExtenderAnswer) -> None:
        self._put(Answered(token, answer))

    def _ask_extender(self, effect: AskExtender) -> None:
        if self._extender_client is None:
            answer = ExtenderAnswer(error=f"extender {effect.call.url} cannot be called from here")
            self._extender_answered(effect.token, answer)
            return
        self._extender_client.call(effect.call, partial(self._extender_answered, effect.token))


_SCHEDULE_NEXT = ScheduleNext(CYCLES_PER_BATCH)
