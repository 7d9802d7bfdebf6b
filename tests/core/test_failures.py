"""The only way back: what fails is undone, told, and tried again by the right rule."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from stowplan.errors import Conflict, NotFound, Unavailable
from stowplan.framework.effects import Sleep
from stowplan.framework.plugin import PostFilterResult, PreFlight, Wait
from stowplan.framework.reads import Reads
from stowplan.framework.status import SKIP, Status, error, unschedulable
from stowplan.objects.api import Bind, Patch
from tests.builders import node, pod
from tests.core.harness import Cluster, is_a, make_plugin, status_patches

Reserving = list[str]


def reserving(name: str, log: Reserving, answer: Any = None) -> type:
    """A Reserve plugin that writes down what it is told."""

    def reserve(self: Any, cycle: Any, pod: Any, node: str) -> Any:
        log.append(f"reserve {name}")
        return answer

    def unreserve(self: Any, cycle: Any, pod: Any, node: str) -> None:
        log.append(f"unreserve {name}")

    return make_plugin(
        name, reserve=reserve, unreserve=unreserve, events_to_register=lambda self: ()
    )


# -- binding fails ----------------------------------------------------------------------------


def test_a_failed_bind_is_undone_in_reverse_told_and_tried_again() -> None:
    log: Reserving = []
    plugins = (reserving("One", log), reserving("Two", log))
    cluster = Cluster(node("node-1", cpu="1"), plugins=plugins)
    cluster.api.fail(is_a(Bind), Conflict("the pod is cursed"), times=1)

    cluster.add(pod("web", cpu="1"))

    text = 'running Bind plugin "DefaultBinder": the pod is cursed'
    assert log == ["reserve One", "reserve Two", "unreserve Two", "unreserve One"]
    assert cluster.machine.cache.nodes["node-1"].requested["cpu"] == 0
    assert cluster.condition("web").reason == "SchedulerError"
    assert cluster.condition("web").message == text
    [event] = cluster.events("web")
    assert (event.type, event.reason, event.action) == ("Warning", "FailedScheduling", "Scheduling")
    assert event.note == text
    # No plugin rejected it: the error backoff, which nothing cuts short.
    assert cluster.place("web") == "backoff"
    assert not cluster.machine.has_work
    cluster.run(2)
    assert cluster.node_of("web") == "node-1"
    assert [name for name, _ in cluster.binds] == ["web", "web"]


def test_errors_back_off_longer_each_time_up_to_ten_seconds() -> None:
    cluster = Cluster(node("node-1"))
    cluster.api.fail(is_a(Bind))
    tries: list[float] = []
    cluster.driver.on_effect = lambda effect: (
        tries.append(cluster.clock.now_s)
        if isinstance(getattr(effect, "request", None), Bind)
        else None
    )

    cluster.add(pod("web"))
    cluster.run(60)

    waits = [after - before for before, after in pairwise(tries)]
    # Whole seconds, and the last one must have passed: 1 s lasts between 1 and 2.
    assert waits[:6] == [2.0, 3.0, 5.0, 9.0, 11.0, 11.0]


def test_others_are_told_of_the_room_a_failed_bind_left() -> None:
    cluster = Cluster(node("node-1", cpu="1"))
    cluster.api.hold(is_a(Bind, "first"))
    cluster.add(pod("first", cpu="1"), pod("second", cpu="1"))
    assert cluster.place("second") == "unschedulable"

    cluster.api.fail(lambda request: isinstance(request, Bind) and request.name == "first", times=1)
    _, done = cluster.api.held.popleft()
    done(Conflict("no"))
    cluster.settle()

    assert cluster.place("second") == "bound"


def test_a_pod_that_is_gone_when_its_bind_fails_is_not_tried_again() -> None:
    cluster = Cluster(node("node-1"))
    cluster.api.hold(is_a(Bind))
    cluster.add(pod("web"))
    cluster.delete("web")

    cluster.api.release()
    cluster.settle()

    assert cluster.machine.pods == {}
    assert not list(cluster.machine.queue.places())
    assert cluster.machine.cache.pod_count == 0


# -- Reserve and Permit refuse ----------------------------------------------------------------


def test_reserve_refusing_unreserves_all_and_names_the_plugin() -> None:
    log: Reserving = []
    plugins = (
        reserving("One", log),
        reserving("Two", log, unschedulable("no licence left")),
        reserving("Three", log),
    )
    cluster = Cluster(node("node-1"), plugins=plugins)

    cluster.add(pod("web"))

    undone = ["unreserve Three", "unreserve Two", "unreserve One"]
    assert log == ["reserve One", "reserve Two", *undone]
    text = "0/1 nodes are available: 1 no licence left."
    assert (cluster.condition("web").reason, cluster.condition("web").message) == (
        "Unschedulable",
        text,
    )
    assert cluster.place("web") == "unschedulable"
    assert cluster.machine.queue.get("default/web").unschedulable_plugins == {"Two"}  # type: ignore[union-attr]
    assert cluster.machine.cache.assumed_count == 0


def test_a_permit_error_is_no_rejection() -> None:
    denying = make_plugin("Denying", permit=lambda *_: error("licence server down"))
    cluster = Cluster(node("node-1"), plugins=(denying,))

    cluster.add(pod("web"))

    assert cluster.condition("web").reason == "SchedulerError"
    assert (
        cluster.condition("web").message == 'running Permit plugin "Denying": licence server down'
    )
    assert cluster.place("web") == "backoff"


# -- PreBind ----------------------------------------------------------------------------------


def pre_binding(name: str, steps: Any, pre_flight: Any = None) -> type:
    return make_plugin(
        name,
        pre_bind_pre_flight=lambda self, cycle, pod, node: pre_flight or PreFlight(),
        pre_bind=steps,
    )


def test_a_pre_bind_rejection_keeps_its_code_but_names_nobody() -> None:
    def steps(self: Any, cycle: Any, pod: Any, node: str) -> Iterator[Any]:
        yield Sleep(1)
        return unschedulable("volume lost")  # type: ignore[return-value]

    log: Reserving = []
    cluster = Cluster(
        node("node-1"), plugins=(reserving("One", log), pre_binding("Volumes", steps))
    )

    cluster.add(pod("web"))
    assert cluster.nominated("web") == "node-1"
    cluster.run(1)

    assert (cluster.condition("web").reason, cluster.condition("web").message) == (
        "Unschedulable",
        "volume lost",
    )
    # No rejector: it is tried again by itself, whatever happens in the cluster.
    assert cluster.place("web") == "backoff"
    assert log == ["reserve One", "unreserve One"]
    assert cluster.nominated("web") == ""


def test_pre_bind_plugins_that_allow_it_run_side_by_side_the_others_in_turn() -> None:
    order: list[str] = []

    def named(name: str, seconds: float) -> Any:
        def steps(self: Any, cycle: Any, pod: Any, node: str) -> Iterator[Any]:
            order.append(f"{name} begins")
            yield Sleep(seconds)
            order.append(f"{name} ends")

        return steps

    plugins = (
        pre_binding("A", named("A", 2), PreFlight(allow_parallel=True)),
        pre_binding("B", named("B", 1), PreFlight(allow_parallel=True)),
        pre_binding("C", named("C", 1), PreFlight()),
        pre_binding("Idle", named("Idle", 1), SKIP),
        pre_binding("D", named("D", 1), PreFlight(allow_parallel=True)),
    )
    cluster = Cluster(node("node-1"), plugins=plugins)

    cluster.add(pod("web"))
    cluster.run(3.9)
    assert cluster.place("web") == "assumed"
    cluster.run(0.2)

    assert cluster.place("web") == "bound"
    assert order == [
        *("A begins", "B begins", "B ends", "A ends"),
        *("C begins", "C ends", "D begins", "D ends"),
    ]


def test_the_first_failure_in_a_group_stops_the_others() -> None:
    ended: list[str] = []

    def failing(self: Any, cycle: Any, pod: Any, node: str) -> Iterator[Any]:
        yield Sleep(1)
        return error("disk on fire")  # type: ignore[return-value]

    def patient(self: Any, cycle: Any, pod: Any, node: str) -> Iterator[Any]:
        for _ in range(100):
            yield Sleep(2)
        ended.append("patient")

    parallel = PreFlight(allow_parallel=True)
    plugins = (pre_binding("Patient", patient, parallel), pre_binding("Failing", failing, parallel))
    cluster = Cluster(node("node-1"), plugins=plugins)

    cluster.add(pod("web"))
    cluster.run(2.5)

    assert cluster.condition("web").message == 'running PreBind plugin "Failing": disk on fire'
    assert ended == []
    assert cluster.machine.bindings.in_pre_bind == {}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (error("no"), 'running PreBindPreFlight "Odd": no'),
        (
            unschedulable("no"),
            (
                'PreBindPreFlight Odd returned "Unschedulable", which is unsupported. '
                "It is supposed to return Success, Skip, or Error status"
            ),
        ),
    ],
)
def test_pre_flight_may_only_say_yes_skip_or_error(answer: Status, message: str) -> None:
    odd = pre_binding("Odd", lambda *_: None, answer)
    waiting = make_plugin("Waiting", permit=lambda *_: Wait(60))
    cluster = Cluster(node("node-1"), plugins=(waiting, odd))

    cluster.add(pod("web"))

    assert cluster.condition("web").message == message
    assert len(cluster.machine.waiting) == 0
    assert cluster.machine.stepper.timer_count == 0


# -- what is written --------------------------------------------------------------------------


def test_a_status_that_would_not_change_is_not_sent() -> None:
    cluster = Cluster(node("node-1", cpu="1"))
    cluster.add(pod("big", cpu="2"))
    assert len(cluster.sent(status_patches("big"))) == 1

    cluster.run(3600)

    # Tried again every few minutes, with nothing new to say.
    assert cluster.notes.begun.count("big") > 5
    assert len(cluster.sent(status_patches("big"))) == 1


def test_a_status_patch_is_tried_four_times_with_growing_pauses() -> None:
    cluster = Cluster(node("node-1", cpu="1"))
    cluster.api.fail(status_patches("big"), Unavailable("later"))
    times: list[float] = []
    cluster.driver.on_effect = lambda effect: (
        times.append(cluster.clock.now_s)
        if isinstance(getattr(effect, "request", None), Patch)
        else None
    )

    cluster.add(pod("big", cpu="2"))
    cluster.run(60)

    assert len(times) == 4
    pauses = [after - before for before, after in pairwise(times)]
    for pause, expected in zip(pauses, (0.010, 0.050, 0.250), strict=True):
        assert expected <= pause + 1e-6 <= expected * 1.1 + 2e-6
    assert cluster.place("big") == "unschedulable"


def test_a_refused_status_patch_is_not_repeated() -> None:
    cluster = Cluster(node("node-1", cpu="1"))
    cluster.api.fail(status_patches(), NotFound("gone"))

    cluster.add(pod("big", cpu="2"))
    cluster.run(10)

    assert len(cluster.sent(status_patches())) == 1


def test_the_condition_is_told_in_full_the_event_in_1024_bytes() -> None:
    def refuse(self: Any, cycle: Any, pod: Any, info: Any) -> Status:
        return unschedulable(f"é: {info.name} did not like the look of the pod")

    picky = make_plugin("Picky", filter_node=refuse)
    cluster = Cluster(*[node(f"node-{n:03}") for n in range(30)], plugins=(picky,))

    cluster.add(pod("web"))

    condition = cluster.condition("web")
    [note] = set(cluster.notes_of("web"))  # The plugin asks for a try at every event.
    assert len(condition.message.encode()) > 1024
    assert len(note.encode()) <= 1024
    assert note.endswith(" ...")
    assert condition.message.startswith(note.removesuffix(" ..."))


def test_the_condition_carries_the_generation_it_speaks_of() -> None:
    cluster = Cluster(node("node-1", cpu="1"))

    cluster.add(pod("big", cpu="2", metadata={"generation": 7}))

    condition = cluster.condition("big")
    assert (condition.status, condition.observed_generation) == ("False", 7)
    assert condition.message == (
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )


# -- plugins that raise -----------------------------------------------------------------------


def boom(*_: Any) -> Any:
    raise ValueError("boom")


BOOM_LINE = boom.__code__.co_firstlineno + 1
"""Where a plugin of these tests fails: it is a part of the message."""


def go(*_: Any) -> None:
    return None


def steps_boom(self: Any, cycle: Any, pod: Any, node: str) -> Iterator[Any]:
    yield Sleep(1)
    boom()


def steps_nonsense(self: Any, cycle: Any, pod: Any, node: str) -> Iterator[Any]:
    yield "nonsense"


def flight(*_: Any) -> PreFlight:
    return PreFlight()


def post_filter_boom(self: Any, cycle: Any, pod: Any) -> Iterator[Any]:
    boom()
    yield PostFilterResult()


RAISING: dict[str, tuple[dict[str, Any], str]] = {
    "PreFilter": ({"pre_filter": boom}, 'running PreFilter plugin "X": ValueError: boom'),
    "Filter": ({"filter_node": boom}, 'running "X" filter plugin: ValueError: boom'),
    "Filter, all": (
        {"filter_nodes": boom, "filter_node": go},
        'running "X" filter plugin: ValueError: boom',
    ),
    "Filter, kept": (
        {"filter_nodes": boom, "filter_node": go, "reads": Reads.PODS},
        'running "X" filter plugin: ValueError: boom',
    ),
    "signature": (
        {"filter_node": go, "filter_nodes": go, "reads": Reads.PODS, "signature": boom},
        'running "X" filter plugin: ValueError: boom',
    ),
    "PreScore": (
        {"pre_score": boom, "score_node": lambda *_: 1},
        'running PreScore plugin "X": ValueError: boom',
    ),
    "Score": (
        {"score_node": boom},
        'running Score plugins: plugin "X" failed with: ValueError: boom',
    ),
    "Score, kept": (
        {"score_node": boom, "score_nodes": boom, "reads": Reads.PODS},
        'running Score plugins: plugin "X" failed with: ValueError: boom',
    ),
    "Normalize": (
        {"score_node": lambda *_: 1, "normalize_scores": boom},
        'running Normalize on Score plugins: plugin "X" failed with: ValueError: boom',
    ),
    "Score out of range": (
        {"score_node": lambda *_: 101},
        (
            'plugin "X" returns an invalid score 101, it should in the range of [0, 100] '
            "after normalizing"
        ),
    ),
    "Reserve": (
        {"reserve": boom, "unreserve": go},
        'running Reserve plugin "X": ValueError: boom',
    ),
    "Permit": ({"permit": boom}, 'running Permit plugin "X": ValueError: boom'),
    "PreBindPreFlight": (
        {"pre_bind_pre_flight": boom, "pre_bind": go},
        'running PreBindPreFlight "X": ValueError: boom',
    ),
    "PreBind": (
        {"pre_bind_pre_flight": flight, "pre_bind": boom},
        'running PreBind plugin "X": ValueError: boom',
    ),
    "PreBind, later": (
        {"pre_bind_pre_flight": flight, "pre_bind": steps_boom},
        'running PreBind plugin "X": ValueError: boom',
    ),
    "PreBind, nonsense": (
        {"pre_bind_pre_flight": flight, "pre_bind": steps_nonsense},
        "running PreBind plugin \"X\": TypeError: 'nonsense' is nothing that can be carried out",
    ),
}


@pytest.mark.parametrize("point", RAISING)
def test_a_plugin_that_raises_fails_only_that_attempt(point: str) -> None:
    methods, text = RAISING[point]
    if "boom" in text:
        text += f" ({__file__}:{BOOM_LINE})"
    broken = make_plugin("X", **methods)
    cluster = Cluster(node("node-1"), node("node-2"), plugins=(broken,))

    cluster.add(pod("web", cpu="1"))
    cluster.run(1)

    condition = cluster.condition("web")
    assert (condition.reason, condition.message) == ("SchedulerError", text)
    assert cluster.notes_of("web") == [text]
    assert cluster.place("web") == "backoff"
    assert cluster.machine.cache.pod_count == 0
    assert all(info.requested["cpu"] == 0 for info in cluster.machine.cache.nodes.values())
    assert ("X", "boom" in text) in [
        (p, "boom" in str(c)) for p, _, c in cluster.notes.plugin_errors
    ]


@pytest.mark.parametrize("method", ["bind raises", "bind nonsense", "bind error"])
def test_a_bind_plugin_that_fails(method: str) -> None:
    bind = {
        "bind raises": boom,
        "bind nonsense": lambda *_: 5,
        "bind error": lambda *_: error("no"),
    }
    broken = make_plugin("X", bind=bind[method])
    enabled = {"bind": {"enabled": [{"name": "X"}], "disabled": [{"name": "*"}]}}
    cluster = Cluster(node("node-1"), plugins=(broken,), profile={"plugins": enabled})

    cluster.add(pod("web"))

    expected = {
        "bind raises": f"ValueError: boom ({__file__}:{BOOM_LINE})",
        "bind nonsense": "TypeError: 5 is nothing that can be carried out",
        "bind error": "no",
    }[method]
    assert cluster.condition("web").message == f'running Bind plugin "X": {expected}'
    assert cluster.machine.cache.pod_count == 0


def test_bind_plugins_are_asked_until_one_does_not_skip() -> None:
    asked: list[str] = []

    def skip(self: Any, cycle: Any, pod: Any, node: str) -> Status:
        asked.append("X")
        return SKIP

    skipping = make_plugin("X", bind=skip)
    enabled = {
        "bind": {"enabled": [{"name": "X"}, {"name": "DefaultBinder"}], "disabled": [{"name": "*"}]}
    }
    cluster = Cluster(node("node-1"), plugins=(skipping,), profile={"plugins": enabled})

    cluster.add(pod("web"))

    assert asked == ["X"]
    assert cluster.node_of("web") == "node-1"


def test_a_pod_that_no_bind_plugin_takes_is_tried_again() -> None:
    skipping = make_plugin("X", bind=lambda self, cycle, pod, node: SKIP)
    enabled = {"bind": {"enabled": [{"name": "X"}], "disabled": [{"name": "*"}]}}
    cluster = Cluster(node("node-1"), plugins=(skipping,), profile={"plugins": enabled})

    cluster.add(pod("web"))

    assert cluster.condition("web").message == "no Bind plugin took the pod"
    assert cluster.machine.cache.pod_count == 0
    assert cluster.place("web") == "backoff"


def test_a_post_filter_that_raises_leaves_the_reason_standing() -> None:
    broken = make_plugin("X", post_filter=post_filter_boom)
    enabled = {"postFilter": {"enabled": [{"name": "X"}], "disabled": [{"name": "*"}]}}
    cluster = Cluster(node("node-1", cpu="1"), plugins=(broken,), profile={"plugins": enabled})

    cluster.add(pod("big", cpu="2"))

    assert cluster.condition("big").message == (
        "0/1 nodes are available: 1 Insufficient cpu. "
        f'running PostFilter plugin "X": ValueError: boom ({__file__}:{BOOM_LINE})'
    )
    assert cluster.condition("big").reason == "Unschedulable"
    assert [(p, at) for p, at, _ in cluster.notes.plugin_errors] == [("X", "PostFilter")]


def test_an_unreserve_or_post_bind_that_raises_is_only_told() -> None:
    log: Reserving = []
    broken = make_plugin("X", reserve=go, unreserve=boom, post_bind=boom)
    cluster = Cluster(node("node-1"), plugins=(reserving("One", log), broken))
    cluster.api.fail(is_a(Bind), times=1)

    cluster.add(pod("web"))
    cluster.run(2)

    assert cluster.place("web") == "bound"
    assert log == ["reserve One", "unreserve One", "reserve One"]
    assert [(p, at) for p, at, _ in cluster.notes.plugin_errors] == [
        ("X", "Unreserve"),
        ("X", "PostBind"),
    ]


def test_a_pre_enqueue_that_raises_holds_only_its_pod_back() -> None:
    def gate(self: Any, pod: Any) -> None:
        if pod.pod.metadata.name == "odd":
            boom()

    cluster = Cluster(node("node-1"), plugins=(make_plugin("X", pre_enqueue=gate),))

    cluster.add(pod("odd"), pod("even"))

    assert (cluster.place("odd"), cluster.place("even")) == ("gated", "bound")
    assert {(p, at) for p, at, _ in cluster.notes.plugin_errors} == {("X", "PreEnqueue")}


def test_after_errors_the_next_pod_is_decided_as_ever() -> None:
    def picky(self: Any, cycle: Any, pod: Any, info: Any) -> None:
        if pod.pod.metadata.name == "odd":
            boom()

    cluster = Cluster(node("node-1"), plugins=(make_plugin("X", filter_node=picky),))

    cluster.add(pod("odd"), pod("even"))

    assert (cluster.place("odd"), cluster.place("even")) == ("backoff", "bound")


def test_a_broken_snapshot_fails_one_cycle_and_is_healed() -> None:
    cluster = Cluster(node("node-1"), node("node-2"))
    cluster.add(pod("first"))
    cluster.machine.table._free_row(cluster.machine.cache.nodes["node-2"], ())

    cluster.add(pod("web"))

    assert cluster.condition("web").message.startswith(
        "snapshot state is not consistent, length of"
    )
    assert cluster.condition("web").reason == "SchedulerError"
    cluster.run(2)
    assert cluster.place("web") == "bound"
    assert any("not consistent" in text for text in cluster.notes.problems)


def test_a_status_patch_that_meets_a_conflict_is_tried_again() -> None:
    cluster = Cluster(node("node-1", cpu="1"))
    cluster.api.fail(status_patches(), Conflict("changed"), times=2)

    cluster.add(pod("big", cpu="2"))
    cluster.run(1)

    assert len(cluster.sent(status_patches())) == 3
    assert cluster.condition("big").status == "False"
