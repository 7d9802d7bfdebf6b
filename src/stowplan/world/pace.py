"""How fast a scheduler decides: attempts, pods placed, and how long decisions take."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

import numpy as np

from stowplan.core.attempts import AttemptObserver, Bound
from stowplan.core.decision import Decision
from stowplan.queue import QueuedPod

LATEST = 2000
"""Attempts whose seconds are remembered."""
PERCENTILES = (50, 95, 99)


@dataclass(frozen=True, slots=True)
class Pace:
    decisions: int = 0
    placed: int = 0
    latency_s: dict[int, float] = field(default_factory=dict)
    """Percentile -> seconds of real time that a decision took, of the latest ones."""


class PaceObserver(AttemptObserver):
    def __init__(self) -> None:
        self._begun_s = 0.0
        self._decisions = 0
        self._placed = 0
        self._seconds: deque[float] = deque(maxlen=LATEST)

    def begin(self, queued: QueuedPod, now_s: float) -> None:
        self._begun_s = perf_counter()

    def decided(self, queued: QueuedPod, decision: Decision, now_s: float, seconds: float) -> None:
        self._decisions += 1
        self._seconds.append(perf_counter() - self._begun_s)

    def bound(self, attempts: Sequence[Bound], now_s: float) -> None:
        self._placed += len(attempts)

    def read(self) -> Pace:
        """And begin the next interval: the percentiles are of the attempts since the last look."""
        latency: dict[int, float] = {}
        if self._seconds:
            values = np.percentile(np.fromiter(self._seconds, np.float64), PERCENTILES)
            latency = dict(zip(PERCENTILES, values.tolist(), strict=True))
            self._seconds.clear()
        return Pace(self._decisions, self._placed, latency)
