"""A recorded list of events gives the same effects, byte for byte: here, and in another process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

import pytest

from stowplan.config import load_config, to_dict
from stowplan.core.extender import ExtenderAnswer
from stowplan.core.machine import Machine
from stowplan.core.messages import (
    Added,
    Answered,
    Call,
    Deleted,
    Effect,
    Event,
    LongAttempt,
    Reconfigure,
    RecordEvent,
    ScheduleNext,
    Stop,
    Tick,
    Updated,
)
from stowplan.errors import ApiError, Conflict, NotFound, Unavailable
from stowplan.framework.effects import Sleep
from stowplan.framework.plugin import PreFlight, Wait
from stowplan.framework.status import SKIP
from stowplan.objects.api import Bind, Delete
from stowplan.plugins import IN_TREE
from tests.builders import node, pod
from tests.core.harness import Cluster, FakeExtender, is_a, make_plugin, status_patches
from tests.core.replay import Recording, decode_events, encode_effects, encode_events, replay

SEED = 11


def slow_volumes() -> type:
    """PreBind takes 3 s for pods that are labelled so."""

    def pre_flight(self: Any, cycle: Any, pod: Any, node: str) -> Any:
        return PreFlight() if "slow" in pod.kind.labels else SKIP

    def steps(self: Any, cycle: Any, pod: Any, node: str) -> Iterator[Any]:
        yield Sleep(3)

    return make_plugin("SlowVolumes", pre_bind_pre_flight=pre_flight, pre_bind=steps)


def patience() -> type:
    """Permit makes pods that are labelled so wait, in vain."""
    return make_plugin(
        "Patience",
        permit=lambda self, cycle, pod, node: Wait(7) if "patient" in pod.kind.labels else None,
    )


PLUGINS = (slow_volumes(), patience())

EXTENDER = {
    "urlPrefix": "http://extender",
    "filterVerb": "filter",
    "prioritizeVerb": "prioritize",
    "preemptVerb": "preempt",
    "weight": 2,
    "nodeCacheCapable": True,
    "managedResources": [{"name": "example.com/card", "ignoredByScheduler": True}],
}


def extender(clock: Any) -> FakeExtender:
    """Slow, and asleep every third time."""
    dice = Random(3)

    def filter_(body: dict[str, Any]) -> Any:
        if dice.random() < 0.3:
            return ExtenderAnswer(error="it is asleep")
        return {"NodeNames": body["NodeNames"][1:], "FailedNodes": {body["NodeNames"][0]: "no"}}

    def prioritize(body: dict[str, Any]) -> Any:
        return [{"Host": name, "Score": dice.randrange(11)} for name in body["NodeNames"]]

    fake = FakeExtender(
        clock,
        filter=filter_,
        prioritize=prioritize,
        preempt=lambda body: {"NodeNameToMetaVictims": body["NodeNameToMetaVictims"]},
    )
    fake.delay_s = 0.7
    return fake


def new_machine(config: Any) -> Machine:
    registry = {**IN_TREE, **{plugin.name: plugin for plugin in PLUGINS}}  # type: ignore[attr-defined]
    return Machine(config, random=Random(SEED), registry=registry)


def some_pod(dice: Random, number: int) -> Any:
    spec: dict[str, Any] = {
        "priority": dice.choice([0, 0, 0, 10, 100]),
        "terminationGracePeriodSeconds": dice.choice([0, 2]),
    }
    labels = {"app": dice.choice(["web", "db", "cache"])}
    labels.update(dice.choice([{}, {}, {"slow": "1"}, {"patient": "1"}]))
    term = {
        "labelSelector": {"matchLabels": {"app": labels["app"]}},
        "topologyKey": "kubernetes.io/hostname",
    }
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    spec.update(dice.choice([{}, {}, {"affinity": {"podAntiAffinity": rule}}]))
    requests = {"cpu": dice.choice(["250m", "500m", "1", "3"])}
    requests.update(dice.choice([{}, {}, {"example.com/card": "1"}]))
    return pod(f"pod-{number}", labels=labels, requests=requests, spec=spec)


def rich_history() -> Cluster:
    """Some minutes in the life of a small and unlucky cluster."""
    dice = Random(5)
    cluster = Cluster(
        *[node(f"node-{n}", cpu="2") for n in range(4)],
        plugins=PLUGINS,
        kubelet=True,
        extender=extender,
        extenders=[EXTENDER],
        seed=SEED,
        assumedPodTTLSeconds=20,
    )
    for number in range(60):
        cluster.add(some_pod(dice, number))
        luck = dice.random()
        if luck < 0.1:
            cluster.api.fail(is_a(Bind), Conflict("lost a race"), times=1)
        elif luck < 0.15:
            cluster.api.fail(status_patches(), Unavailable("later"), times=3)
        elif luck < 0.2:
            cluster.api.fail(is_a(Delete), ApiError("etcd is asleep", code=500), times=1)
        elif luck < 0.45:
            victim = dice.choice(cluster.pods()).metadata.name
            cluster.delete(victim, grace_s=dice.choice([0, 3]))
        elif luck < 0.5:
            name = f"node-{dice.randrange(4)}"
            cluster.patch_node(name, {"metadata": {"labels": {"round": str(number)}}})
        elif luck < 0.55:
            cluster.add(node(f"extra-{number}", cpu="1"))
        cluster.run(dice.choice([0.0, 0.1, 1.0, 3.0]))
    cluster.run(30)
    return cluster


@pytest.fixture(scope="module")
def history() -> Cluster:
    return rich_history()


def test_the_history_is_rich_enough(history: Cluster) -> None:
    reasons = {event.reason for event in history.events()}
    assert reasons >= {"Scheduled", "FailedScheduling", "Preempted"}
    notes = " ".join(history.notes_of(""))
    for text in ("lost a race", "it is asleep", "rejected due to timeout", "Insufficient cpu"):
        assert text in notes, text
    kinds = {type(event) for _, event in history.recording.events}
    assert kinds == {Added, Updated, Deleted, Answered, Tick, ScheduleNext}
    answers = {
        type(event.answer) for _, event in history.recording.events if isinstance(event, Answered)
    }
    assert {Conflict, Unavailable, ApiError, ExtenderAnswer} <= answers
    assert len(history.recording.effects) > 500


def test_the_same_events_give_the_same_effects_byte_for_byte(history: Cluster) -> None:
    recording = history.recording

    effects = replay(recording.events, new_machine(history.config))

    assert encode_effects(effects) == encode_effects(recording.effects)


def test_events_that_came_together_may_be_taken_in_together(history: Cluster) -> None:
    """As the driver does: what is of one moment and one sort goes in as one batch."""
    machine = new_machine(history.machine.config)
    effects: list[Effect] = []
    batches = 0

    for (now_s, _), alike in groupby(history.recording.events, _moment_and_sort):
        events = [event for _, event in alike]
        effects += machine.handle_all(events, now_s)
        batches += len(events) > 1

    assert batches > 5, "too few came together to be a test"
    assert encode_effects(effects) == encode_effects(history.recording.effects)


def test_bindings_answered_together_end_in_their_order() -> None:
    """One that failed among others that went well: the effects come as if one by one."""

    def bound() -> tuple[Machine, list[Event]]:
        machine = Machine(load_config(None), random=Random(SEED))
        machine.handle(Added(node("node-1")), 1.0)
        for name in ("web", "db", "cache"):
            machine.handle(Added(pod(name, metadata={"uid": name})), 1.0)
        calls = [call for call in machine.handle(ScheduleNext(3), 2.0) if isinstance(call, Call)]
        answers = (None, Conflict("lost a race"), None)
        return machine, [
            Answered(call.token, answer) for call, answer in zip(calls, answers, strict=True)
        ]

    machine, answers = bound()
    together = machine.handle_all(answers, 3.0)
    machine, answers = bound()
    one_by_one = [effect for answer in answers for effect in machine.handle(answer, 3.0)]

    assert encode_effects(together) == encode_effects(one_by_one)
    recorded = [effect for effect in together if isinstance(effect, RecordEvent)]
    assert [effect.reason for effect in recorded] == ["Scheduled", "FailedScheduling", "Scheduled"]


def _moment_and_sort(recorded: tuple[float, Event]) -> tuple[float, type]:
    return recorded[0], type(recorded[1])


def test_and_so_they_do_after_being_written_down(history: Cluster) -> None:
    written = encode_events(history.recording.events)

    read = list(decode_events(written))
    effects = replay(read, new_machine(history.config))

    assert encode_events(read) == written
    assert encode_effects(effects) == encode_effects(history.recording.effects)


IN_ANOTHER_PROCESS = """
import sys
from pathlib import Path
from stowplan.config import load_config
from tests.core.replay import decode_events, encode_effects, replay
from tests.core.test_replay import new_machine
here = Path(sys.argv[1])
machine = new_machine(load_config((here / "config.json").read_bytes()))
effects = replay(decode_events((here / "events.jsonl").read_bytes()), machine)
(here / "effects.jsonl").write_bytes(encode_effects(effects))
"""


@pytest.mark.slow
@pytest.mark.parametrize("hash_seed", ["0", "4242"])
def test_nor_does_the_process_matter(history: Cluster, tmp_path: Path, hash_seed: str) -> None:
    """Nothing may hang on the order of a set, which differs with the seed of hashing."""
    (tmp_path / "config.json").write_text(json.dumps(to_dict(history.config)))
    (tmp_path / "events.jsonl").write_bytes(encode_events(history.recording.events))

    root = Path(__file__).parents[2]
    subprocess.run(
        [sys.executable, "-c", IN_ANOTHER_PROCESS, str(tmp_path)],
        cwd=root,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        check=True,
    )

    expected = encode_effects(history.recording.effects)
    assert (tmp_path / "effects.jsonl").read_bytes() == expected


def test_another_seed_is_another_story(history: Cluster) -> None:
    """The claim above is not empty: chance has its part in these effects."""
    registry = {**IN_TREE, **{plugin.name: plugin for plugin in PLUGINS}}  # type: ignore[attr-defined]
    other = Machine(history.config, random=Random(SEED + 1), registry=registry)

    effects = replay(history.recording.events, other)

    assert encode_effects(effects) != encode_effects(history.recording.effects)


EVENTS: list[Event] = [
    Added(pod("web", metadata={"uid": "u"})),
    Updated(node("node-1"), node("node-1", labels={"a": "b"})),
    Deleted(pod("web", metadata={"uid": "u"})),
    Answered(1, None),
    Answered(2, pod("web", metadata={"uid": "u"})),
    Answered(3, Conflict("no")),
    Answered(4, NotFound("gone")),
    Answered(5, ApiError("odd", code=418, reason="Teapot")),
    Answered(6, ExtenderAnswer({"NodeNames": ["a"]})),
    Answered(7, ExtenderAnswer(error="asleep")),
    Tick(),
    ScheduleNext(),
    LongAttempt("shop/web", 1.5),
    Stop(),
    Reconfigure(
        load_config(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "podMaxBackoffSeconds": 60,
            }
        )
    ),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_every_sort_of_event_can_be_written_down(event: Event) -> None:
    line = encode_events([(12.5, event)])

    [(at_s, read)] = decode_events(line)

    assert line.count(b"\n") == 1
    assert at_s == 12.5
    assert type(read) is type(event)
    assert encode_events([(at_s, read)]) == line
    if not isinstance(getattr(event, "answer", None), ApiError):
        assert read == event


def test_errors_read_back_as_what_they_were() -> None:
    [(_, event)] = decode_events(encode_events([(0.0, Answered(5, Conflict("no")))]))

    assert isinstance(event, Answered)
    assert isinstance(event.answer, Conflict)
    assert (event.answer.code, event.answer.reason, event.answer.problem) == (409, "Conflict", "no")


def test_a_recording_begins_when_it_is_asked_for() -> None:
    machine = new_machine(load_config())
    machine.handle(Added(node("node-1")), 1.0)
    recording = Recording(machine)

    machine.handle(Added(pod("web")), 2.0)
    effects = machine.handle(ScheduleNext(), 3.0)

    assert [at_s for at_s, _ in recording.events] == [2.0, 3.0]
    assert recording.effects == effects
    assert encode_effects(effects).count(b'"call":"Bind"') == 1
