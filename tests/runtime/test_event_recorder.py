"""Events for users: after bindings, in series, dropped first, and as kube-scheduler writes them."""

from __future__ import annotations

from typing import Any

import msgspec

from stowplan.clock import VirtualClock
from stowplan.cluster.port import Create, Done, Patch
from stowplan.core.messages import RecordEvent
from stowplan.errors import NotFound, Unavailable
from stowplan.objects.api import Request
from stowplan.objects.coordination import Event
from stowplan.objects.kinds import EVENT
from stowplan.objects.pod import Pod
from stowplan.runtime.event_recorder import (
    IN_FLIGHT_MAX,
    IN_FLIGHT_PRESSED,
    QUEUE_MAX,
    SERIES_IDLE_S,
    SERIES_REWRITE_S,
    EventRecorder,
)
from tests.builders import pod

START_S = 1_700_000_000.5


class Sent:
    """A cluster that answers when it is told to."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self._open: list[Done] = []

    def call(self, request: Request, done: Done) -> None:
        self.requests.append(request)
        self._open.append(done)

    def answer(self, answer: Any = None) -> None:
        """To everything that is open."""
        while self._open:
            self._open.pop(0)(answer)

    list = watch = None  # type: ignore[assignment]


class Recording:
    def __init__(self) -> None:
        self.clock = VirtualClock(START_S)
        self.sent = Sent()
        self.recorder = EventRecorder(self.sent, self.clock, instance="host")  # type: ignore[arg-type]

    def record(self, about: Pod, reason: str = "FailedScheduling", **fields: Any) -> None:
        event = RecordEvent(about, "Warning", reason, "Scheduling", "no room", "my-profile")
        self.recorder.record(msgspec.structs.replace(event, **fields))

    def flush(self, *, pressed: bool = False) -> Recording:
        self.recorder.flush(pressed=pressed)
        return self


def test_an_event_looks_as_upstream_writes_it() -> None:
    recording, about = Recording(), pod("web", namespace="shop")
    recording.record(about)
    recording.flush()

    (created,) = recording.sent.requests
    assert isinstance(created, Create)
    body = created.body
    assert isinstance(body, Event)
    assert (created.kind, created.namespace) == (EVENT, "shop")
    assert body.metadata.name.startswith("web.")
    assert int(body.metadata.name.removeprefix("web."), 16) >= int(START_S * 1e9)
    assert body.event_time == "2023-11-14T22:13:20.500000Z"
    assert (body.reporting_controller, body.reporting_instance) == ("my-profile", "my-profile-host")
    assert (body.type, body.reason, body.action) == ("Warning", "FailedScheduling", "Scheduling")
    assert body.note == "no room"
    assert body.regarding is not None
    assert (body.regarding.kind, body.regarding.uid) == ("Pod", about.metadata.uid)
    assert body.related is None


def test_two_events_of_one_moment_have_different_names() -> None:
    recording, about = Recording(), pod("web")
    recording.record(about)
    recording.record(about, reason="Preempted")
    recording.flush()

    names = [request.body.metadata.name for request in recording.sent.requests]
    assert len(set(names)) == 2


def test_repeated_events_become_a_series() -> None:
    recording, about = Recording(), pod("web")
    for _ in range(5):
        recording.record(about)
        recording.flush().sent.answer()
        recording.clock.advance(10.0)

    created, patched = recording.sent.requests
    assert isinstance(created, Create)
    assert isinstance(patched, Patch)
    assert patched.name == created.body.metadata.name  # type: ignore[union-attr]
    # Only the second one is told at once; the rest is counted here.
    assert patched.body == {
        "series": {"count": 2, "lastObservedTime": "2023-11-14T22:13:30.500000Z"}
    }


def test_a_series_is_rewritten_every_half_hour() -> None:
    recording, about = Recording(), pod("web")
    every_s = SERIES_IDLE_S / 2
    for _ in range(int(SERIES_REWRITE_S / every_s) + 2):
        recording.record(about)
        recording.flush().sent.answer()
        recording.clock.advance(every_s)

    counts = [
        request.body["series"]["count"]
        for request in recording.sent.requests
        if isinstance(request, Patch)
    ]
    assert counts == [2, 12]


def test_after_a_pause_a_new_series_begins() -> None:
    recording, about = Recording(), pod("web")
    for _ in range(2):
        recording.record(about)
        recording.flush().sent.answer()
        recording.clock.advance(SERIES_IDLE_S + 1.0)

    assert [type(request) for request in recording.sent.requests] == [Create, Create]


def test_events_on_different_pods_and_of_different_sorts_are_no_series() -> None:
    recording, about = Recording(), pod("web")
    recording.record(about)
    recording.record(about, reason="Scheduled")
    recording.record(about, related=pod("preemptor"))
    recording.record(pod("web"))
    recording.flush().sent.answer()

    assert [type(request) for request in recording.sent.requests] == [Create] * 4


def test_a_series_whose_event_is_gone_begins_anew() -> None:
    recording, about = Recording(), pod("web")
    recording.record(about)
    recording.flush().sent.answer()
    recording.record(about)
    recording.flush().sent.answer(NotFound("expired"))
    recording.record(about)
    recording.flush()

    assert [type(request) for request in recording.sent.requests] == [Create, Patch, Create]


def test_while_pods_are_being_bound_events_hardly_take_any_room() -> None:
    recording = Recording()
    for number in range(100):
        recording.record(pod(f"p{number}"))

    recording.flush(pressed=True)
    assert len(recording.sent.requests) == IN_FLIGHT_PRESSED
    recording.flush(pressed=False)
    assert len(recording.sent.requests) == IN_FLIGHT_MAX
    recording.sent.answer()

    assert len(recording.sent.requests) == 100
    assert recording.recorder.pending == 0


def test_under_pressure_events_are_dropped_and_counted() -> None:
    recording, about = Recording(), pod("web")
    for _ in range(QUEUE_MAX + 7):
        recording.record(about)

    assert (recording.recorder.pending, recording.recorder.dropped) == (QUEUE_MAX, 7)


def test_an_event_that_cannot_be_sent_is_given_up() -> None:
    recording = Recording()
    recording.record(pod("web"))
    recording.flush().sent.answer(Unavailable("no"))

    assert (recording.recorder.pending, recording.recorder.dropped) == (0, 1)


def test_the_last_one_is_reported() -> None:
    recording, told = Recording(), []
    recording.recorder.on_empty = lambda: told.append(recording.recorder.pending)
    for number in range(IN_FLIGHT_MAX + 1):
        recording.record(pod(f"p{number}"))
    recording.flush()
    assert told == []
    recording.sent.answer()

    assert told == [0]
