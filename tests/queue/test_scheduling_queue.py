"""The operations of the queue, row by row (core.md §2.6, §9.1-8)."""

from __future__ import annotations

import pytest

from stowplan.framework.events import (
    Action,
    ClusterEvent,
    Resource,
    on,
)
from stowplan.objects.pod import PodSchedulingGate
from tests.queue.builders import (
    FIT,
    NODE_ADD,
    GatePlugin,
    Harness,
    Plugin,
    annotated,
    nominated_to,
    pod,
    relabelled,
    skip,
)

# Add.


def test_a_new_pod_is_active() -> None:
    h = Harness()
    info = pod()

    h.queue.add(info)

    assert h.place(info) == "active"
    assert h.incoming("active", "UnschedulablePodAdd") == 1
    queued = h.pop()
    assert (queued.info, queued.timestamp_s, queued.initial_attempt_s) == (info, 1000.0, 1000.0)


def test_pods_are_popped_by_priority_then_age_then_arrival() -> None:
    h = Harness()
    low, old, twin = pod(), pod(priority=5), pod(priority=5)
    h.queue.add(low)
    h.queue.add(old)
    h.queue.add(twin)
    h.tick(1)
    young, high = pod(priority=5), pod(priority=9)
    h.queue.add(young)
    h.queue.add(high)

    assert [h.pop().info for _ in range(5)] == [high, old, twin, young, low]


def test_adding_a_pod_again_starts_it_anew() -> None:
    h = Harness()
    info = pod()
    h.failed(info, "Fit")

    h.queue.add(info)

    assert [place for _, place in h.queue.places()] == ["active"]
    assert h.unschedulable("Fit") == 0


# Update.


def test_an_active_pod_is_replaced_and_reordered() -> None:
    h = Harness()
    one, two = pod(priority=1), pod(priority=2)
    h.queue.add(one)
    h.queue.add(two)
    risen = pod(one.pod.metadata.name, uid=one.uid, priority=3)

    h.queue.update(one, risen)

    assert [h.pop().info, h.pop().info] == [risen, two]
    assert h.incoming("active", "UnschedulablePodUpdate") == 0


@pytest.mark.parametrize("rejectors", [(), ("Fit",)])
def test_a_pod_in_backoff_is_replaced_and_stays(rejectors: tuple[str, ...]) -> None:
    h = Harness()
    info = pod()
    queued = h.failed(info, *rejectors)
    h.queue.move_all(NODE_ADD, None, None)
    new = relabelled(info, a="1")

    h.queue.update(info, new)

    assert h.place(info) == "backoff"
    assert queued.info is new


def test_a_pod_in_backoff_is_reordered() -> None:
    h = Harness()
    one, two = pod(priority=1), pod(priority=2)
    h.failed(one, "Fit")
    h.failed(two, "Fit")
    h.queue.move_all(NODE_ADD, None, None)
    risen = pod(one.pod.metadata.name, uid=one.uid, priority=3)

    h.queue.update(one, risen)

    assert [h.pop().info, h.pop().info] == [risen, two]


@pytest.mark.parametrize(
    ("rejector", "place"),
    [
        pytest.param("OwnLabel", "backoff", id="the-rejector-cares"),
        pytest.param("Fit", "unschedulable", id="it-does-not"),
    ],
)
def test_an_unschedulable_pod_moves_if_the_change_matters(rejector: str, place: str) -> None:
    h = Harness()
    info = pod()
    queued = h.failed(info, rejector)
    new = relabelled(info, a="1")

    h.queue.update(info, new)

    assert h.place(info) == place
    assert queued.info is new


def test_an_updated_pod_whose_backoff_is_over_becomes_active() -> None:
    h = Harness()
    info = pod()
    h.failed(info, "OwnLabel")
    h.tick(2)

    h.queue.update(info, relabelled(info, a="1"))

    assert h.place(info) == "active"


def test_an_update_moves_a_pod_once() -> None:
    both = [
        on(Resource.POD, Action.UPDATE_POD_LABEL),
        on(Resource.POD, Action.UPDATE_POD_SCALE_DOWN),
    ]
    gates = Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
    h = Harness(Plugin("Both", [*both, on(Resource.POD, gates)]))
    info = pod(scheduling_gates=[PodSchedulingGate(name="gate")])
    h.failed(info, "Both")
    freed = pod(info.pod.metadata.name, uid=info.uid, labels={"a": "1"})

    h.queue.update(info, freed)

    assert h.place(info) == "backoff"
    labels = [label for queue, label in h.queue.metrics.incoming_pods if queue == "backoff"]
    assert labels == ["UnschedulablePodUpdatePodLabel"]


def test_an_update_tries_the_next_event_when_the_first_does_not_help() -> None:
    gates = Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
    h = Harness(
        Plugin("Both", [on(Resource.POD, Action.UPDATE_POD_LABEL, skip), on(Resource.POD, gates)])
    )
    info = pod(scheduling_gates=[PodSchedulingGate(name="gate")])
    h.failed(info, "Both")

    h.queue.update(info, pod(info.pod.metadata.name, uid=info.uid, labels={"a": "1"}))

    assert h.incoming("backoff", "UnschedulablePodUpdatePodSchedulingGatesEliminated") == 1


def test_an_update_refreshes_the_nomination() -> None:
    h = Harness()
    info = pod(nominated="node-1")
    h.queue.add(info)

    h.queue.update(info, nominated_to(info, "node-2"))

    assert h.queue.nominator.nodes() == ["node-2"]


def test_an_update_of_an_unknown_pod_adds_it() -> None:
    h = Harness()
    info = pod()

    h.queue.update(info, annotated(info))

    assert h.place(info) == "active"
    assert h.incoming("active", "UnschedulablePodUpdate") == 1


@pytest.mark.parametrize("rejectors", [None, (), ("Fit",)])
def test_another_pod_of_the_same_name_takes_its_place(rejectors: tuple[str, ...] | None) -> None:
    h = Harness()
    info = pod("web-0", uid="first")
    if rejectors is None:
        h.queue.add(info)
    else:
        h.failed(info, *rejectors)

    h.queue.update(info, pod("web-0", uid="second"))

    assert list(h.queue.places()) == [("second", "active")]
    assert h.pop().attempts == 1
    assert h.unschedulable("Fit") == 0


# Delete.


def test_a_deleted_pod_is_gone_wherever_it_was() -> None:
    h = Harness()
    rejected, backing_off, failing, active = pod(), pod(), pod(), pod()
    h.failed(backing_off, "Fit")
    h.queue.move_all(NODE_ADD, None, None)
    h.failed(rejected, "Fit")
    h.failed(failing)
    h.queue.add(active)
    infos = [rejected, backing_off, failing, active]
    assert [h.place(info) for info in infos] == ["unschedulable", "backoff", "backoff", "active"]

    for info in infos:
        h.queue.delete(info)

    assert list(h.queue.places()) == []
    assert h.unschedulable("Fit") == 0


def test_deleting_a_pod_in_flight_leaves_its_marker() -> None:
    h = Harness()
    info = pod()
    h.queue.add(info)
    h.pop()

    h.queue.delete(info)

    assert h.place(info) == "in flight"


def test_deleting_a_pod_spares_a_younger_one_of_its_name() -> None:
    h = Harness()
    young = pod("web-0", uid="second")
    h.queue.add(young)

    h.queue.delete(pod("web-0", uid="first"))

    assert h.place(young) == "active"


# Activate.


def test_activate_ends_every_waiting() -> None:
    h = Harness()
    rejected, failing, backing_off, active = pod(), pod(), pod(), pod()
    h.failed(backing_off, "Fit")
    h.queue.move_all(NODE_ADD, None, None)
    h.failed(rejected, "Deaf")
    h.failed(failing)
    h.queue.add(active)
    infos = [rejected, failing, backing_off, active]

    h.queue.activate([*infos, pod("unknown")])

    assert [h.place(info) for info in infos] == ["active"] * 4
    assert h.incoming("active", "ForceActivate") == 3
    assert len(list(h.queue.places())) == 4


def test_activate_asks_the_gate_unless_the_pod_was_backing_off() -> None:
    gate = GatePlugin("Gate")
    h = Harness(gate, FIT)
    rejected, backing_off = pod(), pod()
    h.failed(backing_off)
    h.failed(rejected, "Fit")
    gate.closed_to |= {rejected.uid, backing_off.uid}

    h.queue.activate([rejected, backing_off])

    assert (h.place(rejected), h.place(backing_off)) == ("gated", "active")
    assert h.incoming("unschedulable", "ForceActivate") == 0, "it was there before"


# Pop.


def test_pop_finds_nothing_in_an_empty_queue() -> None:
    h = Harness()

    assert (h.queue.pop(), h.queue.has_next, h.queue.cycle) == (None, False, 0)


def test_a_closed_queue_says_so() -> None:
    h = Harness()

    h.queue.close()

    assert h.queue.closed
    assert h.queue.pop() is None


@pytest.mark.parametrize("where", ["active", "backoff", "unschedulable"])
def test_one_certain_pod_can_be_popped(where: str) -> None:
    h = Harness()
    wanted = pod()
    if where == "active":
        h.queue.add(pod(priority=9))
        h.queue.add(wanted)
    else:
        h.failed(wanted, *(["Fit"] if where == "unschedulable" else []))
    assert h.place(wanted) == where

    queued = h.queue.pop_specific(wanted)

    assert queued is not None
    assert (queued.info, h.place(wanted)) == (wanted, "in flight")
    assert queued.attempts == (1 if where == "active" else 2)


def test_a_gated_unknown_or_flying_pod_cannot_be_popped() -> None:
    gated, flying = pod(), pod()
    h = Harness(GatePlugin("Gate", {gated.uid}))
    h.queue.add(gated)
    h.queue.add(flying)
    h.pop()

    assert [h.queue.pop_specific(info) for info in (gated, pod(), flying)] == [None] * 3
    assert (h.place(gated), h.place(flying)) == ("gated", "in flight")


# AddUnschedulableIfNotPresent.


def test_a_rejection_counts_and_ends_a_row_of_errors() -> None:
    h = Harness()
    queued = h.failed(pod())
    assert (queued.consecutive_errors_count, queued.unschedulable_count) == (1, 0)

    h.tick(10)
    h.queue.flush()
    h.fail(h.pop(), "Fit")

    assert (queued.consecutive_errors_count, queued.unschedulable_count) == (0, 1)
    assert queued.timestamp_s == 1010.0
    assert h.unschedulable("Fit") == 1


def test_a_failure_starts_a_new_backoff() -> None:
    h = Harness()
    queued = h.failed(pod(), "Fit")
    h.queue.move_all(NODE_ADD, None, None)
    expirations = [queued.backoff_expiration_s]

    h.tick(0.5)
    h.fail(h.pop(), "Fit")
    expirations.append(queued.backoff_expiration_s)
    h.queue.move_all(NODE_ADD, None, None)
    expirations.append(queued.backoff_expiration_s)

    assert expirations == [1001, None, 1002], "1000 + 1 s, not known yet, 1000.5 + 2 s"


def test_the_first_attempt_is_remembered() -> None:
    h = Harness()
    queued = h.failed(pod(), "Fit")
    h.tick(5)
    h.queue.move_all(NODE_ADD, None, None)

    assert h.pop() is queued
    assert (queued.initial_attempt_s, queued.timestamp_s) == (1000.0, 1000.0)


def test_a_failure_forgets_the_flush() -> None:
    h = Harness()
    queued = h.failed(pod(), "Fit")
    h.tick(301)
    h.queue.flush_unschedulable()
    assert (queued.was_flushed, queued.flush_s) == (True, 1301.0)

    h.fail(h.pop(), "Fit")

    assert (queued.was_flushed, queued.flush_s) == (False, 0.0)


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("active", "Pod default/web-0 is already present in the active queue"),
        ("backoff", "Pod default/web-0 is already present in the backoff queue"),
        ("unschedulable", "Pod default/web-0 is already present in unschedulable queue"),
    ],
)
def test_a_pod_that_waits_already_is_refused_and_done(where: str, text: str) -> None:
    gate = GatePlugin("Gate")
    h = Harness(gate, FIT)
    info = pod("web-0")
    h.queue.add(info)
    flying = h.pop()
    if where == "unschedulable":
        gate.closed_to.add(info.uid)
    h.queue.add(info)
    if where == "backoff":
        # Only a pod that lost its marker can get there while another attempt is under way.
        h.queue.done(info.uid)
        h.fail(h.pop())
    count = flying.unschedulable_count
    flying.set_rejectors(frozenset({"Fit"}))

    assert h.queue.add_unschedulable_if_not_present(flying) == text

    assert h.place(info) == ("gated" if where == "unschedulable" else where)
    assert flying.unschedulable_count == count
    assert h.queue.metrics.inflight_events["PodPopped"] == 0


def test_an_event_after_the_backoff_makes_a_pod_active() -> None:
    h = Harness()
    queued = h.failed(pod(), "Fit")
    h.tick(2)

    h.queue.move_all(NODE_ADD, None, None)

    assert h.place(queued) == "active"
    assert queued.timestamp_s == 1000.0, "moves leave the timestamp alone"
    assert h.incoming("active", "NodeAdd") == 1


# What waits where.


def test_pending_pods_are_summed_up_in_upstreams_words() -> None:
    h = Harness()
    rejected, failing, active = pod(), pod(), pod()
    h.failed(rejected, "Fit")
    h.failed(failing)
    h.queue.add(active)

    pods, summary = h.queue.pending_pods()

    assert pods == [active, failing, rejected]
    assert summary == "activeQ:1; backoffQ:1; unschedulablePods:1"
    assert h.queue.pending_counts() == {"active": 1, "backoff": 1, "unschedulable": 1, "gated": 0}


def test_a_pod_is_found_by_name() -> None:
    h = Harness()
    info = pod("web-0")
    h.queue.add(info)

    queued = h.queue.get("default/web-0")

    assert queued is not None
    assert queued.info is info
    assert h.queue.get("default/web-1") is None


def test_another_queue_takes_pods_over_with_their_history() -> None:
    before, after = Harness(), Harness()
    rejected = before.failed(pod(), "Fit")
    failing = before.failed(pod())

    for queued in before.queue.waiting():
        after.queue.adopt(queued)

    assert [after.place(rejected), after.place(failing)] == ["active", "active"]
    assert (rejected.attempts, rejected.unschedulable_count) == (1, 1)
    assert not rejected.rejectors
    assert {after.pop(), after.pop()} == {rejected, failing}


# A nominated pod's own status is followed when it becomes active.


def test_adding_a_nominated_pod_nominates_it() -> None:
    h = Harness()
    h.queue.add(pod("web-0", nominated="node-1"))

    assert h.queue.nominator.nodes() == ["node-1"]


def test_a_generic_update_that_activates_a_pod_follows_its_status() -> None:
    """As upstream: the nomination only the scheduler knew of is lost on this path."""
    h = Harness(Plugin("Any", [on(Resource.POD, Action.UPDATE)]))
    info = pod()
    h.failed(info, "Any")
    h.queue.nominator.add(nominated_to(info, "node-1"))
    h.tick(2)

    h.queue.update(info, annotated(info))

    assert h.place(info) == "active"
    assert not h.queue.nominator


def test_an_event_of_a_users_resource_is_matched_by_name() -> None:
    resource = "foos.v1.example.com"
    h = Harness(Plugin("Foo", [on(resource, Action.ADD)]))
    queued = h.failed(pod(), "Foo")

    h.queue.move_all(ClusterEvent(resource, Action.ADD), None, None)

    assert h.place(queued) == "backoff"
