"""A whole cluster in this process: the store, and whoever works on it.

The scheduler, the controllers and the kubelet are clients of the store like those that come over
HTTP, only without the HTTP.  Nothing here knows an event loop: time comes from the clock, and
`call_later` grants all turns, be it asyncio's, a `VirtualClock`'s, under which everything takes no
real time, or that of `Timers`.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from random import Random
from typing import Any

from stowplan.apiserver.controllers import Controllers
from stowplan.apiserver.controllers.volumes import DEFAULT_CLASS
from stowplan.apiserver.kubelet import Kubelet
from stowplan.apiserver.simulated_nodes import simulated_node, with_defaults_of_a_node
from stowplan.apiserver.store import Store
from stowplan.clock import Clock
from stowplan.cluster.port import Cluster, ListOptions
from stowplan.cluster.reflector import CallLater
from stowplan.config import SchedulerConfig, load_config
from stowplan.core.algorithm import TieBreak
from stowplan.core.attempts import AttemptLog
from stowplan.core.machine import Machine
from stowplan.core.profiles import Registry
from stowplan.errors import AlreadyExists, ApiError
from stowplan.framework.timing import Recorder
from stowplan.objects.api import Create, Patch
from stowplan.objects.kinds import NODE, STORAGE_CLASS
from stowplan.objects.times import format_time
from stowplan.plugins import IN_TREE
from stowplan.runtime.driver import Driver, ExtenderClient
from stowplan.runtime.event_recorder import EventRecorder

log = logging.getLogger(__name__)

NODES_DEFAULT = 3
"""Made in a cluster that has none: one for each zone."""

BOOKMARKS_EVERY_S = 60.0
GARBAGE_EVERY_S = 30.0
FORGET_EVERY_S = 300.0
"""As often as kube-apiserver compacts its history."""
RESTART_AFTER_S = 1.0
"""A scheduler that broke is replaced by a new one, which starts from what the cluster says."""


class Timers:
    """`call_later` for a process without an event loop: things to do, in order of time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._plan: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    def call_later(self, delay_s: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._plan, (self._clock.now() + delay_s, next(self._order), action))

    def take_over(self, other: Timers, twins: Mapping[int, object]) -> None:
        """Plan what the other has planned, at the same times and in the same order.

        Plans are methods of objects, perhaps with arguments; `twins` says for each of these
        objects, by its `id`, which one takes its place here.
        """
        self._plan = [(due_s, turn, _rebound(do, twins)) for due_s, turn, do in other._plan]
        self._order = count(max((turn for _, turn, _ in other._plan), default=-1) + 1)

    def clear(self) -> None:
        """Plan nothing any more."""
        self._plan.clear()

    def run_due(self) -> bool:
        """Do one thing that is due; False when nothing is."""
        if not self._plan or self._plan[0][0] > self._clock.now():
            return False
        heapq.heappop(self._plan)[2]()
        return True

    @property
    def next_s(self) -> float | None:
        return self._plan[0][0] if self._plan else None


def _rebound(action: Callable[..., None], twins: Mapping[int, object]) -> Callable[..., None]:
    if isinstance(action, partial):
        return partial(_rebound(action.func, twins), *action.args, **action.keywords)
    owner = twins.get(id(getattr(action, "__self__", None)))
    assert owner is not None, f"{action!r} is planned, and nobody in the fork can do it"
    method: Callable[..., None] = getattr(owner, action.__name__)
    return method


def connect_scheduler(
    cluster: Cluster,
    clock: Clock,
    call_later: Callable[[float, Callable[[], None]], object],
    *,
    config: SchedulerConfig | None = None,
    seed: int = 0,
    log: AttemptLog | None = None,
    recorder: Recorder | None = None,
    registry: Registry = IN_TREE,
    tie_break: TieBreak = "random",
    extender_client: ExtenderClient | None = None,
    first_event: int = 1,
) -> Driver:
    """A scheduler for this cluster, not started yet.

    `first_event` goes into the names of its events: above the number of events that any other
    scheduler can have written in this moment, which is no moment under virtual time.
    """
    machine = Machine(
        config or load_config(None),
        random=Random(seed),
        log=log,
        recorder=recorder,
        registry=registry,
        tie_break=tie_break,
    )
    events = EventRecorder(
        cluster, clock, call_later=call_later, random=Random(seed), first=first_event
    )
    return Driver(
        machine,
        cluster,
        clock=clock,
        call_later=call_later,
        recorder=events,
        random=Random(seed),
        extender_client=extender_client,
    )


@dataclass(frozen=True, slots=True)
class Scheduling:
    config: SchedulerConfig | None = None
    registry: Registry = field(default_factory=lambda: IN_TREE)
    extender_client: ExtenderClient | None = None
    log: AttemptLog | None = None


@dataclass(frozen=True, slots=True)
class Parts:
    """Who works on the cluster."""

    scheduling: Scheduling | None = field(default_factory=Scheduling)
    """None: somebody else schedules."""
    controllers: bool = True
    kubelet: bool = True
    detailed: bool = True
    """The kubelet also writes what only people read, such as addresses."""


class EmbeddedCluster:
    def __init__(
        self,
        store: Store,
        parts: Parts,
        *,
        clock: Clock,
        call_later: CallLater,
        random: Random,
        port: Cluster | None = None,
    ) -> None:
        """`port`: how its workers reach the store, if not directly."""
        self.store = store
        self._parts = parts
        self._clock = clock
        self._call_later = call_later
        self._random = random
        self._port = store if port is None else port
        self.controllers: Controllers | None = None
        self.kubelet: Kubelet | None = None
        self.scheduler: Driver | None = None
        """Another one after it broke."""
        self._stopped = False
        if parts.controllers:
            self.controllers = Controllers(
                self._port,
                clock=clock,
                call_later=call_later,
                random=random,
                gates=store.gates,
            )
        if parts.kubelet:
            self.kubelet = Kubelet(
                self._port,
                clock=clock,
                call_later=call_later,
                random=random,
                detailed=parts.detailed,
            )

    def add_nodes(self, count: int | None, gpus: int = 0) -> None:
        """See that node-1 to node-`count` are there, with so many simulated GPUs each.

        None: a few, if there are none at all.
        """
        if count is None:
            nodes, _ = self.store.select(NODE, ListOptions())
            count = 0 if nodes else NODES_DEFAULT
        now = format_time(self._clock.now())
        with self.store.batch():
            for number in range(1, count + 1):
                node = simulated_node(number, now, gpus=gpus)
                try:
                    self.store.execute(Create(NODE, "", node))
                except AlreadyExists:
                    if gpus:
                        meta = node["metadata"]
                        body = {"metadata": {"annotations": meta["annotations"]}}
                        self.store.execute(Patch(NODE, "", meta["name"], body, "merge"))

    def furnish(self, nodes: Sequence[dict[str, Any]]) -> None:
        """See that these nodes are there, and a default StorageClass if anybody makes volumes."""
        now = format_time(self._clock.now())
        wanted = [Create(NODE, "", with_defaults_of_a_node(node, now)) for node in nodes]
        if self.controllers is not None:
            wanted.append(Create(STORAGE_CLASS, "", DEFAULT_CLASS))
        for request in wanted:
            with suppress(AlreadyExists):
                self.store.execute(request)

    def start(self) -> None:
        if self.controllers is not None:
            self.controllers.start()
        if self.kubelet is not None:
            self.kubelet.start()
        if self._parts.scheduling is not None:
            self._start_scheduler(self._parts.scheduling)
        self._repeat(BOOKMARKS_EVERY_S, self.store.send_bookmarks)
        self._repeat(GARBAGE_EVERY_S, self.store.collect_garbage)
        self._repeat(FORGET_EVERY_S, self.store.forget_old)

    @property
    def ready(self) -> bool:
        """Everybody who works here knows what there is."""
        controllers, scheduler = self.controllers, self.scheduler
        return (controllers is None or controllers.synced) and (
            self._parts.scheduling is None or (scheduler is not None and scheduler.synced)
        )

    @property
    def busy(self) -> bool:
        """A decision is still on its way into the store."""
        return self.scheduler is not None and self.scheduler.busy

    def stop(self) -> None:
        """Begin nothing new; `busy` says when the rest is done, `close` ends it."""
        self._stopped = True
        if self.scheduler is not None:
            self.scheduler.stop()

    def close(self) -> None:
        if self.scheduler is not None:
            self.scheduler.close()
        if self.controllers is not None:
            self.controllers.stop()
        if self.kubelet is not None:
            self.kubelet.stop()
        self.store.end_watches()

    def _start_scheduler(self, scheduling: Scheduling) -> None:
        if self._stopped:
            return
        driver = connect_scheduler(
            self._port,
            self._clock,
            self._call_later,
            config=scheduling.config,
            seed=self._random.getrandbits(32),
            log=scheduling.log,
            registry=scheduling.registry,
            extender_client=scheduling.extender_client,
            # Whoever came before has written no more events than there were writes.
            first_event=int(self.store.resource_version),
        )
        driver.on_failure = lambda failure: self._replace_scheduler(driver, scheduling)
        self.scheduler = driver
        driver.start()

    def _replace_scheduler(self, broken: Driver, scheduling: Scheduling) -> None:
        broken.close()
        log.error("the scheduler broke; a new one starts in %g s", RESTART_AFTER_S)
        self._call_later(RESTART_AFTER_S, lambda: self._start_scheduler(scheduling))

    def _repeat(self, every_s: float, action: Callable[[], None]) -> None:
        def again() -> None:
            if self._stopped:
                return
            try:
                with self.store.batch():
                    action()
            except ApiError as error:
                log.warning("housekeeping failed: %s", error.message)
            self._call_later(every_s, again)

        self._call_later(every_s, again)
