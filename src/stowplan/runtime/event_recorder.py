"""Events for the cluster's users: "Scheduled", "FailedScheduling", "Preempted".

They come second: pods are bound first, and under pressure events are what is dropped.  Repeated
events of one sort on one object become a series (a count) instead of many objects.  Mirrors
client-go's `tools/events`.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from typing import Any

from stowplan.clock import Clock
from stowplan.cluster.port import Answer, Cluster, Create, Patch
from stowplan.core.messages import RecordEvent
from stowplan.errors import ApiError
from stowplan.objects.base import ObjectMeta, ObjectReference
from stowplan.objects.coordination import Event, Lease
from stowplan.objects.kinds import EVENT, KIND_BY_STRUCT
from stowplan.objects.pod import Pod
from stowplan.objects.times import format_micro_time

QUEUE_MAX = 10_000
IN_FLIGHT_MAX = 16
IN_FLIGHT_PRESSED = 2
"""While pods are being bound: the API server's time is theirs."""
SERIES_MAX = 4096
SERIES_IDLE_S = 6 * 60.0
SERIES_REWRITE_S = 30 * 60.0

_Key = tuple[str, ...]


class _Series:
    __slots__ = ("count", "last_s", "name", "namespace", "written_s")

    def __init__(self, namespace: str, name: str, now_s: float) -> None:
        self.namespace = namespace
        self.name = name
        self.count = 1
        self.last_s = now_s
        self.written_s = now_s


class EventRecorder:
    def __init__(self, cluster: Cluster, clock: Clock, *, instance: str = "stowplan") -> None:
        self._cluster = cluster
        self._clock = clock
        self._instance = instance
        self._queue: deque[tuple[RecordEvent, float]] = deque()
        self._in_flight = 0
        self._series: OrderedDict[_Key, _Series] = OrderedDict()
        self._serial = 0
        self._flushing = False
        self._in_flight_max = IN_FLIGHT_MAX
        self.dropped = 0
        self.on_empty: Callable[[], None] | None = None
        """Told whenever the last event has been sent."""

    def record(self, event: RecordEvent) -> None:
        if len(self._queue) >= QUEUE_MAX:
            self.dropped += 1
            return
        self._queue.append((event, self._clock.now()))

    @property
    def pending(self) -> int:
        return len(self._queue) + self._in_flight

    def flush(self, *, pressed: bool) -> None:
        """Send what is waiting, as far as calls are free; `pressed` while pods are being bound."""
        self._in_flight_max = IN_FLIGHT_PRESSED if pressed else IN_FLIGHT_MAX
        self._send_some()

    def _send_some(self) -> None:
        if self._flushing:
            # A cluster that answers at once calls back from within.
            return
        self._flushing = True
        try:
            while self._queue and self._in_flight < self._in_flight_max:
                event, at_s = self._queue.popleft()
                self._send(event, at_s)
        finally:
            self._flushing = False

    def _send(self, event: RecordEvent, at_s: float) -> None:
        key = _key(event)
        series = self._series.get(key)
        if series is not None and at_s - series.last_s <= SERIES_IDLE_S:
            self._repeat(key, series, at_s)
            return
        metadata = event.regarding.metadata
        self._serial += 1
        # Nanoseconds name the event upstream; a serial keeps two of one moment apart.
        name = f"{metadata.name}.{int(at_s * 1e9) + self._serial:x}"
        namespace = metadata.namespace or "default"
        self._remember(key, _Series(namespace, name, at_s))
        body = Event(
            api_version="events.k8s.io/v1",
            kind="Event",
            metadata=ObjectMeta(name=name, namespace=namespace),
            event_time=format_micro_time(at_s),
            reporting_controller=event.controller,
            reporting_instance=f"{event.controller}-{self._instance}",
            action=event.action,
            reason=event.reason,
            regarding=_reference(event.regarding),
            related=_reference(event.related) if event.related is not None else None,
            note=event.note,
            type=event.type,
        )
        self._call(Create(EVENT, namespace, body), key)

    def _repeat(self, key: _Key, series: _Series, at_s: float) -> None:
        series.count += 1
        series.last_s = at_s
        self._series.move_to_end(key)
        # The second one makes it a series; after that only now and then.
        if series.count > 2 and at_s - series.written_s < SERIES_REWRITE_S:
            return
        series.written_s = at_s
        body: dict[str, Any] = {
            "series": {"count": series.count, "lastObservedTime": format_micro_time(at_s)}
        }
        self._call(Patch(EVENT, series.namespace, series.name, body), key)

    def _remember(self, key: _Key, series: _Series) -> None:
        self._series[key] = series
        self._series.move_to_end(key)
        while len(self._series) > SERIES_MAX:
            self._series.popitem(last=False)

    def _call(self, request: Create | Patch, key: _Key) -> None:
        self._in_flight += 1
        self._cluster.call(request, partial(self._done, key))

    def _done(self, key: _Key, answer: Answer) -> None:
        self._in_flight -= 1
        if isinstance(answer, ApiError):
            # Not made, or gone meanwhile: the next one of its sort starts a new series.
            self.dropped += 1
            self._series.pop(key, None)
        if self._queue:
            self._send_some()
        if self.on_empty is not None and not self.pending:
            self.on_empty()


def _key(event: RecordEvent) -> _Key:
    related = event.related.metadata.uid if event.related is not None else ""
    regarding = event.regarding.metadata.uid
    return (event.type, event.action, event.reason, event.controller, regarding, related)


def _reference(thing: Pod | Lease) -> ObjectReference:
    metadata, kind = thing.metadata, KIND_BY_STRUCT[type(thing)]
    return ObjectReference(
        api_version=kind.api_version,
        kind=kind.name,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
    )
