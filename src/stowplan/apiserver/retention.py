"""Events do not live for ever: one hour, as in Kubernetes, and never more than so many.

A busy scheduler writes two for each pod; without a bound they would outgrow everything else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

EVENT_LIFE_S = 3600.0
EVENTS_MAX = 50_000


class Kept(NamedTuple):
    expires_s: float
    namespace: str
    name: str
    uid: str


class EventRetention:
    def __init__(self, *, events_max: int = EVENTS_MAX) -> None:
        assert events_max > 0, f"room for {events_max} events is none"
        self._events_max = events_max
        self._kept: deque[Kept] = deque()

    def add(self, now_s: float, namespace: str, name: str, uid: str) -> None:
        self._kept.append(Kept(now_s + EVENT_LIFE_S, namespace, name, uid))

    def due(self, now_s: float) -> Iterator[Kept]:
        """The events that have to go, oldest first."""
        kept = self._kept
        while kept and (len(kept) > self._events_max or kept[0].expires_s <= now_s):
            yield kept.popleft()
