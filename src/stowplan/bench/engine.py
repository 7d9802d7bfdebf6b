"""Three ways for time to pass while a workload runs: real, virtual, and asyncio's.

Each is a clock, a `call_later`, and a way to go on until something holds.  The embedded cluster
needs no event loop, so the benchmark has none around it; tests run in virtual time, where waiting
takes none; a real cluster answers through asyncio.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from stowplan.clock import Clock, RealClock, Timers, VirtualClock

SLEEP_S_MAX = 0.05
LOOK_S = 0.005

Holds = Callable[[], bool]


class Engine(Protocol):
    @property
    def clock(self) -> Clock: ...

    def call_later(self, delay_s: float, action: Callable[[], None]) -> object: ...

    def run(self, finished: Holds) -> None: ...


class RealTime:
    def __init__(self) -> None:
        self.clock = RealClock()
        self._timers = Timers(self.clock)
        self.call_later = self._timers.call_later

    def run(self, finished: Holds) -> None:
        run_due = self._timers.run_due
        while not finished():
            if not run_due():
                next_s = self._timers.next_s
                assert next_s is not None, "nothing is planned, and yet it is not finished"
                _pause(min(SLEEP_S_MAX, next_s - self.clock.now()))


def _pause(seconds: float) -> None:
    """Named, so that `phases` knows waiting from working."""
    if seconds > 0:
        time.sleep(seconds)


class VirtualTime:
    def __init__(self, now_s: float = 1_700_000_000.0) -> None:
        self.clock = VirtualClock(now_s)

    def call_later(self, delay_s: float, action: Callable[[], None]) -> None:
        self.clock.at(max(0.0, delay_s), action)

    def run(self, finished: Holds) -> None:
        while not finished():
            next_s = self.clock.next_s
            assert next_s is not None, "nothing is planned, and yet it is not finished"
            self.clock.run(until_s=next_s)


class LoopTime:
    """Of the running event loop; `go_on` instead of `run`."""

    def __init__(self) -> None:
        self.clock = RealClock()
        self._loop = asyncio.get_running_loop()

    def call_later(self, delay_s: float, action: Callable[[], None]) -> None:
        self._loop.call_later(max(0.0, delay_s), action)

    def run(self, finished: Holds) -> None:
        raise AssertionError("an event loop is not run from within")

    async def go_on(self, finished: Holds) -> None:
        over = asyncio.Event()

        def look() -> None:
            if finished():
                over.set()
            else:
                self._loop.call_later(LOOK_S, look)

        look()
        await over.wait()
