"""Virtual time moves only when told, and always in the same order."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.clock import Clock, RealClock, SteadyClock, VirtualClock


def test_the_real_clock_tells_the_unix_time() -> None:
    clock: Clock = RealClock()

    before, now, after = time.time(), clock.now(), time.time()

    assert before <= now <= after


def test_the_steady_clock_does_not_jump_when_the_machines_clock_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock: Clock = SteadyClock()
    before = clock.now()
    assert before == pytest.approx(time.time(), abs=5.0)
    monkeypatch.setattr(time, "time", lambda: 0.0)

    assert before <= clock.now() < before + 60.0


def test_equal_times_run_in_the_order_they_were_planned() -> None:
    clock, seen = VirtualClock(), []
    for name in "abc":
        clock.at(1.0, lambda name=name: seen.append(name))

    clock.run()

    assert seen == ["a", "b", "c"]


def test_an_action_sees_its_own_moment_and_may_plan_more() -> None:
    clock, seen = VirtualClock(), []

    def tick() -> None:
        seen.append(clock.now())
        if len(seen) < 3:
            clock.at(10.0, tick)

    clock.at(10.0, tick)
    assert clock.run() == 3

    assert seen == [10.0, 20.0, 30.0]
    assert clock.now() == 30.0


def test_what_is_due_at_the_end_still_runs_and_the_rest_waits() -> None:
    clock, seen = VirtualClock(now_s=100.0), []
    for delay_s in (1.0, 2.0, 3.0):
        clock.at(delay_s, lambda delay_s=delay_s: seen.append(delay_s))

    clock.run(until_s=102.0)

    assert seen == [1.0, 2.0]
    assert clock.now() == 102.0
    assert clock.next_s == 103.0


def test_advance_moves_the_clock_even_when_nothing_is_planned() -> None:
    clock = VirtualClock()

    clock.advance(7.5)

    assert clock.now() == 7.5
    assert clock.next_s is None


def test_the_past_cannot_be_planned() -> None:
    with pytest.raises(AssertionError, match="into the past"):
        VirtualClock().at(-1.0, print)


def test_time_does_not_run_back() -> None:
    with pytest.raises(AssertionError, match="does not run back"):
        VirtualClock(now_s=5.0).run(until_s=4.0)


def test_an_endless_plan_is_cut_off() -> None:
    clock = VirtualClock()

    def again() -> None:
        clock.at(0.0, again)

    again()
    with pytest.raises(AssertionError, match="endless loop"):
        clock.run(actions_max=100)


@given(st.lists(st.floats(0, 1e9)))
def test_actions_run_in_a_stable_order_of_time(delays_s: list[float]) -> None:
    clock, seen = VirtualClock(), []
    for index, delay_s in enumerate(delays_s):
        clock.at(delay_s, lambda index=index: seen.append(index))

    clock.run()

    assert seen == sorted(range(len(delays_s)), key=lambda index: delays_s[index])
