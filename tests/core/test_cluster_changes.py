"""What each change in the cluster means: core.md's tables, row by row.

The queue's own part (who is woken by which event) is tested in `tests.queue`; here it is which
events are told at all, to whom, and what becomes of cache and queue.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest

from stowplan.config import load_config
from stowplan.core.attempts import AttemptLog
from stowplan.core.machine import Machine
from stowplan.core.messages import Added, Answered, Call, Deleted, Event, ScheduleNext, Updated
from stowplan.errors import Conflict
from stowplan.framework.events import Action, Resource, on
from stowplan.framework.status import unschedulable
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import KIND_BY_STRUCT
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod
from stowplan.objects.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from stowplan.objects.workloads import Namespace, PodDisruptionBudget, Service
from stowplan.plugins import IN_TREE
from tests.builders import info, node, pod
from tests.core.harness import Notes, make_plugin


class Spy:
    """The queue, with everything that the handlers do to it written down."""

    def __init__(self, queue: Any, machine: Machine) -> None:
        self._queue, self._machine = queue, machine
        self.events: list[str] = []
        self.checks: list[Callable[[Any], bool] | None] = []
        self.objects: list[tuple[Any, Any]] = []
        self.nodes_known: list[int] = []
        self.operations: list[tuple[str, str]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def move_all(self, event: Any, old: Any, new: Any, pre_check: Any = None) -> None:
        self.events.append(event.label)
        self.checks.append(pre_check)
        self.objects.append((old, new))
        self.nodes_known.append(len(self._machine.cache.tree))
        self._queue.move_all(event, old, new, pre_check)

    def add(self, pod: Any) -> None:
        self.operations.append(("add", pod.key))
        self._queue.add(pod)

    def add_all(self, pods: Any) -> None:
        self.operations += [("add", pod.key) for pod in pods]
        self._queue.add_all(pods)

    def update(self, old: Any, new: Any) -> None:
        self.operations.append(("update", new.key))
        self._queue.update(old, new)

    def delete(self, pod: Any) -> None:
        self.operations.append(("delete", pod.key))
        self._queue.delete(pod)


class World:
    def __init__(self, *before: KubeObject, plugins: tuple[type, ...] = ()) -> None:
        enabled = [{"name": plugin.name} for plugin in plugins]  # type: ignore[attr-defined]
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"plugins": {"multiPoint": {"enabled": enabled}}}],
        }
        self.notes = Notes()
        self.machine = Machine(
            load_config(config),
            random=Random(0),
            registry={**IN_TREE, **{p.name: p for p in plugins}},  # type: ignore[attr-defined]
            log=AttemptLog(self.notes),
        )
        for thing in before:
            self.machine.handle(Added(thing), 0.0)
        self.queue = Spy(self.machine.queue, self.machine)
        self.machine.queue = self.queue  # type: ignore[assignment]
        self.token = 0
        """Of the bind that was sent, in `under_way`."""

    def tell(self, event: Event) -> list[str]:
        """The labels of the cluster events that this means."""
        self.queue.events.clear()
        self.machine.handle(event, 1.0)
        return self.queue.events

    def waits(self, name: str) -> bool:
        return self.machine.queue.get(f"default/{name}") is not None


def changed(thing: Any, **parts: dict[str, Any]) -> Any:
    """The object with API JSON laid over its metadata, spec or status, one level deep."""
    data = msgspec.to_builtins(thing)
    for part, fields in parts.items():
        data[part] = {**data.get(part, {}), **fields}
    metadata = data["metadata"]
    metadata["resourceVersion"] = str(int(metadata.get("resourceVersion") or 0) + 1)
    return msgspec.convert(data, type(thing))


# -- nodes ------------------------------------------------------------------------------------

READY = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}

NODE = node(
    "node-1",
    metadata={"annotations": {"a": "1"}},
    status={"conditions": [{**READY, "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]},
)
CORDONED = changed(NODE, spec={"unschedulable": True})

NODE_UPDATES: dict[str, tuple[Node, Node, list[str]]] = {
    "nothing": (NODE, changed(NODE), []),
    "a heartbeat": (
        NODE,
        changed(
            NODE,
            status={"conditions": [{**READY, "lastHeartbeatTime": "2026-01-01T00:00:10Z"}]},
        ),
        [],
    ),
    "a condition's reason": (
        NODE,
        changed(NODE, status={"conditions": [{**READY, "reason": "Other"}]}),
        [],
    ),
    "a condition": (
        NODE,
        changed(NODE, status={"conditions": [{**READY, "status": "False"}]}),
        ["NodeUpdateNodeCondition"],
    ),
    "images": (NODE, changed(NODE, status={"images": [{"names": ["x"], "sizeBytes": 5}]}), []),
    "capacity alone": (NODE, changed(NODE, status={"capacity": {"cpu": "64"}}), []),
    "allocatable": (
        NODE,
        changed(NODE, status={"allocatable": {"cpu": "8"}}),
        ["NodeUpdateNodeAllocatable"],
    ),
    "labels": (NODE, changed(NODE, metadata={"labels": {"x": "y"}}), ["NodeUpdateNodeLabel"]),
    "annotations": (
        NODE,
        changed(NODE, metadata={"annotations": {"a": "2"}}),
        ["NodeUpdateNodeAnnotation"],
    ),
    "taints": (NODE, changed(NODE, spec={"taints": [TAINT]}), ["NodeUpdateNodeTaint"]),
    "declared features": (
        NODE,
        changed(NODE, status={"declaredFeatures": ["F"]}),
        ["NodeUpdateNodeDeclaredFeature"],
    ),
    "cordoned": (NODE, CORDONED, []),
    "uncordoned": (CORDONED, changed(NODE), ["NodeUpdateNodeTaint"]),
    "uncordoned and tainted": (
        CORDONED,
        changed(NODE, spec={"taints": [TAINT]}),
        ["NodeUpdateNodeTaint", "NodeUpdateNodeTaint"],
    ),
    "several": (
        NODE,
        changed(NODE, metadata={"labels": {"x": "y"}}, status={"allocatable": {"cpu": "8"}}),
        ["NodeUpdateNodeAllocatable", "NodeUpdateNodeLabel"],
    ),
}


@pytest.mark.parametrize("what", NODE_UPDATES)
def test_node_updates(what: str) -> None:
    old, new, expected = NODE_UPDATES[what]
    world = World(old)

    assert world.tell(Updated(old, new)) == expected

    assert world.machine.cache.nodes["node-1"].node is new
    assert world.queue.objects == [(old, new)] * len(expected)


def test_a_node_is_in_the_cache_before_anybody_is_told() -> None:
    world = World()

    assert world.tell(Added(NODE)) == ["NodeAdd"]
    assert world.queue.nodes_known == [1]
    assert world.queue.objects == [(None, NODE)]


def test_of_a_node_that_goes_all_are_told_before_it_leaves_the_cache() -> None:
    world = World(NODE)

    assert world.tell(Deleted(NODE)) == ["NodeDelete"]
    assert world.queue.nodes_known == [1]
    assert world.machine.cache.nodes == {}


def test_a_node_nobody_knows_is_gone_without_harm() -> None:
    world = World()

    world.tell(Deleted(NODE))

    assert world.notes.problems == ["node node-1 is not found"]


# -- pods on nodes ----------------------------------------------------------------------------

RUNNING = pod("web", node="node-1", cpu="2", labels={"app": "web"}, metadata={"uid": "u"})

_CONTAINER = {"name": "main", "image": "app"}

RUNNING_UPDATES: dict[str, tuple[Pod, Pod, list[str]]] = {
    "nothing that matters": (
        RUNNING,
        changed(RUNNING, metadata={"annotations": {"x": "y"}}),
        ["AssignedPodUpdate"],
    ),
    "labels": (
        RUNNING,
        changed(RUNNING, metadata={"labels": {"app": "db"}}),
        ["AssignedPodUpdatePodLabel"],
    ),
    "scaled down": (
        RUNNING,
        changed(
            RUNNING,
            spec={"containers": [{**_CONTAINER, "resources": {"requests": {"cpu": "1"}}}]},
        ),
        ["AssignedPodUpdatePodScaleDown"],
    ),
    "scaled up": (
        RUNNING,
        changed(
            RUNNING,
            spec={"containers": [{**_CONTAINER, "resources": {"requests": {"cpu": "3"}}}]},
        ),
        ["AssignedPodUpdate"],
    ),
    "a request gone": (
        RUNNING,
        changed(RUNNING, spec={"containers": [_CONTAINER]}),
        ["AssignedPodUpdatePodScaleDown"],
    ),
    "a toleration more": (
        RUNNING,
        changed(RUNNING, spec={"tolerations": [{"operator": "Exists"}]}),
        ["AssignedPodUpdatePodToleration"],
    ),
    "a claim made": (
        RUNNING,
        changed(
            RUNNING, status={"resourceClaimStatuses": [{"name": "a", "resourceClaimName": "b"}]}
        ),
        ["AssignedPodUpdatePodGeneratedResourceClaim"],
    ),
    "labels and size": (
        RUNNING,
        changed(RUNNING, metadata={"labels": {}}, spec={"containers": [_CONTAINER]}),
        ["AssignedPodUpdatePodLabel", "AssignedPodUpdatePodScaleDown"],
    ),
}


@pytest.mark.parametrize("what", RUNNING_UPDATES)
def test_updates_of_pods_on_nodes(what: str) -> None:
    old, new, expected = RUNNING_UPDATES[what]
    world = World(NODE, old)

    assert world.tell(Updated(old, new)) == expected

    cached = world.machine.cache.pod("u")
    assert cached is not None
    assert cached.pod is new
    assert world.queue.operations == []


def test_a_pod_seen_on_a_node_for_the_first_time_is_counted_there() -> None:
    world = World(NODE)

    assert world.tell(Added(RUNNING)) == ["AssignedPodAdd"]
    assert world.machine.cache.nodes["node-1"].requested["cpu"] == 2000


def test_a_pod_that_ends_its_work_or_is_deleted_leaves_its_node() -> None:
    finished = changed(RUNNING, status={"phase": "Succeeded"})
    for event in (Deleted(RUNNING), Updated(RUNNING, finished)):
        world = World(NODE, RUNNING)

        assert world.tell(event) == ["AssignedPodDelete"]
        assert world.machine.cache.nodes["node-1"].requested["cpu"] == 0
        assert world.machine.pods == {}


def test_a_pod_that_had_finished_before_is_nobodys_business() -> None:
    world = World(NODE)

    assert world.tell(Added(changed(RUNNING, status={"phase": "Failed"}))) == []
    assert world.machine.cache.pod_count == 0


def test_the_end_of_a_pod_whose_last_word_was_missed() -> None:
    """The watch was away: it shows an old state of the pod, from before it was bound."""
    unbound = changed(RUNNING, spec={"nodeName": ""})
    world = World(NODE, RUNNING)

    assert world.tell(Deleted(unbound)) == ["AssignedPodDelete"]
    assert world.machine.cache.pod_count == 0


# -- pods without nodes -----------------------------------------------------------------------

WAITING = pod("web", metadata={"uid": "u"})
THEIRS = changed(WAITING, spec={"schedulerName": "other"})


def test_a_pod_of_ours_is_queued_and_no_event() -> None:
    world = World()

    assert world.tell(Added(WAITING)) == []
    assert world.queue.operations == [("add", "default/web")]


def test_pods_that_come_together_are_queued_before_what_comes_after_them() -> None:
    """One after the other or in one batch: the queue must not be able to tell."""
    other = pod("db", metadata={"uid": "v"})
    world = World()
    known: list[tuple[str, int]] = []
    add_all = world.queue.add_all

    def note(pods: Any) -> None:
        known.extend((info.key, len(world.machine.cache.tree)) for info in pods)
        add_all(pods)

    world.queue.add_all = note  # type: ignore[method-assign]

    world.machine.handle_all([Added(WAITING), Added(NODE), Added(other)], 1.0)

    assert known == [("default/web", 0), ("default/db", 1)]
    assert world.queue.nodes_known == [1]


def test_a_pod_of_others_is_not() -> None:
    world = World()

    assert world.tell(Added(THEIRS)) == []
    assert world.tell(Updated(THEIRS, changed(THEIRS))) == []
    assert world.tell(Deleted(THEIRS)) == []
    assert world.queue.operations == []


def test_an_update_goes_to_the_queue_unless_it_is_no_news() -> None:
    seen = changed(WAITING)
    world = World(seen)

    world.tell(Updated(seen, seen))
    assert world.queue.operations == []
    world.tell(Updated(seen, changed(seen, metadata={"labels": {"x": "y"}})))
    assert world.queue.operations == [("update", "default/web")]


@pytest.mark.parametrize("ours", [True, False])
def test_a_pod_that_gets_its_node_leaves_the_queue(ours: bool) -> None:
    before = WAITING if ours else THEIRS
    world = World(NODE, before)

    bound = changed(before, spec={"nodeName": "node-1"})
    assert world.tell(Updated(before, bound)) == ["AssignedPodAdd"]

    assert world.queue.operations == ([("delete", "default/web")] if ours else [])
    assert world.machine.cache.pod_count == 1


def test_a_pod_that_is_deleted_leaves_the_queue() -> None:
    world = World(WAITING)

    assert world.tell(Deleted(WAITING)) == []
    assert not world.waits("web")


PROMISED = pod(
    "web", metadata={"uid": "u"}, spec={"priority": 5}, status={"nominatedNodeName": "node-1"}
)


@pytest.mark.parametrize(
    "event",
    [
        Deleted(PROMISED),
        Updated(PROMISED, changed(PROMISED, status={"nominatedNodeName": "node-2"})),
        Updated(PROMISED, changed(PROMISED, status={"nominatedNodeName": ""})),
    ],
    ids=["deleted", "promised another", "promise withdrawn"],
)
def test_a_promise_that_ends_frees_room_for_pods_no_more_important(event: Event) -> None:
    world = World(PROMISED)

    assert world.tell(event) == ["AssignedPodDelete"]

    [check] = world.queue.checks
    assert check is not None
    asked = [info(pod(spec={"priority": priority})) for priority in (4, 5, 6)]
    assert [check(other) for other in asked] == [True, True, False]


def test_a_promise_that_begins_frees_nothing() -> None:
    world = World(WAITING)

    assert world.tell(Updated(WAITING, changed(PROMISED))) == []


# -- pods under way ---------------------------------------------------------------------------

LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def under_way() -> World:
    """A pod that is assumed, and whose bind has been sent."""
    world = World(NODE, WAITING)
    [call] = world.machine.handle(ScheduleNext(), 0.5)
    world.queue.operations.clear()
    assert world.machine.cache.is_assumed("u")
    assert isinstance(call, Call)
    world.token = call.token
    return world


def test_updates_of_a_pod_under_way_wait_until_it_has_arrived() -> None:
    world = under_way()

    assert world.tell(Updated(WAITING, changed(WAITING, metadata={"labels": {"a": "b"}}))) == []
    assert world.queue.operations == []
    assert world.machine.cache.is_assumed("u")


@pytest.mark.parametrize("gone", [True, False], ids=["gone", "begins to go"])
def test_a_pod_deleted_under_way_is_taken_off_its_node(gone: bool) -> None:
    world = under_way()
    leaving = changed(WAITING, metadata=LEAVING)

    event = Deleted(leaving) if gone else Updated(WAITING, leaving)
    assert world.tell(event) == ["AssignedPodDelete"]

    assert world.machine.cache.pod_count == 0
    assert world.queue.objects[0][0].spec.node_name == "node-1"


def test_only_the_beginning_of_its_end_counts() -> None:
    world = World(NODE, changed(WAITING, metadata=LEAVING))
    world.machine.cache.assume_pod(info(changed(RUNNING)))

    leaving = changed(WAITING, metadata=LEAVING)
    assert world.tell(Updated(leaving, changed(leaving))) == []

    assert world.machine.cache.is_assumed("u")


def test_a_pod_deleted_under_way_whose_bind_then_fails_is_not_tried_again() -> None:
    world = under_way()
    world.tell(Deleted(WAITING))

    world.tell(Answered(world.token, Conflict("gone")))

    assert not list(world.queue.places())
    assert world.machine.cache.pod_count == 0


# -- everything else --------------------------------------------------------------------------

WATCHED = {
    PersistentVolume: "PersistentVolume",
    PersistentVolumeClaim: "PersistentVolumeClaim",
    CSINode: "storage.k8s.io/CSINode",
    CSIDriver: "storage.k8s.io/CSIDriver",
    CSIStorageCapacity: "storage.k8s.io/CSIStorageCapacity",
    StorageClass: "storage.k8s.io/StorageClass",
    VolumeAttachment: "storage.k8s.io/VolumeAttachment",
}


@pytest.mark.parametrize("struct", WATCHED)
def test_other_kinds_are_kept_and_told(struct: type[KubeObject]) -> None:
    name, world = WATCHED[struct], World()
    metadata = {"name": "x", "namespace": "default" if KIND_BY_STRUCT[struct].namespaced else ""}
    thing = msgspec.convert({"metadata": metadata}, struct)
    newer = changed(thing, metadata={"labels": {"a": "b"}})

    assert world.tell(Added(thing)) == [f"{name}Add"]
    assert world.tell(Updated(thing, newer)) == [f"{name}Update"]
    assert world.tell(Deleted(newer)) == [f"{name}Delete"]

    assert world.queue.objects == [(None, thing), (thing, newer), (newer, None)]


@pytest.mark.parametrize("struct", [Service, Namespace, PodDisruptionBudget])
def test_kinds_that_plugins_only_look_up_wake_nobody(struct: type[KubeObject]) -> None:
    world = World()
    metadata = {"name": "x", "namespace": "default" if KIND_BY_STRUCT[struct].namespaced else ""}
    thing = msgspec.convert({"metadata": metadata}, struct)

    assert world.tell(Added(thing)) == []
    assert len(world.machine.objects.all(struct)) == 1
    assert world.tell(Deleted(thing)) == []
    assert len(world.machine.objects.all(struct)) == 0


def test_a_hint_is_shown_what_was_and_what_is() -> None:
    shown: list[tuple[Any, Any]] = []

    def hint(waiting: Pod, old: Any, new: Any) -> int:
        shown.append((old, new))
        return 0

    picky = make_plugin(
        "Picky",
        filter_node=lambda *_: unschedulable("no"),
        events_to_register=lambda self: (on(Resource.NODE, Action.UPDATE_NODE_LABEL, hint),),
    )
    world = World(NODE, WAITING, plugins=(picky,))
    world.machine.handle(ScheduleNext(), 0.5)

    newer = changed(NODE, metadata={"labels": {"x": "y"}})
    world.tell(Updated(NODE, newer))

    assert shown == [(NODE, newer)]
