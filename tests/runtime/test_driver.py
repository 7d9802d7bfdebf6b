"""The driver's turns: nothing before the caches are full, nothing after the end, no pod starved."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stowplan.core.extender import CallExtender
from stowplan.core.messages import AskExtender, Call, Effect, RecordEvent
from stowplan.errors import Conflict
from stowplan.objects.api import Bind, Patch
from stowplan.runtime import driver as driver_module
from stowplan.runtime.driver import CYCLES_PER_TURN, WATCHED
from tests.builders import node, pod
from tests.core.harness import Cluster, is_a

KINDS = {
    "Pod",
    "Node",
    "Namespace",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Service",
    "ReplicationController",
    "ReplicaSet",
    "StatefulSet",
    "PodDisruptionBudget",
    "StorageClass",
    "CSINode",
    "CSIDriver",
    "CSIStorageCapacity",
    "VolumeAttachment",
    "DeviceClass",
    "ResourceSlice",
    "ResourceClaim",
}


def test_everything_that_the_plugins_look_up_is_followed() -> None:
    assert {kind.name for kind, _ in WATCHED} == KINDS


def test_finished_pods_are_not_asked_for() -> None:
    selectors = {kind.name: options.field_selector for kind, options in WATCHED}

    assert selectors.pop("Pod") == "status.phase!=Succeeded,status.phase!=Failed"
    assert set(selectors.values()) == {""}


def test_others_have_their_turn_after_so_many_decisions() -> None:
    cluster = Cluster(node("n", pods=1000))
    effects: list[Effect] = []
    bound_by_then: list[int] = []
    cluster.driver.on_effect = effects.append
    for number in range(3 * CYCLES_PER_TURN):
        cluster.store.put(pod(f"p{number}"))
    # Planned before the turn's continuation, so it runs after the first turn only.
    cluster.clock.at(0.0, lambda: bound_by_then.append(len(cluster.binds)))

    cluster.settle()

    assert bound_by_then == [CYCLES_PER_TURN]
    assert len(cluster.binds) == 3 * CYCLES_PER_TURN


def test_more_than_one_batch_of_events_is_taken_in_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_module, "EVENTS_PER_BATCH", 2)
    cluster = Cluster(node("n", pods=1000))
    sizes: list[tuple[str, int]] = []
    cluster.driver.on_handled = lambda events, _: sizes.append(
        (type(events[0]).__name__, len(events))
    )

    for number in range(5):
        cluster.store.put(pod(f"p{number}"))
    cluster.settle()

    assert sizes[:3] == [("Added", 2), ("Added", 2), ("Added", 1)]
    assert [name for name, _ in cluster.binds] == [f"p{number}" for number in range(5)]


def test_requests_leave_in_the_order_they_were_decided_on() -> None:
    cluster = Cluster(node("n"))
    sent: list[str] = []
    driver: Any = cluster.driver
    nobody: Any = None
    driver._cluster = SimpleNamespace(call=lambda all_, done: sent.extend(r.name for r in all_))
    driver._extender_client = SimpleNamespace(call=lambda call, done: sent.append(call.url))

    driver._carry_out(
        [
            Call(1, Bind("default", "a", "u1", "n")),
            Call(2, Bind("default", "b", "u2", "n")),
            AskExtender(3, CallExtender(nobody, "filter", "http://extender", {})),
            Call(4, Bind("default", "c", "u3", "n")),
        ]
    )

    assert sent == ["a", "b", "http://extender", "c"]


def test_answers_that_come_in_parts_reach_whoever_asked() -> None:
    cluster = Cluster(node("n"))
    failed = Conflict("lost a race")

    def call(requests: Any, done: Any) -> None:
        if isinstance(requests[0], Bind):
            done(2, [None])
            done(0, [failed, None])

    driver: Any = cluster.driver
    driver._cluster = SimpleNamespace(call=call)
    for name in ("a", "b", "c"):
        cluster.store.put(pod(name))
    cluster.settle()

    assert [cluster.place(name) for name in ("a", "b", "c")] == ["backoff", "assumed", "assumed"]


def test_an_inactive_driver_follows_and_decides_nothing() -> None:
    cluster = Cluster(node("n"))
    cluster.driver.active = False
    cluster.add(pod("p"))
    assert (cluster.place("p"), cluster.binds) == ("active", [])

    cluster.driver.active = True
    cluster.settle()

    assert cluster.node_of("p") == "n"


def test_a_stopped_driver_ends_what_it_began_and_says_when() -> None:
    cluster = Cluster(node("n"))
    idle: list[bool] = []
    cluster.api.hold(is_a(Bind))
    cluster.add(pod("p"))
    cluster.driver.on_idle = lambda: idle.append(cluster.driver.busy)
    cluster.driver.stop()
    cluster.add(pod("later"))
    assert (idle, cluster.driver.busy) == ([], True)

    cluster.api.release()
    cluster.settle()

    assert idle
    assert not any(idle)
    assert [name for name, _ in cluster.binds] == ["p"]


def test_a_closed_driver_sends_nothing_whatever_comes_in() -> None:
    cluster = Cluster(node("n"))
    cluster.api.hold(is_a(Bind))
    cluster.add(pod("p"))
    cluster.driver.close()
    sent = len(cluster.api.requests)

    # A binding that failed would have its pod's status patched.
    (_, done) = cluster.api.held.popleft()
    done(Conflict("somebody else was first"))
    cluster.add(pod("q"))
    cluster.run(600.0)

    assert len(cluster.api.requests) == sent


def test_events_are_sent_after_the_bindings_of_their_turn() -> None:
    cluster = Cluster(node("n"), pod("huge", cpu=1000))
    order: list[str] = []
    cluster.driver.on_effect = lambda effect: order.append(type(effect).__name__)
    cluster.add(pod("p"))

    assert order.index("Call") < order.index(RecordEvent.__name__)
    assert cluster.sent(is_a(Patch, "huge"))
