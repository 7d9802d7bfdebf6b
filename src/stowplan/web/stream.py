"""Who watches: messages as server-sent events, to every reader that keeps up.

A source of which nothing changes sends a beat now and then, so that a broken connection is
noticed; `changes` has more to say.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

TICK_S = 0.2
WAITING_MAX = 50
"""Messages that may wait for a reader."""
WATCHERS_MAX = 32
BEAT_TICKS = 25
"""A message at least every so many ticks, so that a broken connection is noticed."""


class Stream:
    def __init__(self) -> None:
        self._watchers: set[asyncio.Queue[bytes | None]] = set()
        self._looking: asyncio.Task[None] | None = None

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
        while True:
            await asyncio.sleep(BEAT_TICKS * TICK_S)
            self._send("beat", {})
