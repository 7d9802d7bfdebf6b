"""The clock of one machine in the cluster: a little fast or slow, and never quite right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stowplan.clock import VirtualClock


@dataclass(frozen=True, slots=True)
class DriftingClock:
    true: VirtualClock
    rate: float = 1.0
    """Seconds of this clock per second."""
    offset_s: float = 0.0
    start_s: float = 0.0

    def now(self) -> float:
        return self.start_s + (self.true.now_s - self.start_s) * self.rate + self.offset_s

    def call_later(self, delay_s: float, action: Callable[[], None]) -> None:
        self.true.at(delay_s / self.rate, action)
