"""Events for users: after bindings, in series, dropped first, and as kube-scheduler writes them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
import pytest

from stowplan.clock import VirtualClock
from stowplan.cluster.port import AllDone, Create, Done, ListOptions, Patch, separately
from stowplan.core.messages import RecordEvent
from stowplan.errors import AlreadyExists, ApiError, Forbidden, NotFound, Unavailable
from stowplan.objects.api import Request
from stowplan.objects.coordination import Event
from stowplan.objects.kinds import EVENT
from stowplan.objects.pod import Pod
from stowplan.runtime.event_recorder import (
    IN_FLIGHT_MAX,
    IN_FLIGHT_PRESSED,
    QUEUE_MAX,
    RETRY_S,
    SERIES_IDLE_S,
    SERIES_REWRITE_S,
    TRIES_MAX,
    EventRecorder,
)
from tests.builders import node, pod
from tests.runtime.replicas import World

START_S = 1_700_000_000.5


class Sent:
    """A cluster that answers when it is told to."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.lists: list[int] = []
        """How many requests came together."""
        self._open: list[Done] = []

    def call(self, requests: Sequence[Request], done: AllDone) -> None:
        self.lists.append(len(requests))
        for request, answered in separately(requests, done):
            self.requests.append(request)
            self._open.append(answered)

    def answer(self, answer: Any = None) -> None:
        """To everything that is open."""
        while self._open:
            self._open.pop(0)(answer)

    def answer_one(self, answer: Any) -> None:
        """To what has been open longest, alone."""
        self._open.pop(0)(answer)

    list = watch = None  # type: ignore[assignment]


class Recording:
    def __init__(self, sent: Sent | None = None) -> None:
        self.clock = VirtualClock(START_S)
        self.sent = sent or Sent()
        self.recorder = EventRecorder(
            self.sent,  # type: ignore[arg-type]
            self.clock,
            call_later=self.clock.at,
            random=Random(0),
            instance="host",
        )

    def record(self, about: Pod, reason: str = "FailedScheduling", **fields: Any) -> None:
        event = RecordEvent(about, "Warning", reason, "Scheduling", "no room", "my-profile")
        self.recorder.record([msgspec.structs.replace(event, **fields)])

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


def counts(recording: Recording) -> list[int]:
    """What the cluster was told of a series, in order."""
    requests = recording.sent.requests
    return [request.body["series"]["count"] for request in requests if isinstance(request, Patch)]


def test_a_series_is_rewritten_every_half_hour() -> None:
    """However often its event comes: it lives for an hour since it was last written."""
    recording, about = Recording(), pod("web")
    for _ in range(70):
        recording.record(about)
        recording.flush().sent.answer()
        recording.clock.advance(60.0)
        recording.sent.answer()

    assert counts(recording) == [2, 36, 66]
    assert recording.recorder.dropped == 0


def test_the_last_count_is_written_when_a_series_has_ended() -> None:
    recording, about = Recording(), pod("web")
    for _ in range(5):
        recording.record(about)
        recording.flush().sent.answer()
        recording.clock.advance(10.0)
    assert counts(recording) == [2]

    recording.clock.advance(3 * SERIES_IDLE_S)
    recording.sent.answer()

    assert counts(recording) == [2, 5]
    last = recording.sent.requests[-1].body["series"]["lastObservedTime"]
    assert last == "2023-11-14T22:14:00.500000Z", "when it was seen, not when it was told"
    recording.clock.advance(10 * SERIES_REWRITE_S)
    assert counts(recording) == [2, 5], "it is over"


def test_an_event_that_came_once_or_whose_count_is_known_is_only_forgotten() -> None:
    recording, twice = Recording(), pod("twice")
    recording.record(pod("once"))
    for _ in range(2):
        recording.record(twice)
        recording.flush().sent.answer()
    sent = len(recording.sent.requests)

    recording.clock.advance(3 * SERIES_IDLE_S)

    assert len(recording.sent.requests) == sent == 3


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


def test_a_series_whose_event_is_gone_is_made_anew_with_its_count() -> None:
    recording, about = Recording(), pod("web")
    recording.record(about)
    recording.flush().sent.answer()
    recording.clock.advance(5.0)
    recording.record(about)
    recording.flush().sent.answer_one(NotFound("expired"))

    first, patched, again = recording.sent.requests
    assert [type(request) for request in (first, patched, again)] == [Create, Patch, Create]
    assert again.body == msgspec.structs.replace(first.body, series=again.body.series)
    assert again.body.series.count == 2
    assert again.body.series.last_observed_time == "2023-11-14T22:13:25.500000Z"
    assert recording.recorder.dropped == 0


@pytest.mark.parametrize("then_s", [SERIES_REWRITE_S, 2 * SERIES_IDLE_S])
def test_so_is_one_whose_count_is_written_now_and_then_or_at_its_end(
    then_s: float, caplog: pytest.LogCaptureFixture
) -> None:
    """Quietly: every event expires, and there are thousands of them."""
    recording, about = Recording(), pod("web")
    for _ in range(3):
        recording.record(about)
        recording.flush().sent.answer()
    while recording.clock.now() < START_S + then_s and then_s == SERIES_REWRITE_S:
        recording.clock.advance(SERIES_IDLE_S / 2)
        recording.record(about)
        recording.flush()
    recording.clock.run(until_s=START_S + then_s + SERIES_IDLE_S)
    recording.sent.answer_one(NotFound("expired"))

    first, second, patched, again = recording.sent.requests
    assert [type(it) for it in (first, second, patched, again)] == [Create, Patch, Patch, Create]
    assert again.body == msgspec.structs.replace(first.body, series=again.body.series)
    assert again.body.series.count >= 3
    assert (recording.recorder.dropped, caplog.messages) == (0, [])


def test_another_version_of_the_pod_gets_an_event_of_its_own() -> None:
    """Whoever changed the pod (the scheduler writes why it waits) changed what there is to say."""
    recording, about = Recording(), pod("web")
    later = msgspec.structs.replace(
        about, metadata=msgspec.structs.replace(about.metadata, resource_version="2")
    )
    for version, note in ((about, "no room"), (later, "no disk"), (later, "no disk")):
        recording.record(version, note=note)
        recording.flush().sent.answer()

    first, second, repeated = recording.sent.requests
    assert [type(request) for request in (first, second, repeated)] == [Create, Create, Patch]
    assert (first.body.note, second.body.note) == ("no room", "no disk")
    assert repeated.name == second.body.metadata.name
    assert repeated.body["series"]["count"] == 2


def test_a_pod_that_fits_nowhere_for_another_reason_is_told_so() -> None:
    """As kube-scheduler does when a node is uncordoned that is too small."""
    world = World(node("n1", cpu="1", unschedulable=True), node("n2", cpu="1", unschedulable=True))
    world.replica(elect=False)
    world.add(pod("big", cpu="4"))
    world.clock.advance(60.0)
    world.add(node("n2", cpu="1"))
    world.clock.advance(60.0)

    events = [it for it, _ in world.store.select(EVENT, ListOptions())[0] if isinstance(it, Event)]
    assert [(it.note.partition(". ")[0], it.series) for it in events] == [
        ("0/2 nodes are available: 2 node(s) were unschedulable", None),
        ("0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable", None),
    ]


def test_one_that_cannot_be_made_anew_either_is_given_up() -> None:
    recording, about = Recording(), pod("web")
    recording.record(about)
    recording.flush().sent.answer()
    recording.record(about)
    recording.flush().sent.answer(NotFound("no such namespace"))

    assert len(recording.sent.requests) == 3
    assert (recording.recorder.pending, recording.recorder.dropped) == (0, 1)


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


def test_of_events_that_come_together_as_many_are_kept_as_there_is_room_for() -> None:
    recording = Recording()
    event = RecordEvent(pod("web"), "Warning", "FailedScheduling", "Scheduling", "no", "profile")
    for count in (QUEUE_MAX - 2, 5, 1):
        recording.recorder.record(
            [msgspec.structs.replace(event, regarding=pod(f"p{n}")) for n in range(count)]
        )

    assert (recording.recorder.pending, recording.recorder.dropped) == (QUEUE_MAX, 4)


@pytest.mark.parametrize("error", [Forbidden("no"), NotFound("no"), AlreadyExists("no")])
def test_what_the_server_refuses_is_given_up_at_once(
    error: ApiError, caplog: pytest.LogCaptureFixture
) -> None:
    recording = Recording()
    recording.record(pod("web"))
    recording.flush().sent.answer(error)

    assert (recording.recorder.pending, recording.recorder.dropped) == (0, 1)
    assert caplog.messages == ["An event was not written, and is not sent again: no"]
    recording.clock.advance(SERIES_IDLE_S)
    assert len(recording.sent.requests) == 1


def test_what_the_server_did_not_hear_is_sent_again() -> None:
    recording = Recording()
    recording.record(pod("web"))
    recording.flush().sent.answer(Unavailable("no"))
    recording.clock.advance(RETRY_S - 0.001)
    assert len(recording.sent.requests) == 1

    recording.clock.advance(RETRY_S * 0.25 + 0.001)

    first, second = recording.sent.requests
    assert second is first, "under the same name: it is made only once"
    recording.sent.answer()
    assert (recording.recorder.pending, recording.recorder.dropped) == (0, 0)


def test_they_do_not_all_come_back_at_once() -> None:
    recording, came_s = Recording(), []
    for number in range(8):
        recording.record(pod(f"p{number}"))
    recording.flush().sent.answer(Unavailable("no"))
    for _ in range(30):
        recording.clock.advance(0.1 if came_s else RETRY_S)
        came_s.append(len(recording.sent.requests) - 8)

    assert came_s[0] == 0
    assert came_s[-1] == 8
    assert len(set(came_s)) > 4


def test_after_twelve_tries_an_event_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    recording = Recording()
    recording.record(pod("web"))
    recording.flush()
    for _ in range(TRIES_MAX - 1):
        recording.sent.answer(Unavailable("no"))
        recording.clock.advance(1.25 * RETRY_S)
    assert (len(recording.sent.requests), recording.recorder.dropped) == (12, 0)

    recording.sent.answer(Unavailable("no"))
    recording.clock.advance(SERIES_IDLE_S)

    assert (len(recording.sent.requests), recording.recorder.dropped) == (12, 1)
    assert len(caplog.messages) == 1


def test_one_that_an_unheard_try_has_made_is_there() -> None:
    recording, about = Recording(), pod("web")
    recording.record(about)
    recording.flush().sent.answer(Unavailable("the answer was lost"))
    recording.clock.advance(1.25 * RETRY_S)
    recording.sent.answer(AlreadyExists("it was not"))
    recording.record(about)
    recording.flush()

    assert recording.recorder.dropped == 0
    assert [type(request) for request in recording.sent.requests] == [Create, Create, Patch]


def test_those_that_wait_for_another_try_take_room_too() -> None:
    recording = Recording()
    for number in range(100):
        recording.record(pod(f"p{number}"))
    recording.flush().sent.answer(Unavailable("no"))
    for number in range(QUEUE_MAX):
        recording.record(pod(f"q{number}"))

    assert recording.recorder.dropped == 100


def test_tries_keep_to_the_room_that_bindings_leave() -> None:
    recording = Recording()
    for number in range(50):
        recording.record(pod(f"p{number}"))
    recording.flush().sent.answer(Unavailable("no"))
    recording.flush(pressed=True)

    recording.clock.advance(1.25 * RETRY_S)

    assert len(recording.sent.requests) == 50 + IN_FLIGHT_PRESSED


def test_nobody_who_ends_waits_for_a_server_that_is_gone() -> None:
    recording, told = Recording(), []
    recording.recorder.on_empty = lambda: told.append(recording.clock.now())
    recording.record(pod("web"))
    recording.flush().sent.answer(Unavailable("no"))

    assert told == [START_S]


def test_the_last_one_is_reported() -> None:
    recording, told = Recording(), []
    recording.recorder.on_empty = lambda: told.append(recording.recorder.pending)
    for number in range(IN_FLIGHT_MAX + 1):
        recording.record(pod(f"p{number}"))
    recording.flush()
    assert told == []
    recording.sent.answer()

    assert told == [0]


def test_what_is_recorded_before_a_flush_happened_at_one_moment() -> None:
    """One turn of the scheduler; time goes on while it decides."""
    recording = Recording()
    for number in range(2):
        recording.record(pod(f"p{number}"))
        recording.clock.advance(1.0)
    recording.flush().record(pod("next"))
    recording.flush()

    times = [request.body.event_time[-10:] for request in recording.sent.requests]
    assert times == ["20.500000Z", "20.500000Z", "22.500000Z"]


def test_as_many_as_are_free_are_sent_together() -> None:
    recording, told = Recording(), []
    recording.recorder.on_empty = lambda: told.append(recording.recorder.pending)
    for number in range(IN_FLIGHT_MAX + 2):
        recording.record(pod(f"p{number}"))
    recording.flush()
    assert recording.sent.lists == [IN_FLIGHT_MAX]

    recording.sent.answer()

    names = [request.body.regarding.name for request in recording.sent.requests]
    assert names == [f"p{number}" for number in range(IN_FLIGHT_MAX + 2)], "in their order"
    assert told == [0]


def test_a_cluster_that_answers_at_once_gets_all_that_are_left() -> None:
    class AtOnce(Sent):
        def call(self, requests: Sequence[Request], done: AllDone) -> None:
            super().call(requests, done)
            self.answer()

    recording = Recording(AtOnce())
    for number in range(3 * IN_FLIGHT_MAX):
        recording.record(pod(f"p{number}"))
    recording.flush()

    assert recording.sent.lists == [IN_FLIGHT_MAX, 2 * IN_FLIGHT_MAX]


def test_of_many_each_has_its_own_answer() -> None:
    sent = Sent()
    recording, about = Recording(sent), pod("web")
    recording.record(about)
    recording.record(about, reason="Scheduled")
    recording.record(about)
    recording.flush()
    assert [type(request) for request in sent.requests] == [Create, Create, Patch]
    for answer in (None, Unavailable("not heard"), NotFound("it is gone")):
        sent.answer_one(answer)

    assert sent.lists == [3, 1], "what is gone is made anew at once"
    assert sent.requests[3].body.series.count == 2
    sent.answer()
    recording.clock.advance(1.25 * RETRY_S)
    assert sent.requests[4] is sent.requests[1], "what was not heard is said again"
    sent.answer()
    assert (recording.recorder.pending, recording.recorder.dropped) == (0, 0)


def test_nothing_is_sent_where_events_are_only_counted() -> None:
    sent = Sent()
    recording, about = Recording(sent), pod("web")
    for _ in range(3):
        recording.record(about)
        recording.flush()
        sent.answer()

    assert sent.lists == [1, 1]
