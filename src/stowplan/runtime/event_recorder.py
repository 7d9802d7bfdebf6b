"""Events for the cluster's users: "Scheduled", "FailedScheduling", "Preempted".

They come second: pods are bound first, and under pressure events are what is dropped.  Repeated
events of one sort on one object become a series (a count) instead of many objects; its last count
is written when nothing more has come for a while.  What the API server did not hear is sent again,
what it refused is not.  Mirrors client-go's `tools/events`.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from itertools import count, islice, repeat, starmap
from operator import attrgetter, itemgetter
from random import Random
from typing import Any

from msgspec import Struct

from stowplan.clock import Clock
from stowplan.cluster.port import Answer, Cluster, Create, Patch
from stowplan.cluster.reflector import CallLater
from stowplan.core.messages import RecordEvent
from stowplan.errors import AlreadyExists, ApiError, NotFound, Unavailable
from stowplan.objects.base import ObjectMeta, ObjectReference
from stowplan.objects.coordination import Event, EventSeries, Lease
from stowplan.objects.kinds import EVENT, LEASE, POD, POD_GROUP
from stowplan.objects.pod import Pod
from stowplan.objects.pod_groups import PodGroup
from stowplan.objects.times import format_micro_time
from stowplan.printable import logger

QUEUE_MAX = 10_000
IN_FLIGHT_MAX = 16
IN_FLIGHT_PRESSED = 2
"""While pods are being bound: the API server's time is theirs."""
SERIES_MAX = 4096
SERIES_IDLE_S = 6 * 60.0
SERIES_REWRITE_S = 30 * 60.0
TRIES_MAX = 12
RETRY_S = 10.0
RETRY_JITTER = 0.25
"""Share of the wait that is left to chance: replicas do not all come back at once."""

log = logger(__name__)

_Key = tuple[tuple[str, ...], str | None]
"""Events with the same make a series: what is said of which object, and of whom beside it."""

_sort_of: Callable[[RecordEvent], tuple[str, ...]] = attrgetter(
    "type",
    "action",
    "reason",
    "controller",
    "regarding.metadata.uid",
    # Not the note, but the version of the object: a pod whose condition has been written since,
    # with another message, gets an event of its own.
    "regarding.metadata.resource_version",
)

_Call = tuple["_Series", _Key, Create | Patch, int]
"""The series and its key, what is sent, and for which time."""

_request: Callable[[_Call], Create | Patch] = itemgetter(2)


class _Series(Struct, gc=False):
    event: RecordEvent
    """The first one."""
    namespace: str
    name: str
    begun_s: float
    last_s: float
    written_s: float
    written: int = 1
    """The count that the cluster was told, and when."""
    count: int = 1


class EventRecorder:
    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        *,
        call_later: CallLater,
        random: Random,
        instance: str = "stowplan",
        first: int = 1,
    ) -> None:
        """`first` is the number of its first event, which keeps two of one moment apart."""
        self._cluster = cluster
        self._now_s = clock.now
        self._call_later = call_later
        self._random = random
        self._instance = instance
        self._instances: dict[str, str] = {}
        """What each of our controllers calls itself, once for all its events."""
        self._queue: deque[tuple[RecordEvent, float]] = deque()
        self._moment_s: float | None = None
        """When the events since the last flush happened: one turn of the scheduler is a moment."""
        self._written_s, self._written = -1.0, ""
        """The time that was written out last, and how."""
        self._again: deque[_Call] = deque()
        """To be sent before the queue."""
        self._waiting = 0
        """Calls that wait for their next try."""
        self._in_flight = 0
        self._series: OrderedDict[_Key, _Series] = OrderedDict()
        self._serials = count(first)
        self._flushing = False
        self._sweep_planned = False
        self._in_flight_max = IN_FLIGHT_MAX
        self._answered_at_once = False
        """By a cluster in this process: nothing is in flight, and lists may be long."""
        self.silent = False
        """Nobody reads events here: none is written."""
        self.dropped = 0
        self.on_empty: Callable[[], None] | None = None
        """Told whenever the last event has been sent."""

    def fork(
        self, cluster: Cluster, clock: Clock, *, call_later: CallLater, random: Random
    ) -> EventRecorder:
        """For a fork of the cluster: the same series go on; what is under way there is not here."""
        instance = self._instance
        fork = EventRecorder(
            cluster, clock, call_later=call_later, random=random, instance=instance
        )
        fork._queue, fork._moment_s = self._queue.copy(), self._moment_s
        fork._series = OrderedDict((key, copy(one)) for key, one in self._series.items())
        fork._serials = copy(self._serials)
        fork._sweep_planned, fork.silent = self._sweep_planned, self.silent
        return fork

    def record(self, events: Sequence[RecordEvent]) -> None:
        if self.silent:
            return
        room = max(0, QUEUE_MAX - len(self._queue) - self._waiting)
        if len(events) > room:
            self.dropped += len(events) - room
            events = events[:room]
        at_s = self._moment_s
        if at_s is None:
            at_s = self._moment_s = self._now_s()
        self._queue.extend(zip(events, repeat(at_s)))

    @property
    def pending(self) -> int:
        """Those to be sent now; who ends does not wait for a server that gives no answer."""
        return len(self._queue) + len(self._again) + self._in_flight

    def forget_pending(self) -> None:
        """Send nothing more; what is under way takes its course."""
        self._queue.clear()
        self._again.clear()

    def flush(self, *, pressed: bool) -> None:
        """Send what is waiting, as far as calls are free; `pressed` while pods are being bound."""
        self._in_flight_max = IN_FLIGHT_PRESSED if pressed else IN_FLIGHT_MAX
        self._moment_s = None
        if self._queue or self._again:
            self._send_some()

    def _send_some(self) -> None:
        if self._flushing:
            return
        self._flushing = True
        try:
            while (self._again or self._queue) and self._in_flight < self._in_flight_max:
                before = self._in_flight
                calls = self._next_calls(
                    QUEUE_MAX if self._answered_at_once else self._in_flight_max - before
                )
                if calls:
                    self._in_flight += len(calls)
                    self._cluster.call([*map(_request, calls)], partial(self._done, calls))
                    self._answered_at_once = self._in_flight == before
        finally:
            self._flushing = False

    def _next_calls(self, room: int) -> list[_Call]:
        again, queue = self._again, self._queue
        calls = [again.popleft() for _ in range(min(room, len(again)))]
        events = [queue.popleft() for _ in range(min(room - len(calls), len(queue)))]
        calls += filter(None, starmap(self._next_call, events))
        while len(self._series) > SERIES_MAX:
            self._series.popitem(last=False)
        if self._series and not self._sweep_planned:
            self._sweep_planned = True
            self._call_later(SERIES_IDLE_S, self._sweep)
        return calls

    def _next_call(self, event: RecordEvent, at_s: float) -> _Call | None:
        """What to send for this event; None where it is only counted."""
        metadata, related = event.regarding.metadata, event.related
        key = _sort_of(event), None if related is None else related.metadata.uid
        known = self._series
        series = known.get(key)
        if series is not None:
            if at_s - series.last_s <= SERIES_IDLE_S:
                return self._repeat(key, series, at_s)
            del known[key]
        # Nanoseconds name the event upstream; a serial keeps two of one moment apart.
        name = f"{metadata.name}.{int(at_s * 1e9) + next(self._serials):x}"
        known[key] = series = _Series(
            event, metadata.namespace or "default", name, at_s, at_s, at_s
        )
        return series, key, self._creation(event, series), 1

    def _creation(
        self, event: RecordEvent, series: _Series, repeated: EventSeries | None = None
    ) -> Create:
        related, controller, begun_s = event.related, event.controller, series.begun_s
        if begun_s != self._written_s:
            self._written_s, self._written = begun_s, format_micro_time(begun_s)
        instance = self._instances.get(controller)
        if instance is None:
            instance = self._instances[controller] = f"{controller}-{self._instance}"
        body = Event(
            api_version="events.k8s.io/v1",
            kind="Event",
            metadata=ObjectMeta(name=series.name, namespace=series.namespace),
            event_time=self._written,
            series=repeated,
            reporting_controller=controller,
            reporting_instance=instance,
            action=event.action,
            reason=event.reason,
            regarding=reference(event.regarding),
            related=None if related is None else reference(related),
            note=event.note,
            type=event.type,
        )
        return Create(EVENT, series.namespace, body)

    def _repeat(self, key: _Key, series: _Series, at_s: float) -> _Call | None:
        series.count += 1
        series.last_s = at_s
        self._series.move_to_end(key)
        # The second one makes it a series; the rest is told now and then (`_sweep`).
        return (series, key, self._rewriting(series, at_s), 1) if series.count == 2 else None

    def _rewriting(self, series: _Series, now_s: float) -> Patch:
        series.written, series.written_s = series.count, now_s
        last = format_micro_time(series.last_s)
        body: dict[str, Any] = {"series": {"count": series.count, "lastObservedTime": last}}
        return Patch(EVENT, series.namespace, series.name, body)

    def _sweep(self) -> None:
        """Forget series that came to their end, and write counts that the cluster should know."""
        now_s = self._now_s()
        for key, series in [*self._series.items()]:
            ended = now_s - series.last_s > SERIES_IDLE_S
            if ended:
                del self._series[key]
            # An event lives for an hour since it was last written.
            stale = now_s - series.written_s >= SERIES_REWRITE_S
            if series.count > series.written if ended else stale:
                self._again.append((series, key, self._rewriting(series, now_s), 1))
        self._sweep_planned = bool(self._series)
        if self._sweep_planned:
            self._call_later(SERIES_IDLE_S, self._sweep)
        self._send_some()

    # -- calls and what becomes of them -----------------------------------------------------

    def _done(self, calls: list[_Call], first: int, answers: Sequence[Answer]) -> None:
        self._in_flight -= len(answers)
        for call, answer in zip(islice(calls, first, first + len(answers)), answers, strict=True):
            if isinstance(answer, ApiError):
                self._failed(call, answer)
        # A cluster that answers at once calls back from within `_send_some`, which goes on.
        if self._queue or self._again:
            self._send_some()
        if self.on_empty is not None and not self.pending:
            self.on_empty()

    def _failed(self, call: _Call, error: ApiError) -> None:
        series, key, request, tries = call
        if isinstance(error, Unavailable) and tries < TRIES_MAX:
            self._waiting += 1
            delay_s = RETRY_S * (1.0 + RETRY_JITTER * self._random.random())
            self._call_later(delay_s, partial(self._try_again, (series, key, request, tries + 1)))
        elif isinstance(error, AlreadyExists) and tries > 1:
            pass  # An earlier try made it, whose answer was lost.
        elif isinstance(error, NotFound) and isinstance(request, Patch):
            # It is gone, for its hour was over: it is made anew, and says how many there were.
            series.written = series.count
            repeated = EventSeries(series.count, format_micro_time(series.last_s))
            creation = self._creation(series.event, series, repeated)
            self._again.append((series, key, creation, tries))
        else:
            self._give_up(key, error)

    def _try_again(self, call: _Call) -> None:
        self._waiting -= 1
        self._again.append(call)
        self._send_some()

    def _give_up(self, key: _Key, error: ApiError) -> None:
        """The next one of its sort starts a new series."""
        self.dropped += 1
        self._series.pop(key, None)
        log.warning("An event was not written, and is not sent again: %s", error.message)


_REFERENCES = {
    kind.struct: partial(ObjectReference, api_version=kind.api_version, kind=kind.name)
    for kind in (POD, LEASE, POD_GROUP)
}


def reference(thing: Pod | Lease | PodGroup) -> ObjectReference:
    metadata = thing.metadata
    return _REFERENCES[type(thing)](
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
    )
