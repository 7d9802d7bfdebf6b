"""Replicas of one scheduler on one cluster, under virtual time, with lines that can be cut."""

from __future__ import annotations

import io
from collections.abc import Callable
from random import Random
from typing import Any

from stowplan.apiserver.store import Store
from stowplan.clock import VirtualClock
from stowplan.cluster.leader_election import ElectionConfig
from stowplan.cluster.port import Done, ListOptions, ListResult
from stowplan.config import load_config
from stowplan.core.machine import Machine
from stowplan.errors import ApiError, Unavailable
from stowplan.objects.api import Bind, Request
from stowplan.objects.base import KubeObject
from stowplan.objects.coordination import Lease
from stowplan.objects.kinds import LEASE, POD, Kind
from stowplan.objects.pod import Pod
from stowplan.runtime.driver import Driver
from stowplan.runtime.event_recorder import EventRecorder
from stowplan.runtime.lifecycle import Election, Replica
from stowplan.runtime.log import Log, Verbosity
from tests.core.harness import START_S, Api

GRACE_S = 20.0


class Line(Api):
    """The store as one part of one replica reaches it."""

    def __init__(self, store: Store, on_request: Callable[[Request], None]) -> None:
        super().__init__(store)
        self._on_request = on_request
        self.down = False
        self.dropped = False
        """What is under way was cut off: no answer comes any more."""
        self.lists = 0
        self.held_kinds: set[str] = set()
        self._held_lists: list[Callable[[], None]] = []

    def call_one(self, request: Request, done: Done) -> None:
        self._on_request(request)
        if self.down:
            done(Unavailable("the line is down"))
        else:
            super().call_one(request, lambda answer: None if self.dropped else done(answer))

    def list(
        self, kind: Kind, options: ListOptions, done: Callable[[ListResult | ApiError], None]
    ) -> None:
        self.lists += 1
        if kind.name in self.held_kinds:
            self._held_lists.append(lambda: self.store.list(kind, options, done))
        else:
            self.store.list(kind, options, done)

    def let_lists_go(self) -> None:
        self.held_kinds.clear()
        for go in self._held_lists:
            go()


class OneReplica:
    def __init__(
        self,
        world: World,
        name: str,
        *,
        elect: bool = True,
        held_kinds: tuple[str, ...] = (),
        **election: Any,
    ) -> None:
        self.name = name
        self.ended: list[int] = []
        self.sent: list[tuple[float, Request]] = []
        """What its scheduler sent, and when."""
        self.out = io.StringIO()
        clock, random = world.clock, Random(name)
        self.line = Line(world.store, lambda request: self.sent.append((clock.now(), request)))
        self.line.held_kinds = {*held_kinds}
        self.lease_line = Line(world.store, lambda request: None)
        machine = Machine(load_config(None), random=random)
        self.event_line = Line(world.store, lambda request: None)
        self.recorder = EventRecorder(
            self.event_line, clock, call_later=clock.at, random=Random(name)
        )
        self.driver = Driver(
            machine,
            self.line,
            clock=clock,
            call_later=clock.at,
            recorder=self.recorder,
            random=random,
        )
        self.replica = Replica(
            self.driver,
            self.recorder,
            clock=clock,
            call_later=clock.at,
            random=random,
            log=Log(clock, verbosity=Verbosity(1), stream=self.out),
            on_end=self.ended.append,
            election=Election(ElectionConfig(name), self.lease_line, **election) if elect else None,
            grace_s=GRACE_S,
            abandon=self._abandon,
        )
        self.replica.start()
        world.settle()

    def _abandon(self) -> None:
        self.line.dropped = True

    @property
    def binds(self) -> list[str]:
        return [request.name for _, request in self.sent if isinstance(request, Bind)]


class World:
    def __init__(self, *objects: KubeObject) -> None:
        self.clock = VirtualClock(START_S)
        self.store = Store(self.clock, create_namespaces=True)
        for thing in objects:
            self.store.put(thing)

    def replica(self, name: str = "a", **settings: Any) -> OneReplica:
        return OneReplica(self, name, **settings)

    def settle(self) -> None:
        self.clock.advance(0.0)

    def add(self, *objects: KubeObject) -> None:
        for thing in objects:
            self.store.put(thing)
        self.settle()

    @property
    def holder(self) -> str | None:
        """Who has the lease, as the cluster sees it."""
        lease = self.store.read(LEASE, "kube-system", "kube-scheduler")[0]
        assert isinstance(lease, Lease)
        return lease.spec.holder_identity

    @property
    def bound(self) -> set[str]:
        pods = [thing for thing, _ in self.store.select(POD, ListOptions())[0]]
        return {
            thing.metadata.name for thing in pods if isinstance(thing, Pod) and thing.spec.node_name
        }
