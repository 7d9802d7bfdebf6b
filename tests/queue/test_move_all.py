"""A cluster event wakes those it may help, and nobody else (core.md §2.6, MoveAll)."""

from __future__ import annotations

from stowplan.framework.events import (
    FORCE_ACTIVATE,
    Action,
    ClusterEvent,
    Resource,
    on,
)
from stowplan.queue import ProfileQueueing, SchedulingQueue
from stowplan.queue.pod_changes import pod_update_events
from tests.queue.builders import (
    NODE_ADD,
    NODE_DELETE,
    NODE_LABEL,
    POD_DELETE,
    PROFILE,
    Clock,
    Harness,
    Plugin,
    annotated,
    by_priority,
    pod,
    relabelled,
)


def test_an_event_moves_those_it_concerns() -> None:
    h = Harness()
    fit, labels, both = pod(), pod(), pod()
    h.failed(fit, "Fit")
    h.failed(labels, "Labels")
    h.failed(both, "Fit", "Labels")

    h.queue.move_all(NODE_LABEL, None, None)

    places = [h.place(info) for info in (fit, labels, both)]
    assert places == ["unschedulable", "backoff", "backoff"]
    assert h.incoming("backoff", "NodeUpdateNodeLabel") == 2


def test_pods_of_several_groups_are_moved_in_the_order_they_came() -> None:
    h = Harness()
    infos = [pod() for _ in range(4)]
    for info, rejectors in zip(infos, (["Labels"], ["Fit", "Labels"]) * 2, strict=True):
        h.failed(info, *rejectors)
    h.tick(2)

    h.queue.move_all(NODE_LABEL, None, None)

    assert [h.pop().info for _ in infos] == infos


def test_an_event_nobody_cares_for_wakes_nobody() -> None:
    h = Harness()
    queued = h.failed(pod(), "Fit")

    h.queue.move_all(NODE_DELETE, None, None)

    assert h.place(queued) == "unschedulable"
    assert h.queue.metrics.hint_durations == {}


def test_pre_check_limits_who_is_looked_at() -> None:
    h = Harness()
    low, high = pod(priority=1), pod(priority=9)
    h.failed(low, "Fit")
    h.failed(high, "Fit")

    h.queue.move_all(POD_DELETE, None, None, pre_check=lambda info: info.priority <= 5)

    assert (h.place(low), h.place(high)) == ("backoff", "unschedulable")


def test_a_wildcard_event_moves_everybody() -> None:
    h = Harness()
    queued = h.failed(pod(), "Deaf")

    h.queue.move_all(FORCE_ACTIVATE, None, None)

    assert h.place(queued) == "backoff"


def test_a_generic_update_misses_narrower_registrations() -> None:
    h = Harness()
    info = pod()
    queued = h.failed(info, "OwnLabel")

    h.queue.update(info, annotated(info))

    assert h.place(queued) == "unschedulable"


def test_assigned_pods_come_and_change() -> None:
    added = Plugin("Added", [on(Resource.POD, Action.ADD)])
    relabels = Plugin("Relabelled", [on(Resource.POD, Action.UPDATE_POD_LABEL)])
    h = Harness(added, relabels)
    one, two = pod(), pod()
    h.failed(one, "Added")
    h.failed(two, "Relabelled")
    running = pod(node="node-1")

    h.queue.move_all(ClusterEvent(Resource.ASSIGNED_POD, Action.ADD), None, running.pod)
    assert (h.place(one), h.place(two)) == ("backoff", "unschedulable")

    changed = relabelled(running, a="1")
    (event,) = pod_update_events(running, changed, assigned=True)
    h.queue.move_all(event, running.pod, changed.pod)
    assert h.place(two) == "backoff"
    assert h.incoming("backoff", "AssignedPodAdd") == 1
    assert h.incoming("backoff", "AssignedPodUpdatePodLabel") == 1


def test_profiles_do_not_share_hints() -> None:
    clock = Clock()
    listens, ignores = Plugin("Fit", [on(Resource.NODE, Action.ADD)]), Plugin("Fit")
    h = Harness(listens)
    h.queue = SchedulingQueue(
        by_priority,
        clock.now,
        {
            name: ProfileQueueing((), Harness(plugin).queue._hints._maps[PROFILE])
            for name, plugin in (("one", listens), ("two", ignores))
        },
    )
    one, two = pod(profile="one"), pod(profile="two")
    h.failed(one, "Fit")
    h.failed(two, "Fit")

    h.queue.move_all(NODE_ADD, None, None)

    assert (h.place(one), h.place(two)) == ("backoff", "unschedulable")
    assert h.queue.metrics.unschedulable_pods == {("Fit", "one"): 1, ("Fit", "two"): 1}


def test_a_pod_of_an_unknown_profile_is_moved_by_any_event_of_interest() -> None:
    h = Harness()
    queued = h.failed(pod(profile="unknown"), "Anything")

    h.queue.move_all(NODE_DELETE, None, None)
    assert h.place(queued) == "unschedulable"

    h.queue.move_all(NODE_ADD, None, None)
    assert h.place(queued) == "backoff"


def test_an_event_that_nobody_may_hear_of_moves_nobody() -> None:
    h = Harness()
    pods = [h.failed(pod(profile=profile), "Fit") for profile in (PROFILE, "unknown")]

    h.queue.move_all(NODE_ADD, None, None, lambda info: False)

    assert [h.place(queued) for queued in pods] == ["unschedulable", "unschedulable"]
    assert h.queue.metrics.hint_durations == {}
