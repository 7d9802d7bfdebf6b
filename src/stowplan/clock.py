"""The one place that knows what time it is, and what is planned for later.

Everything that needs the time is handed a `Clock`.  Live it is the machine's; in tests and
simulations it is a `VirtualClock`, which moves only from one planned moment to the next:
backoff, timeouts and grace periods then take no real time, and a run repeats exactly.

Whoever does something later is handed a `call_later`.  An `Agenda` also knows what is planned, so
that a fork of a cluster can plan the same.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Protocol

__all__ = [
    "Agenda",
    "Clock",
    "LoopTimers",
    "Plan",
    "RealClock",
    "SteadyClock",
    "Timers",
    "VirtualClock",
]


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the Unix epoch."""
        ...


Plan = tuple[float, int, Callable[[], object]]
"""When, its number in the order of planning, and what."""


class Agenda(Protocol):
    def call_later(self, delay_s: float, action: Callable[[], None]) -> None: ...

    def plans(self) -> list[Plan]:
        """What is to be done, in no order."""
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
    _plan: list[Plan] = field(default_factory=list)
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

    call_later = at

    def plans(self) -> list[Plan]:
        return self._plan[:]

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


class Timers:
    """`call_later` for a process without an event loop: things to do, in order of time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._plan: list[Plan] = []
        self._order = count()

    def call_later(self, delay_s: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._plan, (self._clock.now() + delay_s, next(self._order), action))

    def plans(self) -> list[Plan]:
        return self._plan[:]

    def take_over(self, plans: Iterable[Plan], twins: Mapping[int, object]) -> None:
        """Plan what others have planned, at the same times and in the same order.

        Plans are methods of objects, perhaps with arguments; `twins` says for each of these
        objects, by its `id`, which one takes its place here.  What None is to do is left out.
        """
        rebound = ((due_s, turn, _rebound(do, twins)) for due_s, turn, do in plans)
        self._plan = [(due_s, turn, do) for due_s, turn, do in rebound if do is not None]
        heapq.heapify(self._plan)
        self._order = count(max((turn for _, turn, _ in self._plan), default=-1) + 1)

    def clear(self) -> None:
        """Plan nothing any more."""
        self._plan.clear()

    def run_due(self) -> bool:
        """Do one thing that is due; False when nothing is."""
        if not self._plan or self._plan[0][0] > self._clock.now():
            return False
        heapq.heappop(self._plan)[2]()
        return True

    @property
    def next_s(self) -> float | None:
        return self._plan[0][0] if self._plan else None


class LoopTimers:
    """Those of an event loop, which does what is due by itself."""

    def __init__(
        self, clock: Clock, call_later: Callable[[float, Callable[[], None]], object]
    ) -> None:
        """`call_later` is the loop's."""
        self._clock = clock
        self._call_later = call_later
        self._plans: dict[int, Plan] = {}
        self._order = count()

    def call_later(self, delay_s: float, action: Callable[[], None]) -> None:
        turn = next(self._order)
        self._plans[turn] = (self._clock.now() + delay_s, turn, action)
        self._call_later(delay_s, partial(self._do, turn))

    def _do(self, turn: int) -> None:
        self._plans.pop(turn)[2]()

    def plans(self) -> list[Plan]:
        return list(self._plans.values())


def _rebound(
    action: Callable[..., object], twins: Mapping[int, object]
) -> Callable[..., object] | None:
    if isinstance(action, partial):
        rebound = _rebound(action.func, twins)
        return None if rebound is None else partial(rebound, *action.args, **action.keywords)
    owner = id(getattr(action, "__self__", None))
    assert owner in twins, f"{action!r} is planned, and nobody in the fork can do it"
    method: Callable[..., object] | None = getattr(twins[owner], action.__name__, None)
    return method
