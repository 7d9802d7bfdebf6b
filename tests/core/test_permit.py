"""Pods that wait at Permit: allowed, rejected, out of time, preempted, deleted."""

from __future__ import annotations

from typing import Any

from stowplan.core.steps import Stepper
from stowplan.core.waiting import WaitingPods
from stowplan.framework.events import Action, Hint, Resource, on
from stowplan.framework.plugin import PreFlight, Wait
from stowplan.framework.status import Status, unschedulable
from stowplan.objects.pod import Pod
from tests.builders import info, node, pod
from tests.core.harness import Cluster, make_plugin


def waiting_plugin(name: str, timeout_s: float = 300.0) -> type:
    return make_plugin(
        name,
        permit=lambda *_: Wait(timeout_s, "a reason"),
        events_to_register=lambda self: (),
    )


def uid(cluster: Cluster, name: str = "web") -> str:
    return cluster.pod(name).metadata.uid


def test_a_pod_waits_until_every_plugin_has_allowed_it() -> None:
    cluster = Cluster(node("node-1"), plugins=(waiting_plugin("One"), waiting_plugin("Two")))
    cluster.add(pod("web", cpu="1"))
    waiting = cluster.machine.waiting

    assert cluster.place("web") == "assumed"
    # Others are told where it is going, since it may take long.
    assert cluster.nominated("web") == "node-1"
    found = waiting.get(uid(cluster))
    assert found is not None
    assert (found.pod.key, found.node) == ("default/web", "node-1")
    assert found.pending == {"One": "a reason", "Two": "a reason"}
    assert waiting.allow(uid(cluster), "One")
    assert cluster.place("web") == "assumed"
    assert waiting.allow(uid(cluster), "Two")
    # Effects come out with the next event.
    cluster.add(node("node-2"))

    assert cluster.place("web") == "bound"
    assert waiting.uids() == []
    assert cluster.machine.stepper.timer_count == 0


def test_a_plugin_lets_waiting_pods_go_through_its_handle() -> None:
    def gang(self: Any, cycle: Any, pod: Any, node: str) -> Wait | None:
        waiting = self.handle.waiting.uids()
        if len(waiting) + 1 < 3:
            return Wait(60)
        for other in waiting:
            self.handle.waiting.allow(other, "Gang")
        return None

    cluster = Cluster(node("node-1"), plugins=(make_plugin("Gang", permit=gang),))

    cluster.add(pod("a"), pod("b"))
    assert [cluster.place(name) for name in "ab"] == ["assumed", "assumed"]
    cluster.add(pod("c"))

    assert [cluster.place(name) for name in "abc"] == ["bound"] * 3


def test_a_rejected_pod_names_the_plugin_and_waits_for_its_events() -> None:
    def permit(self: Any, cycle: Any, pod: Any, node: str) -> Wait | None:
        if pod.pod.metadata.name == "judge":
            for other in self.handle.waiting.uids():
                self.handle.waiting.reject(other, "Gate", "not today")
            return None
        return Wait(60)

    gate = make_plugin("Gate", permit=permit, events_to_register=lambda self: ())
    cluster = Cluster(node("node-1", cpu="2"), plugins=(gate,))
    cluster.add(pod("web", cpu="1"))

    cluster.add(pod("judge", cpu="1"))

    condition = cluster.condition("web")
    assert (condition.reason, condition.message) == (
        "Unschedulable",
        "0/1 nodes are available: 1 not today.",
    )
    assert cluster.place("web") == "unschedulable"
    assert cluster.machine.queue.get("default/web").unschedulable_plugins == {"Gate"}  # type: ignore[union-attr]
    assert cluster.nominated("web") == ""
    assert cluster.machine.cache.nodes["node-1"].requested["cpu"] == 1000


def test_time_runs_out_with_upstreams_words() -> None:
    cluster = Cluster(node("node-1"), plugins=(waiting_plugin("Slow", 300),))
    cluster.add(pod("web"))

    cluster.run(299)
    assert cluster.place("web") == "assumed"
    cluster.run(1)

    assert cluster.condition("web").message == (
        "0/1 nodes are available: 1 rejected due to timeout after waiting 5m0s at plugin Slow."
    )
    assert cluster.notes_of("web", "FailedScheduling") == [cluster.condition("web").message]


def test_no_plugin_makes_a_pod_wait_longer_than_fifteen_minutes() -> None:
    cluster = Cluster(node("node-1"), plugins=(waiting_plugin("Slow", 86400),))
    cluster.add(pod("web"))

    cluster.run(899)
    assert cluster.place("web") == "assumed"
    cluster.run(1)

    assert "waiting 15m0s at plugin Slow" in cluster.condition("web").message


def test_a_refusal_beats_a_wait() -> None:
    denying = make_plugin("Denying", permit=lambda *_: unschedulable("no"))
    cluster = Cluster(node("node-1"), plugins=(waiting_plugin("Slow"), denying))

    cluster.add(pod("web"))

    assert cluster.condition("web").message == "0/1 nodes are available: 1 no."
    assert len(cluster.machine.waiting) == 0


def test_a_waiting_pod_that_is_deleted_leaves_its_place() -> None:
    cluster = Cluster(node("node-1", cpu="1"), plugins=(waiting_plugin("Slow"),))
    cluster.add(pod("web", cpu="1"))

    cluster.delete("web")

    machine = cluster.machine
    assert len(machine.waiting) == 0
    assert machine.cache.pod_count == 0
    assert machine.stepper.timer_count == 0
    assert not list(machine.queue.places())


def test_a_waiting_pod_that_begins_to_be_deleted_is_told_removed() -> None:
    cluster = Cluster(node("node-1"), plugins=(waiting_plugin("Slow"),))
    cluster.add(pod("web", metadata={"finalizers": ["test/hold"]}))

    cluster.delete("web")

    # It is still there, for its finalizer; nobody's event will wake it.
    assert cluster.notes_of("web", "FailedScheduling") == ["0/1 nodes are available: 1 removed."]
    assert cluster.place("web") == "unschedulable"
    assert cluster.machine.queue.get("default/web").unschedulable_plugins == {""}  # type: ignore[union-attr]


def test_events_while_it_waited_count_for_a_rejected_pod() -> None:
    """Tracking ends only when the wait is over, so nothing that happened meanwhile is missed."""
    woken: list[str] = []

    def hint(pod: Any, old: Any, new: Any) -> int:
        woken.append("node added")
        return 1

    gate = make_plugin(
        "Gate",
        permit=lambda *_: Wait(10),
        events_to_register=lambda self: (on(Resource.NODE, Action.ADD, hint),),
    )
    cluster = Cluster(node("node-1"), plugins=(gate,))
    cluster.add(pod("web"))

    cluster.add(node("node-2"))
    cluster.run(10)

    assert woken == ["node added"]
    assert cluster.notes.begun == ["web", "web"]


def test_an_outcome_that_comes_before_the_wait_is_not_lost() -> None:
    """PreBindPreFlight runs before the wait: a plugin may decide there already."""

    def pre_flight(self: Any, cycle: Any, pod: Any, node: str) -> PreFlight:
        self.handle.waiting.reject(pod.uid, "Hasty", "changed my mind")
        return PreFlight()

    hasty = make_plugin(
        "Hasty",
        permit=lambda *_: Wait(60),
        pre_bind_pre_flight=pre_flight,
        pre_bind=lambda *_: None,
        events_to_register=lambda self: (),
    )
    cluster = Cluster(node("node-1"), plugins=(hasty,))

    cluster.add(pod("web"))

    assert cluster.condition("web").message == "0/1 nodes are available: 1 changed my mind."
    assert cluster.binds == []


def test_allowing_twice_or_a_stranger_is_harmless() -> None:
    outcomes: list[Status | None] = []
    waiting = WaitingPods(Stepper())
    someone = info(pod("web"))
    waiting.add(someone, "node-1", {"A": Wait(5)}, 0.0).wait(outcomes.append)

    assert not waiting.allow("nobody", "A")
    assert not waiting.reject("nobody", "A", "no")
    assert waiting.allow(someone.uid, "B")
    assert outcomes == []
    assert waiting.allow(someone.uid, "A")
    assert not waiting.allow(someone.uid, "A")

    assert outcomes == [None]


def test_the_room_a_rejected_pod_leaves_is_told_to_others_not_to_itself() -> None:
    def hint(waiting: Pod, old: Pod, new: None) -> Hint:
        # Not when a promise ends: the pod loses one, too.
        return Hint.QUEUE if old.spec.node_name else Hint.SKIP

    gate = make_plugin(
        "Gate",
        permit=lambda self, cycle, pod, node: Wait(10) if "waits" in pod.kind.labels else None,
        events_to_register=lambda self: (on(Resource.POD, Action.DELETE, hint),),
    )
    cluster = Cluster(node("node-1", cpu="1"), plugins=(gate,))
    cluster.add(pod("web", cpu="1", labels={"waits": "1"}))
    cluster.add(pod("other", cpu="1"))
    assert cluster.place("other") == "unschedulable"

    cluster.run(10)

    assert cluster.place("other") == "bound"
    assert cluster.place("web") == "unschedulable"
    assert cluster.notes.begun == ["web", "other", "other"]


def test_a_wait_that_ends_in_an_error_is_tried_again_by_itself() -> None:
    cluster = Cluster(node("node-1"), plugins=(waiting_plugin("Slow"),))
    cluster.add(pod("web"))

    cluster.machine.waiting.fail(uid(cluster), "something broke")
    cluster.add(node("node-2"))

    condition = cluster.condition("web")
    assert (condition.reason, condition.message) == (
        "SchedulerError",
        "waiting on permit for pod: something broke",
    )
    assert cluster.place("web") == "backoff"
