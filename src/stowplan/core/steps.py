"""Running generators: how code written top to bottom waits without anybody blocking.

Deciding on a pod, binding it, evicting victims and patching a status are generators that yield
what they need (an API request, an extender's answer, some sleep, a permit) and are sent the
outcome.  The `Stepper` turns what they yield into effects and timers, and resumes them when the
machine hears back.  Only `core.machine` owns one.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

from msgspec import Struct

from stowplan.core.extender import CallExtender
from stowplan.core.messages import AskExtender, Call, Effect
from stowplan.framework.effects import Sleep
from stowplan.objects.api import Bind, Create, Delete, Get, Patch, Request, Update

Steps = Generator[Any, Any, Any]
Finished = Callable[[Any], None]
"""Told what the generator returned."""

_REQUESTS = (Bind, Patch, Delete, Update, Create, Get)


class Parallel(Struct, frozen=True):
    """Run these side by side; the generator is sent the list of what they returned."""

    branches: list[Steps]


@dataclass(slots=True)
class Suspend:
    """Wait until somebody resumes: `register` is handed the function that does."""

    register: Callable[[Callable[[Any], None]], None]


_WANTED = (*_REQUESTS, CallExtender, Sleep, Suspend, Parallel)

_CANCELLED_MAX = 64
"""Cancelled timers that may lie about before they are swept out."""


class Stepper:
    def __init__(self) -> None:
        self.effects: list[Effect] = []
        self._tokens = count(1)
        self.waiting: dict[int, Any] = {}
        """Who is to be told the answer, by the token of the question: a `Finished`, or something
        else that whoever asked sees to itself."""
        self._ready: deque[tuple[Steps, Finished, Any]] = deque()
        self._timers: list[tuple[float, int]] = []
        self._actions: dict[int, Callable[[], None]] = {}
        """What to do when a timer fires; a timer without an entry was cancelled."""
        self._running = False
        self.now_s = 0.0

    def start(self, steps: Steps, finished: Finished) -> None:
        self.resume(steps, finished, None)

    def resume(self, steps: Steps, finished: Finished, value: Any) -> None:
        """Go on with a generator, or begin (with None).

        Never inside another one: a plugin may allow a pod in its own step.
        """
        ready = self._ready
        if self._running:
            ready.append((steps, finished, value))
            return
        self._running = True
        try:
            while True:
                try:
                    wanted = steps.send(value)
                    if isinstance(wanted, _REQUESTS):
                        self.ask(wanted, partial(self.resume, steps, finished))
                    else:
                        self._provide(wanted, steps, finished)
                except StopIteration as stop:
                    finished(stop.value)
                if not ready:
                    break
                steps, finished, value = ready.popleft()
        finally:
            self._running = False

    def answer(self, token: int, answer: Any) -> bool:
        """Resume whoever waits for this answer; False if nobody does (any more)."""
        waiting = self.waiting.pop(token, None)
        if waiting is None:
            return False
        waiting(answer)
        return True

    def ask(self, request: Request, asker: Any) -> None:
        """Send a request for somebody who is told the answer without having waited for it."""
        token = next(self._tokens)
        self.waiting[token] = asker
        self.effects.append(Call(token, request))

    @property
    def pending_count(self) -> int:
        return len(self.waiting)

    @property
    def timer_count(self) -> int:
        return len(self._actions)

    def at(self, time_s: float, action: Callable[[], None]) -> int:
        """Do something then; the number is for `cancel`."""
        number = next(self._tokens)
        heapq.heappush(self._timers, (time_s, number))
        self._actions[number] = action
        return number

    def cancel(self, timer: int) -> None:
        if self._actions.pop(timer, None) is None:
            return
        if len(self._timers) > 2 * len(self._actions) + _CANCELLED_MAX:
            self._timers = [entry for entry in self._timers if entry[1] in self._actions]
            heapq.heapify(self._timers)

    def next_timer_s(self) -> float | None:
        timers = self._timers
        while timers and timers[0][1] not in self._actions:
            heapq.heappop(timers)
        return timers[0][0] if timers else None

    def run_due(self) -> None:
        while (time_s := self.next_timer_s()) is not None and time_s <= self.now_s:
            _, number = heapq.heappop(self._timers)
            self._actions.pop(number)()

    def _provide(self, wanted: Any, steps: Steps, finished: Finished) -> None:
        """See to what is not a request, or turns out to be one after all."""
        if not isinstance(wanted, _WANTED):
            wanted = _corrected(steps, wanted)
        if isinstance(wanted, _REQUESTS):
            self.ask(wanted, partial(self.resume, steps, finished))
        elif isinstance(wanted, CallExtender):
            token = next(self._tokens)
            self.waiting[token] = partial(self.resume, steps, finished)
            self.effects.append(AskExtender(token, wanted))
        elif isinstance(wanted, Sleep):
            self.at(self.now_s + wanted.seconds, lambda: self.resume(steps, finished, None))
        elif isinstance(wanted, Suspend):
            wanted.register(lambda outcome: self.resume(steps, finished, outcome))
        else:
            self._fork(wanted.branches, lambda results: self.resume(steps, finished, results))

    def _fork(self, branches: list[Steps], joined: Finished) -> None:
        results: list[Any] = [None] * len(branches)
        left = len(branches)
        if not branches:
            joined([])
            return

        def finish(index: int) -> Finished:
            def finished(result: Any) -> None:
                nonlocal left
                results[index] = result
                left -= 1
                if left == 0:
                    joined(results)

            return finished

        for index, branch in enumerate(branches):
            self.resume(branch, finish(index), None)


def _corrected(steps: Steps, wanted: Any) -> Any:
    """What it wants instead of something that nobody can carry out.

    Its own fault, so it hears of it: a plugin's mistake ends the plugin's attempt.
    """
    while not isinstance(wanted, _WANTED):
        wanted = steps.throw(TypeError(f"{wanted!r} is nothing that can be carried out"))
    return wanted
