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

import numpy as np

from stowplan.errors import StowplanError
from stowplan.printable import logger
from stowplan.web.nodes import amounts_used, flag_of, nodes_by_name
from stowplan.web.outage import Outage
from stowplan.web.queues import summary
from stowplan.web.series import Series, waiting_in
from stowplan.web.sources import Beside, ClusterSource
from stowplan.web.stream import BEAT_TICKS, TICK_S, Stream
from stowplan.world.cluster import Cluster

log = logger(__name__)

SAMPLE_EVERY = 5
"""Ticks from one sample of the time series, and one look at the nodes' flags, to the next."""


class Changes(Stream):
    def __init__(self, source: ClusterSource, now: Callable[[], float]) -> None:
        super().__init__()
        self._source = source
        self._now = now
        self.series = Series()
        self.outage = Outage()
        self._names: list[str] = []
        self._used: dict[str, Any] = {}
        self._flags: list[int] = []

    async def _look(self) -> None:
        seen, tick = -1, 0
        while True:
            tick += 1
            turned = self.outage.look(self._source.problem, self._source.version, self._now())
            try:
                if tick == 1 or (self._source.live and tick % SAMPLE_EVERY == 0):
                    await self._sample()
                version = self._source.version
                if self._watchers and version != seen:
                    thorough = tick % SAMPLE_EVERY == 0
                    event, data = await self._source.read(partial(self._compare, thorough=thorough))
                    self._send(event, {**data, "version": version, **self.outage.to_dict()})
                    # Flags are looked at now and then: till then there is something left to see.
                    seen = version if thorough else seen
                elif self._watchers and (turned or tick % BEAT_TICKS == 0):
                    self._send("beat", {"version": version, **self.outage.to_dict()})
            except StowplanError as error:
                self._fail(str(error))
            except Exception:
                # Who watches is told again when the next look succeeds.
                log.exception("a look at the cluster failed")
                self._fail("a look at the cluster failed; see the log")
            await asyncio.sleep(TICK_S)

    def _fail(self, problem: str) -> None:
        self._send("problem", {"problem": problem, "since": self._now()})

    async def _sample(self) -> None:
        source, now_s = self._source, self._now()
        if isinstance(source, Beside):
            ours = await source.ask(waiting_in)
            placed = source.placed
            await source.read(lambda cluster: self.series.take(cluster, now_s, ours, placed))
        else:
            await source.read(lambda cluster: self.series.take(cluster, now_s))

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
