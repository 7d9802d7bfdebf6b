"""Preemption end to end: victims are told and deleted, the preemptor waits and takes its place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stowplan.core.cluster_changes import NODE_ADD
from stowplan.errors import ApiError, NotFound
from stowplan.framework.effects import Sleep
from stowplan.framework.plugin import PreFlight, Wait
from stowplan.objects.api import Bind, Delete, Patch
from stowplan.objects.pod import Pod
from tests.builders import node, pod
from tests.core.harness import Cluster, is_a, make_plugin, status_patches


def running(name: str, priority: int, cpu: str = "1", on: str = "node-1", **options: Any) -> Pod:
    spec = {"priority": priority, "terminationGracePeriodSeconds": 30}
    started = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
    return pod(name, node=on, cpu=cpu, spec=spec, status=started, **options)


def preemptor(name: str = "urgent", cpu: str = "1", priority: int = 100, **spec: Any) -> Pod:
    return pod(name, cpu=cpu, spec={"priority": priority, **spec})


def test_a_victim_is_told_deleted_and_replaced() -> None:
    cluster = Cluster(node("node-1", cpu="1"), running("batch", 1))

    cluster.add(preemptor())

    # The victim's end is asked for; until it has ended, the preemptor waits.
    condition = cluster.condition("batch", "DisruptionTarget")
    assert (condition.status, condition.reason) == ("True", "PreemptionByScheduler")
    assert condition.message == (
        "default-scheduler: preempting to accommodate a higher priority pod"
    )
    assert cluster.pod("batch").metadata.deletion_timestamp is not None
    [event] = cluster.events("batch", "Preempted")
    assert (event.type, event.action) == ("Normal", "Preempting")
    assert event.note == f"Preempted by pod {cluster.pod('urgent').metadata.uid} on node node-1"
    assert event.related is not None
    assert event.related.name == "urgent"
    assert cluster.nominated("urgent") == "node-1"
    assert cluster.place("urgent") == "unschedulable"
    assert cluster.machine.queue.nominator.nodes() == ["node-1"]
    # The attempt itself has failed as it was, with nothing from PostFilter.
    assert cluster.condition("urgent").message == "0/1 nodes are available: 1 Insufficient cpu."

    cluster.delete("batch", grace_s=0)
    cluster.run(2)

    assert cluster.node_of("urgent") == "node-1"
    assert cluster.nominated("urgent") == ""
    assert not cluster.machine.queue.nominator


def test_a_promise_holds_before_the_cluster_has_heard_of_it() -> None:
    cluster = Cluster(node("node-1", cpu="1"), running("batch", 1))
    cluster.api.hold(status_patches("urgent"))

    cluster.add(preemptor())

    assert cluster.nominated("urgent") == ""
    uid = cluster.pod("urgent").metadata.uid
    assert cluster.machine.queue.nominator.node_of == {uid: "node-1"}


def test_a_promise_ends_when_the_pod_is_on_its_way() -> None:
    cluster = Cluster(node("node-1", cpu="1"), running("batch", 1))
    cluster.api.hold(is_a(Bind))
    cluster.add(preemptor())
    assert cluster.machine.queue.nominator

    cluster.delete("batch", grace_s=0)
    cluster.run(2)

    # Counted on its node, it must not be counted as promised as well.
    assert cluster.place("urgent") == "assumed"
    assert not cluster.machine.queue.nominator


def test_with_a_kubelet_it_all_happens_by_itself() -> None:
    cluster = Cluster(node("node-1", cpu="2"), kubelet=True)
    cluster.add(running("a", 1), running("b", 2))

    cluster.add(preemptor(cpu="2"))
    cluster.run(3)

    assert cluster.node_of("urgent") == "node-1"
    assert [p.metadata.name for p in cluster.pods()] == ["urgent"]


def test_the_last_victim_is_evicted_last_and_only_if_the_others_went_well() -> None:
    victims = [running(f"v{n}", n) for n in (1, 2, 3)]
    cluster = Cluster(node("node-1", cpu="3"), *victims)
    cluster.api.hold(is_a(Delete))

    cluster.add(preemptor(cpu="3"))

    assert [r.name for r, _ in cluster.api.held] == ["v3", "v2"]  # type: ignore[union-attr]
    cluster.api.release()
    cluster.settle()
    assert [r.name for r in cluster.sent(is_a(Delete))] == ["v3", "v2", "v1"]  # type: ignore[union-attr]


def test_a_failed_eviction_spares_the_last_victim_and_wakes_the_preemptor() -> None:
    victims = [running(f"v{n}", n) for n in (1, 2)]
    cluster = Cluster(node("node-1", cpu="2"), *victims)
    cluster.api.fail(is_a(Delete, "v2"), ApiError("etcd is asleep", code=500), times=1)

    cluster.add(preemptor(cpu="2"))

    # Activated by the error, it tries again: now both are evicted.
    assert [r.name for r in cluster.sent(is_a(Delete))] == ["v2", "v2", "v1"]  # type: ignore[union-attr]
    assert cluster.notes.begun.count("urgent") == 2
    assert any("etcd is asleep" in text for text in cluster.notes.problems)


def test_a_victim_that_is_gone_already_counts_as_evicted_without_event() -> None:
    cluster = Cluster(node("node-1", cpu="1"), running("batch", 1))
    cluster.api.fail(status_patches("batch"), NotFound("gone"))

    cluster.add(preemptor())

    assert cluster.events("batch") == []
    assert cluster.sent(is_a(Delete)) == []
    assert preempting(cluster) == {}


def preempting(cluster: Cluster) -> dict[str, Any]:
    framework = cluster.machine.frameworks["default-scheduler"]
    found: dict[str, Any] = framework.plugins.instances["DefaultPreemption"].preempting
    return found


def test_the_preemptor_is_held_back_while_victims_are_being_evicted() -> None:
    cluster = Cluster(node("node-1", cpu="2"), running("v1", 1), running("v2", 2))
    cluster.api.hold(is_a(Delete, "v2"))
    cluster.add(preemptor(cpu="2"))
    uid = cluster.pod("urgent").metadata.uid
    assert preempting(cluster) == {uid: None}

    # An event that would wake it finds the gate shut.
    cluster.add(node("node-2", cpu="2"))
    assert cluster.place("urgent") == "gated"
    queued = cluster.machine.queue.get("default/urgent")
    assert queued is not None
    assert queued.gating_status is not None
    assert queued.gating_status.reasons == (
        "waiting for the preemption for this pod to be finished",
    )
    cluster.api.release()
    cluster.settle()
    assert preempting(cluster) == {}
    cluster.delete("v1", grace_s=0)
    cluster.run(2)

    assert cluster.node_of("urgent") == "node-2"


def test_the_gate_opens_once_the_last_victim_is_gone_whatever_the_answer_does() -> None:
    cluster = Cluster(node("node-1", cpu="1"), running("batch", 1))
    cluster.api.hold(is_a(Delete))
    cluster.add(preemptor())
    assert len(cluster.api.held) == 1

    # It ends by itself; our own request is still on its way.
    cluster.delete("batch", grace_s=0)
    cluster.run(2)

    assert len(cluster.api.held) == 1
    assert cluster.place("urgent") == "bound"


def test_the_gate_is_shut_before_the_failed_attempt_is_queued_again() -> None:
    """Something that happened during the attempt must not send the preemptor off at once."""

    def filter_node(self: Any, cycle: Any, pod: Any, info: Any) -> None:
        # As if a node had come while the pod was being decided on.
        if pod.pod.metadata.name == "urgent" and not self._done:
            type(self).done = True
            cluster.machine.queue.move_all(NODE_ADD, None, node("node-9", cpu="64"))

    meddling = make_plugin(
        "Meddling", filter_node=filter_node, _done=False, events_to_register=lambda self: ()
    )
    cluster = Cluster(node("node-1", cpu="1"), running("batch", 1), plugins=(meddling,))
    cluster.api.hold(is_a(Delete))

    cluster.add(preemptor())

    assert cluster.place("urgent") == "gated"


def test_less_important_pods_lose_their_promise_of_the_node() -> None:
    cluster = Cluster(node("node-1", cpu="2"), running("a", 1), running("b", 2))
    cluster.add(preemptor("middle", priority=10))
    assert cluster.nominated("middle") == "node-1"
    assert [r.name for r in cluster.sent(is_a(Delete))] == ["a"]  # type: ignore[union-attr]

    cluster.add(preemptor("urgent", cpu="2", priority=100))

    assert cluster.nominated("middle") == ""
    assert cluster.nominated("urgent") == "node-1"
    assert list(cluster.machine.queue.nominator.node_of) == [cluster.pod("urgent").metadata.uid]
    for name in "ab":
        cluster.delete(name, grace_s=0)
    cluster.run(3)
    assert cluster.node_of("urgent") == "node-1"
    assert cluster.place("middle") == "unschedulable"


def test_a_pod_promised_a_node_is_counted_there_by_less_important_ones() -> None:
    cluster = Cluster(node("node-1", cpu="2"), running("v1", 1), running("v2", 2))
    cluster.add(preemptor("urgent", cpu="2", priority=100))
    # One victim has ended, the other takes its time: half of the node is free, and promised.
    cluster.delete("v1", grace_s=0)
    cluster.run(2)
    assert cluster.place("urgent") == "unschedulable"

    cluster.add(preemptor("small", priority=1), preemptor("vital", priority=101, cpu="500m"))

    assert (cluster.place("small"), cluster.place("vital")) == ("unschedulable", "bound")
    assert cluster.condition("small").message == (
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_a_preemptor_waits_for_a_victim_that_is_on_its_way_out() -> None:
    cluster = Cluster(
        node("node-1", cpu="1"), running("batch", 1, metadata={"finalizers": ["x/y"]})
    )
    cluster.add(preemptor())
    assert len(cluster.sent(is_a(Delete))) == 1

    cluster.run(400)

    # Tried again by the clock, it does not evict anybody else, nor anybody twice.
    assert cluster.notes.begun.count("urgent") >= 2
    assert len(cluster.sent(is_a(Delete))) == 1
    assert cluster.condition("urgent").message.endswith(
        "preemption: not eligible due to a terminating pod on the nominated node."
    )
    assert cluster.nominated("urgent") == "node-1"


def test_a_policy_of_never_means_never() -> None:
    cluster = Cluster(node("node-1", cpu="1"), running("batch", 1))

    cluster.add(preemptor(preemptionPolicy="Never"))

    assert cluster.sent(is_a(Delete)) == []
    assert "preemption: not eligible due to preemptionPolicy=Never." in (
        cluster.condition("urgent").message
    )


def test_a_promise_that_no_longer_helps_is_withdrawn() -> None:
    cluster = Cluster(
        node("node-1", cpu="1"), running("batch", 1, metadata={"finalizers": ["x/y"]})
    )
    cluster.add(preemptor())
    assert cluster.nominated("urgent") == "node-1"

    # The node becomes useless to it: nothing it could preempt would help.
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    cluster.patch_node("node-1", {"spec": {"taints": [taint]}})
    cluster.run(400)

    assert cluster.nominated("urgent") == ""
    assert not cluster.machine.queue.nominator


# -- victims that are not bound yet -----------------------------------------------------------


def in_pre_bind(stopped: list[str]) -> type:
    def steps(self: Any, cycle: Any, pod: Any, node: str) -> Iterator[Any]:
        try:
            while True:
                yield Sleep(60)
        finally:
            stopped.append(pod.pod.metadata.name)

    def pre_flight(self: Any, cycle: Any, pod: Any, node: str) -> Any:
        return PreFlight()

    return make_plugin("Slow", pre_bind_pre_flight=pre_flight, pre_bind=steps)


def test_a_victim_in_pre_bind_is_called_off_in_memory() -> None:
    stopped: list[str] = []
    cluster = Cluster(node("node-1", cpu="1"), plugins=(in_pre_bind(stopped),))
    cluster.add(pod("low", cpu="1", spec={"priority": 1}))
    assert cluster.place("low") == "assumed"

    cluster.add(preemptor())

    assert stopped == ["low"]
    assert cluster.condition("low").message == "preempted by DefaultPreemption"
    assert cluster.condition("low").reason == "SchedulerError"
    assert cluster.place("low") == "backoff"
    assert cluster.sent(is_a(Delete)) == []
    assert cluster.notes_of("low", "Preempted") == [
        (
            f"Preempted by pod {cluster.pod('urgent').metadata.uid} on node node-1 "
            "(in kube-scheduler memory)."
        )
    ]
    # The room is free at once: nobody has to end first.
    assert cluster.place("urgent") == "assumed"
    assert cluster.machine.stepper.timer_count == 1


def test_a_victim_that_waits_at_permit_is_called_off_in_memory() -> None:
    def permit(self: Any, cycle: Any, pod: Any, node: str) -> Wait | None:
        return Wait(600) if pod.priority < 50 else None

    cluster = Cluster(node("node-1", cpu="1"), plugins=(make_plugin("Slow", permit=permit),))
    cluster.add(pod("low", cpu="1", spec={"priority": 1}))

    cluster.add(preemptor())

    assert cluster.condition("low").message == "waiting on permit for pod: preempted"
    assert cluster.place("low") == "backoff"
    assert cluster.notes_of("low", "Preempted")[0].endswith("(in kube-scheduler memory).")
    assert cluster.place("urgent") == "bound"


def test_a_victim_past_pre_bind_is_evicted_through_the_api() -> None:
    cluster = Cluster(node("node-1", cpu="1"))
    cluster.api.hold(is_a(Bind, "low"))
    cluster.add(pod("low", cpu="1", spec={"priority": 1}))

    cluster.add(preemptor())

    assert [r.name for r in cluster.sent(is_a(Delete))] == ["low"]  # type: ignore[union-attr]


def test_victims_already_leaving_are_left_alone() -> None:
    """Two nodes' worth of room is needed; one victim is terminating for another reason."""
    leaving = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"]}
    cluster = Cluster(
        node("node-1", cpu="2"), running("leaving", 1, metadata=leaving), running("batch", 1)
    )

    cluster.add(preemptor(cpu="2"))

    assert [r.name for r in cluster.sent(is_a(Delete))] == ["batch"]  # type: ignore[union-attr]
    patched = {r.name for r in cluster.sent(is_a(Patch))}  # type: ignore[union-attr]
    assert patched == {"batch", "urgent"}
