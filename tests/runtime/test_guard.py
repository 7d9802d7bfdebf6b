"""A scheduler that does not come back is noticed, named, and not waited for; under virtual time."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from stowplan.clock import VirtualClock
from stowplan.config import load_config
from stowplan.core.machine import Machine
from stowplan.core.messages import Added, ScheduleNext
from stowplan.framework.status import Status
from stowplan.objects.base import KubeObject
from stowplan.plugins import IN_TREE
from stowplan.runtime.guard import (
    BEAT_S,
    DECISION_TIMEOUT_S,
    LONG_S,
    STOP_WAIT_S,
    Guard,
)
from stowplan.runtime.lifecycle import GIVEN_UP, STOPPED, TOO_LONG
from stowplan.runtime.log import Log
from stowplan.runtime.whereabouts import Doing, look
from tests.builders import node, pod
from tests.config.builders import profile_with

NOTICED_S = 2.0
"""Until somebody looks closer."""


class Watched:
    """A guard, and a scheduler that answers it or does not."""

    def __init__(self, **settings: Any) -> None:
        self.clock = VirtualClock(1000.0)
        self.out = io.StringIO()
        self.away = False
        self.doing = Doing("a decision", "default/p", "Mine", "Filter", "mine.py:7")
        self.looks = 0
        self.ended: list[tuple[int, float]] = []
        self._unheard: list[Callable[[], None]] = []
        self.guard = Guard(
            now=self.clock.now,
            ask=self._ask,
            look=self._look,
            give_up=lambda code: self.ended.append((code, self.clock.now() - 1000.0)),
            log=Log(self.clock, stream=self.out),
            **settings,
        )
        self._beat()

    def _beat(self) -> None:
        self.guard.beat()
        self.clock.at(BEAT_S, self._beat)

    def _ask(self, heard: Callable[[], None]) -> None:
        if self.away:
            self._unheard.append(heard)
        else:
            heard()

    def _look(self) -> Doing:
        self.looks += 1
        return self.doing

    def back(self) -> None:
        self.away = False
        for heard in self._unheard:
            heard()
        self._unheard.clear()

    def run(self, seconds: float) -> None:
        self.clock.advance(seconds)


def test_a_scheduler_that_answers_is_left_alone() -> None:
    watched = Watched()
    watched.run(100.0)

    assert (watched.looks, watched.ended, watched.out.getvalue()) == (0, [], "")


def test_one_decision_that_takes_longer_than_the_limit_ends_it_once() -> None:
    watched = Watched(limit_s=DECISION_TIMEOUT_S)
    watched.away = True
    watched.run(DECISION_TIMEOUT_S - BEAT_S)
    assert watched.ended == []
    watched.run(100.0)

    [(code, at_s)] = watched.ended
    assert code == TOO_LONG
    assert DECISION_TIMEOUT_S <= at_s <= DECISION_TIMEOUT_S + NOTICED_S + 2 * BEAT_S
    warning, error = watched.out.getvalue().splitlines()
    named = 'pod="default/p" plugin="Mine" point="Filter" at="mine.py:7"'
    assert '"A decision takes long"' in warning
    assert named in warning
    assert '"A decision does not end"' in error
    assert f"{named} exitCode=124" in error


def test_many_slow_decisions_in_a_row_are_no_reason() -> None:
    """One call into the machine makes a number of them."""
    watched = Watched(limit_s=10.0)
    watched.away = True
    for number in range(20):
        watched.doing = Doing(number)
        watched.run(LONG_S - 1.0)

    assert (watched.ended, watched.out.getvalue()) == ([], "")


def test_neither_are_many_that_each_come_to_an_end() -> None:
    watched = Watched(limit_s=10.0)
    for _ in range(5):
        watched.away = True
        watched.run(9.0)
        watched.back()
        watched.run(1.0)

    assert watched.ended == []


def test_what_is_no_decision_and_in_no_plugin_has_the_same_limit() -> None:
    watched = Watched(limit_s=10.0)
    watched.away, watched.doing = True, Doing(None)
    watched.run(20.0)

    assert [code for code, _ in watched.ended] == [TOO_LONG]


def test_without_a_limit_nobody_is_ended() -> None:
    watched = Watched(limit_s=0.0)
    watched.away = True
    watched.run(3600.0)

    assert watched.ended == []


@pytest.mark.parametrize("busy_for_s", [0.0, 0.05, 20.0])
def test_asked_to_stop_it_is_waited_for_a_little_only(busy_for_s: float) -> None:
    watched = Watched()
    watched.away = True
    watched.run(busy_for_s)
    watched.guard.hurry()
    watched.run(5.0)

    [(code, at_s)] = watched.ended
    assert code == STOPPED
    assert STOP_WAIT_S <= at_s - busy_for_s <= STOP_WAIT_S + 3 * BEAT_S


def test_asked_to_stop_while_it_answers_it_stops_by_itself() -> None:
    watched = Watched()
    watched.guard.hurry()
    watched.run(60.0)

    assert watched.ended == []


def test_stuck_on_the_way_out_it_is_not_waited_for_either() -> None:
    watched = Watched()
    watched.guard.hurry()
    watched.run(10.0)
    watched.away = True
    watched.run(5.0)

    assert [code for code, _ in watched.ended] == [STOPPED]


def test_asked_twice_it_ends_at_once() -> None:
    watched = Watched()
    watched.away = True
    watched.run(10.0)
    watched.guard.hurry()
    watched.guard.hurry()
    watched.run(2 * BEAT_S)

    assert [code for code, _ in watched.ended] == [GIVEN_UP]


# -- what it is at ----------------------------------------------------------------------------


class Waits:
    """Filters when it is let go."""

    name = "Waits"
    _entered = threading.Event()
    _let_go = threading.Event()

    def __init__(self, args: Any, handle: Any) -> None:
        pass

    def filter_node(self, cycle: Any, pod: Any, node: Any) -> Status | None:
        return self._think()

    def _think(self) -> None:
        self._entered.set()
        assert self._let_go.wait(10.0)


def test_the_stack_says_which_pod_which_plugin_and_where() -> None:
    enabled = {"multiPoint": {"enabled": [{"name": "Waits"}]}}
    config = load_config(profile_with(plugins=enabled))
    machine = _machine(config, node("n"), pod("p"))
    working = threading.Thread(target=machine.handle, args=(ScheduleNext(1), 0.0))

    working.start()
    assert Waits._entered.wait(10.0)
    assert working.ident is not None
    doing, again = look(machine, working.ident), look(machine, working.ident)
    Waits._let_go.set()
    working.join()

    assert (doing.pod, doing.plugin, doing.point) == ("default/p", "Waits", "Filter")
    assert doing.mark == again.mark
    assert look(machine, threading.get_ident()).fields.keys() == {"at"}


def _machine(config: Any, *objects: KubeObject) -> Machine:
    machine = Machine(config, random=Random(0), registry={**IN_TREE, "Waits": Waits})
    for thing in objects:
        machine.handle(Added(thing), 0.0)
    return machine
