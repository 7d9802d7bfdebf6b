"""Pods being scheduled now, and what happened in the cluster meanwhile.

Mirrors the in-flight list of kube-scheduler's `backend/queue/active_queue.go`.  A pod that fails
must not miss an event that came while it was being tried, so events are kept while any pod is
in flight, and a pod that returns is shown those that came after it left.

The log is a chain of stretches.  A stretch knows how many pods left at its start and lists the
events since, up to the next pod's leaving.  A pod holds on to its stretch; when the first ones
have no pod left they are dropped.  Nothing is ever searched.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from stowplan.framework.events import ClusterEvent
from stowplan.queue.metrics import QueueMetrics

EVENTS_MAX = 1_000_000


class LoggedEvent(NamedTuple):
    event: ClusterEvent
    label: str
    old: Any
    new: Any


class _Stretch:
    __slots__ = ("events", "next", "pod_count")

    def __init__(self) -> None:
        self.pod_count = 0
        self.events: list[LoggedEvent] = []
        self.next: _Stretch | None = None


_LOST = _Stretch()
"""Where a pod is that left too many events ago: its history is gone."""


class InFlight:
    """The first stretch has a pod, or is the only one and empty."""

    __slots__ = ("_event_count", "_events_max", "_first", "_gauge", "_last", "pods")

    def __init__(self, metrics: QueueMetrics, events_max: int = EVENTS_MAX) -> None:
        self._gauge = metrics.kept_events
        self._events_max = events_max
        self._event_count = 0
        self.pods: dict[str, _Stretch] = {}
        """By uid.  Others may look, at full speed; only the log writes."""
        metrics.popped = self.pods
        self._first = self._last = _Stretch()

    def __len__(self) -> int:
        return len(self.pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self.pods

    @property
    def uids(self) -> list[str]:
        return list(self.pods)

    @property
    def event_count(self) -> int:
        return self._event_count

    def start(self, uid: str) -> bool:
        """Mark where the pod leaves.  False if it has left already and is not back."""
        pods, last = self.pods, self._last
        if uid in pods:
            return False
        if last.events:
            last.next = self._last = last = _Stretch()
        last.pod_count += 1
        pods[uid] = last
        return True

    def done(self, uid: str) -> None:
        """The pod's attempt is over; asking twice does no harm."""
        pods = self.pods
        stretch = pods.pop(uid, None)
        if stretch is None:
            return
        if not pods:
            pods.clear()  # Give back the table of a busy time.
        if stretch is _LOST:
            return
        stretch.pod_count -= 1
        first = self._first
        if not first.pod_count and (first.events or first.next is not None):
            self._drop_unread()

    def log(self, event: ClusterEvent, old: Any, new: Any) -> None:
        """Keep an event, if there is a pod that may want to know of it."""
        if not self._first.pod_count:
            return
        label = event.label
        self._last.events.append(LoggedEvent(event, label, old, new))
        self._gauge[label] += 1
        self._event_count += 1
        while self._event_count > self._events_max:
            self._lose_first()

    def events_since_start(self, uid: str) -> list[LoggedEvent] | None:
        """What the pod missed, oldest first; None when that is not known."""
        stretch = self.pods.get(uid)
        if stretch is None or stretch is _LOST:
            return None
        events = list(stretch.events)
        while (stretch := stretch.next) is not None:
            events += stretch.events
        return events

    def _drop_unread(self) -> None:
        """Drop the events before the first pod that is still in flight."""
        first = self._first
        while not first.pod_count:
            for logged in first.events:
                self._gauge[logged.label] -= 1
            self._event_count -= len(first.events)
            if first.next is None:
                first.events = []
                break
            first = first.next
        self._first = first

    def _lose_first(self) -> None:
        """Give up the longest history; its pods will be tried again to be on the safe side."""
        lost = self._first
        for uid, stretch in self.pods.items():
            if stretch is lost:
                self.pods[uid] = _LOST
        lost.pod_count = 0
        self._drop_unread()
