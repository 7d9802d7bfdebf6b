"""Replicas share a hint's answer, gates are asked for many at once: nobody must notice."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.framework.events import Action, ClusterEvent, Concerned, Hint, Resource, on
from stowplan.framework.status import Code, Status
from stowplan.objects.pod import Pod
from stowplan.queue import QueuedPod, build_hint_map
from stowplan.queue.hints import Hints, Worth
from stowplan.queue.metrics import QueueMetrics
from stowplan.queue.unschedulable import GroupKey
from stowplan.state.pod_info import PodInfo
from tests.queue.builders import (
    NODE_ADD,
    NODE_LABEL,
    POD_DELETE,
    PROFILE,
    GatePlugin,
    Harness,
    Plugin,
    pod,
)
from tests.queue.test_hints import Ticks


def likes_app(pod: Pod, old: Any, new: Any) -> Hint:
    """By kind: reads labels; and the pod itself, should the event be about it."""
    changed = old if new is None else new
    if isinstance(changed, Pod) and changed.metadata.uid == pod.metadata.uid:
        return Hint.QUEUE
    app = (pod.metadata.labels or {}).get("app", "")
    if app == "boom":
        raise RuntimeError(app)
    return Hint.QUEUE if app == "web" else Hint.SKIP


def odd_names(pod: Pod, old: Any, new: Any) -> Hint:
    """Not by kind: replicas differ in this."""
    return Hint.QUEUE if int(pod.metadata.name.rpartition("-")[2]) % 2 else Hint.SKIP


PLUGINS = (
    Plugin("Apps", [on(Resource.POD, Action.DELETE, likes_app, by_kind=True)]),
    Plugin("Names", [on(Resource.POD, Action.DELETE, odd_names)]),
    Plugin("Any", [on(Resource.POD, Action.DELETE)]),
)

apps = st.lists(st.sampled_from(["web", "db", "boom"]), max_size=8)
names = st.frozensets(st.sampled_from(["Apps", "Names", "Any"]), min_size=1)


def waiting(infos: list[PodInfo], rejectors: frozenset[str], pending: bool) -> list[QueuedPod]:
    pods = [QueuedPod(info, 0.0) for info in infos]
    for queued in pods:
        queued.set_rejectors(rejectors, rejectors if pending else frozenset())
    return pods


@given(apps=apps, rejectors=names, pending=st.booleans(), about=st.integers(-1, 8))
def test_moves_says_of_each_pod_what_worth_says(
    apps: list[str], rejectors: frozenset[str], pending: bool, about: int
) -> None:
    infos = [pod(f"pod-{n}", labels={"app": app}) for n, app in enumerate(apps)]
    gone = infos[about].pod if 0 <= about < len(infos) else pod("gone-1", node="node-1").pod
    failures: list[Any] = []
    together, each = QueueMetrics(), QueueMetrics()
    maps = {PROFILE: build_hint_map(PLUGINS)}
    pods = waiting(infos, rejectors, pending)

    hints = Hints(
        maps, together, recorder=Ticks(), on_error=lambda *failure: failures.append(failure[2])
    )
    heard = hints.heard(GroupKey(PROFILE, rejectors, frozenset(), ""), POD_DELETE)
    assert heard is not None
    moves = hints.moves(pods, heard, POD_DELETE, gone, None)

    asked = Hints(maps, each, recorder=Ticks())
    wanted = {queued.info.key: asked.worth(queued, POD_DELETE, gone, None) for queued in pods}
    found = {queued.info.key: worth for worth, of_worth in moves for queued in of_worth}
    assert found == {key: worth for key, worth in wanted.items() if worth is not Worth.SKIP}
    counts, each_counts = (
        {key: sum(asked.counts) for key, asked in metrics.hint_durations.items()}
        for metrics in (together, each)
    )
    assert counts == each_counts
    errors = sum(count for key, count in counts.items() if key[2] == "Error")
    assert len(failures) == errors, "a failure is told of every pod"


def test_replicas_are_asked_once_where_the_hint_allows_it() -> None:
    asked: list[str] = []

    def note(pod: Pod, old: Any, new: Any) -> Hint:
        asked.append(pod.metadata.name)
        return Hint.QUEUE

    by_kind = Plugin("Kind", [on(Resource.NODE, Action.ADD, note, by_kind=True)])
    by_pod = Plugin("Pod", [on(Resource.NODE, Action.ADD, note)])
    for plugin, count in ((by_kind, 1), (by_pod, 5)):
        h = Harness(plugin)
        for _ in range(5):
            h.failed(pod(), plugin.name)
        asked.clear()

        h.queue.move_all(NODE_ADD, None, None)

        assert len(asked) == count
        assert h.incoming("backoff", "NodeAdd") == 5


def test_pods_that_an_event_does_not_concern_count_as_skipped_without_being_asked() -> None:
    asked: list[str] = []

    def note(pod: Pod, old: Any, new: Any) -> Hint:
        asked.append(pod.metadata.name)
        return Hint.QUEUE

    concerned = Concerned(
        lambda pod: (pod.metadata.name,), lambda old, new: ("p3",), lambda old, new: False
    )
    plugin = Plugin("Own", [on(Resource.NODE, Action.ADD, note, concerned=concerned)])
    h = Harness(plugin)
    for number in range(5):
        h.failed(pod(f"p{number}"), plugin.name)
    asked.clear()

    h.queue.move_all(NODE_ADD, None, None)

    assert asked == ["p3"]
    assert h.incoming("backoff", "NodeAdd") == 1
    assert sum(h.queue.metrics.hint_durations["Own", "NodeAdd", "QueueSkip"].counts) == 4


def test_pods_of_several_kinds_are_moved_in_the_order_they_came() -> None:
    h = Harness()
    infos = [pod(labels={"app": app}) for app in ("a", "b", "a", "b")]
    for info in infos:
        h.failed(info, "Labels")
    h.tick(2)

    h.queue.move_all(NODE_LABEL, None, None)

    assert [h.pop().info for _ in infos] == infos


def gates(*closed_to: PodInfo) -> GatePlugin:
    events = [on(Resource.NODE, Action.UPDATE_NODE_LABEL)]
    return GatePlugin("Gate", {info.uid for info in closed_to}, events)


def test_every_gated_pod_that_hears_of_an_event_is_counted() -> None:
    infos = [pod() for _ in range(3)]
    plugin, recorder = gates(*infos), Ticks()
    h = Harness(plugin, recorder=recorder)
    for info in infos:
        h.queue.add(info)
    plugin.closed_to.discard(infos[1].uid)
    plugin.asked.clear()
    recorder.points.clear()

    h.queue.move_all(NODE_LABEL, None, None)

    assert [h.place(info) for info in infos] == ["gated", "active", "gated"]
    assert Counter(point[:3] for point in recorder.points) == {
        ("PreEnqueue", PROFILE, "Unschedulable"): 2,
        ("PreEnqueue", PROFILE, "Success"): 1,
    }
    assert h.incoming("unschedulable", "NodeUpdateNodeLabel") == 2
    assert h.incoming("active", "NodeUpdateNodeLabel") == 1
    assert [plugin.asked.count(info.uid) for info in infos] == [1, 1, 1]


def test_gated_pods_keep_their_place_and_their_turn() -> None:
    infos = [pod() for _ in range(3)]
    plugin = gates(*infos)
    h = Harness(plugin)
    for info in infos:
        h.queue.add(info)
    plugin.closed_to -= {infos[0].uid, infos[2].uid}
    h.queue.move_all(NODE_LABEL, None, None)
    plugin.closed_to.clear()

    h.queue.move_all(NODE_LABEL, None, None)

    assert [h.pop().info for _ in infos] == [infos[0], infos[2], infos[1]]


def test_what_a_gate_says_now_is_what_is_known_of_it() -> None:
    class Moody:
        name = "Moody"
        says = ("first",)

        def pre_enqueue(self, pod: PodInfo) -> Status | None:
            if self.says == ("boom",):
                raise RuntimeError("boom")
            return Status(Code.UNSCHEDULABLE, self.says, "Moody")

        def events_to_register(self) -> Any:
            return [on(Resource.NODE, Action.UPDATE_NODE_LABEL)]

    plugin, info = Moody(), pod()
    h = Harness(plugin)
    h.queue.add(info)
    queued = h.queue.get(info.key)
    assert queued is not None

    for says in (("second",), ("second",), ("boom",), ("third",)):
        plugin.says = says
        h.queue.move_all(NODE_LABEL, None, None)
        assert h.place(info) == "gated"
        assert queued.gating_status is not None
        message = 'running PreEnqueue plugin "Moody": boom' if says == ("boom",) else says[0]
        assert queued.gating_status.message == message


@pytest.mark.parametrize("event", [NODE_ADD, NODE_LABEL, POD_DELETE])
def test_move_one_is_move_all_for_one(event: ClusterEvent) -> None:
    others, one = [pod() for _ in range(2)], pod()
    ways = {
        "one": lambda h: h.queue.move_one(one, event, None, None),
        "all": lambda h: h.queue.move_all(event, None, None, lambda info: info.uid == one.uid),
    }
    seen = {}
    for name, move in ways.items():
        h = Harness()
        for info in (*others, one):
            h.failed(info, "Fit")
        h.queue.add(flying := pod())
        queued = h.pop()

        move(h)

        places = [h.place(info) for info in (*others, one)]
        h.fail(queued, "Fit", "Labels")
        seen[name] = places, h.place(flying), dict(h.queue.metrics.incoming_pods)
    assert seen["one"] == seen["all"]
    assert seen["one"][0][:2] == ["unschedulable"] * 2


def test_move_one_leaves_a_younger_pod_of_the_same_name_alone() -> None:
    h = Harness()
    queued = h.failed(pod("web-1", uid="new"), "Fit")

    h.queue.move_one(pod("web-1", uid="old"), NODE_ADD, None, None)

    assert h.place(queued) == "unschedulable"
