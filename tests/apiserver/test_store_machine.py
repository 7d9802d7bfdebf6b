"""The store against a model of a few lines: any sequence of writes, and watches from anywhere.

The model knows which writes succeed and what is there afterwards.  Every watcher, whenever it
began and whatever it selects, must be able to rebuild from its events exactly what it would list.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from stowplan.apiserver.store import Store
from stowplan.cluster.port import ListOptions, Watch, WatchEvent, WatchHandlers, call_one
from stowplan.errors import AlreadyExists, ApiError, Conflict, Gone, NotFound
from stowplan.objects.api import Bind, Create, Delete, Patch, Request, Update
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import POD
from stowplan.objects.pod import Pod
from tests.apiserver.things import data, make_pod, new_store

HISTORY_MAX = 4

names = st.sampled_from(["a", "b", "c"])
colors = st.sampled_from(["red", "blue"])
phases = st.sampled_from(["Pending", "Running", "Succeeded"])


@dataclass(frozen=True)
class Fact:
    """What the model knows of a pod."""

    uid: str
    version: int
    color: str
    node: str = ""
    phase: str = "Pending"
    deleting: bool = False


SELECTIONS: list[tuple[ListOptions, Callable[[Fact], bool]]] = [
    (ListOptions(), lambda fact: True),
    (ListOptions(label_selector="color=red"), lambda fact: fact.color == "red"),
    (ListOptions(field_selector="spec.nodeName="), lambda fact: not fact.node),
    (
        ListOptions(field_selector="status.phase!=Succeeded", label_selector="color!=blue"),
        lambda fact: fact.phase != "Succeeded" and fact.color != "blue",
    ),
]


def fact_of(thing: KubeObject) -> Fact:
    assert isinstance(thing, Pod)
    meta = thing.metadata
    return Fact(
        meta.uid,
        int(meta.resource_version),
        (meta.labels or {})["color"],
        thing.spec.node_name,
        thing.status.phase,
        meta.deletion_timestamp is not None,
    )


@dataclass
class Follower:
    """Rebuilds the state from the events of one watch, and checks each of them."""

    selects: Callable[[Fact], bool]
    state: dict[str, Fact]
    version: int
    watch: Watch = field(default_factory=Watch)
    ended: list[ApiError | None] = field(default_factory=list)
    stopped: bool = False

    def heard(self, events: list[WatchEvent]) -> None:
        assert not self.stopped
        for event in events:
            version = int(event.resource_version)
            name = event.object.name
            if event.type == "BOOKMARK":
                assert version >= self.version
                self.version = version
                continue
            assert version > self.version, "an event came twice or out of order"
            self.version = version
            assert version == int(event.object.metadata.resource_version)
            if event.type == "ADDED":
                assert name not in self.state
                self.state[name] = fact_of(event.object)
            elif event.type == "MODIFIED":
                assert self.state[name].uid == event.object.uid
                self.state[name] = fact_of(event.object)
            else:
                assert self.state.pop(name).uid == event.object.uid


class StoreMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.store: Store = new_store(history_max=HISTORY_MAX)
        self.version = int(self.store.resource_version)
        self.model: dict[str, Fact] = {}
        self.snapshots: dict[int, dict[str, Fact]] = {self.version: {}}
        self.changes: list[int] = []
        self.followers: list[Follower] = []

    def send(self, request: Request) -> Any:
        answers: list[Any] = []
        call_one(self.store, request, answers.append)
        (answer,) = answers
        return answer

    def changed(self, name: str, fact: Fact | None) -> None:
        """The model takes a write that the store has accepted."""
        self.version += 1
        self.model = dict(self.model)
        if fact is None:
            del self.model[name]
        else:
            self.model[name] = fact
        self.changes.append(self.version)
        self.snapshots[self.version] = self.model

    def modified(self, name: str, **changes: Any) -> None:
        fact = self.model[name]
        values = {**fact.__dict__, **changes}
        if Fact(**values) != fact:
            self.changed(name, Fact(**{**values, "version": self.version + 1}))

    @rule(name=names, color=colors)
    def create(self, name: str, color: str) -> None:
        answer = self.send(Create(POD, "default", make_pod(name, labels={"color": color})))

        if name in self.model:
            assert isinstance(answer, AlreadyExists)
        else:
            self.changed(name, Fact(answer.uid, self.version + 1, color))

    @rule(name=names, color=colors, age=st.integers(0, 3))
    def update(self, name: str, color: str, age: int) -> None:
        """PUT with the version of the object, or with one that is `age` versions off."""
        if name not in self.model:
            missing = Update(POD, "default", name, {"metadata": {"name": name}})
            assert isinstance(self.send(missing), NotFound)
            return
        body = data(self.store, POD, name)
        body["metadata"]["labels"] = {"color": color}
        body["metadata"]["resourceVersion"] = str(self.model[name].version - age)

        answer = self.send(Update(POD, "default", name, body))

        if age:
            assert isinstance(answer, Conflict)
        else:
            self.modified(name, color=color)

    @rule(name=names, color=colors, patch_type=st.sampled_from(["merge", "strategic", "json"]))
    def patch_labels(self, name: str, color: str, patch_type: str) -> None:
        body: Any = {"metadata": {"labels": {"color": color}}}
        if patch_type == "json":
            body = [{"op": "replace", "path": "/metadata/labels/color", "value": color}]

        answer = self.send(Patch(POD, "default", name, body, patch_type))

        if name in self.model:
            self.modified(name, color=color)
        else:
            assert isinstance(answer, NotFound)

    @rule(name=names, phase=phases, patch_type=st.sampled_from(["merge", "strategic"]))
    def patch_status(self, name: str, phase: str, patch_type: str) -> None:
        body = {"status": {"phase": phase}}

        answer = self.send(Patch(POD, "default", name, body, patch_type, "status"))

        if name in self.model:
            self.modified(name, phase=phase)
        else:
            assert isinstance(answer, NotFound)

    @rule(name=names, right=st.booleans())
    def bind(self, name: str, right: bool) -> None:
        fact = self.model.get(name)
        uid = fact.uid if fact is not None and right else "another"

        answer = self.send(Bind("default", name, uid, "n"))

        if fact is None:
            assert isinstance(answer, NotFound)
        elif not right or fact.node or fact.deleting:
            assert isinstance(answer, Conflict)
        else:
            assert answer is None
            self.modified(name, node="n")

    @rule(name=names, grace=st.sampled_from([None, 0, 5]))
    def delete(self, name: str, grace: int | None) -> None:
        answer = self.send(Delete(POD, "default", name, grace_period_seconds=grace))

        fact = self.model.get(name)
        if fact is None:
            assert isinstance(answer, NotFound)
        elif fact.deleting:
            # The first period was 30 or 5: only a shorter one changes anything.
            if grace == 0:
                self.changed(name, None)
            elif int(self.store.resource_version) > self.version:
                assert grace == 5
                self.changed(name, Fact(**{**fact.__dict__, "version": self.version + 1}))
        elif grace == 0 or not fact.node or fact.phase == "Succeeded":
            self.changed(name, None)
        else:
            self.modified(name, deleting=True)

    @rule(steps_back=st.integers(0, 30), selection=st.integers(0, len(SELECTIONS) - 1))
    def watch(self, steps_back: int, selection: int) -> None:
        """Watch from a version of the past, with the state that a list gave then."""
        options, selects = SELECTIONS[selection]
        known = sorted(self.snapshots)
        version = known[max(0, len(known) - 1 - steps_back)]
        state = {name: fact for name, fact in self.snapshots[version].items() if selects(fact)}
        follower = Follower(selects, state, version)

        handlers = WatchHandlers(follower.heard, follower.ended.append)
        follower.watch = self.store.watch(POD, options, str(version), handlers)

        later = [change for change in self.changes if change > version]
        if len(later) > HISTORY_MAX:
            assert isinstance(follower.ended[0], Gone)
        else:
            assert follower.ended == []
            self.followers.append(follower)

    @rule(selection=st.integers(0, len(SELECTIONS) - 1))
    def watch_from_now(self, selection: int) -> None:
        options, selects = SELECTIONS[selection]
        follower = Follower(selects, {}, 0)
        handlers = WatchHandlers(self._initial(follower), follower.ended.append)
        follower.watch = self.store.watch(POD, options, "", handlers)
        self.followers.append(follower)

    def _initial(self, follower: Follower) -> Callable[[list[WatchEvent]], None]:
        """The first events come by name, not by version."""

        def heard(events: list[WatchEvent]) -> None:
            if follower.version == 0:
                events = sorted(events, key=lambda event: int(event.resource_version))
            follower.heard(events)

        return heard

    @precondition(lambda self: self.followers)
    @rule(choice=st.integers(0, 1000))
    def stop(self, choice: int) -> None:
        follower = self.followers.pop(choice % len(self.followers))
        follower.watch.stop()
        follower.stopped = True

    @rule()
    def bookmarks(self) -> None:
        self.store.send_bookmarks()

    @invariant()
    def the_store_holds_what_the_model_holds(self) -> None:
        assert int(self.store.resource_version) == self.version
        stored, _ = self.store.select(POD, ListOptions())
        assert {thing.name: fact_of(thing) for thing, _ in stored} == self.model

    @invariant()
    def every_watcher_can_rebuild_what_it_would_list(self) -> None:
        for follower in self.followers:
            wanted = {name: fact for name, fact in self.model.items() if follower.selects(fact)}
            assert follower.state == wanted
            assert follower.ended == []


TestStoreMachine = pytest.mark.slow(StoreMachine.TestCase)
TestStoreMachine.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
