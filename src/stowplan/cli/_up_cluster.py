"""The cluster of `stowplan up`: the store and whoever works on it, under one event loop.

The scheduler, the controllers and the kubelet are clients of the store like those that come over
HTTP, only without the HTTP.  Nothing here knows the loop: `call_later` grants all turns.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from stowplan.apiserver.controllers import Controllers
from stowplan.apiserver.grouping import GroupedStore
from stowplan.apiserver.http.documents import version
from stowplan.apiserver.kubelet import Kubelet
from stowplan.apiserver.simulated_nodes import simulated_node
from stowplan.apiserver.store import Store
from stowplan.clock import Clock
from stowplan.cluster.port import ListOptions
from stowplan.cluster.reflector import CallLater
from stowplan.config import SchedulerConfig
from stowplan.core.profiles import Registry
from stowplan.errors import AlreadyExists, ApiError
from stowplan.objects.api import Create
from stowplan.objects.kinds import NODE
from stowplan.objects.times import format_time
from stowplan.plugins import IN_TREE
from stowplan.runtime.driver import Driver, ExtenderClient
from stowplan.runtime.embedded import connect_scheduler

log = logging.getLogger(__name__)

NODES_DEFAULT = 3
"""Made in a cluster that has none: one for each zone."""

BOOKMARKS_EVERY_S = 60.0
GARBAGE_EVERY_S = 30.0
FORGET_EVERY_S = 300.0
"""As often as kube-apiserver compacts its history."""
RESTART_AFTER_S = 1.0
"""A scheduler that broke is replaced by a new one, which starts from what the cluster says."""


@dataclass(frozen=True, slots=True)
class Scheduling:
    config: SchedulerConfig
    registry: Registry = field(default_factory=lambda: IN_TREE)
    extender_client: ExtenderClient | None = None


@dataclass(frozen=True, slots=True)
class Parts:
    """What runs beside the API."""

    scheduling: Scheduling | None
    """None: somebody else schedules."""
    workers: bool = True
    """Controllers and kubelet."""


class LocalCluster:
    def __init__(
        self,
        store: Store,
        parts: Parts,
        *,
        clock: Clock,
        call_later: CallLater,
        random: Random,
    ) -> None:
        self.grouped = GroupedStore(store, lambda action: call_later(0.0, action))
        self._store = store
        self._clock = clock
        self._call_later = call_later
        self._random = random
        self._scheduling = parts.scheduling
        self._controllers: Controllers | None = None
        self._kubelet: Kubelet | None = None
        self.scheduler: Driver | None = None
        self._stopped = False
        if parts.workers:
            self._controllers = Controllers(
                self.grouped, clock=clock, call_later=call_later, random=random
            )
            self._kubelet = Kubelet(
                self.grouped, clock=clock, call_later=call_later, random=random, detailed=True
            )

    def add_nodes(self, count: int | None) -> None:
        """See that node-1 to node-`count` are there; None: a few, if there are none at all."""
        if count is None:
            nodes, _ = self._store.select(NODE, ListOptions())
            count = 0 if nodes else NODES_DEFAULT
        now, kubelet_version = format_time(self._clock.now()), version()["gitVersion"]
        with self._store.batch():
            for number in range(1, count + 1):
                try:
                    self._store.execute(
                        Create(NODE, "", simulated_node(number, now, kubelet_version))
                    )
                except AlreadyExists:
                    continue

    def start(self) -> None:
        if self._controllers is not None and self._kubelet is not None:
            self._controllers.start()
            self._kubelet.start()
        if self._scheduling is not None:
            self._start_scheduler(self._scheduling)
        self._repeat(BOOKMARKS_EVERY_S, self._store.send_bookmarks)
        self._repeat(GARBAGE_EVERY_S, self._store.collect_garbage)
        self._repeat(FORGET_EVERY_S, self._store.forget_old)

    @property
    def ready(self) -> bool:
        """Everybody who works here knows what there is."""
        controllers, scheduler = self._controllers, self.scheduler
        return (controllers is None or controllers.synced) and (
            self._scheduling is None or (scheduler is not None and scheduler.synced)
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
        if self._controllers is not None and self._kubelet is not None:
            self._controllers.stop()
            self._kubelet.stop()
        self._store.end_watches()

    def _start_scheduler(self, scheduling: Scheduling) -> None:
        if self._stopped:
            return
        driver = connect_scheduler(
            self.grouped,
            self._clock,
            self._call_later,
            config=scheduling.config,
            seed=self._random.getrandbits(32),
            registry=scheduling.registry,
            extender_client=scheduling.extender_client,
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
                with self._store.batch():
                    action()
            except ApiError as error:
                log.warning("housekeeping failed: %s", error.message)
            self._call_later(every_s, again)

        self._call_later(every_s, again)
