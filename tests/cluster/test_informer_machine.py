"""An informer over a bad line: events lost, doubled and late, watches cut, histories gone.

Whatever happens, its callbacks tell a story that makes sense, and when the line is good again it
knows exactly what the store holds.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from stowplan.apiserver.store import Store
from stowplan.clock import VirtualClock
from stowplan.cluster.informer import Informer
from stowplan.cluster.port import ListOptions, ignore_all
from stowplan.errors import ApiError, Gone, Unavailable
from stowplan.objects.api import Create, Delete, Patch
from stowplan.objects.base import KubeObject
from stowplan.objects.changes import Added, Change, Deleted, Updated
from stowplan.objects.kinds import NODE, POD
from tests.apiserver.things import create_node, make_pod
from tests.cluster.worlds import UnreliableCluster

names = st.sampled_from(["a", "b", "c", "d"])
SELECTION = ListOptions(field_selector="status.phase!=Succeeded,status.phase!=Failed")


class InformerMachine(RuleBasedStateMachine):
    @initialize(history_max=st.integers(1, 6), seed=st.integers(0, 99))
    def begin(self, history_max: int, seed: int) -> None:
        self.clock = VirtualClock()
        self.store = Store(self.clock, history_max=history_max)
        self.cluster = UnreliableCluster(self.store)
        self.told: dict[str, KubeObject] = {}
        self.informer = Informer(
            self.cluster,
            POD,
            self.on_changes,
            options=SELECTION,
            clock=self.clock,
            call_later=self.clock.at,
            random=Random(seed),
        )
        self.informer.start()

    def on_changes(self, changes: list[Change]) -> None:
        for change in changes:
            match change:
                case Added(new):
                    self.on_add(new)
                case Updated(old, new):
                    self.on_update(old, new)
                case Deleted(old):
                    self.on_delete(old)

    def on_add(self, thing: KubeObject) -> None:
        assert thing.name not in self.told, "added twice"
        self.told[thing.name] = thing

    def on_update(self, old: KubeObject, new: KubeObject) -> None:
        assert self.told[new.name] is old, "an update from a state that was never told"
        assert old.uid == new.uid
        assert int(new.metadata.resource_version) > int(old.metadata.resource_version)
        self.told[new.name] = new

    def on_delete(self, thing: KubeObject) -> None:
        assert self.told.pop(thing.name).uid == thing.uid, "another one was deleted"

    def write(self, request: Create | Patch | Delete) -> None:
        self.store.call([request], ignore_all)

    @rule(name=names)
    def create(self, name: str) -> None:
        self.write(Create(POD, "default", make_pod(name)))

    @rule(name=names, label=st.sampled_from("xyz"))
    def change(self, name: str, label: str) -> None:
        self.write(Patch(POD, "default", name, {"metadata": {"labels": {"l": label}}}, "merge"))

    @rule(name=names, phase=st.sampled_from(["Running", "Succeeded"]))
    def run_or_end(self, name: str, phase: str) -> None:
        body = {"status": {"phase": phase}}
        self.write(Patch(POD, "default", name, body, "strategic", "status"))

    @rule(name=names)
    def delete(self, name: str) -> None:
        self.write(Delete(POD, "default", name))

    @rule(number=st.integers(0, 10_000))
    def something_else_changes(self, number: int) -> None:
        name = f"n{number}"
        if all(node.name != name for node, _ in self.store.select(NODE, ListOptions())[0]):
            create_node(self.store, name)

    @rule(twice=st.booleans(), count=st.none() | st.integers(1, 3))
    def deliver(self, twice: bool, count: int | None) -> None:
        self.cluster.deliver(twice=twice, count=count)

    @rule(error=st.sampled_from([None, Unavailable("down"), Gone("too old"), ApiError("oops")]))
    def cut(self, error: ApiError | None) -> None:
        self.cluster.cut(error)

    @rule()
    def bookmarks(self) -> None:
        self.store.send_bookmarks()

    @rule()
    def compact(self) -> None:
        self.store.compact()

    @rule(lists=st.integers(0, 2), watches=st.integers(0, 2))
    def trouble_ahead(self, lists: int, watches: int) -> None:
        self.cluster.list_errors = [Unavailable("down")] * lists
        troubles: list[ApiError | None] = [Gone("too old"), None]
        self.cluster.watch_errors = troubles[:watches]

    @rule(seconds=st.floats(0.0, 40.0))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @invariant()
    def what_was_told_is_what_it_knows(self) -> None:
        if hasattr(self, "informer"):
            known = {thing.name: thing for thing in self.informer.list()}
            assert known == self.told

    @rule()
    def the_line_is_good_again(self) -> None:
        self.settle()

    def teardown(self) -> None:
        if hasattr(self, "informer"):
            self.settle()

    def settle(self) -> None:
        """When nothing fails any more the informer has it all, within a minute or so."""
        self.cluster.list_errors = []
        self.cluster.watch_errors = []
        before_s = self.clock.now()
        self.clock.run()
        self.cluster.deliver()
        self.clock.run()
        assert self.clock.now() - before_s <= 61.0
        wanted = {thing.name: thing for thing, _ in self.store.select(POD, SELECTION)[0]}
        assert self.told == wanted
        assert self.informer.synced


TestInformerMachine = pytest.mark.slow(InformerMachine.TestCase)
TestInformerMachine.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
