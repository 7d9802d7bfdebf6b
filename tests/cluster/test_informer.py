"""An informer tells every change once, whatever happens to its watch."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import replace

from stowplan.apiserver.store import Store
from stowplan.clock import VirtualClock
from stowplan.cluster.informer import Informer
from stowplan.cluster.port import ListOptions, WatchEvent
from stowplan.errors import Unavailable
from stowplan.objects.base import KubeObject
from stowplan.objects.changes import Added, Change, Deleted, Updated
from stowplan.objects.kinds import NODE, POD, Kind
from tests.apiserver.things import (
    bind,
    create_node,
    create_pod,
    delete,
    get_pod,
    patch,
)
from tests.cluster.worlds import UnreliableCluster


class World:
    def __init__(self, kind: Kind = POD, **options: str) -> None:
        self.clock = VirtualClock()
        self.store = Store(self.clock)
        self.cluster = UnreliableCluster(self.store)
        self.told: list[tuple[str, ...]] = []
        self._known: dict[str, KubeObject] = {}
        self.informer = Informer(
            self.cluster,
            kind,
            self._changed,
            options=ListOptions(**options),
            clock=self.clock,
            call_later=self.clock.at,
            random=Random(0),
        )

    def _changed(self, changes: list[Change]) -> None:
        for change in changes:
            match change:
                case Added(new):
                    self.told.append(("add", new.name))
                    self._known[new.name] = new
                case Updated(old, new):
                    assert old.uid == new.uid
                    assert old.metadata.resource_version != new.metadata.resource_version
                    assert self._known[new.name] is old
                    self.told.append(("update", new.name))
                    self._known[new.name] = new
                case Deleted(old):
                    # A deletion is a version of its own, unless it was missed.
                    known = self._known.pop(old.name)
                    assert known.uid == old.uid
                    missed = known.metadata.resource_version == old.metadata.resource_version
                    self.told.append(("delete", old.name, "unknown" if missed else "final"))

    def lose_the_history(self) -> None:
        self.store.compact()
        self.cluster.cut()
        self.clock.run()


@pytest.fixture
def world() -> World:
    return World()


def test_the_first_list_is_adds_and_then_it_is_synced(world: World) -> None:
    create_pod(world.store, "a")
    create_pod(world.store, "b")

    world.informer.start()

    assert world.informer.synced
    assert world.told == [("add", "a"), ("add", "b")]
    assert [thing.name for thing in world.informer.list()] == ["a", "b"]
    assert world.informer.get("default/a") == get_pod(world.store, "a")
    assert world.informer.get("default/c") is None
    assert world.informer.get("nowhere/a") is None
    assert len(world.informer) == 2


def test_it_is_not_synced_before_the_first_list_has_come(world: World) -> None:
    world.cluster.list_errors = [Unavailable("down")]
    world.informer.start()
    assert not world.informer.synced

    world.clock.run()

    assert world.informer.synced


def test_changes_are_told_as_they_come(world: World) -> None:
    world.informer.start()
    create_pod(world.store, "p")
    bind(world.store)
    delete(world.store, POD, "p", 0)
    world.cluster.deliver()

    assert world.told == [("add", "p"), ("update", "p"), ("delete", "p", "final")]
    assert len(world.informer) == 0


def test_a_kind_without_namespaces_is_found_by_name() -> None:
    world = World(NODE)
    create_node(world.store, "n")
    world.informer.start()

    assert world.informer.get("n") is not None


def test_a_pod_that_ends_is_deleted_for_the_scheduler() -> None:
    world = World(field_selector="status.phase!=Succeeded,status.phase!=Failed")
    create_pod(world.store, "p")
    world.informer.start()

    patch(world.store, POD, "p", {"status": {"phase": "Succeeded"}}, subresource="status")
    world.cluster.deliver()

    assert world.told == [("add", "p"), ("delete", "p", "final")]


def test_events_that_come_twice_are_told_once(world: World) -> None:
    world.informer.start()
    create_pod(world.store, "p")
    bind(world.store)
    world.cluster.deliver(twice=True)
    delete(world.store, POD, "p", 0)
    world.cluster.deliver(twice=True)

    assert world.told == [("add", "p"), ("update", "p"), ("delete", "p", "final")]


def test_an_old_event_does_not_bring_the_dead_back(world: World) -> None:
    world.informer.start()
    pod = create_pod(world.store, "p")
    delete(world.store, POD, "p", 0)
    world.cluster.deliver()

    world.informer.apply([WatchEvent("ADDED", pod, pod.metadata.resource_version)])

    assert len(world.informer) == 0
    assert len(world.told) == 2


def test_of_old_and_new_events_together_the_new_ones_are_told(world: World) -> None:
    world.informer.start()
    old = create_pod(world.store, "p")
    delete(world.store, POD, "p", 0)
    world.cluster.deliver()
    new = create_pod(world.store, "q")

    world.informer.apply(
        [WatchEvent("ADDED", pod, pod.metadata.resource_version) for pod in (old, new)]
    )

    assert world.told[2:] == [("add", "q")]


def test_what_was_missed_is_found_by_a_new_list(world: World) -> None:
    for name in ("same", "changed", "deleted", "again"):
        create_pod(world.store, name)
    world.informer.start()
    world.told.clear()
    bind(world.store, "changed")
    delete(world.store, POD, "deleted")
    delete(world.store, POD, "again")
    create_pod(world.store, "again")
    create_pod(world.store, "new")

    world.lose_the_history()

    assert world.cluster.list_count == 2
    assert world.told == [
        ("delete", "deleted", "unknown"),
        ("delete", "again", "unknown"),
        ("add", "again"),
        ("update", "changed"),
        ("add", "new"),
    ]


def test_a_new_list_without_news_tells_nothing(world: World) -> None:
    create_pod(world.store, "p")
    world.informer.start()
    create_node(world.store)
    world.told.clear()
    world.lose_the_history()

    assert world.told == []


def test_another_object_of_the_same_name_is_a_delete_and_an_add(world: World) -> None:
    world.informer.start()
    pod = create_pod(world.store, "p")
    world.cluster.deliver()
    meta = replace(pod.metadata, uid="another", resource_version="999")

    world.informer.apply([WatchEvent("MODIFIED", replace(pod, metadata=meta), "999")])
    world.informer.apply([WatchEvent("DELETED", pod, "1000")])

    assert world.told == [
        ("add", "p"),
        ("delete", "p", "unknown"),
        ("add", "p"),
        ("delete", "p", "unknown"),
    ]


def test_a_deletion_of_something_unknown_is_nothing(world: World) -> None:
    pod = create_pod(world.store, "p")
    delete(world.store, POD, "p")
    world.informer.start()

    world.informer.apply([WatchEvent("DELETED", pod, "999")])

    assert world.told == []


def test_versions_that_are_no_numbers_are_taken_as_they_come(world: World) -> None:
    world.informer.start()
    pod = create_pod(world.store, "p")
    for version in ("x", "y", "y"):
        changed = replace(pod, metadata=replace(pod.metadata, resource_version=version))
        world.informer.apply([WatchEvent("MODIFIED", changed, version)])

    assert world.told == [("add", "p"), ("update", "p")]


def test_a_server_that_was_set_back_is_believed_after_a_new_list(world: World) -> None:
    world.informer.start()
    pod = create_pod(world.store, "p")
    world.cluster.deliver()

    world.informer.replace([], "2")
    again = replace(pod, metadata=replace(pod.metadata, uid="another", resource_version="3"))
    world.informer.apply([WatchEvent("ADDED", again, "3")])

    assert world.told == [("add", "p"), ("delete", "p", "unknown"), ("add", "p")]


def test_an_informer_that_is_stopped_by_its_own_callback_says_no_more() -> None:
    world = World()
    told = []

    def stop_at_once(changes: list[Change]) -> None:
        told.extend(changes)
        world.informer.stop()

    world.informer = Informer(
        world.cluster,
        POD,
        stop_at_once,
        clock=world.clock,
        call_later=world.clock.at,
        random=Random(0),
    )
    world.informer.start()
    a = create_pod(world.store, "a")
    create_pod(world.store, "b")
    world.cluster.deliver(count=1)
    world.cluster.deliver()

    assert told == [Added(a)]


def test_changes_that_come_together_are_told_together() -> None:
    world = World()
    told = []
    informer = Informer(
        world.store,
        POD,
        told.append,
        clock=world.clock,
        call_later=world.clock.at,
        random=Random(0),
    )
    old = create_pod(world.store, "old")
    informer.start()
    with world.store.batch():
        new = create_pod(world.store, "new")
        delete(world.store, POD, "old")
        bind(world.store, "new")
    bound = get_pod(world.store, "new")

    first, (added, deleted, updated) = told
    assert first == [Added(old)]
    assert (added, updated) == (Added(new), Updated(new, bound))
    assert isinstance(deleted, Deleted)
    assert deleted.object.name == "old"


def test_a_stopped_informer_is_silent(world: World) -> None:
    world.informer.start()
    world.informer.stop()
    create_pod(world.store, "p")
    world.cluster.deliver()
    world.clock.run()

    assert world.told == []


@pytest.mark.parametrize("count", [0, 2])
def test_that_the_first_list_is_in_is_told_once_and_after_it(count: int) -> None:
    """Also when there was nothing in it: somebody may wait for that."""
    world = World()
    told: list[str] = []

    def tell(changes: list[Change]) -> None:
        told.extend(change.object.name for change in changes if isinstance(change, Added))

    informer = Informer(
        world.cluster,
        POD,
        tell,
        on_synced=lambda: told.append("synced"),
        clock=world.clock,
        call_later=world.clock.at,
        random=Random(0),
    )
    for i in range(count):
        create_pod(world.store, f"p{i}")
    informer.start()
    world.clock.run()
    assert told == [*(f"p{i}" for i in range(count)), "synced"]

    world.lose_the_history()
    assert told.count("synced") == 1


def test_a_callback_that_fails_costs_no_other_event() -> None:
    """Nothing is told twice, and what comes after it is told."""
    world = World()
    told: list[str] = []

    def fail_once(changes: list[Change]) -> None:
        told.extend(change.object.name for change in changes if isinstance(change, Added))
        if told == ["a", "b"]:
            raise ValueError("broken")

    informer = Informer(
        world.store,
        POD,
        fail_once,
        clock=world.clock,
        call_later=world.clock.at,
        random=Random(0),
    )
    informer.start()
    with world.store.batch():
        for name in "ab":
            create_pod(world.store, name)
    create_pod(world.store, "c")
    world.clock.run()

    assert told == ["a", "b", "c"]
    assert [thing.name for thing in informer.list()] == ["a", "b", "c"]
