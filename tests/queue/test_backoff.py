"""How long a pod backs off, who goes first, and who may be taken early (core.md §2.2)."""

from __future__ import annotations

import pytest

from stowplan.queue.backoff import BackoffQueue
from stowplan.queue.queued_pod import QueuedPod
from tests.queue.builders import NODE_ADD, Harness, by_priority, pod


def failed(
    *, rejections: int = 0, errors: int = 0, at_s: float = 1000.0, priority: int = 0
) -> QueuedPod:
    queued = QueuedPod(pod(priority=priority), at_s)
    queued.unschedulable_count = rejections
    queued.consecutive_errors_count = errors
    if not errors:
        queued.unschedulable_plugins = frozenset({"Fit"})
    return queued


def backoff(initial_s: float = 1.0, max_s: float = 10.0) -> BackoffQueue:
    return BackoffQueue(by_priority, initial_s, max_s)


@pytest.mark.parametrize(
    ("count", "seconds"), [(0, 0), (1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (6, 10), (10_000, 10)]
)
def test_backoff_doubles_up_to_the_maximum(count: int, seconds: float) -> None:
    assert backoff().duration_s(failed(rejections=count)) == seconds
    assert backoff().duration_s(failed(errors=count)) == seconds


def test_initial_and_maximum_are_configurable() -> None:
    durations = [backoff(3, 20).duration_s(failed(rejections=n)) for n in range(1, 6)]

    assert durations == [3, 6, 12, 20, 20]


def test_errors_in_a_row_count_before_rejections() -> None:
    assert backoff().duration_s(failed(rejections=5, errors=1)) == 1


@pytest.mark.parametrize(
    ("max_s", "count"), [pytest.param(10, 0, id="no-failure"), pytest.param(0, 3, id="maximum-0")]
)
def test_no_backoff(max_s: float, count: int) -> None:
    queue = backoff(1, max_s)

    assert not queue.is_backing_off(failed(rejections=count, at_s=1000.0), 1000.0)


@pytest.mark.parametrize(
    ("now_s", "backs_off"),
    [
        pytest.param(1000.9, True, id="at-once"),
        pytest.param(1001.0, True, id="equality-still-backs-off"),
        pytest.param(1001.9, True, id="to-the-end-of-that-second"),
        pytest.param(1001.999, True, id="to-the-very-end"),
        pytest.param(1002.0, False, id="the-next-second"),
    ],
)
def test_times_are_cut_to_whole_seconds(now_s: float, backs_off: bool) -> None:
    """1000.9 + 1 s = 1001.9, cut to 1001: the pod backs off until 1002, for 1.1 s."""
    queued = failed(rejections=1, at_s=1000.9)

    assert backoff().is_backing_off(queued, now_s) is backs_off
    assert queued.backoff_expiration_s == 1001


def test_the_expiration_is_worked_out_once() -> None:
    queue = backoff()
    queued = failed(rejections=1)
    assert queue.expiration_s(queued) == 1001

    queued.unschedulable_count = 4

    assert queue.expiration_s(queued) == 1001


def test_pods_of_one_second_go_by_queue_sort() -> None:
    queue = backoff()
    late = failed(rejections=1, at_s=1001.0, priority=100)
    low = failed(rejections=1, at_s=1000.1, priority=1)
    high = failed(rejections=1, at_s=1000.9, priority=9)
    for queued in (late, low, high):
        queue.add(queued)

    assert [queue.pop_early() for _ in range(4)] == [high, low, late, None]


def test_errors_of_one_second_go_as_they_came() -> None:
    queue = backoff()
    first = failed(errors=1, at_s=1000.1, priority=1)
    second = failed(errors=1, at_s=1000.0, priority=9)
    for queued in (first, second):
        queue.add(queued)

    assert list(queue.pop_completed(1002.0)) == [first, second]


def test_completed_pods_of_both_heaps_come_out() -> None:
    queue = backoff()
    error, rejected = failed(errors=1), failed(rejections=1)
    waiting = failed(rejections=2)
    for queued in (error, rejected, waiting):
        queue.add(queued)
    assert list(queue.pop_completed(1001.9)) == []

    assert list(queue.pop_completed(1002.0)) == [rejected, error]
    assert queue.values() == [waiting]
    assert queue.next_completion_s() == 1003.0


def test_a_changed_pod_is_put_in_its_new_order() -> None:
    queue = backoff()
    one, two = failed(rejections=1, priority=1), failed(rejections=1, priority=2)
    error = failed(errors=1)
    for queued in (one, two, error):
        queue.add(queued)

    one.info = pod(one.info.pod.metadata.name, priority=3)
    queue.update(one)
    queue.update(error)

    assert [queue.pop_early(), queue.pop_early(), queue.pop_early()] == [one, two, None]
    assert queue.get(error.info.key) is error


def test_the_flush_moves_finished_pods_of_both_kinds_without_asking_the_gate() -> None:
    h = Harness()
    rejected = h.failed(pod(), "Fit")
    h.queue.move_all(NODE_ADD, None, None)
    error = h.failed(pod())
    assert (h.place(rejected), h.place(error)) == ("backoff", "backoff")

    h.tick(2)
    h.queue.flush_backoff()

    assert (h.place(rejected), h.place(error)) == ("active", "active")
    assert h.incoming("active", "BackoffComplete") == 2


def test_a_ten_second_backoff_takes_no_real_time() -> None:
    h = Harness()
    queued = h.failed(pod())
    for _ in range(4):
        h.tick(20)
        h.queue.flush()
        queued = h.fail(h.pop())
    start_s = h.clock.now_s
    assert queued.consecutive_errors_count == 5

    wakeups = 0
    while h.place(queued) == "backoff":
        wakeup_s = h.queue.next_wakeup_s()
        assert wakeup_s is not None
        h.clock.now_s = wakeup_s
        h.queue.flush()
        wakeups += 1

    assert (h.clock.now_s - start_s, wakeups) == (11, 1)


def test_an_idle_scheduler_takes_a_rejected_pod_before_its_time() -> None:
    h = Harness()
    first = h.failed(pod(priority=1), "Fit")
    second = h.failed(pod(priority=2), "Fit")
    h.queue.move_all(NODE_ADD, None, None)
    assert h.queue.pending_counts()["backoff"] == 2

    assert [h.pop(), h.pop(), h.queue.pop()] == [second, first, None]
    assert h.incoming("active", "PopFromBackoffQ") == 2


def test_an_idle_scheduler_leaves_errors_alone() -> None:
    h = Harness()
    h.failed(pod())

    assert not h.queue.has_next
    assert h.queue.pop() is None


def test_an_active_pod_goes_before_one_in_backoff() -> None:
    h = Harness()
    h.failed(pod(priority=100), "Fit")
    h.queue.move_all(NODE_ADD, None, None)
    active = pod(priority=0)
    h.queue.add(active)

    assert h.pop().info is active
