"""The stream of changes: who watches is sent what is different, a few times a second.

While somebody watches, the source is looked at every tick.  What changed on the map goes out as
the rows of the nodes and their new amounts; everything else as counts and a version, after which
a view asks again for what it shows.  A reader that does not keep up is sent away, and begins anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import numpy as np

from stowplan.errors import StowplanError
from stowplan.web.nodes import amounts_used, flag_of, nodes_by_name
from stowplan.web.queues import summary
from stowplan.web.series import Series
from stowplan.web.sources import Source
from stowplan.world.cluster import Cluster

TICK_S = 0.2
SAMPLE_EVERY = 5
"""Ticks from one sample of the time series, and one look at the nodes' flags, to the next."""
WAITING_MAX = 50
"""Messages that may wait for a reader."""
WATCHERS_MAX = 32
BEAT_TICKS = 25
"""A message at least every so many ticks, so that a broken connection is noticed."""


class Changes:
    def __init__(self, source: Source, now: Callable[[], float]) -> None:
        self._source = source
        self._now = now
        self._watchers: set[asyncio.Queue[bytes | None]] = set()
        self._looking: asyncio.Task[None] | None = None
        self.series = Series()
        self._names: list[str] = []
        self._used: dict[str, Any] = {}
        self._flags: list[int] = []

    @property
    def is_full(self) -> bool:
        return len(self._watchers) >= WATCHERS_MAX

    def start(self) -> None:
        self._looking = asyncio.get_running_loop().create_task(self._look())

    async def stop(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        for watcher in list(self._watchers):
            self._leave(watcher)

    def join(self) -> asyncio.Queue[bytes | None]:
        """Messages from now on; None ends them."""
        watcher: asyncio.Queue[bytes | None] = asyncio.Queue(WAITING_MAX + 1)
        self._watchers.add(watcher)
        return watcher

    def leave(self, watcher: asyncio.Queue[bytes | None]) -> None:
        self._watchers.discard(watcher)

    def _leave(self, watcher: asyncio.Queue[bytes | None]) -> None:
        self._watchers.discard(watcher)
        while watcher.full():
            watcher.get_nowait()
        watcher.put_nowait(None)

    def _send(self, event: str, data: Any) -> None:
        message = b"event: " + event.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"
        for watcher in list(self._watchers):
            if watcher.qsize() >= WAITING_MAX:
                self._leave(watcher)
            else:
                watcher.put_nowait(message)

    async def _look(self) -> None:
        seen, tick = -1, 0
        while True:
            tick += 1
            try:
                if tick == 1 or (self._source.live and tick % SAMPLE_EVERY == 0):
                    await self._source.read(self._sample)
                version = self._source.version
                if self._watchers and version != seen:
                    thorough = tick % SAMPLE_EVERY == 0
                    event, data = await self._source.read(partial(self._compare, thorough=thorough))
                    self._send(event, {**data, "version": version, "problem": self._source.problem})
                    # Flags are looked at now and then: till then there is something left to see.
                    seen = version if thorough else seen
                elif self._watchers and tick % BEAT_TICKS == 0:
                    self._send("beat", {"version": version})
            except StowplanError as error:
                self._send("problem", {"problem": str(error)})
            await asyncio.sleep(TICK_S)

    def _sample(self, cluster: Cluster) -> None:
        self.series.take(cluster, self._now())

    def _compare(self, cluster: Cluster, *, thorough: bool) -> tuple[str, dict[str, Any]]:
        """What changed on the map since the last look; `nodes` for rows, `reload` for more."""
        whole, free = cluster.allocatable(), cluster.free()
        used = amounts_used(whole, free)
        told: dict[str, Any] = {"summary": summary(cluster)}
        flags = self._flags
        if thorough:
            nodes = nodes_by_name(cluster)
            flags = [flag_of(nodes[name]) for name in whole.index]
        same = whole.index == self._names and used.keys() == self._used.keys()
        if not same or flags != self._flags:
            self._names, self._used, self._flags = whole.index, used, flags
            return "reload", told
        changed = np.zeros(len(whole), np.bool_)
        for name, column in used.items():
            changed |= column != self._used[name]
        rows = changed.nonzero()[0]
        told["rows"] = rows.tolist()
        told["used"] = {name: column[rows].tolist() for name, column in used.items()}
        # More pods than before: something was just placed there.
        grown = used["pods"][rows] > self._used["pods"][rows]
        told["chosen"] = rows[grown].tolist()
        self._used = used
        return "nodes", told
