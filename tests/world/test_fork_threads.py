"""A fork lives on another thread than its origin, as the page's do, and neither disturbs the other.

What the two share does not change, or is worked out by whoever needs it first, to the same result:
objects, nodes until one changes them, kinds of pods and what is known of these.  Each has its own
store, cache, queue, table and plugins.  Threads are switched as often as Python can, so that every
place where both are in the middle of the same thing is met many times.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from threading import Barrier
from typing import Any
from weakref import WeakValueDictionary

import pytest

import stowplan as sp
from stowplan.state import pod_info
from stowplan.world.garbage import garbage_stays
from tests.world.test_fork import STEPS, Step, act, replay, state

ROUNDS = 12
STEP_COUNT = 14


@pytest.fixture
def hasty() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def drawn(random: Random, count: int) -> list[Step]:
    return [(random.choice(STEPS), random.randrange(30)) for _ in range(count)]


def live(cluster: sp.Cluster, steps: list[Step], first: int, together: Barrier) -> Any:
    together.wait()
    for serial, step in enumerate(steps, first):
        act(cluster, step, serial)
    cluster.run()
    return state(cluster)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_both_end_as_if_each_had_lived_alone(seed: int, hasty: None) -> None:
    random = Random(seed)
    before = drawn(random, 6)
    # The same pods in both at the same time: they ask for the same kinds.
    common = drawn(random, STEP_COUNT)
    mine, theirs = [*common, *drawn(random, 4)], [*common, *drawn(random, 4)]
    origin = replay(before)
    fork = origin.fork()
    together = Barrier(2)
    with ThreadPoolExecutor(1) as other:
        elsewhere = other.submit(live, fork, theirs, len(before), together)
        here = live(origin, mine, len(before), together)
        there = elsewhere.result(60)

    for found, lived in ((here, mine), (there, theirs)):
        alone = replay([*before, *lived])
        alone.run()
        assert found == state(alone)


def test_questions_to_forks_disturb_nobody(hasty: None) -> None:
    """As the page asks: forks are made here, one after the other, and asked there."""
    random = Random(7)
    steps = drawn(random, 40)
    origin = replay([])
    asked = 0

    def ask(fork: sp.Cluster) -> int:
        with fork:
            fork.run()
            pending = fork.pods(pending=True).keys
            return len([fork.why(key, fixes=1) for key in pending[:2]])

    with ThreadPoolExecutor(1) as worker:
        questions = []
        for serial, step in enumerate(steps):
            questions.append(worker.submit(ask, origin.fork()))
            act(origin, step, serial)
        asked = sum(question.result(60) for question in questions)
    origin.run()
    alone = replay(steps)
    alone.run()

    assert asked > 5
    assert state(origin) == state(alone)


class Forgetful(WeakValueDictionary[Any, Any]):
    """Two threads that make the same kind at the same time each have one of their own: this is
    that, always."""

    def get(self, key: Any, default: Any = None) -> Any:
        return default


def test_pods_that_are_alike_need_not_share_their_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = drawn(Random(3), 40)
    expected = replay(steps)
    expected.run()

    monkeypatch.setattr(pod_info, "_kinds", Forgetful())
    monkeypatch.setattr(pod_info, "_traits", Forgetful())
    found = replay(steps)
    found.run()

    assert state(found) == state(expected)


def test_garbage_is_looked_for_again_whoever_ends_last(hasty: None) -> None:
    def fork_often() -> None:
        for _ in range(2000):
            with garbage_stays():
                pass

    with ThreadPoolExecutor(4) as threads:
        for each in [threads.submit(fork_often) for _ in range(4)]:
            each.result(60)

    assert gc.isenabled()
