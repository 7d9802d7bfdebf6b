"""A pod in flight misses no event, and no event is kept for nobody (core.md §2.4)."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.framework.events import Action, ClusterEvent, Resource
from stowplan.queue.in_flight import InFlight
from stowplan.queue.metrics import QueueMetrics
from tests.queue.builders import (
    NODE_ADD,
    NODE_LABEL,
    Harness,
    annotated,
    pod,
    relabelled,
)


def event(n: int) -> ClusterEvent:
    return ClusterEvent(Resource.NODE, Action.ADD, f"e{n}")


def labels(log: InFlight, uid: str) -> list[str] | None:
    events = log.events_since_start(uid)
    return None if events is None else [logged.label for logged in events]


@pytest.fixture
def metrics() -> QueueMetrics:
    return QueueMetrics()


@pytest.fixture
def log(metrics: QueueMetrics) -> InFlight:
    return InFlight(metrics)


def test_a_pod_sees_what_came_after_it_left(log: InFlight) -> None:
    log.start("one")
    log.log(event(1), None, None)
    log.start("two")
    log.start("three")
    log.log(event(2), None, None)

    assert labels(log, "one") == ["e1", "e2"]
    assert labels(log, "two") == labels(log, "three") == ["e2"]


def test_nothing_is_kept_while_nobody_is_in_flight(log: InFlight, metrics: QueueMetrics) -> None:
    log.log(event(1), None, None)
    log.start("one")

    assert labels(log, "one") == []
    assert metrics.inflight_events == {"PodPopped": 1}


def test_done_drops_events_up_to_the_next_pod(log: InFlight, metrics: QueueMetrics) -> None:
    log.start("one")
    log.log(event(1), None, None)
    log.start("two")
    log.log(event(2), None, None)

    log.done("one")

    assert labels(log, "two") == ["e2"]
    assert log.event_count == 1
    assert metrics.inflight_events == {"PodPopped": 1, "e1": 0, "e2": 1}


def test_events_stay_while_an_older_pod_needs_them(log: InFlight) -> None:
    log.start("one")
    log.log(event(1), None, None)
    log.start("two")
    log.log(event(2), None, None)

    log.done("two")

    assert labels(log, "one") == ["e1", "e2"]


def test_a_gap_left_by_a_finished_pod_is_dropped_with_the_first(log: InFlight) -> None:
    for n, uid in enumerate(("one", "two", "three")):
        log.start(uid)
        log.log(event(n), None, None)
    log.done("two")
    log.done("one")

    assert labels(log, "three") == ["e2"]
    assert log.event_count == 1

    log.done("three")
    assert (len(log), log.event_count) == (0, 0)


def test_done_twice_does_no_harm(log: InFlight) -> None:
    log.start("one")
    log.start("two")
    log.log(event(1), None, None)
    log.done("one")
    log.done("one")
    log.done("never started")

    assert labels(log, "two") == ["e1"]


def test_a_pod_that_left_cannot_leave_again(log: InFlight) -> None:
    assert log.start("one")
    log.log(event(1), None, None)

    assert not log.start("one")
    assert labels(log, "one") == ["e1"]


def test_who_never_left_has_no_history(log: InFlight) -> None:
    assert log.events_since_start("one") is None


def test_too_long_a_history_is_given_up(metrics: QueueMetrics) -> None:
    log = InFlight(metrics, events_max=3)
    log.start("stuck")
    log.log(event(1), None, None)
    log.start("young")
    for n in (2, 3, 4):
        log.log(event(n), None, None)

    assert labels(log, "stuck") is None
    assert "stuck" in log
    assert labels(log, "young") == ["e2", "e3", "e4"]

    log.log(event(5), None, None)
    assert labels(log, "young") is None
    assert log.event_count == 0

    log.log(event(6), None, None)
    assert log.event_count == 0, "nobody is left to read it"

    log.done("young")
    log.done("stuck")
    assert len(log) == 0
    assert set(metrics.inflight_events.values()) == {0}


steps = st.lists(
    st.tuples(
        st.sampled_from(["start", "start", "log", "log", "done"]), st.sampled_from("abcdefgh")
    ),
    min_size=12,
    max_size=40,
)


@given(steps=steps, events_max=st.sampled_from([1, 3, 99]))
def test_every_pod_sees_all_that_came_since_it_left(
    steps: list[tuple[str, str]], events_max: int
) -> None:
    """Against one list of all events, in which each pod remembers its place."""
    metrics = QueueMetrics()
    log = InFlight(metrics, events_max=events_max)
    logged: list[str] = []
    left_at: dict[str, int | None] = {}

    def kept_from() -> int:
        return min((at for at in left_at.values() if at is not None), default=len(logged))

    for step, uid in steps:
        if step == "start":
            assert log.start(uid) == (uid not in left_at)
            left_at.setdefault(uid, len(logged))
        elif step == "done":
            log.done(uid)
            left_at.pop(uid, None)
        else:
            logged.append(f"e{len(logged) % 3}")
            log.log(ClusterEvent(Resource.NODE, Action.ADD, logged[-1]), None, None)
            while len(logged) - kept_from() > events_max:
                oldest = kept_from()
                left_at |= {other: None for other, at in left_at.items() if at == oldest}

        kept = logged[kept_from() :]
        assert log.event_count == len(kept)
        assert sorted(log.uids) == sorted(left_at)
        for other, at in left_at.items():
            assert labels(log, other) == (None if at is None else logged[at:])
        counts = {label: n for label, n in metrics.inflight_events.items() if n}
        assert counts == Counter(kept) + Counter(PodPopped=len(left_at))


def test_pop_counts_the_attempt_and_the_cycle_and_lowers_the_gauge() -> None:
    h = Harness()
    queued = h.failed(pod(), "Fit", "Labels")
    assert (h.unschedulable("Fit"), h.unschedulable("Labels")) == (1, 1)
    h.queue.move_all(NODE_ADD, None, None)

    assert h.pop() is queued

    assert (queued.attempts, h.queue.cycle) == (2, 2)
    assert (h.unschedulable("Fit"), h.unschedulable("Labels")) == (0, 0)
    assert queued.unschedulable_plugins == {"Fit", "Labels"}, "kept through the attempt"
    assert h.place(queued) == "in flight"


def test_a_pod_that_is_in_flight_already_is_dropped_and_the_next_one_popped() -> None:
    h = Harness()
    twice, other = pod(priority=9), pod(priority=1)
    h.queue.add(twice)
    flying = h.pop()
    h.queue.add(twice)
    h.queue.add(other)

    assert h.pop().info is other
    assert h.queue.pop() is None
    assert h.queue.cycle == 2

    h.fail(flying, "Fit")
    assert h.place(twice) == "unschedulable"


def test_events_of_interest_are_kept_whoever_they_move() -> None:
    h = Harness()
    flying = pod()
    h.queue.add(flying)
    queued = h.pop()
    h.queue.move_all(NODE_ADD, None, None, pre_check=lambda info: False)

    h.fail(queued, "Fit")

    assert h.place(flying) == "backoff"


def test_events_of_no_interest_are_not_kept() -> None:
    h = Harness()
    h.queue.add(pod())
    h.pop()
    h.queue.move_all(ClusterEvent(Resource.DEVICE_CLASS, Action.ADD), None, None)

    assert h.queue.metrics.inflight_events == {"PodPopped": 1}


def test_an_update_of_a_pod_in_flight_is_only_noted() -> None:
    h = Harness()
    old = pod(labels={"a": "1"})
    h.queue.add(old)
    queued = h.pop()
    new = relabelled(old, a="2")

    h.queue.update(old, new)

    assert h.place(old) == "in flight"
    assert h.queue.metrics.inflight_events["UnschedulablePodUpdatePodLabel"] == 1
    assert queued.info is old

    h.fail(queued, "OwnLabel")
    assert h.place(old) == "backoff"


def test_a_pod_activated_in_flight_is_tried_again_whoever_rejects_it() -> None:
    h = Harness()
    activated, other = pod(), pod()
    for info in (activated, other):
        h.queue.add(info)
    flying = [h.pop(), h.pop()]
    h.queue.activate([activated])

    for queued in flying:
        h.fail(queued, "Deaf")

    assert (h.place(activated), h.place(other)) == ("backoff", "unschedulable")


def test_activating_an_unknown_pod_leaves_no_trace() -> None:
    h = Harness()
    h.queue.add(pod())
    h.pop()

    h.queue.activate([pod("unknown")])

    assert h.queue.metrics.inflight_events == {"PodPopped": 1}


@pytest.mark.parametrize(
    ("rejectors", "place"),
    [
        pytest.param(["Fit"], "backoff", id="an-event-it-cared-for"),
        pytest.param(["Labels"], "unschedulable", id="only-other-events"),
        pytest.param([], "backoff", id="errors-ignore-events"),
    ],
)
def test_a_returning_pod_looks_at_what_it_missed(rejectors: list[str], place: str) -> None:
    h = Harness()
    h.queue.add(pod())
    h.queue.move_all(NODE_LABEL, None, None)
    queued = h.pop()
    h.queue.move_all(NODE_ADD, None, None)

    h.fail(queued, *rejectors)

    assert h.place(queued) == place


def test_of_several_missed_events_the_best_decides() -> None:
    h = Harness()
    h.queue.add(pod())
    queued = h.pop()
    h.queue.move_all(NODE_ADD, None, None)
    h.queue.move_all(NODE_LABEL, None, None)

    h.fail(queued, "Fit", pending=["Labels"])

    assert h.place(queued) == "active"


def test_events_before_the_attempt_do_not_count() -> None:
    h = Harness()
    h.queue.add(pod(priority=9))
    h.queue.add(pod(priority=1))
    h.pop()
    h.queue.move_all(NODE_ADD, None, None)
    late = h.pop()

    h.fail(late, "Fit")

    assert h.place(late) == "unschedulable"


def test_after_done_there_is_no_history_and_the_pod_is_tried_again() -> None:
    h = Harness()
    info = pod()
    h.queue.add(info)
    queued = h.pop()
    h.queue.done(info.uid)

    h.fail(queued, "Deaf")

    assert h.place(info) == "backoff"


def test_close_ends_every_attempt() -> None:
    h = Harness()
    for _ in range(3):
        h.queue.add(pod())
        h.pop()
    h.queue.move_all(NODE_ADD, None, None)

    h.queue.close()

    assert h.queue.closed
    assert list(h.queue.places()) == []
    assert set(h.queue.metrics.inflight_events.values()) == {0}


def test_a_metadata_change_in_flight_is_a_generic_update() -> None:
    h = Harness()
    info = pod()
    h.queue.add(info)
    h.pop()

    h.queue.update(info, annotated(info))

    assert h.queue.metrics.inflight_events["UnschedulablePodUpdate"] == 1
