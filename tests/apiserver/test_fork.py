"""A fork of the store: the same world, and from there on another one.

Whatever is done to a store and its forks, in any order, each of them must be what a store is that
was made for it alone and was only ever told what this one and its ancestors before the fork were
told.  Those share nothing, so whoever changes a shared object, table or history is found out.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.apiserver import writes
from stowplan.apiserver.journal import SqliteJournal
from stowplan.apiserver.retention import EVENT_LIFE_S, EventRetention
from stowplan.apiserver.store import Store
from stowplan.apiserver.stored_kinds import STORED_KINDS
from stowplan.clock import VirtualClock
from stowplan.cluster.port import ListOptions
from stowplan.errors import ApiError, Gone
from stowplan.objects.api import Bind, Create, Delete, Patch, Request, Update
from stowplan.objects.base import ObjectMeta, OwnerReference
from stowplan.objects.coordination import Event
from stowplan.objects.kinds import EVENT, NAMESPACE, NODE, POD, PRIORITY_CLASS
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod
from stowplan.objects.workloads import Namespace, PriorityClass
from tests.apiserver.things import (
    START_S,
    Log,
    create_pod,
    exists,
    get,
    names,
    pod_spec,
)

EVENTS_MAX = 4
HISTORY_MAX = 6

SPEC = pod_spec()

Write = Callable[[Store], Request]


def _pod(name: str, **meta: Any) -> Create:
    return Create(POD, "default", Pod(metadata=ObjectMeta(name=name, **meta), spec=SPEC))


def _owned(name: str, store: Store) -> Create:
    """A pod that goes with the pod `a`."""
    uid = get(store, POD, "a").uid if exists(store, POD, "a") else "nobody"
    owner = OwnerReference(api_version="v1", kind="Pod", name="a", uid=uid)
    return _pod(name, owner_references=[owner], labels={"a": "b"})


def _of_data(name: str) -> Create:
    container = {"name": "c", "image": "app:1", "livenessProbe": {"exec": {"command": ["true"]}}}
    body = {"metadata": {"name": name, "labels": {"a": "b"}}, "spec": {"containers": [container]}}
    return Create(POD, "default", body)


def _event(name: str) -> Create:
    return Create(EVENT, "default", Event(metadata=ObjectMeta(name=name, namespace="default")))


def _patch(name: str, body: Any, patch_type: str, subresource: str = "") -> Patch:
    return Patch(POD, "default", name, body, patch_type, subresource)


def _writes(name: str) -> list[Write]:
    """Whatever can be done to a pod of this name, made anew each time."""
    condition = {"type": "DisruptionTarget", "status": "True"}
    image = {"spec": {"containers": [{"name": "c", "image": "app:2"}]}}
    label = {"op": "add", "path": "/metadata/labels", "value": {"c": "d"}}
    whole = {"metadata": {"name": name, "labels": {"e": "f"}, "finalizers": ["x/y"]}}
    return [
        lambda _: _pod(name),
        lambda _: _pod("", generate_name=f"{name}-"),
        partial(_owned, name),
        lambda _: _of_data(name),
        lambda _: Bind("default", name, "", "n"),
        lambda _: _patch(name, {"status": {"conditions": [condition]}}, "strategic", "status"),
        lambda _: _patch(name, {"status": {"podIP": "10.0.0.1"}}, "merge", "status"),
        lambda _: _patch(name, image, "strategic"),
        lambda _: _patch(name, [label], "json"),
        lambda _: Update(POD, "default", name, whole),
        lambda _: Delete(POD, "default", name),
        lambda _: Delete(POD, "default", name, grace_period_seconds=0),
        lambda _: Delete(EVENT, "default", f"about-{name}"),
    ]


def _new_class(store: Store) -> Create:
    meta = ObjectMeta(name="normal")
    return Create(PRIORITY_CLASS, "", PriorityClass(metadata=meta, value=7, global_default=True))


BEFORE: list[Write] = [
    lambda _: _pod("a"),
    partial(_owned, "b"),
    lambda _: Create(NODE, "", Node(metadata=ObjectMeta(name="n"))),
    lambda _: Create(NAMESPACE, "", Namespace(metadata=ObjectMeta(name="ending"))),
    lambda _: Create(EVENT, "ending", Event(metadata=ObjectMeta(name="e", finalizers=["x/y"]))),
    lambda _: Delete(NAMESPACE, "", "ending"),
    lambda _: _event("about-a"),
]
"""Somebody who is owned, an event to expire, and a namespace that waits for its last object."""
WRITES: list[Write] = [
    *(write for name in ("a", "b") for write in _writes(name)),
    *(partial(lambda name, _: _event(name), f"about-{name}") for name in "abcdef"),
    lambda _: Patch(NODE, "", "n", {"metadata": {"labels": {"topology.kubernetes.io/zone": "z"}}}),
    lambda _: Delete(NODE, "", "n"),
    _new_class,
    lambda _: Delete(PRIORITY_CLASS, "", "normal"),
    lambda _: Patch(EVENT, "ending", "e", {"metadata": {"finalizers": None}}, "merge"),
]


@dataclass(eq=False)
class World:
    store: Store
    clock: VirtualClock
    told: list[Any] = field(default_factory=list)
    """Everything it was told, and what came of it."""
    logs: dict[str, Log] = field(default_factory=dict)

    @classmethod
    def fresh(cls) -> World:
        clock = VirtualClock(START_S)
        with pytest.MonkeyPatch.context() as change:
            change.setattr(writes, "EventRetention", partial(EventRetention, events_max=EVENTS_MAX))
            world = cls(Store(clock, seed=3, history_max=HISTORY_MAX), clock)
        for write in BEFORE:
            world.store.execute(write(world.store))
        return world

    def fork(self) -> World:
        clock = VirtualClock(self.clock.now())
        return World(self.store.fork(clock), clock, [*self.told])

    def tell(self, what: Any) -> None:
        answer: Any = None
        if isinstance(what, float):
            self.clock.advance(what)
        elif what == "watch":
            # From somewhere in the past, which both have, or neither.
            version = str(max(1, int(self.store.resource_version) - 4))
            self.logs.setdefault(version, Log(self.store, POD, version))
        elif what == "forget":
            self.store.forget_old()
        elif what == "compact":
            self.store.compact()
        else:
            try:
                answer = self.store.execute(what(self.store))
            except ApiError as error:
                answer = (type(error), str(error))
        self.told.append((what, answer))

    def state(self) -> Any:
        store = self.store
        objects = {kind.name: store.select(kind, ListOptions()) for kind in STORED_KINDS}
        replays = {
            version: Log(store, POD, str(version))
            for version in range(1, int(store.resource_version) + 1)
        }
        return objects, [
            (version, log.events, [type(error) for error in log.ended])
            for version, log in replays.items()
        ]

    def seen(self) -> Any:
        return {version: (log.events, log.ended == []) for version, log in self.logs.items()}


def alone(told: list[Any]) -> World:
    """A world that was never forked, and was told the same."""
    world = World.fresh()
    for what, answer in told:
        world.tell(what)
        assert world.told[-1][1] == answer
    return world


OTHERS = ["fork", "watch", "forget", "compact", 1.0, EVENT_LIFE_S]
alike = st.lists(st.sampled_from([*WRITES, *WRITES, *OTHERS[1:]]), max_size=12)
apart = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([*WRITES, *WRITES, *OTHERS])),
    min_size=6,
    max_size=20,
)


@settings(max_examples=300)
@given(alike, apart)
def test_a_fork_and_its_origin_are_as_if_the_other_was_not_there(
    alike: list[Any], apart: list[tuple[int, Any]]
) -> None:
    origin = World.fresh()
    for what in alike:
        origin.tell(what)
    worlds = [origin, origin.fork()]
    for number, what in apart:
        world = worlds[number % len(worlds)]
        if what == "fork":
            worlds.append(world.fork())
        else:
            world.tell(what)

    for world in worlds:
        other = alone(world.told)
        assert world.seen() == {version: other.seen()[version] for version in world.logs}
        assert world.state() == other.state()


def test_watchers_of_the_origin_hear_nothing_of_the_fork() -> None:
    origin = World.fresh()
    log = Log(origin.store)
    fork = origin.fork()

    create_pod(fork.store, "there")
    create_pod(origin.store, "here")

    assert log.story == [("ADDED", "here")]
    assert names(fork.store, POD) == ["a", "b", "there"]


def test_a_watch_resumes_in_the_fork_where_it_was() -> None:
    origin = World.fresh()
    version = origin.store.resource_version
    create_pod(origin.store, "before")
    fork = origin.fork()
    create_pod(fork.store, "after")

    assert Log(fork.store, POD, version).story == [("ADDED", "before"), ("ADDED", "after")]
    fork.store.compact()
    (ended,) = Log(fork.store, POD, version).ended
    assert isinstance(ended, Gone)
    assert Log(origin.store, POD, version).story == [("ADDED", "before")]
    (ended,) = Log(fork.fork().store, POD, version).ended
    assert isinstance(ended, Gone)


def test_a_fork_of_what_is_on_a_disk_is_in_memory(tmp_path: Path) -> None:
    clock = VirtualClock(START_S)
    journal = SqliteJournal(tmp_path)
    store = Store(clock, journal=journal)
    create_pod(store, "kept")
    journal._connection.execute("PRAGMA query_only=1")

    fork = store.fork(clock)
    create_pod(fork, "not-kept")
    journal.close()

    again = Store(clock, journal=SqliteJournal(tmp_path))
    assert names(again, POD) == ["kept"]
    assert names(fork, POD) == ["kept", "not-kept"]


def test_what_is_only_tried_out_is_in_no_fork() -> None:
    store = World.fresh().store

    with store.rehearse(), pytest.raises(AssertionError, match="tried out"):
        store.fork(VirtualClock(START_S))


NODES, PODS = 5_000, 50_000


@pytest.fixture(scope="module")
def large() -> Store:
    """A cluster of some size: every pod has a node and an event, every tenth an owner."""
    store = Store(VirtualClock(START_S))
    owners = [
        OwnerReference(api_version="apps/v1", kind="ReplicaSet", name=f"r{n}", uid=f"r{n}")
        for n in range(PODS // 100)
    ]
    spec = pod_spec(node_name="n")
    with store.batch():
        for n in range(NODES):
            store.put(Node(metadata=ObjectMeta(name=f"n{n}")))
        for n in range(PODS):
            owner = [owners[n // 100]] if n % 10 == 0 else None
            meta = ObjectMeta(name=f"p{n}", owner_references=owner)
            store.put(Pod(metadata=meta, spec=spec))
            store.execute(_event(f"e{n}"))
    return store


def test_a_fork_is_cheap(large: Store) -> None:
    """Against copying one dict of all objects, so that the machine's speed cancels out."""
    plain = {
        (kind, thing.key): thing
        for kind in (NODE, POD, EVENT)
        for thing, _ in large.select(kind, ListOptions())[0]
    }
    clock = VirtualClock(START_S)

    assert len(plain) == NODES + 2 * PODS
    assert _least_s(lambda: large.fork(clock)) < 12 * _least_s(plain.copy)


def test_a_fork_takes_little_memory(large: Store) -> None:
    large.fork(VirtualClock(START_S))
    tracemalloc.start()
    try:
        fork = large.fork(VirtualClock(START_S))
        mib = tracemalloc.get_traced_memory()[0] / 2**20
    finally:
        tracemalloc.stop()

    assert len(names(fork, POD)) == PODS
    assert mib < 25


def _least_s(act: Callable[[], object]) -> float:
    found = []
    for _ in range(5):
        started_s = time.perf_counter()
        act()
        found.append(time.perf_counter() - started_s)
    return min(found)
