"""A second thread, for what must go on whatever the scheduler's own thread does.

A decision is one call that nobody can interrupt, and a plugin of a user's may take its time.  So
the lease is renewed, health is answered and the scheduler is watched over (`runtime.guard`) on a
thread with an event loop and connections of its own.  The scheduler stays on the main thread and
knows nothing of this: the two share no locks, and all that goes to and fro goes through `post` and
`run` here, and `post_to` for the way back.

Python passes its interpreter lock on every 5 ms, so a loop in Python does not keep this thread
from running; for calls into C that hold the lock see `runtime.heartbeat`.

Who makes one: `runtime.supervision`.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

Value = TypeVar("Value")

JOIN_S = 1.0
"""How long the thread may take to end; it ends with the process in any case."""


class Upkeep:
    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="upkeep", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.post(self.loop.stop)
        self._thread.join(JOIN_S)

    def post(self, action: Callable[[], object]) -> None:
        """Do this there, soon."""
        post_to(self.loop, action)

    async def run(self, work: Callable[[], Coroutine[Any, Any, Value]]) -> Value:
        """Do this there, and wait here for the outcome."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), self.loop))

    def call_later(self, delay_s: float, action: Callable[[], object]) -> asyncio.TimerHandle:
        """Only to be called there."""
        return self.loop.call_later(max(0.0, delay_s), action)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.close()


def post_to(loop: asyncio.AbstractEventLoop, action: Callable[[], object]) -> None:
    """From any thread, or from within a signal handler; a loop that has ended hears nothing."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(action)


async def answer_of(loop: asyncio.AbstractEventLoop, action: Callable[[], Value]) -> Value:
    """What `action` returns there; awaited on a loop of another thread."""

    async def act() -> Value:
        return action()

    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(act(), loop))


@contextmanager
def stop_signals(asked: Callable[[], None]) -> Iterator[None]:
    """Tells `asked` of SIGTERM and SIGINT in the midst of whatever the main thread does.

    asyncio's own handlers would wait for the loop, which a decision keeps from its next turn.
    """
    before = {
        number: signal.signal(number, lambda number, frame: asked())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
