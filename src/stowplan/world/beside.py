"""Beside another scheduler: a scheduler that follows a live cluster and decides nothing.

It is the driver of `stowplan run` as a standby replica has it, with a client that can only list and
watch; `Watched` shows it through the public face.  Kinds that scheduling does not read, but forks
of the cluster need (workloads, priority classes, events), are followed too.  Lives on the event
loop that starts it.  `stowplan ui --kubeconfig` is made of this.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random

from stowplan.clock import RealClock
from stowplan.cluster.client import KubernetesClient
from stowplan.cluster.informer import Informer
from stowplan.cluster.port import ListOptions
from stowplan.core.machine import Machine
from stowplan.core.messages import Event
from stowplan.objects.changes import Added, Change, Deleted, Updated
from stowplan.objects.kinds import EVENT, Kind
from stowplan.runtime.driver import Driver
from stowplan.runtime.event_recorder import EventRecorder
from stowplan.world.cluster import Cluster
from stowplan.world.engine import Engine
from stowplan.world.following import Source, allowed_kinds, client_for
from stowplan.world.live import READ
from stowplan.world.setup import Setup
from stowplan.world.watching import Watched


class Beside:
    def __init__(
        self,
        source: Source,
        setup: Setup,
        on_changes: Callable[[Sequence[Change], float], None] = lambda changes, now_s: None,
    ) -> None:
        """`on_changes` is told all that the cluster shows, and when."""
        self._source = source
        self._setup = setup
        self._on_changes = on_changes
        self._clock = RealClock()
        self._client: KubernetesClient | None = None
        self._closing: list[Callable[[], object]] = []

    async def start(self) -> Cluster:
        """Follow; the look is there when everything that there is has been seen."""
        missing: list[str] = []
        connection = self._source.connection()
        everything = [(kind, ListOptions()) for kind in (*READ, EVENT)]
        allowed = await allowed_kinds(connection, self._clock, everything, missing.append)
        kinds = {kind for kind, _ in allowed}
        self._client = client = client_for(connection, self._clock, may_call=False)
        driver = self._driver(client)
        for kind in [*driver.informers]:
            if kind not in kinds:
                del driver.informers[kind]
        seen = asyncio.Event()

        def look() -> None:
            if driver.caught_up and all(informer.synced for informer in others.values()):
                seen.set()

        others = {kind: self._other(client, kind, look) for kind in kinds - driver.informers.keys()}
        driver.on_handled, driver.on_caught_up = self._handled, look
        driver.start()
        for informer in others.values():
            informer.start()
        self._closing = [driver.close, *(informer.stop for informer in others.values())]
        await seen.wait()
        self.watched = Watched(driver, self._clock, others=others)
        return Cluster.of_engine(Engine.watching(self.watched, self._setup), tuple(missing))

    async def close(self) -> None:
        for close in self._closing:
            close()
        if self._client is not None:
            await self._client.close()

    def _driver(self, client: KubernetesClient) -> Driver:
        setup, clock, random = self._setup, self._clock, Random(self._setup.seed)
        machine = Machine(setup.config, random=random, registry=setup.registry)
        recorder = EventRecorder(client, clock, call_later=_call_later, random=random)
        driver = Driver(
            machine,
            client,
            clock=clock,
            call_later=_call_later,
            recorder=recorder,
            random=random,
        )
        driver.active = False
        return driver

    def _other(
        self, client: KubernetesClient, kind: Kind, on_synced: Callable[[], None]
    ) -> Informer:
        return Informer(
            client,
            kind,
            lambda changes: None,
            on_synced=on_synced,
            clock=self._clock,
            call_later=_call_later,
            random=Random(0),
        )

    def _handled(self, events: Sequence[Event], seconds: float) -> None:
        changes = [event for event in events if isinstance(event, Added | Updated | Deleted)]
        if changes:
            self._on_changes(changes, self._clock.now())


def _call_later(delay_s: float, action: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    if delay_s <= 0:
        loop.call_soon(action)
    else:
        loop.call_later(delay_s, action)
