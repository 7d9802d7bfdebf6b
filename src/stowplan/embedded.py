"""A whole cluster in this process: the store, and whoever works on it.

The scheduler, the controllers and the kubelet are clients of the store like those that come over
HTTP, only without the HTTP.  Nothing here knows an event loop: time comes from the clock, and
`call_later` grants all turns, be it asyncio's, a `VirtualClock`'s, under which everything takes no
real time, or that of `clock.Timers`.

This is the one place where an embedded cluster is put together, and forked: for `stowplan up`, the
demo, and `stowplan.world`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any

from msgspec import structs

from stowplan.apiserver.controllers import Controllers, Memory
from stowplan.apiserver.controllers.volumes import DEFAULT_CLASS
from stowplan.apiserver.grouping import GroupedStore
from stowplan.apiserver.kubelet import Kubelet
from stowplan.apiserver.simulated_nodes import simulated_node, with_defaults_of_a_node
from stowplan.apiserver.store import Store
from stowplan.clock import Agenda, Clock, Timers
from stowplan.cluster.port import Cluster, ListOptions
from stowplan.config import SchedulerConfig, load_config
from stowplan.core.algorithm import Explain, TieBreak
from stowplan.core.attempts import AttemptLog, AttemptObserver
from stowplan.core.bottlenecks import Bottlenecks
from stowplan.core.machine import Machine
from stowplan.core.profiles import Registry
from stowplan.errors import AlreadyExists, ApiError, StowplanError
from stowplan.framework.timing import Recorder, Recorders
from stowplan.objects.api import Create, Patch
from stowplan.objects.kinds import NODE, STORAGE_CLASS
from stowplan.objects.times import format_time
from stowplan.plugins import IN_TREE
from stowplan.printable import logger
from stowplan.runtime.driver import Driver, ExtenderClient
from stowplan.runtime.event_recorder import EventRecorder

log = logger(__name__)

NODES_DEFAULT = 3
"""Made in a cluster that has none: one for each zone."""

BOOKMARKS_EVERY_S = 60.0
GARBAGE_EVERY_S = 30.0
FORGET_EVERY_S = 300.0
"""As often as kube-apiserver compacts its history."""
TIMES_EVERY_S = 60.0
RESTART_AFTER_S = 1.0
"""A scheduler that broke is replaced by a new one, which starts from what the cluster says."""


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
    seed: int | None = None
    """None: by the cluster's chance."""
    tie_break: TieBreak = "random"
    explain: Explain | None = None
    times: Bottlenecks | None = None
    """Is told where the time goes."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Who works on the cluster."""

    scheduling: Scheduling | None = field(default_factory=Scheduling)
    """None: somebody else schedules."""
    controllers: bool = True
    kubelet: bool = True
    detailed: bool = True
    """The kubelet also writes what only people read, such as addresses."""
    is_copy: bool = False
    """Filled from another cluster, which may show only a part of itself."""


class EmbeddedCluster:
    def __init__(
        self,
        store: Store,
        parts: Parts,
        *,
        clock: Clock,
        timers: Agenda,
        random: Random,
        port: Cluster | None = None,
        memory: Memory | None = None,
    ) -> None:
        """`port`: how its workers reach the store, if not directly; `memory`: of controllers that
        go on from others."""
        self.store = store
        self.parts = parts
        self.clock = clock
        self.timers = timers
        self._random = random
        self._port = store if port is None else port
        self._stopped = False
        self._gone: list[object] = []
        """Schedulers that broke, and their recorders, which may still have plans."""
        self.controllers: Controllers | None = None
        self.kubelet: Kubelet | None = None
        self.scheduler: Driver | None = None
        """Another one after it broke."""
        if parts.scheduling is not None:
            self.scheduler = self._connect(parts.scheduling)
        if parts.controllers:
            self.controllers = Controllers(
                self._port,
                clock=clock,
                call_later=timers.call_later,
                random=random,
                memory=memory,
                is_copy=parts.is_copy,
                gates=store.gates,
            )
        if parts.kubelet:
            self.kubelet = Kubelet(
                self._port,
                clock=clock,
                call_later=timers.call_later,
                random=random,
                detailed=parts.detailed,
                is_copy=parts.is_copy,
            )

    def add_nodes(self, count: int | None, gpus: int = 0) -> None:
        """See that node-1 to node-`count` are there, with so many simulated GPUs each.

        None: a few, if there are none at all.
        """
        if count is None:
            nodes, _ = self.store.select(NODE, ListOptions())
            count = 0 if nodes else NODES_DEFAULT
        now = format_time(self.clock.now())
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
        now = format_time(self.clock.now())
        wanted = [Create(NODE, "", with_defaults_of_a_node(node, now)) for node in nodes]
        if self.controllers is not None:
            wanted.append(Create(STORAGE_CLASS, "", DEFAULT_CLASS))
        for request in wanted:
            with suppress(AlreadyExists):
                self.store.execute(request)

    # -- life -------------------------------------------------------------------------------

    def start(self) -> None:
        """Let everybody work, and see to what any API server has to do now and then."""
        self.start_scheduler()
        self.start_workers()
        self._repeat(BOOKMARKS_EVERY_S, self.store.send_bookmarks)
        self._repeat(GARBAGE_EVERY_S, self.store.collect_garbage)
        self._repeat(FORGET_EVERY_S, self.store.forget_old)
        if self.times is not None:
            self._repeat(TIMES_EVERY_S, self.times.rotate)

    def start_scheduler(self) -> None:
        if self.scheduler is not None:
            self.scheduler.start()

    def start_workers(self) -> None:
        if self.controllers is not None:
            self.controllers.start()
        if self.kubelet is not None:
            self.kubelet.start()

    @property
    def ready(self) -> bool:
        """Everybody who works here knows what there is."""
        return all(part is None or part.synced for part in (self.controllers, self.scheduler))

    @property
    def busy(self) -> bool:
        """A decision is still on its way into the store."""
        return self.scheduler is not None and self.scheduler.busy

    @property
    def times(self) -> Bottlenecks | None:
        """Where the scheduler's time goes, if somebody measures that."""
        return None if self.parts.scheduling is None else self.parts.scheduling.times

    @property
    def has_work(self) -> bool:
        """Whether something is left to do, now or later.

        Pods that stay unschedulable do not count, nor do those whose attempts end in an error
        again and again; neither do pods that run for ever.
        """
        if self.scheduler is not None:
            machine = self.scheduler.machine
            if self.busy or machine.has_work or machine.queue.is_retrying:
                return True
            if machine.stepper.timer_count:
                return True
        workers = (self.controllers, self.kubelet)
        return any(one is not None and (one.busy or one.has_plans) for one in workers)

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

    def _connect(self, scheduling: Scheduling) -> Driver:
        seed = scheduling.seed
        driver = connect_scheduler(
            self._port,
            self.clock,
            self.timers.call_later,
            config=scheduling.config,
            seed=self._random.getrandbits(32) if seed is None else seed,
            log=scheduling.log,
            recorder=None if scheduling.times is None else Recorders(scheduling.times),
            registry=scheduling.registry,
            tie_break=scheduling.tie_break,
            extender_client=scheduling.extender_client,
            # Whoever came before has written no more events than there were writes.
            first_event=int(self.store.resource_version),
        )
        driver.machine.algorithm.explain = scheduling.explain
        if scheduling.times is not None:
            driver.machine.log.observe(scheduling.times)
        driver.on_failure = partial(self._broke, driver)
        return driver

    def _broke(self, broken: Driver, failure: BaseException) -> None:
        broken.close()
        self._gone += [broken, broken.recorder]
        log.error("the scheduler broke; a new one starts in %g s", RESTART_AFTER_S)
        self.timers.call_later(RESTART_AFTER_S, self._replace_scheduler)

    def _replace_scheduler(self) -> None:
        if not self._stopped and self.parts.scheduling is not None:
            self.scheduler = self._connect(self.parts.scheduling)
            self.scheduler.start()

    def _repeat(self, every_s: float, action: Callable[[], None]) -> None:
        self.timers.call_later(every_s, partial(self._keep_house, every_s, action))

    def _keep_house(self, every_s: float, action: Callable[[], None]) -> None:
        if self._stopped:
            return
        try:
            with self.store.batch():
                action()
        except ApiError as error:
            log.warning("housekeeping failed: %s", error.message)
        self._repeat(every_s, action)

    def observe(self, observer: AttemptObserver, explain: Explain) -> None:
        """Tell of every attempt from now on, those of a scheduler that takes over included."""
        if self.scheduler is not None:
            self.scheduler.machine.log.observe(observer)
            self._explain_by(self.scheduler.machine, explain)

    def ignore(self, observer: AttemptObserver) -> None:
        """Tell it no more, and explain nothing."""
        if self.scheduler is not None:
            self.scheduler.machine.log.ignore(observer)
            self._explain_by(self.scheduler.machine, None)

    def _explain_by(self, machine: Machine, explain: Explain | None) -> None:
        assert self.parts.scheduling is not None, "we have a scheduler"
        machine.algorithm.explain = explain
        scheduling = replace(self.parts.scheduling, log=machine.log, explain=explain)
        self.parts = replace(self.parts, scheduling=scheduling)

    # -- another world ----------------------------------------------------------------------

    def fork(self, clock: Clock, timers: Timers, scheduling: Scheduling) -> EmbeddedCluster:
        """Another one that is as this one is now, in memory, and goes its own way from here on.

        `clock` is not behind ours.  Of `scheduling` the log, the seed and who explains are taken;
        all else is as it is here, but extenders are not called.  Nobody keeps house in it.
        """
        if isinstance(self._port, GroupedStore):
            self._port.commit_all()
        fork = EmbeddedCluster(
            self.store.fork(clock),
            # The scheduler is a fork of ours.
            replace(self.parts, scheduling=None),
            clock=clock,
            timers=timers,
            random=Random(scheduling.seed),
            memory=None if self.controllers is None else self.controllers.remembered(),
        )
        fork.parts = replace(self.parts, scheduling=scheduling)
        version = self.store.resource_version
        twins: dict[int, object] = dict.fromkeys(map(id, (self, *self._gone)))
        fork.scheduler = self._forked_scheduler(fork, scheduling)
        if self.scheduler is not None and fork.scheduler is not None:
            fork.scheduler.resume(self.scheduler, version)
            twins[id(self.scheduler)] = fork.scheduler
            twins[id(self.scheduler.recorder)] = fork.scheduler.recorder
        if self.controllers is not None and fork.controllers is not None:
            twins |= fork.controllers.resume(self.controllers, version)
        if self.kubelet is not None and fork.kubelet is not None:
            fork.kubelet.resume(self.kubelet, version)
            twins[id(self.kubelet)] = fork.kubelet
        timers.take_over(self.timers.plans(), twins)
        if fork.scheduler is not None and fork.scheduler.machine.has_work:
            # Pods that begin their attempt anew have nobody who asked for a turn.
            fork.scheduler.wake()
        return fork

    def _forked_scheduler(self, fork: EmbeddedCluster, scheduling: Scheduling) -> Driver | None:
        origin = self.scheduler
        if origin is None:
            return None
        if origin.failure is not None or origin.machine.is_deciding:
            raise StowplanError(
                "the scheduler is in the middle of a decision, or is being replaced",
                hint="try again in a second",
            )
        random = Random()
        random.setstate(origin.machine.random.getstate())
        machine = origin.machine.fork(random, scheduling.log or AttemptLog())
        machine.algorithm.explain = scheduling.explain
        if machine.config.extenders:
            machine.reconfigure(structs.replace(machine.config, extenders=[]))
        call_later = fork.timers.call_later
        seed = scheduling.seed
        recorder = origin.recorder.fork(
            fork.store, fork.clock, call_later=call_later, random=Random(seed)
        )
        return Driver(
            machine,
            fork.store,
            clock=fork.clock,
            call_later=call_later,
            recorder=recorder,
            random=Random(seed),
        )
