"""Of several replicas one leads, and a leader steps down before another may take over."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from stowplan.apiserver.store import Store
from stowplan.clock import VirtualClock
from stowplan.cluster.leader_election import ElectionConfig, LeaderElector
from stowplan.cluster.port import AllDone, Get, Request
from stowplan.errors import ApiError
from stowplan.objects.coordination import Lease
from stowplan.objects.kinds import LEASE


class Connection:
    """One replica's way to the store: it may be cut, or answers may be lost."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.cut = False
        self.silent = False

    def call(self, requests: Sequence[Request], done: AllDone) -> None:
        if self.cut:
            done(0, [ApiError("connection refused")] * len(requests))
        elif not self.silent:
            self._store.call(requests, done)

    def list(self, *args: object) -> None:
        raise AssertionError

    def watch(self, *args: object) -> None:
        raise AssertionError


class Replica:
    def __init__(self, store: Store, clock: VirtualClock, name: str, seed: int = 0) -> None:
        self.connection = Connection(store)
        self.log: list[str] = []
        self.elector = LeaderElector(
            self.connection,  # type: ignore[arg-type]
            ElectionConfig(identity=name),
            clock=clock,
            call_later=clock.at,
            random=Random(seed),
            on_started=lambda: self.log.append("started"),
            on_stopped=lambda: self.log.append("stopped"),
        )
        self.elector.start()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(now_s=1_700_000_000.0)


@pytest.fixture
def store(clock: VirtualClock) -> Store:
    return Store(clock)


def lease(store: Store) -> Lease:
    found = store.execute(Get(LEASE, "kube-system", "kube-scheduler"))
    assert isinstance(found, Lease)
    return found


def test_the_first_takes_the_lease_and_the_second_waits(store: Store, clock: VirtualClock) -> None:
    first, second = Replica(store, clock, "a"), Replica(store, clock, "b", seed=1)

    clock.advance(60)

    assert first.elector.is_leader
    assert not second.elector.is_leader
    assert second.elector.leader == "a"
    assert lease(store).spec.lease_duration_seconds == 15
    assert lease(store).spec.lease_transitions == 0


def test_a_leader_that_cannot_renew_stops_before_the_other_starts(
    store: Store, clock: VirtualClock
) -> None:
    first, second = Replica(store, clock, "a"), Replica(store, clock, "b", seed=1)
    clock.advance(20)
    first.connection.cut = True
    leaders = []

    for _ in range(400):
        clock.advance(0.1)
        leaders.append((first.elector.is_leader, second.elector.is_leader))

    assert (True, True) not in leaders
    assert leaders[-1] == (False, True)
    assert first.log == ["started", "stopped"]
    assert lease(store).spec.lease_transitions == 1


def test_answers_that_never_come_do_not_keep_anybody_in_office(
    store: Store, clock: VirtualClock
) -> None:
    first = Replica(store, clock, "a")
    clock.advance(5)
    first.connection.silent = True

    clock.advance(10.1)

    assert first.log == ["started", "stopped"]


def test_stopping_gives_the_lease_back_so_that_nobody_waits(
    store: Store, clock: VirtualClock
) -> None:
    first, second = Replica(store, clock, "a"), Replica(store, clock, "b", seed=1)
    clock.advance(10)
    released: list[str] = []

    first.elector.stop(lambda: released.append("released"))

    assert released == ["released"]
    assert not lease(store).spec.holder_identity
    clock.advance(5)
    assert second.elector.is_leader
    assert not first.elector.is_leader


def test_remote_clocks_do_not_matter(store: Store, clock: VirtualClock) -> None:
    """A replica whose clock is an hour behind neither steals the lease nor waits for ever."""
    first = Replica(store, clock, "a")
    behind = VirtualClock(now_s=clock.now_s - 3600)
    second = Replica(store, behind, "b", seed=1)
    for _ in range(30):
        clock.advance(1)
        behind.advance(1)
    assert first.elector.is_leader
    assert not second.elector.is_leader

    first.connection.cut = True
    for _ in range(40):
        clock.advance(1)
        behind.advance(1)

    assert second.elector.is_leader
