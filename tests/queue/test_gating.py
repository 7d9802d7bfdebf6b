"""PreEnqueue holds pods back and lets them go (core.md §2.3, §9.7)."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.framework.events import Action, ClusterEvent, Resource, on
from stowplan.framework.status import Code, Status
from stowplan.state.pod_info import PodInfo
from tests.queue.builders import FIT, NODE_ADD, NODE_LABEL, GatePlugin, Harness, pod, relabelled

LABEL_CHANGED = ClusterEvent(Resource.UNSCHEDULABLE_POD, Action.UPDATE_POD_LABEL)


def gate(name: str, *closed_to: PodInfo) -> GatePlugin:
    events = [on(Resource.NODE, Action.UPDATE_NODE_LABEL)]
    return GatePlugin(name, {info.uid for info in closed_to}, events)


def test_a_gated_pod_waits() -> None:
    info = pod()
    h = Harness(gate("Gate", info))

    h.queue.add(info)

    queued = h.queue.get(info.key)
    assert queued is not None
    assert queued.gating_plugin == "Gate"
    assert queued.unschedulable_plugins == {"Gate"}
    assert queued.gating_status == Status(Code.UNSCHEDULABLE, ("Gate is closed",), "Gate")
    assert queued.initial_attempt_s is None
    assert h.place(info) == "gated"
    assert h.queue.pending_counts() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 1}
    assert h.unschedulable("Gate") == 1
    assert h.incoming("unschedulable", "UnschedulablePodAdd") == 1
    assert h.queue.pop() is None


def test_plugins_run_in_order_and_the_first_objection_ends_it() -> None:
    info = pod()
    first, second, third = gate("First"), gate("Second", info), gate("Third")
    h = Harness(first, second, third)

    h.queue.add(info)

    assert [len(plugin.asked) for plugin in (first, second, third)] == [1, 1, 0]


def test_of_pods_that_come_together_each_is_asked_about_once_and_held_back_for_itself() -> None:
    free, first_holds, second_holds = pod(), pod(), pod()
    first, second = gate("First", first_holds), gate("Second", second_holds)
    h = Harness(first, second)

    h.queue.add_all([first_holds, free, second_holds])

    assert first.asked == [first_holds.uid, free.uid, second_holds.uid]
    assert second.asked == [free.uid, second_holds.uid]
    held = [h.queue.get(info.key) for info in (first_holds, second_holds)]
    assert [queued.gating_plugin for queued in held if queued] == ["First", "Second"]
    assert [queued.initial_attempt_s for queued in held if queued] == [None, None]
    assert h.pop().info is free
    assert h.queue.pop() is None
    assert h.incoming("unschedulable", "UnschedulablePodAdd") == 2
    assert h.incoming("active", "UnschedulablePodAdd") == 1


def test_a_plugin_that_fails_at_one_of_many_fails_that_one_only() -> None:
    before, culprit, after = pod(), pod(), pod()
    asked: list[str] = []
    errors: list[tuple[str, str, str]] = []

    class Touchy:
        name = "Touchy"

        def pre_enqueue(self, info: PodInfo) -> Status | None:
            asked.append(info.uid)
            if info is culprit:
                raise RuntimeError("not this one")
            return None

    def on_error(plugin: str, point: str, info: PodInfo, failure: Exception) -> None:
        errors.append((plugin, point, info.uid))

    h = Harness(Touchy(), on_plugin_error=on_error)

    h.queue.add_all([before, culprit, after])

    assert asked == [before.uid, culprit.uid, after.uid]
    assert errors == [("Touchy", "PreEnqueue", culprit.uid)]
    assert h.place(culprit) == "gated"
    assert [h.pop().info, h.pop().info] == [before, after]


def test_the_plugin_that_gated_it_is_asked_first() -> None:
    info = pod()
    first, second = gate("First"), gate("Second", info)
    h = Harness(first, second)
    h.queue.add(info)

    h.queue.move_all(NODE_LABEL, None, None)

    assert (len(first.asked), len(second.asked)) == (1, 2)
    assert h.place(info) == "gated"


def test_another_plugin_may_gate_next() -> None:
    info = pod()
    first, second = gate("First", info), gate("Second", info)
    h = Harness(first, second)
    h.queue.add(info)
    first.closed_to.clear()

    h.queue.move_all(NODE_LABEL, None, None)

    queued = h.queue.get(info.key)
    assert queued is not None
    assert queued.gating_plugin == "Second"
    assert queued.unschedulable_plugins == {"First", "Second"}
    assert (h.unschedulable("First"), h.unschedulable("Second")) == (1, 1)


def test_the_gauge_is_raised_once_however_often_a_plugin_objects() -> None:
    info = pod()
    h = Harness(gate("Gate", info))
    h.queue.add(info)

    for _ in range(3):
        h.queue.move_all(NODE_LABEL, None, None)

    assert h.unschedulable("Gate") == 1


def test_passing_leaves_the_name_among_the_rejectors() -> None:
    info = pod()
    plugin = gate("Gate", info)
    h = Harness(plugin)
    h.queue.add(info)
    plugin.closed_to.clear()
    h.tick(5)

    h.queue.move_all(NODE_LABEL, None, None)

    assert h.place(info) == "active"
    queued = h.pop()
    assert (queued.gating_plugin, queued.gating_status) == ("", None)
    assert queued.unschedulable_plugins == {"Gate"}
    assert (queued.timestamp_s, queued.initial_attempt_s) == (1000.0, 1005.0)
    assert h.unschedulable("Gate") == 0


def test_gated_pods_hear_only_what_concerns_their_gate() -> None:
    info = pod()
    plugin = gate("Gate", info)
    h = Harness(plugin, FIT)
    h.queue.add(info)
    plugin.closed_to.clear()

    h.queue.move_all(NODE_ADD, None, None)

    assert h.place(info) == "gated"
    assert len(plugin.asked) == 1


def test_a_gated_pod_keeps_old_rejectors_but_hears_its_gate_only() -> None:
    """Rejected by Fit, then gated on its way back: Fit's events no longer move it."""
    info = pod()
    plugin = gate("Gate")
    h = Harness(plugin, FIT)
    queued = h.failed(info, "Fit")
    plugin.closed_to.add(info.uid)
    h.queue.move_all(NODE_ADD, None, None)
    assert h.place(info) == "gated"
    assert queued.rejectors == {"Fit", "Gate"}
    plugin.closed_to.clear()

    h.queue.move_all(NODE_ADD, None, None)
    assert h.place(info) == "gated"

    h.queue.move_all(NODE_LABEL, None, None)
    assert h.place(info) == "backoff"


def test_the_flush_reaches_gated_pods() -> None:
    info = pod()
    plugin = gate("Gate", info)
    h = Harness(plugin)
    h.queue.add(info)
    h.tick(301)
    h.queue.flush_unschedulable()
    queued = h.queue.get(info.key)
    assert queued is not None
    assert (h.place(info), queued.was_flushed, queued.flush_s) == ("gated", False, 1301.0)

    plugin.closed_to.clear()
    h.tick(301)
    h.queue.flush_unschedulable()

    assert h.place(info) == "active"
    assert queued.was_flushed


def test_the_gate_stands_before_backoff_too() -> None:
    info = pod()
    plugin = gate("Gate")
    h = Harness(plugin, FIT)
    queued = h.failed(info)
    assert h.place(queued) == "backoff"
    asked = len(plugin.asked)

    h.tick(5)
    plugin.closed_to.add(info.uid)
    h.queue.flush_backoff()

    assert h.place(info) == "active", "it passed on its way in"
    assert len(plugin.asked) == asked


def test_a_failed_pod_that_meets_a_gate_waits_there() -> None:
    info = pod()
    plugin = gate("Gate")
    h = Harness(plugin)
    h.queue.add(info)
    queued = h.pop()
    plugin.closed_to.add(info.uid)

    h.fail(queued)

    assert h.place(info) == "gated"
    assert h.incoming("unschedulable", "ScheduleAttemptFailure") == 1


def test_an_update_may_open_the_gate() -> None:
    info = pod(labels={"a": "1"})
    plugin = GatePlugin("Gate", {info.uid}, [on(Resource.POD, Action.UPDATE_POD_LABEL)])
    h = Harness(plugin)
    h.queue.add(info)
    new = relabelled(info, a="2")

    h.queue.update(info, new)
    assert h.place(info) == "gated"
    assert h.incoming("unschedulable", "UnschedulablePodUpdatePodLabel") == 0, "it never left"

    plugin.closed_to.clear()
    h.queue.update(new, relabelled(info, a="3"))

    assert h.place(info) == "active"
    assert h.incoming("active", "UnschedulablePodUpdatePodLabel") == 1


def test_a_gate_held_by_another_plugin_after_an_update_is_known_by_its_new_name() -> None:
    info = pod(labels={"a": "1"})
    first = GatePlugin("First", {info.uid}, [on(Resource.POD, Action.UPDATE_POD_LABEL)])
    second = gate("Second", info)
    h = Harness(first, second)
    h.queue.add(info)
    first.closed_to.clear()
    h.queue.update(info, relabelled(info, a="2"))
    second.closed_to.clear()

    h.queue.move_all(LABEL_CHANGED, None, None)
    assert h.place(info) == "gated"

    h.queue.move_all(NODE_LABEL, None, None)
    assert h.place(info) == "active"


def test_pods_that_an_event_leads_to_the_next_gate_wait_for_that_ones_events() -> None:
    infos = [pod() for _ in range(3)]
    first = GatePlugin("First", {i.uid for i in infos}, [on(Resource.NODE, Action.ADD)])
    second = gate("Second", *infos[:2])
    h = Harness(first, second)
    h.queue.add_all(infos)
    first.closed_to.remove(infos[0].uid)
    h.queue.move_all(NODE_ADD, None, None)
    assert [h.place(info) for info in infos] == ["gated"] * 3
    first.closed_to.clear()
    second.closed_to.clear()

    h.queue.move_all(NODE_LABEL, None, None)
    assert [h.place(info) for info in infos] == ["active", "gated", "gated"]

    h.queue.move_all(NODE_ADD, None, None)
    assert [h.place(info) for info in infos] == ["active"] * 3


class Raises:
    name = "Raises"

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        raise ValueError("no such thing")


def test_a_plugin_that_raises_gates_the_pod_and_is_named() -> None:
    failures: list[tuple[Any, ...]] = []
    h = Harness(Raises(), on_plugin_error=lambda *failure: failures.append(failure))
    info = pod()

    h.queue.add(info)

    queued = h.queue.get(info.key)
    assert queued is not None
    assert queued.gating_plugin == "Raises"
    assert queued.gating_status is not None
    assert queued.gating_status.code is Code.ERROR
    assert queued.gating_status.message == 'running PreEnqueue plugin "Raises": no such thing'
    assert [(plugin, point) for plugin, point, *_ in failures] == [("Raises", "PreEnqueue")]


@pytest.mark.parametrize("code", [Code.ERROR, Code.PENDING, Code.SKIP])
def test_anything_but_success_gates(code: Code) -> None:
    class Answers:
        name = "Answers"

        def pre_enqueue(self, pod: PodInfo) -> Status | None:
            return Status(code)

    h = Harness(Answers())
    info = pod()

    h.queue.add(info)

    assert h.place(info) == "gated"


def test_an_explicit_success_passes() -> None:
    class Answers:
        name = "Answers"

        def pre_enqueue(self, pod: PodInfo) -> Status | None:
            return Status(Code.SUCCESS)

    h = Harness(Answers())
    h.queue.add(pod())

    assert h.queue.has_next


def test_each_profile_has_its_own_gates() -> None:
    info = pod(profile="somebody-else")
    h = Harness(gate("Gate", info))

    h.queue.add(info)

    assert h.place(info) == "active"


class Bulk(GatePlugin):
    """A gate that answers for many at once, unless it breaks."""

    broken = ""

    def pre_enqueue_all(self, pods: list[PodInfo]) -> list[Status | None]:
        if self.broken == "raises":
            raise ValueError("too many")
        if self.broken:
            return [None] * (len(pods) + 1)
        return [GatePlugin.pre_enqueue(self, info) for info in pods]

    def pre_enqueue(self, info: PodInfo) -> Status | None:
        assert self.broken, "all were to be asked at once"
        return super().pre_enqueue(info)


@pytest.mark.parametrize("broken", ["", "raises", "miscounts"])
def test_a_gate_may_answer_for_many_at_once(broken: str) -> None:
    held, free = pod(), pod()
    events = [on(Resource.NODE, Action.UPDATE_NODE_LABEL)]
    plugin = Bulk("Gate", {held.uid}, events)
    plugin.broken = broken
    h = Harness(plugin)

    h.queue.add_all([held, free])
    assert (h.place(held), h.place(free)) == ("gated", "active")
    h.queue.move_all(NODE_LABEL, None, None)
    assert h.place(held) == "gated"

    plugin.closed_to.clear()
    h.queue.move_all(NODE_LABEL, None, None)
    assert h.place(held) == "active"
