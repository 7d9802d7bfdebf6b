"""Events do not live for ever: one hour, as in Kubernetes, and never more than so many.

A busy scheduler writes two for each pod; without a bound they would outgrow everything else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import repeat
from operator import attrgetter

from stowplan.cluster.port import Answer
from stowplan.objects.base import ObjectMeta
from stowplan.objects.coordination import Event

EVENT_LIFE_S = 3600.0
EVENTS_MAX = 50_000

_metadata = attrgetter("metadata")


class EventRetention:
    def __init__(
        self,
        now_s: Callable[[], float],
        expire: Callable[[ObjectMeta], None],
        *,
        events_max: int = EVENTS_MAX,
    ) -> None:
        assert events_max > 0, f"room for {events_max} events is none"
        self._now_s = now_s
        self._expire = expire
        self._events_max = events_max
        self._kept: deque[tuple[float, ObjectMeta]] = deque()
        """When each of them expires, oldest first."""

    def fork(
        self, now_s: Callable[[], float], expire: Callable[[ObjectMeta], None]
    ) -> EventRetention:
        other = EventRetention(now_s, expire, events_max=self._events_max)
        other._kept = self._kept.copy()
        return other

    def room(self) -> int:
        """How many there may be until an old one has to go; the next one in any case."""
        kept = self._kept
        if kept and kept[0][0] <= self._now_s():
            return 1
        return max(1, self._events_max - len(kept))

    def keep(self, answers: Iterable[Answer]) -> None:
        """Remember the new ones, and have those expire that have to go now, oldest first."""
        kept, now_s = self._kept, self._now_s()
        new = filter(Event.__instancecheck__, answers)
        kept.extend(zip(repeat(now_s + EVENT_LIFE_S), map(_metadata, new)))
        while kept and (kept[0][0] <= now_s or len(kept) > self._events_max):
            self._expire(kept.popleft()[1])
