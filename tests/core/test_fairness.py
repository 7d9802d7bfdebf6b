"""A pod whose attempts are long does not stop others; recordings of that replay all the same."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from stowplan.config import load_config
from stowplan.core.machine import LONG_ATTEMPT_S, Machine
from stowplan.core.messages import LongAttempt, ScheduleNext
from stowplan.framework.timing import NoRecorder
from stowplan.objects.pod import Pod
from stowplan.plugins import IN_TREE
from tests.builders import node, pod
from tests.core.harness import Cluster, FakeExtender, make_plugin
from tests.core.replay import decode_events, encode_effects, encode_events, replay


class Stopwatch(NoRecorder):
    """Stands still but while a pod labelled `takes` is decided on."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def now(self) -> float:
        return self.now_s


class Slow:
    """A cluster whose pods take as long as their label says."""

    def __init__(self, *objects: Any, **options: Any) -> None:
        self.watch = Stopwatch()
        self.cluster = Cluster(*objects, plugins=(self.plugin(),), recorder=self.watch, **options)
        self.cluster.machine.on_long_attempt = self.cluster.driver._long_attempt

    def plugin(self) -> type:
        def pre_filter(plugin: Any, cycle: Any, pod: Any) -> None:
            self.pass_time(float(pod.kind.labels.get("takes", "0")))

        return make_plugin("Slow", pre_filter=pre_filter)

    def pass_time(self, seconds: float) -> None:
        self.watch.now_s += seconds

    def add(self, *pods: Pod) -> list[str]:
        """The pods come together; the order in which they are bound."""
        for one in pods:
            self.cluster.store.put(one)
        self.cluster.settle()
        return [name for name, _ in self.cluster.binds]


def heavy(name: str, seconds: float = 1.0, **spec: Any) -> Pod:
    return pod(name, namespace="greedy", labels={"takes": str(seconds)}, spec=spec)


def light(name: str) -> Pod:
    return pod(name, namespace="shop")


def test_others_go_first_after_a_long_attempt_and_its_namespace_is_told() -> None:
    slow = Slow(node("n1", pods=1000))
    greedy = [heavy(f"g{number}", priority=1000) for number in range(3)]
    others = [light(f"o{number}") for number in range(100)]

    bound = slow.add(*greedy, *others)

    assert bound == ["g0", *(f"o{number}" for number in range(100)), "g1", "g2"]
    [event] = slow.cluster.events(reason="SchedulingHeldBack")
    assert event.type == "Warning"
    assert event.regarding is not None
    assert (event.regarding.namespace, event.regarding.name) == ("greedy", "g1")
    assert event.note == (
        "an attempt at greedy/g0 took 1.00 s: pods of other namespaces go first for up to 9.0 s"
    )


def test_ordinary_attempts_change_nothing() -> None:
    slow = Slow(node("n1", pods=1000))
    greedy = [heavy(f"g{number}", LONG_ATTEMPT_S, priority=1000) for number in range(3)]

    bound = slow.add(light("o0"), *greedy, light("o1"))

    assert bound == ["g0", "g1", "g2", "o0", "o1"]
    kinds = {type(event) for _, event in slow.cluster.recording.events}
    assert LongAttempt not in kinds


def test_an_attempt_that_fails_counts_as_well() -> None:
    slow = Slow(node("n1", cpu="1", pods=1000))
    large = pod("g0", namespace="greedy", cpu="4", labels={"takes": "1"}, spec={"priority": 9})
    bound = slow.add(large, heavy("g1", priority=9), light("o0"))

    assert bound == ["o0", "g1"]


def test_a_recording_with_long_attempts_replays_to_the_same_effects() -> None:
    slow = Slow(node("n1", pods=1000))
    slow.add(heavy("g0", 0.5), heavy("g1"), light("o0"), heavy("g2"), light("o1"))
    recording = slow.cluster.recording
    events = [event for _, event in recording.events]
    assert LongAttempt("greedy/g0", 0.5) in events
    assert ScheduleNext(1) in events, "the batch went on after the long attempt"
    registry = {**IN_TREE, "Slow": make_plugin("Slow", pre_filter=lambda *_: None)}
    machine = Machine(slow.cluster.config, random=Random(0), registry=registry)

    effects = replay(decode_events(encode_events(recording.events)), machine)

    assert encode_effects(effects) == encode_effects(recording.effects)


def test_waiting_for_an_extender_is_not_the_pods_doing() -> None:
    slow: Slow

    def take(seconds: float) -> Any:
        def answer(body: dict[str, Any]) -> Any:
            slow.pass_time(seconds)
            return {"NodeNames": body["NodeNames"]}

        return answer

    fake: list[FakeExtender] = []

    def extender(clock: Any) -> FakeExtender:
        fake.append(FakeExtender(clock, filter=take(30.0)))
        return fake[0]

    entry = {"urlPrefix": "http://e", "filterVerb": "filter", "nodeCacheCapable": True}
    slow = Slow(node("n1", pods=1000), extender=extender, extenders=[entry])

    bound = slow.add(heavy("g0", 0.0), heavy("g1", 0.5), light("o0"), heavy("g2", 0.0))

    assert bound == ["g0", "g1", "o0", "g2"]
    told = [event for _, event in slow.cluster.recording.events if isinstance(event, LongAttempt)]
    assert [event.pod for event in told] == ["greedy/g1"]
    assert told[0].seconds == pytest.approx(0.5)


def test_a_new_configuration_forgives_nobody() -> None:
    slow = Slow(node("n1", pods=1000))
    slow.add(heavy("g0"))
    slow.cluster.driver.reconfigure(load_config(None))

    bound = slow.add(heavy("g1", 0.0), light("o0"))

    assert bound == ["g0", "o0", "g1"]
