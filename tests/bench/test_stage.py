"""The tally of pods, and waiting for them."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from stowplan.apiserver.store import Store
from stowplan.bench.engine import VirtualTime
from stowplan.bench.measure import AttemptTimes, Collection, Meter
from stowplan.bench.stage import PodTally, Stage
from stowplan.bench.yardstick import Yardstick
from stowplan.cluster.port import WatchEvent
from stowplan.errors import StowplanError
from stowplan.objects.base import ObjectMeta
from stowplan.objects.pod import Pod, PodSpec


def pod(name: str, node: str = "") -> Pod:
    spec = PodSpec(containers=[], node_name=node)
    return Pod(metadata=ObjectMeta(name=name, namespace="n", uid=f"uid-{name}"), spec=spec)


def event(kind: str, thing: Pod) -> WatchEvent:
    return WatchEvent(kind, thing, "1")


@pytest.fixture
def engine() -> VirtualTime:
    return VirtualTime()


@pytest.fixture
def stage(engine: VirtualTime) -> Stage:
    return Stage(Store(engine.clock), engine.clock, engine.call_later, Random(1))


def test_a_pod_is_placed_once_however_often_it_is_seen() -> None:
    tally = PodTally()
    told: list[Pod] = []
    tally.on_placed.append(told.append)

    tally.apply([event("ADDED", pod("a"))])
    assert tally.placed_count == 0
    for _ in range(3):
        tally.apply([event("MODIFIED", pod("a", "node"))])

    assert tally.placed_count == len(told) == 1
    assert not tally.waiting


def test_pods_that_had_their_nodes_before_are_counted() -> None:
    tally = PodTally()

    tally.replace([pod("a", "node"), pod("b")], "7")

    assert tally.placed_count == 1
    assert tally.key_of("uid-b") == "n/b"


def play(stage: Stage, engine: VirtualTime, steps: Any) -> list[Exception | None]:
    outcome: list[Exception | None] = []
    stage.play(steps, outcome.append)
    engine.run(lambda: bool(outcome))
    return outcome


def test_nobody_waits_for_a_pod_that_is_gone(stage: Stage, engine: VirtualTime) -> None:
    stage.tally.apply([event("ADDED", pod("a"))])
    engine.call_later(1.0, lambda: stage.tally.apply([event("DELETED", pod("a"))]))
    before_s = engine.clock.now()

    assert play(stage, engine, stage.wait_placed(["uid-a"])) == [None]

    assert engine.clock.now() - before_s == pytest.approx(1.0, abs=0.01)


def test_waiting_ends_with_a_complaint_that_names_the_pods(
    stage: Stage, engine: VirtualTime
) -> None:
    for name in ("b", "a", "c", "d"):
        stage.tally.apply([event("ADDED", pod(name))])
    stage.explain = {"n/a": "no room"}.__getitem__

    (error,) = play(stage, engine, stage.wait_placed([f"uid-{name}" for name in "abcd"]))

    assert isinstance(error, StowplanError)
    assert error.problem == ("4 pods are without a node, and none found one in 60 s: n/a, n/b, n/c")
    assert error.hint == "the first one: no room"


def test_waiting_goes_on_as_long_as_pods_find_nodes(stage: Stage, engine: VirtualTime) -> None:
    names = [f"p{n}" for n in range(20)]
    for n, name in enumerate(names):
        stage.tally.apply([event("ADDED", pod(name))])
        gone = event("DELETED", pod(name))
        engine.call_later(50.0 * n, lambda gone=gone: stage.tally.apply([gone]))

    assert play(stage, engine, stage.wait_placed([f"uid-{name}" for name in names])) == [None]


def test_what_fails_in_the_background_ends_the_waiting(stage: Stage, engine: VirtualTime) -> None:
    def failing() -> Any:
        yield 2.0
        raise ValueError("broken")

    stage.play_in_background(failing())

    (error,) = play(stage, engine, stage.wait(lambda: False, list))

    assert isinstance(error, ValueError)


GLANCE_S = 0.05


class SlowStick(Yardstick):
    """Takes GLANCE_S for every glance."""

    def __init__(self, engine: VirtualTime) -> None:
        super().__init__(node_count=1)
        self._engine = engine
        self.glances = 0

    def look(self) -> None:
        return None

    def glance(self) -> None:
        self.glances += 1
        self._engine.clock.now_s += GLANCE_S


def test_time_spent_on_the_yardstick_is_not_counted(stage: Stage, engine: VirtualTime) -> None:
    stick = SlowStick(engine)
    meter = Meter(stage, AttemptTimes(), None, stick, settle=False)

    def measure() -> Any:
        meter.start(Collection("c", frozenset(["n"])))
        yield 10.0
        meter.stop()

    started_s = engine.clock.now()
    assert play(stage, engine, measure()) == [None]

    assert stick.glances > 0
    (found,) = meter.done
    passed_s = engine.clock.now() - started_s
    assert found.duration_s == pytest.approx(passed_s - GLANCE_S * stick.glances, abs=0.001)
