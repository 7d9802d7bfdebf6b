"""Keys wait once, come back when they failed, later each time, and are looked at in turns."""

from __future__ import annotations

import itertools

import pytest

from stowplan.apiserver.controllers.work_queue import FUTILE_TRIES, KEYS_PER_TURN, WorkQueue
from stowplan.clock import VirtualClock


class Looking:
    """A queue, and when each key was looked at."""

    def __init__(self) -> None:
        self.clock = VirtualClock(0.0)
        self.ready = True
        self.fails: set[str] = set()
        self.seen: list[tuple[float, str]] = []
        self.queue = WorkQueue(
            "test",
            self.look,
            clock=self.clock,
            call_later=self.clock.at,
            ready=lambda: self.ready,
        )

    def look(self, key: str) -> None:
        self.seen.append((self.clock.now(), key))
        if key in self.fails:
            raise ValueError(key)

    def run(self, seconds: float = 0.0) -> list[tuple[float, str]]:
        self.clock.advance(seconds)
        seen, self.seen = self.seen, []
        return seen


@pytest.fixture
def looking() -> Looking:
    return Looking()


def test_a_key_waits_once_and_in_order(looking: Looking) -> None:
    for key in ("b", "a", "b"):
        looking.queue.add(key)
    assert looking.queue.busy

    assert looking.run() == [(0.0, "b"), (0.0, "a")]
    assert not looking.queue.busy
    looking.queue.add("b")
    assert looking.run() == [(0.0, "b")]


def test_keys_gather_until_everything_is_known(looking: Looking) -> None:
    looking.ready = False
    looking.queue.add("a")
    assert looking.run(10.0) == []

    looking.ready = True
    looking.queue.wake()
    assert looking.run() == [(10.0, "a")]


def test_a_turn_looks_at_so_many_and_others_get_theirs_between(looking: Looking) -> None:
    for number in range(2 * KEYS_PER_TURN + 1):
        looking.queue.add(str(number))
    turns: list[int] = []
    looking.clock.at(0.0, lambda: turns.append(len(looking.seen)))

    assert len(looking.run()) == 2 * KEYS_PER_TURN + 1
    assert turns == [KEYS_PER_TURN]


def test_later_is_the_earliest_moment_asked_for(looking: Looking) -> None:
    looking.queue.add_after("a", 5.0)
    looking.queue.add_after("a", 7.0)
    looking.queue.add_after("b", 7.0)
    looking.queue.add_after("b", 3.0)
    looking.queue.add_after("c", -1.0)
    assert looking.queue.has_plans

    assert looking.run(20.0) == [(0.0, "c"), (3.0, "b"), (5.0, "a")]
    assert not looking.queue.has_plans


def test_failures_in_a_row_are_further_and_further_apart(looking: Looking) -> None:
    looking.fails = {"a"}
    looking.queue.add("a")
    assert not looking.queue.is_failing("a")

    times = [at for at, _ in looking.run(112.0)]
    apart = [round(after - before, 6) for before, after in itertools.pairwise(times)]
    assert apart == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]
    assert looking.queue.is_failing("a")
    looking.queue.forget("a")
    assert not looking.queue.is_failing("a")
    looking.queue.retry("other")
    assert [key for _, key in looking.run(0.1)] == ["other"]


def test_what_was_tried_in_vain_for_long_is_no_plan(looking: Looking) -> None:
    for number in range(FUTILE_TRIES):
        assert looking.queue.has_plans is (number > 0)
        looking.queue.retry("a")
        if number < FUTILE_TRIES - 1:
            assert looking.queue.has_plans
    assert not looking.queue.has_plans


def test_who_waits_only_to_say_that_nothing_happened_is_no_plan(looking: Looking) -> None:
    looking.queue.add_after("a", 5.0, idle=True)
    assert not looking.queue.has_plans
    looking.queue.add_after("a", 3.0)
    assert looking.queue.has_plans
    looking.queue.add_after("a", 2.0, idle=True)
    assert not looking.queue.has_plans

    assert looking.run(10.0) == [(2.0, "a")]
    looking.queue.add_after("a", 1.0)
    assert looking.queue.has_plans


def test_a_queue_that_is_cleared_forgets_and_one_that_is_stopped_looks_at_nothing(
    looking: Looking,
) -> None:
    looking.queue.add("a")
    looking.queue.add_after("b", 5.0)
    looking.queue.clear()
    assert (looking.queue.busy, looking.queue.has_plans) == (False, False)
    assert looking.run(10.0) == []

    looking.queue.add("c")
    assert looking.run() == [(10.0, "c")]
    looking.queue.add_after("d", 5.0)
    looking.queue.stop()
    looking.queue.add("e")
    assert looking.run(10.0) == []


def test_one_that_goes_on_where_another_is_does_what_it_would_have_done() -> None:
    first, second = Looking(), Looking()
    for one in (first, second):
        one.fails = {"a"}
    first.queue.add("a")
    first.run(0.2)
    first.queue.add_after("b", 5.0)
    first.queue.add_after("c", 1.0, idle=True)
    second.clock.advance(0.2)

    second.queue.resume(first.queue)
    assert second.queue.is_failing("a")
    assert second.queue.has_plans
    first.queue.clear()
    assert second.queue.has_plans
    # A key that waits already waits for the earlier moment.
    second.queue.add_after("b", 9.0)
    second.queue.add_after("c", 0.5)
    assert second.run(20.0) == [(0.7, "c")]
