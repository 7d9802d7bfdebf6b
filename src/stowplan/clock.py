"""The one place that knows what time it is.

Everything that needs the time is handed a `Clock`.  Live it is the machine's; in tests and
simulations it is a `VirtualClock`, which moves only from one planned moment to the next:
backoff, timeouts and grace periods then take no real time, and a run repeats exactly.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

__all__ = ["Clock", "RealClock", "SteadyClock", "VirtualClock"]


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the Unix epoch."""
        ...


class RealClock:
    now = staticmethod(time.time)  # Asked ten times for each pod: no function of ours in between.


class SteadyClock:
    """The real time of the start, and how much has passed since: setting the machine's clock does
    not make time jump.  Leases are held and taken by it."""

    def __init__(self) -> None:
        # One that goes on while the machine sleeps, where there is such a clock.
        self._clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        self._start_s = time.time() - time.clock_gettime(self._clock)

    def now(self) -> float:
        return self._start_s + time.clock_gettime(self._clock)


@dataclass(slots=True)
class VirtualClock:
    now_s: float = 0.0
    _plan: list[tuple[float, int, Callable[[], object]]] = field(default_factory=list)
    # Equal times are common; the serial number gives them an order, and so one outcome.
    _order: count[int] = field(default_factory=count)

    def now(self) -> float:
        return self.now_s

    @property
    def next_s(self) -> float | None:
        """The next planned moment, or None when nothing is planned."""
        return self._plan[0][0] if self._plan else None

    def at(self, delay_s: float, action: Callable[[], object]) -> None:
        """Plan `action`; equal times run in the order they were planned."""
        assert delay_s >= 0, f"cannot plan {-delay_s} s into the past"
        heapq.heappush(self._plan, (self.now_s + delay_s, next(self._order), action))

    def run(self, *, until_s: float | None = None, actions_max: int = 10_000_000) -> int:
        """Carry out the plan, what it plans in turn included, and count the actions.

        Stops after everything due at `until_s`, and leaves the clock there; without it,
        when nothing is planned any more.
        """
        assert until_s is None or until_s >= self.now_s, (
            f"time does not run back: it is {self.now_s}, not {until_s}"
        )
        action_count = 0
        while self._plan and (until_s is None or self._plan[0][0] <= until_s):
            assert action_count < actions_max, (
                f"still planning at {self.now_s} s after {actions_max} actions: an endless loop?"
            )
            self.now_s, _, action = heapq.heappop(self._plan)
            action()
            action_count += 1
        if until_s is not None:
            self.now_s = until_s
        return action_count

    def advance(self, delta_s: float) -> int:
        return self.run(until_s=self.now_s + delta_s)
