"""Events do not live for ever: one hour, as in Kubernetes, and never more than so many.

A busy scheduler writes two for each pod; without a bound they would outgrow everything else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import repeat
from operator import attrgetter

from stowplan.objects.base import KubeObject, ObjectMeta

EVENT_LIFE_S = 3600.0
EVENTS_MAX = 50_000

_metadata = attrgetter("metadata")


class EventRetention:
    def __init__(self, *, events_max: int = EVENTS_MAX) -> None:
        assert events_max > 0, f"room for {events_max} events is none"
        self._events_max = events_max
        self._kept: deque[tuple[float, ObjectMeta]] = deque()
        """When each of them expires, oldest first."""

    def fork(self) -> EventRetention:
        other = EventRetention(events_max=self._events_max)
        other._kept = self._kept.copy()
        return other

    def keep(self, event: ObjectMeta, now_s: float) -> list[ObjectMeta]:
        """Remember a new one; those that have to go now, oldest first."""
        kept = self._kept
        kept.append((now_s + EVENT_LIFE_S, event))
        due = []
        while len(kept) > self._events_max or kept[0][0] <= now_s:
            due.append(kept.popleft()[1])
        return due

    def room(self, now_s: float) -> int:
        """How many more can be kept while all others stay."""
        kept = self._kept
        return 0 if kept and kept[0][0] <= now_s else self._events_max - len(kept)

    def keep_all(self, events: Iterable[KubeObject], now_s: float) -> None:
        """Remember new ones, for which there is room."""
        self._kept.extend(zip(repeat(now_s + EVENT_LIFE_S), map(_metadata, events)))
