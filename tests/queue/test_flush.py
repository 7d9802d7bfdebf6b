"""Pods that nothing wakes are tried again all the same, in time (core.md §2.6, the flush)."""

from __future__ import annotations

import pytest

from tests.queue.builders import Harness, pod


@pytest.mark.parametrize(
    ("waited_s", "place"),
    [
        pytest.param(299.0, "unschedulable", id="not-yet"),
        pytest.param(300.0, "unschedulable", id="exactly-five-minutes"),
        pytest.param(300.1, "active", id="longer"),
    ],
)
def test_pods_left_for_five_minutes_are_tried_again(waited_s: float, place: str) -> None:
    h = Harness()
    queued = h.failed(pod(), "Deaf")
    h.tick(waited_s)

    h.queue.flush_unschedulable()

    assert h.place(queued) == place
    assert h.incoming("active", "UnschedulableTimeout") == (place == "active")


def test_the_flush_is_logged_for_pods_in_flight() -> None:
    h = Harness()
    flying = pod()
    h.queue.add(flying)
    queued = h.pop()
    h.failed(pod(), "Deaf")
    h.tick(301)
    h.queue.flush_unschedulable()

    h.fail(queued, "Deaf")

    assert h.place(flying) == "backoff"


def test_the_maximum_is_configurable() -> None:
    h = Harness(unschedulable_max_s=60)
    queued = h.failed(pod(), "Deaf")
    h.tick(61)

    h.queue.flush_unschedulable()

    assert h.place(queued) == "active"


def test_unschedulable_pods_are_looked_through_every_thirty_seconds() -> None:
    h = Harness(start_s=1000.0)
    h.tick(5)
    queued = h.failed(pod(), "Deaf")
    assert h.queue.next_wakeup_s() == 1330.0, "the first check after 1305"

    h.clock.now_s = 1306.0
    h.queue.flush()
    assert h.place(queued) == "active", "no check was made since 1000"


def test_between_two_checks_nothing_is_flushed() -> None:
    h = Harness(start_s=1000.0)
    h.tick(5)
    queued = h.failed(pod(), "Deaf")
    h.clock.now_s = 1300.0
    h.queue.flush()

    h.clock.now_s = 1329.0
    h.queue.flush()
    assert h.place(queued) == "unschedulable"

    h.clock.now_s = 1330.0
    h.queue.flush()
    assert h.place(queued) == "active"


def test_the_earliest_of_all_wakeups_counts() -> None:
    h = Harness()
    assert h.queue.next_wakeup_s() is None

    h.failed(pod(), "Deaf")
    assert h.queue.next_wakeup_s() == 1330.0

    h.failed(pod())
    assert h.queue.next_wakeup_s() == 1002.0
