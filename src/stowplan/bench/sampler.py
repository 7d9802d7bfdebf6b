"""Where the time goes: a look at the stack every other millisecond.

A timer's signal interrupts the program, and the handler notes which functions are running.  That
costs the measured program next to nothing and needs no code in it, so any function can be named
afterwards: `phases` sums the looks up by phase of a pod's way and by plugin, `flame` draws them.
Works in the main thread only, on systems with `setitimer`; elsewhere there are no looks.
"""

from __future__ import annotations

import signal
import threading
from collections import Counter
from types import CodeType, FrameType
from typing import Any

INTERVAL_S = 0.002
FRAMES_MAX = 64

Stack = tuple[CodeType, ...]
"""Innermost function first."""


class Sampler:
    def __init__(self, interval_s: float = INTERVAL_S) -> None:
        self._interval_s = interval_s
        self.stacks: Counter[Stack] = Counter()
        self._timer: tuple[int, int] | None = None
        self._before: Any = None

    def start(self) -> None:
        timer = _free_timer()
        if timer is None:
            return
        which, number = timer
        self._timer = timer
        self.stacks.clear()
        self._before = signal.signal(number, self._look)
        signal.setitimer(which, self._interval_s, self._interval_s)

    def stop(self) -> None:
        if self._timer is None:
            return
        which, number = self._timer
        self._timer = None
        signal.setitimer(which, 0.0)
        signal.signal(number, self._before)

    def _look(self, number: int, frame: FrameType | None) -> None:
        codes: list[CodeType] = []
        while frame is not None and len(codes) < FRAMES_MAX:
            codes.append(frame.f_code)
            frame = frame.f_back
        self.stacks[tuple(codes)] += 1


def _free_timer() -> tuple[int, int] | None:
    """The timer and its signal; the one of real time is finer, but somebody may be using it."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(
        signal, "setitimer"
    ):
        return None
    if signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0):
        return signal.ITIMER_REAL, signal.SIGALRM
    return signal.ITIMER_PROF, signal.SIGPROF
