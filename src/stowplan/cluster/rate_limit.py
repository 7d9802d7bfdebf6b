"""QPS and burst, as client-go's token bucket: so many calls at once, so many a second."""

from __future__ import annotations

from stowplan.clock import Clock


class RateLimiter:
    def __init__(self, clock: Clock, qps: float, burst: int) -> None:
        """A `qps` below zero sets no limit."""
        self._clock = clock
        self._qps = qps
        self._burst = max(1, burst)
        self._tokens = float(self._burst)
        self._filled_at_s = clock.now()

    def delay_s(self) -> float:
        """Take a token; how long its owner must wait before using it."""
        if self._qps < 0:
            return 0.0
        now_s = self._clock.now()
        passed_s = max(0.0, now_s - self._filled_at_s)
        self._filled_at_s = now_s
        self._tokens = min(self._burst, self._tokens + passed_s * self._qps) - 1
        return 0.0 if self._tokens >= 0 else -self._tokens / self._qps
