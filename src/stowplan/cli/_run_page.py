"""The page of `stowplan run`: made when somebody looks, and gone when nobody has for a while.

Till then nothing of it is loaded, and the scheduler is observed by nobody: what `stowplan run`
takes without a reader stays as it is.  Runs on the thread of `runtime.upkeep`; all that is read of
the scheduler is read on the scheduler's own.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiohttp import web

    from stowplan.runtime.live import Looking
    from stowplan.web import Page

IDLE_S = 60.0
"""After the last reader has gone."""
NOTE = "The cluster that `stowplan run` schedules, as it runs; only forks are changed here."


class RunPage:
    def __init__(self, looking: Looking) -> None:
        self._looking = looking
        self._page: Page | None = None
        self._making = asyncio.Lock()
        self._readers = 0
        self._idle: asyncio.TimerHandle | None = None
        self._ending: asyncio.Task[None] | None = None

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self._readers += 1
        if self._idle is not None:
            self._idle.cancel()
        try:
            page = await self._made()
            return await page.handle(request)
        finally:
            self._readers -= 1
            if not self._readers:
                self._idle = asyncio.get_running_loop().call_later(IDLE_S, self._nobody_looks)

    async def _made(self) -> Page:
        async with self._making:
            if self._page is None:
                page = _make(self._looking)
                await page.start()
                self._page = page
            return self._page

    def _nobody_looks(self) -> None:
        self._ending = asyncio.get_running_loop().create_task(self._end_if_idle())

    async def _end_if_idle(self) -> None:
        if not self._readers:
            await self.close()

    async def close(self) -> None:
        """Whoever looks is sent away."""
        async with self._making:
            page, self._page = self._page, None
            if page is not None:
                await page.close()
                self._looking.log.forget()


def _make(looking: Looking) -> Page:
    from stowplan.web import Guard, Page, Watching
    from stowplan.world.cluster import Cluster
    from stowplan.world.watching import Watched

    watched = Watched(looking.driver, looking.clock, times=looking.bottlenecks)
    source = Watching(
        lambda: Cluster.watching(watched),
        looking.on_scheduler,
        name=looking.server,
        note=NOTE,
        watched=lambda: watched,
    )
    source.lines = looking.log.keep()
    return Page(source, Guard(behind=True), now=looking.clock.now)
