"""Generators that wait: what they yield becomes effects and timers, answers resume them."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from stowplan.core.messages import Call
from stowplan.core.steps import Parallel, Stepper, Suspend
from stowplan.framework.effects import Sleep
from stowplan.objects.api import Get
from stowplan.objects.kinds import POD

Steps = Generator[Any, Any, Any]


def ask(name: str) -> Steps:
    answer = yield Get(POD, "default", name)
    return f"{name}: {answer}"


def rest(seconds: float) -> Steps:
    yield Sleep(seconds)
    return seconds


def tokens(stepper: Stepper) -> list[int]:
    return [effect.token for effect in stepper.effects if isinstance(effect, Call)]


def test_a_request_becomes_a_call_and_its_answer_ends_the_wait() -> None:
    stepper, ended = Stepper(), list[Any]()

    stepper.start(ask("web"), ended.append)

    [token] = tokens(stepper)
    assert (ended, stepper.pending_count) == ([], 1)
    assert stepper.answer(token, "there")
    assert (ended, stepper.pending_count) == (["web: there"], 0)


def test_an_answer_nobody_waits_for_is_let_go() -> None:
    stepper, ended = Stepper(), list[Any]()
    stepper.start(ask("web"), ended.append)
    [token] = tokens(stepper)

    assert not stepper.answer(token + 1, "what?")
    assert stepper.answer(token, "there")
    assert not stepper.answer(token, "again")

    assert ended == ["web: there"]


def test_a_sleep_ends_when_its_time_has_come_not_before() -> None:
    stepper, ended = Stepper(), list[Any]()
    stepper.now_s = 100.0
    stepper.start(rest(2), ended.append)
    stepper.start(rest(1), ended.append)
    assert stepper.next_timer_s() == 101.0

    stepper.now_s = 100.9
    stepper.run_due()
    assert ended == []
    stepper.now_s = 102.0
    stepper.run_due()

    assert ended == [1, 2]
    assert stepper.next_timer_s() is None


def test_branches_run_side_by_side_and_are_joined_in_order() -> None:
    stepper, ended = Stepper(), list[Any]()

    def main() -> Steps:
        results = yield Parallel([ask("a"), rest(1), ask("b")])
        nothing = yield Parallel([])
        return results, nothing

    stepper.start(main(), ended.append)
    first, second = tokens(stepper)
    stepper.answer(second, 2)
    stepper.answer(first, 1)
    assert ended == []
    stepper.now_s = 1.0
    stepper.run_due()

    assert ended == [(["a: 1", 1, "b: 2"], [])]


def test_whoever_is_suspended_is_resumed_by_others_even_in_their_own_step() -> None:
    stepper, order = Stepper(), list[str]()
    resume: list[Any] = []

    def sleeper() -> Steps:
        word = yield Suspend(resume.append)
        order.append(f"sleeper: {word}")

    def waker() -> Steps:
        resume[0]("wake up")
        order.append("waker goes on")
        yield Sleep(1)

    stepper.start(sleeper(), lambda _: None)
    stepper.start(waker(), lambda _: None)

    # The waker is not interrupted: no generator runs inside another.
    assert order == ["waker goes on", "sleeper: wake up"]


def test_cancelled_timers_do_not_pile_up() -> None:
    stepper = Stepper()
    stepper.at(1e9, lambda: None)

    for n in range(10_000):
        stepper.cancel(stepper.at(1e6 + n, lambda: None))

    assert stepper.timer_count == 1
    assert len(stepper._timers) < 200
    assert stepper.next_timer_s() == 1e9
