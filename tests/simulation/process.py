"""One scheduler process: the real machine, driver, informers and elector, on a line of its own.

It can end between any two steps and in the middle of any call; a new process then starts from
nothing, as after a crash.  Everything that must hold while it lives is checked after each of its
steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import StringIO
from random import Random
from typing import TYPE_CHECKING, Any

from stowplan.cluster.leader_election import ElectionConfig
from stowplan.cluster.port import Answer
from stowplan.config import SchedulerConfig
from stowplan.core.attempts import AttemptLog
from stowplan.core.decision import Decision
from stowplan.core.extender import CallExtender, ExtenderAnswer
from stowplan.core.machine import Machine
from stowplan.core.messages import Call, Effect, Event, RecordEvent, Tick
from stowplan.framework.errors import PluginFailed
from stowplan.framework.handle import Handle
from stowplan.objects.api import Bind, Request
from stowplan.objects.kinds import NODE, POD, RESOURCE_CLAIM
from stowplan.plugins import IN_TREE
from stowplan.queue import QueuedPod
from stowplan.runtime.driver import Driver
from stowplan.runtime.event_recorder import EventRecorder
from stowplan.runtime.lifecycle import Election, Replica
from stowplan.runtime.log import Log
from stowplan.state.pod_info import PodInfo
from tests.simulation.clocks import DriftingClock
from tests.simulation.devices import EXTENDED
from tests.simulation.group_checks import GroupChecks
from tests.simulation.invariants import (
    Broken,
    check_bind,
    check_process,
    check_table,
)
from tests.simulation.network import Line, ProcessEnded
from tests.simulation.oracle import second_opinion
from tests.simulation.plugins import (
    Gremlin,
    Lookout,
    Mishap,
    Pilot,
    Purser,
    SimulatedPlugin,
    bound,
)
from tests.simulation.profile import EXTENDER_TIMEOUT_S

if TYPE_CHECKING:
    from tests.simulation.world import World

DOUBTED_SHARE = 0.1
"""Of all decisions, those that somebody else is asked about."""


class Process:
    def __init__(
        self, world: World, name: str, clock: DriftingClock, config: SchedulerConfig
    ) -> None:
        self.world = world
        self.name = name
        self.clock = clock
        self.alive = True
        self.random = Random(f"{world.seed}/{name}")
        self.line = world.line(name)
        self.line.on_sent = self._sent
        self.line.deliver = self._step
        self.line.on_answered = self._answered
        self.line.on_carried_out = self._carried_out
        self.leases: Line | None = None
        self.reserved: dict[str, str] = {}
        self.open_binds: dict[str, str] = {}
        """Binds sent and not answered: uid -> node."""
        self.bound: set[str] = set()
        """Uids of pods whose attempts ended well."""
        self.number = 0
        self.checked_generation = 0
        """Of the cache, when its sums were last gone through."""
        self.seen_versions: dict[str, dict[str, int]] = {}
        """How far the informers were when a pod was last decided on: uid -> kind -> version."""
        self.problems: list[str] = []
        """What was found wrong inside a step, where an exception would be taken for a plugin's."""
        self.notes = Notes(self)
        self.machine = Machine(
            config,
            random=Random(f"{world.seed}/{name}/machine"),
            registry={**IN_TREE, **self._plugins()},
            log=AttemptLog(self.notes),
            unschedulable_max_s=world.unschedulable_max_s,
        )
        self.machine.tap = self._tap
        self.groups = GroupChecks(self) if self.machine.groups is not None else None
        self.recorder = EventRecorder(
            self.line,
            clock,
            call_later=self._call_later,
            random=Random(f"{world.seed}/{name}/events"),
            instance=name,
        )
        self.driver = Driver(
            self.machine,
            self.line,
            clock=clock,
            call_later=self._call_later,
            recorder=self.recorder,
            random=Random(f"{world.seed}/{name}/driver"),
            extender_client=self if world.weather.extender else None,
        )
        self.replica = Replica(
            self.driver,
            self.recorder,
            clock=clock,
            call_later=self._call_later,
            random=self.random,
            log=Log(clock, stream=StringIO()),
            on_end=self._exit,
            election=self._election(),
            abandon=self.line.cut,
        )
        self._events_since_check = 0
        self._doubts = Random(f"{world.seed}/{name}/doubts")

    def _exit(self, code: int) -> None:
        self.world.cut_short |= code != 0
        self.end(f"exit code {code}")

    def _election(self) -> Election | None:
        if self.world.weather.replicas == 1:
            return None
        self.leases = self.world.line(self.name)
        self.leases.deliver = self._step
        return Election(ElectionConfig(self.name), self.leases)

    # -- life -------------------------------------------------------------------------------

    def start(self) -> None:
        self._step(self.replica.start)

    def stop(self) -> None:
        """Asked to end in good order."""
        self._step(self.replica.stop)

    @property
    def leads(self) -> bool:
        elector = self.replica.elector
        return self.alive and self.replica.is_leading and (elector is None or elector.is_leader)

    def has_assumed(self, bind: Bind) -> bool:
        assumed = self.machine.cache.pod(bind.uid)
        return assumed is not None and assumed.node_name == bind.node

    def end(self, why: str) -> None:
        if self.alive:
            self.world.trace(self.name, f"ends: {why}")
            self.alive = False
            for line in (self.line, self.leases):
                if line is not None:
                    line.cut()
            self.world.process_ended(self)

    def poke(self) -> None:
        """Let what was decided outside a turn come out."""
        self.driver._put(Tick())

    # -- steps ------------------------------------------------------------------------------

    def _call_later(self, delay_s: float, action: Callable[[], None]) -> None:
        self.clock.call_later(delay_s, lambda: self._step(action))

    def _step(self, action: Callable[[], None]) -> None:
        if not self.alive:
            return
        try:
            action()
        except ProcessEnded:
            self.end("in the middle of a call")
            return
        if self.problems:
            raise Broken(f"{self.name}: {self.problems[0]}")
        if self.alive and self._events_since_check:
            self._events_since_check = 0
            check_process(self)

    def _tap(self, events: Sequence[Event], now_s: float, effects: list[Effect]) -> None:
        self._events_since_check += len(events)
        for effect in effects:
            if isinstance(effect, RecordEvent):
                self.world.recorded(self, effect)
            elif isinstance(effect, Call) and isinstance(effect.request, Bind):
                self.world.trace(self.name, f"binds {effect.request.name} to {effect.request.node}")

    def doubt(self, pod: PodInfo, decision: Decision) -> None:
        """Ask somebody else now and then.

        Not about volumes and devices, which are set aside where only the plugin sees it, nor about
        what an extender had a say in.
        """
        if decision.error or pod.kind.volumes or self.machine.algorithm.extenders:
            return
        if pod.kind.is_member or pod.kind.spec.resource_claims or EXTENDED in pod.kind.requests:
            return
        if self._doubts.random() > DOUBTED_SHARE:
            return
        if pod.kind.host_ports and self.world.bindings.doubled_ports:
            return
        if self.world.weather.raises and pod.pod.status.nominated_node_name:
            return  # A mishap on the nominated node alone makes it look at all of them.
        if difference := second_opinion(self.machine, pod, decision):
            self.problems.append(difference)

    # -- calls ------------------------------------------------------------------------------

    def _sent(self, request: Request) -> None:
        if isinstance(request, Bind):
            check_bind(self, request)
            self.open_binds[request.uid] = request.node

    def _carried_out(self, request: Request, answer: Answer) -> None:
        self.world.bindings.carried_out(self, request, answer)
        self.world.allocations.carried_out(self, request, answer)

    def _answered(self, request: Request, answer: Answer) -> None:
        if isinstance(request, Bind):
            self.open_binds.pop(request.uid, None)

    def call(self, call: CallExtender, done: Callable[[ExtenderAnswer], None]) -> None:
        """The extender: it agrees to everything, if it answers at all."""
        if self.line.happens(self.world.weather.hangs):
            answer, delay_s = ExtenderAnswer(error="no answer in time"), EXTENDER_TIMEOUT_S
        else:
            answer, delay_s = ExtenderAnswer(_agree(call)), self.line.trip_s()
        self._call_later(delay_s, lambda: done(answer))

    # -- plugins ----------------------------------------------------------------------------

    def _plugins(self) -> dict[str, type[SimulatedPlugin]]:
        return {
            "Pilot": bound(Pilot, _on_wait=self._waits),
            "Gremlin": bound(Gremlin, _mishap=self._mishap),
            "Purser": bound(Purser, _reserved=self.reserved),
            "Lookout": bound(Lookout, _look=lambda: check_table(self)),
        }

    def _mishap(self, point: str) -> bool:
        happens = self.line.happens(self.world.weather.raises)
        if happens:
            self.world.trace(self.name, f"Gremlin raises at {point}")
        return happens

    def _waits(self, handle: Handle, pod: PodInfo) -> None:
        """Decide now what will come of it."""
        fate = "allow" if self.line.calm else self.random.choice(("allow", "allow", "reject", ""))
        delay_s = self.random.uniform(0.0, 15.0)
        if fate == "allow":
            self._call_later(delay_s, lambda: self._let_go(handle, pod.uid))
        elif fate == "reject":
            self._call_later(delay_s, lambda: self._turn_away(handle, pod.uid))

    def _let_go(self, handle: Handle, uid: str) -> None:
        if handle.waiting.allow(uid, "Pilot"):
            self.poke()

    def _turn_away(self, handle: Handle, uid: str) -> None:
        if handle.waiting.reject(uid, "Pilot", "the pilot is ill"):
            self.poke()


class Notes:
    """An observer of attempts: nothing but a plugin's mishap may go wrong inside one."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.under_way: dict[str, str] = {}
        """Attempts that have begun and not ended: uid -> `namespace/name`."""
        self._in_groups: set[str] = set()
        """Members that are being decided on with their group."""

    def begin(self, queued: Any, now_s: float) -> None:
        uid, process = queued.info.uid, self._process
        if uid in self._in_groups:
            self._in_groups.discard(uid)
            return
        if uid in self.under_way:
            process.problems.append(f"{queued.info.key} is tried twice at the same time")
        self._note(queued.info)

    def begin_group(self, members: Sequence[QueuedPod]) -> None:
        """These are decided on together; each is told of when that is done."""
        for queued in members:
            if queued.info.uid in self.under_way:
                self._process.problems.append(f"{queued.info.key} is tried twice at the same time")
            self._in_groups.add(queued.info.uid)
            self._note(queued.info)

    def _note(self, info: PodInfo) -> None:
        self.under_way[info.uid] = info.key
        informers = self._process.driver.informers
        self._process.seen_versions[info.uid] = {
            kind.name: informers[kind]._version for kind in (POD, NODE, RESOURCE_CLAIM)
        }

    def decided(self, queued: Any, decision: Any, now_s: float, seconds: float) -> None:
        for word in ("internal error", "snapshot state is not consistent"):
            if word in decision.error:
                self._process.problems.append(f"{decision.pod}: {decision.error}")
        if self._process.groups is not None:
            self._process.groups.decided(queued.info, decision.node)
        self._process.doubt(queued.info, decision)

    def bound(self, attempts: Any, now_s: float) -> None:
        for attempt in attempts:
            self._ends(attempt.queued.info)
            self._process.bound.add(attempt.queued.info.uid)

    def failed(self, attempt: Any, now_s: float) -> None:
        info = attempt.queued.info
        self._ends(info)
        self._process.world.bindings.gave_up(self._process, info.key)

    def group_ended(self, attempt: Any, now_s: float) -> None:
        """Its members are told of one by one."""

    def _ends(self, info: PodInfo) -> None:
        if self._process.groups is not None:
            self._process.groups.ended(info.uid)
        if self.under_way.pop(info.uid, None) is None:
            self._process.problems.append(f"an attempt at {info.key} ends that never began")

    def plugin_error(self, plugin: str, point: str, cause: Exception) -> None:
        if not isinstance(cause, Mishap | PluginFailed):
            self._process.problems.append(f"{plugin} at {point}: {cause!r}")

    def problem(self, text: str) -> None:
        """Something odd that the machine copes with."""


def _agree(call: CallExtender) -> Any:
    body = call.body
    if call.verb == "filter":
        return {"NodeNames": body["NodeNames"], "Nodes": body["Nodes"]}
    if call.verb == "prioritize":
        return [{"Host": name, "Score": 5} for name in body["NodeNames"] or ()]
    return {"NodeNameToMetaVictims": body["NodeNameToMetaVictims"]}
