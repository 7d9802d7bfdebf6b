"""Which event is worth another try for whom (core.md §2.5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stowplan.framework.events import (
    FORCE_ACTIVATE,
    UNSCHEDULABLE_TIMEOUT,
    Action,
    ClusterEvent,
    Hint,
    Resource,
    on,
)
from stowplan.framework.status import Status
from stowplan.objects.pod import Pod
from stowplan.queue import EXTENDER, QueuedPod, build_hint_map
from stowplan.queue.hints import DEFAULT_REGISTRATIONS, Hints, Worth
from stowplan.queue.metrics import QueueMetrics
from stowplan.state.pod_info import PodInfo
from tests.queue.builders import (
    NODE_ADD,
    NODE_LABEL,
    PROFILE,
    GatePlugin,
    Harness,
    Plugin,
    boom,
    pod,
    skip,
)


def hints(*plugins: Any, metrics: QueueMetrics | None = None, **options: Any) -> Hints:
    return Hints({PROFILE: build_hint_map(plugins)}, metrics or QueueMetrics(), **options)


def rejected(*rejectors: str, pending: tuple[str, ...] = (), profile: str = PROFILE) -> QueuedPod:
    queued = QueuedPod(pod(profile=profile), 0.0)
    queued.set_rejectors(frozenset(rejectors), frozenset(pending))
    return queued


def queue_it(pod: Pod, old: Any, new: Any) -> Hint:
    return Hint.QUEUE


@pytest.mark.parametrize(
    ("registered", "incoming", "matches"),
    [
        pytest.param(("*", Action.ALL), ("Node", Action.ADD), True, id="wildcard"),
        pytest.param(("*", Action.ADD), ("Node", Action.ADD), True, id="any-resource"),
        pytest.param(("Node", Action.ADD), ("Node", Action.ADD), True, id="same"),
        pytest.param(("Node", Action.ADD), ("Node", Action.DELETE), False, id="other-action"),
        pytest.param(("Node", Action.ADD), ("Pod", Action.ADD), False, id="other-resource"),
        pytest.param(("Pod", Action.ADD), ("AssignedPod", Action.ADD), True, id="pod-assigned"),
        pytest.param(
            ("Pod", Action.UPDATE_POD_LABEL),
            ("UnschedulablePod", Action.UPDATE_POD_LABEL),
            True,
            id="pod-unschedulable",
        ),
        pytest.param(("AssignedPod", Action.ADD), ("Pod", Action.ADD), False, id="not-backwards"),
        pytest.param(
            ("Node", Action.UPDATE),
            ("Node", Action.UPDATE_NODE_LABEL),
            True,
            id="specific-update-matches-generic-registration",
        ),
        pytest.param(
            ("Node", Action.UPDATE_NODE_LABEL),
            ("Node", Action.UPDATE),
            False,
            id="generic-update-misses-narrower-registration",
        ),
        pytest.param(
            ("Node", Action.ADD | Action.UPDATE_NODE_LABEL),
            ("Node", Action.UPDATE_NODE_LABEL | Action.DELETE),
            False,
            id="overlap-but-numerically-larger",
        ),
        pytest.param(
            ("Node", Action.UPDATE_NODE_TAINT),
            ("Node", Action.ADD),
            False,
            id="numerically-smaller-but-no-overlap",
        ),
    ],
)
def test_match(registered: tuple[str, Action], incoming: tuple[str, Action], matches: bool) -> None:
    asked = hints(Plugin("Fit", [on(*registered)]))
    event = ClusterEvent(*incoming)

    assert asked.interested(event) is matches
    assert (asked.worth(rejected("Fit"), event, None, None) is not Worth.SKIP) is matches


def test_wildcard_events_interest_everybody() -> None:
    asked = hints(Plugin("Deaf"))

    assert asked.interested(FORCE_ACTIVATE)
    assert asked.interested(UNSCHEDULABLE_TIMEOUT)
    assert not asked.interested(NODE_ADD)


def test_interest_of_one_profile_is_enough() -> None:
    maps = {
        "one": build_hint_map([Plugin("Deaf")]),
        "two": build_hint_map([Plugin("Fit", [on(Resource.NODE, Action.ADD)])]),
    }
    asked = Hints(maps, QueueMetrics())

    assert asked.interested(NODE_ADD)
    assert asked.worth(rejected("Fit", profile="two"), NODE_ADD, None, None) is Worth.AFTER_BACKOFF
    assert asked.worth(rejected("Fit", profile="one"), NODE_ADD, None, None) is Worth.SKIP


def test_nobody_rejected_it() -> None:
    assert hints().worth(rejected(), NODE_ADD, None, None) is Worth.AFTER_BACKOFF


def test_no_profile_knows_it() -> None:
    queued = rejected("Fit", profile="unknown")

    assert hints().worth(queued, NODE_ADD, None, None) is Worth.AFTER_BACKOFF


def test_a_wildcard_event_is_for_all_or_for_one_pod() -> None:
    queued = rejected("Deaf")
    asked = hints()

    assert asked.worth(queued, FORCE_ACTIVATE, None, None) is Worth.AFTER_BACKOFF
    assert asked.worth(queued, FORCE_ACTIVATE, None, queued.info.pod) is Worth.AFTER_BACKOFF
    assert asked.worth(queued, FORCE_ACTIVATE, None, pod().pod) is Worth.SKIP
    assert asked.worth(queued, FORCE_ACTIVATE, None, "no pod at all") is Worth.SKIP


@pytest.mark.parametrize(
    ("hint", "worth"),
    [
        pytest.param(queue_it, Worth.AFTER_BACKOFF, id="queue"),
        pytest.param(skip, Worth.SKIP, id="skip"),
        pytest.param(None, Worth.AFTER_BACKOFF, id="no-hint"),
        pytest.param(boom, Worth.AFTER_BACKOFF, id="raises"),
    ],
)
def test_the_hint_decides(hint: Any, worth: Worth) -> None:
    asked = hints(Plugin("Fit", [on(Resource.NODE, Action.ADD, hint)]))

    assert asked.worth(rejected("Fit"), NODE_ADD, None, None) is worth


def test_the_hint_is_given_the_pod_and_both_objects() -> None:
    given: list[Any] = []

    def note(*arguments: Any) -> Hint:
        given.append(arguments)
        return Hint.SKIP

    queued = rejected("Fit")
    asked = hints(Plugin("Fit", [on(Resource.NODE, Action.ADD, note)]))
    asked.worth(queued, NODE_ADD, "old", "new")

    assert given == [(queued.info.pod, "old", "new")]


def test_only_rejectors_are_asked() -> None:
    asked = hints(
        Plugin("Fit", [on(Resource.NODE, Action.ADD, skip)]),
        Plugin("Other", [on(Resource.NODE, Action.ADD, queue_it)]),
    )

    assert asked.worth(rejected("Fit"), NODE_ADD, None, None) is Worth.SKIP


@pytest.mark.parametrize(
    ("fit", "wait", "worth"),
    [
        pytest.param(queue_it, queue_it, Worth.IMMEDIATE, id="a-pending-plugin-wins"),
        pytest.param(queue_it, skip, Worth.AFTER_BACKOFF, id="it-does-not-want-to"),
        pytest.param(skip, queue_it, Worth.IMMEDIATE, id="alone"),
        pytest.param(skip, skip, Worth.SKIP, id="nobody"),
    ],
)
def test_a_pending_plugin_skips_backoff(fit: Any, wait: Any, worth: Worth) -> None:
    asked = hints(
        Plugin("Fit", [on(Resource.NODE, Action.ADD, fit)]),
        Plugin("Wait", [on(Resource.NODE, Action.ADD, wait)]),
    )

    assert asked.worth(rejected("Fit", pending=("Wait",)), NODE_ADD, None, None) is worth


def test_a_pending_pod_goes_straight_to_the_active_queue() -> None:
    h = Harness()
    queued = h.failed(pod(), pending=["Fit"])

    h.queue.move_all(NODE_ADD, None, None)

    assert h.place(queued) == "active"


class NoEvents:
    name = "NoEvents"

    def filter_node(self, cycle: Any, pod: PodInfo, node: Any) -> Status | None:
        return None


class ScoreOnly:
    name = "ScoreOnly"

    def score_node(self, cycle: Any, pod: PodInfo, node: Any) -> int:
        return 0


def test_a_plugin_that_does_not_say_hears_of_nearly_everything() -> None:
    entries = list(build_hint_map([NoEvents()]))

    assert [(entry.event.resource, entry.event.action) for entry in entries] == [
        (resource, Action.ALL)
        for resource in (
            "Pod",
            "Node",
            "PersistentVolume",
            "PersistentVolumeClaim",
            "storage.k8s.io/CSINode",
            "storage.k8s.io/CSIDriver",
            "storage.k8s.io/CSIStorageCapacity",
            "storage.k8s.io/StorageClass",
            "resource.k8s.io/ResourceClaim",
            "resource.k8s.io/DeviceClass",
        )
    ]


@pytest.mark.parametrize("resource", [Resource.RESOURCE_SLICE, Resource.VOLUME_ATTACHMENT])
def test_the_default_list_leaves_two_out(resource: str) -> None:
    assert not hints(NoEvents()).interested(ClusterEvent(resource, Action.ADD))


def test_a_plugin_that_rejects_nothing_hears_of_nothing() -> None:
    assert list(build_hint_map([ScoreOnly()])) == []


@pytest.mark.parametrize(
    "point", ["pre_enqueue", "pre_filter", "filter_node", "filter_nodes", "permit"]
)
def test_every_point_that_rejects_gets_the_default_list(point: str) -> None:
    plugin = type("Custom", (), {"name": "Custom", point: lambda *_: None})()

    assert len(list(build_hint_map([plugin]))) == len(DEFAULT_REGISTRATIONS)


def test_reserve_gets_the_default_list() -> None:
    methods = {"reserve": lambda *_: None, "unreserve": lambda *_: None}
    plugin = type("Custom", (), {"name": "Custom", **methods})()

    assert len(list(build_hint_map([plugin]))) == len(DEFAULT_REGISTRATIONS)


def test_an_empty_list_leaves_only_wildcard_events() -> None:
    asked = hints(Plugin("Deaf"), NoEvents())
    queued = rejected("Deaf")

    assert asked.worth(queued, NODE_ADD, None, None) is Worth.SKIP
    assert asked.worth(queued, UNSCHEDULABLE_TIMEOUT, None, None) is Worth.AFTER_BACKOFF


def test_a_plugin_at_several_points_is_asked_once() -> None:
    plugin = NoEvents()

    assert len(list(build_hint_map([plugin, plugin]))) == len(DEFAULT_REGISTRATIONS)


def test_extenders_count_as_one_plugin() -> None:
    with_extenders = Hints({PROFILE: build_hint_map([], has_extenders=True)}, QueueMetrics())

    worth = with_extenders.worth(rejected(EXTENDER), NODE_ADD, None, None)

    assert worth is Worth.AFTER_BACKOFF
    assert list(build_hint_map([])) == []


NODE_TAINT = ClusterEvent(Resource.NODE, Action.UPDATE_NODE_TAINT)


@pytest.mark.parametrize(
    ("actions", "hint", "worth"),
    [
        pytest.param([Action.ADD], skip, Worth.AFTER_BACKOFF, id="added"),
        pytest.param([Action.ADD | Action.UPDATE_NODE_TAINT], skip, Worth.SKIP, id="in-one"),
        pytest.param([Action.ADD, Action.UPDATE_NODE_TAINT], skip, Worth.SKIP, id="in-another"),
        pytest.param([Action.UPDATE_NODE_LABEL], None, Worth.SKIP, id="no-interest-in-new-nodes"),
    ],
)
def test_who_waits_for_new_nodes_hears_of_taints(
    actions: list[Action], hint: Any, worth: Worth
) -> None:
    asked = hints(Plugin("Fit", [on(Resource.NODE, action, hint) for action in actions]))

    assert asked.worth(rejected("Fit"), NODE_TAINT, None, None) is worth


def test_executions_are_counted_by_outcome() -> None:
    metrics = QueueMetrics()
    failures: list[tuple[str, str, PodInfo, str]] = []
    asked = hints(
        Plugin("Skips", [on(Resource.NODE, Action.ADD, skip)]),
        Plugin("Fails", [on(Resource.NODE, Action.ADD, boom)]),
        Plugin("Queues", [on(Resource.NODE, Action.UPDATE_NODE_LABEL)]),
        metrics=metrics,
        on_error=lambda plugin, point, info, error: failures.append(
            (plugin, point, info, str(error))
        ),
    )
    queued = rejected("Skips", "Fails", "Queues")

    asked.worth(queued, NODE_ADD, None, None)
    asked.worth(queued, NODE_LABEL, None, None)

    durations = metrics.hint_durations
    assert {key: sum(asked.counts) for key, asked in durations.items()} == {
        ("Skips", "NodeAdd", "QueueSkip"): 1,
        ("Fails", "NodeAdd", "Error"): 1,
        ("Queues", "NodeUpdateNodeLabel", "Queue"): 1,
    }
    assert failures == [("Fails", "QueueingHint", queued.info, "boom")]
    assert not any(asked.sum for asked in durations.values()), "no recorder, no time"


class Successes(list[float]):
    def __init__(self, tell: Callable[[float], None]) -> None:
        self.append = tell  # type: ignore[method-assign]


class Ticks:
    """A recorder whose every look at the clock takes a millisecond."""

    def __init__(self, *, sampled: bool = False) -> None:
        self.sampled = sampled
        self.now_s = 0.0
        self.points: list[tuple[str, str, str, float]] = []
        self.plugins: list[tuple[str, str, str, float]] = []

    def now(self) -> float:
        self.now_s += 0.001
        return self.now_s

    def point(self, point: str, profile: str, status: str, seconds: float, count: int = 1) -> None:
        self.points += [(point, profile, status, round(seconds, 3))] * count

    def successes(self, point: str, profile: str) -> Successes:
        return Successes(lambda seconds: self.point(point, profile, "Success", seconds))

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        self.plugins.append((plugin, point, status, round(seconds, 3)))


def test_durations_fall_into_upstreams_buckets() -> None:
    metrics = QueueMetrics()
    fit = Plugin("Fit", [on(Resource.NODE, Action.ADD)])
    asked = hints(fit, metrics=metrics, recorder=Ticks())
    for _ in range(3):
        asked.worth(rejected("Fit"), NODE_ADD, None, None)

    histogram = metrics.hint_durations["Fit", "NodeAdd", "Queue"]

    assert histogram.sum == pytest.approx(0.003)
    assert histogram.counts[12] == sum(histogram.counts) == 3, "0.00086 < 0.001 <= 0.0013"


def test_pre_enqueue_is_timed_as_a_point_and_sampled_per_plugin() -> None:
    recorder = Ticks(sampled=True)
    info = pod()
    h = Harness(GatePlugin("Open"), GatePlugin("Shut", {info.uid}), recorder=recorder)

    h.queue.add(info)

    assert recorder.points == [("PreEnqueue", PROFILE, "Unschedulable", 0.005)]
    assert recorder.plugins == [
        ("Open", "PreEnqueue", "Success", 0.001),
        ("Shut", "PreEnqueue", "Unschedulable", 0.001),
    ]


def test_pre_enqueue_is_timed_without_its_plugins_when_not_sampled() -> None:
    recorder = Ticks()
    h = Harness(GatePlugin("Open"), recorder=recorder)

    h.queue.add(pod())
    h.queue.add(pod(profile="nobody's"))

    assert recorder.points == [("PreEnqueue", PROFILE, "Success", 0.001)]
    assert recorder.plugins == []


def test_answers_are_remembered_for_so_many_events_only() -> None:
    asked = hints(Plugin("Fit", [on(Resource.NODE, Action.ADD)]))

    for n in range(3000):
        assert asked.interested(ClusterEvent(Resource.NODE, Action.ADD, f"label-{n}"))

    assert len(asked._interest) <= 1024
