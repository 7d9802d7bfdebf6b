"""A live cluster, followed: everything that scheduling reads, and every change of it.

One informer per kind, as the scheduler itself has them; the client can only list and watch.  What
comes is handed to a `Follower` in the order it comes.  `answers.shadow` and `sim.recorder` are
such; they live until a signal, a time or they themselves end it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Protocol

from stowplan.clock import Clock, RealClock
from stowplan.cluster.client import KubernetesClient
from stowplan.cluster.informer import Informer
from stowplan.cluster.kubeconfig import Connection, load_connection
from stowplan.cluster.port import ListOptions
from stowplan.errors import Forbidden
from stowplan.objects.changes import Change
from stowplan.objects.kinds import NODE, POD, Kind
from stowplan.runtime.driver import WATCHED
from stowplan.runtime.preflight import Right, missing_rights, unserved
from stowplan.world.live import what_is_hidden

TICK_S = 0.1

Watched = Sequence[tuple[Kind, ListOptions]]


class Follower(Protocol):
    def take(self, changes: Sequence[Change], now_s: float) -> None:
        """What the cluster shows; until `synced`, what there is."""
        ...

    def synced(self) -> None:
        """Everything that there is has been shown."""
        ...

    def tick(self, now_s: float) -> None:
        """Some time has passed."""
        ...


@dataclass(frozen=True, slots=True)
class Source:
    """Which live cluster."""

    kubeconfig: str = ""
    context: str = ""

    def connection(self) -> Connection:
        return load_connection(self.kubeconfig, context=self.context, environment=os.environ)


@dataclass(slots=True)
class Following:
    """What is followed, and until when."""

    source: Source
    follower: Follower
    kinds: Watched = WATCHED
    seconds: float | None = None
    """None: until a signal comes."""
    on_missing: Callable[[str], None] = lambda text: None
    """Told of each right that is missing, and what that hides."""
    on_start: Callable[[], None] = lambda: None
    """Told when everything that there is has been shown."""

    def run(self) -> None:
        asyncio.run(self.follow())

    async def follow(self) -> None:
        """Until a signal comes, or the time is over."""
        loop, clock = asyncio.get_running_loop(), RealClock()
        connection = self.source.connection()
        stopped = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopped.set)
        kinds = await allowed_kinds(connection, clock, self.kinds, self.on_missing)
        client = client_for(connection, clock, may_call=False)
        informers = self._informers(client, kinds, clock)
        for informer in informers:
            informer.start()
        try:
            await self._wait(informers, clock, stopped)
        finally:
            for informer in informers:
                informer.stop()
            await client.close()

    def _informers(self, client: KubernetesClient, kinds: Watched, clock: Clock) -> list[Informer]:
        loop, random = asyncio.get_running_loop(), Random(0)

        def call_later(delay_s: float, action: Callable[[], None]) -> None:
            loop.call_later(delay_s, action)

        return [
            Informer(
                client,
                kind,
                partial(self._take, clock),
                options=options,
                clock=clock,
                call_later=call_later,
                random=random,
            )
            for kind, options in kinds
        ]

    def _take(self, clock: Clock, changes: list[Change]) -> None:
        self.follower.take(changes, clock.now())

    async def _wait(self, informers: list[Informer], clock: Clock, stopped: asyncio.Event) -> None:
        synced = False
        end_s = float("inf")
        while not stopped.is_set() and clock.now() < end_s:
            with suppress(TimeoutError):
                await asyncio.wait_for(stopped.wait(), TICK_S)
            if not synced and all(informer.synced for informer in informers):
                synced = True
                self.follower.synced()
                self.on_start()
                if self.seconds is not None:
                    end_s = clock.now() + self.seconds
            self.follower.tick(clock.now())


async def allowed_kinds(
    connection: Connection, clock: Clock, kinds: Watched, on_missing: Callable[[str], None]
) -> Watched:
    """Of these kinds, those that are there and that we may follow."""
    client = client_for(connection, clock, may_call=True)
    try:
        absent = set(await unserved(client, (kind for kind, _ in kinds)))
        present = [(kind, options) for kind, options in kinds if kind not in absent]
        rights = [Right(verb, kind) for kind, _ in present for verb in ("list", "watch")]
        missing = await missing_rights(client, rights)
    finally:
        await client.close()
    needed = [right for right in missing if right.kind in (NODE, POD)]
    if needed:
        raise Forbidden(
            f"rights are missing at {client.server}: {', '.join(map(str, needed))}",
            hint="deploy/reader/role.yaml has the role that is enough",
        )
    for right in missing:
        on_missing(what_is_hidden(right.verb, right.kind))
    closed = {right.kind for right in missing}
    return [(kind, options) for kind, options in present if kind not in closed]


def client_for(connection: Connection, clock: Clock, *, may_call: bool) -> KubernetesClient:
    """One that cannot write, or one that only asks what we may."""
    return KubernetesClient(
        connection,
        clock=clock,
        random=Random(0),
        qps=-1.0,
        user_agent="stowplan/follow",
        may_call=lambda: may_call,
    )
