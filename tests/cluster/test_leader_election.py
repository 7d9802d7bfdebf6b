"""Of several replicas one leads, and a leader steps down before another may take over."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from stowplan.apiserver.store import Store
from stowplan.clock import VirtualClock
from stowplan.cluster.leader_election import ElectionConfig, LeaderElector
from stowplan.cluster.port import AllDone, Get, Patch, Request
from stowplan.errors import ApiError
from stowplan.objects.coordination import Lease
from stowplan.objects.kinds import LEASE
from stowplan.objects.times import format_micro_time


class Connection:
    """One replica's way to the store: it may be cut, and answers may be late or lost."""

    def __init__(self, store: Store, clock: VirtualClock) -> None:
        self._store = store
        self._clock = clock
        self.cut = False
        self.silent = False
        self.delay_s = 0.0
        self.reads_s: list[float] = []
        """When the lease was asked for, and when a write of it was sent that arrived."""
        self.writes_s: list[float] = []

    def call(self, requests: Sequence[Request], done: AllDone) -> None:
        if self.silent:
            return
        (request,) = requests
        if isinstance(request, Get):
            self.reads_s.append(self._clock.now())
        elif not self.cut:
            self.writes_s.append(self._clock.now())
        if self.cut:
            done(0, [ApiError("connection refused")])
        else:
            self._store.call(requests, self._late(done) if self.delay_s else done)

    def _late(self, done: AllDone) -> AllDone:
        return lambda first, answers: self._clock.at(self.delay_s, lambda: done(first, answers))

    def list(self, *args: object) -> None:
        raise AssertionError

    def watch(self, *args: object) -> None:
        raise AssertionError


class Replica:
    def __init__(
        self,
        store: Store,
        clock: VirtualClock,
        name: str,
        seed: int = 0,
        *,
        delay_s: float = 0.0,
        random: Any = None,
        **config: float,
    ) -> None:
        self.connection = Connection(store, clock)
        self.connection.delay_s = delay_s
        self.log: list[str] = []
        self.stopped_at_s = 0.0
        self.leaders: list[str] = []
        self._clock = clock
        self.elector = LeaderElector(
            self.connection,  # type: ignore[arg-type]
            ElectionConfig(identity=name, **config),  # type: ignore[arg-type]
            clock=clock,
            call_later=clock.at,
            random=random or Random(seed),
            on_started=lambda: self.log.append("started"),
            on_stopped=self._note_stop,
            on_new_leader=self.leaders.append,
        )
        self.elector.start()

    def _note_stop(self) -> None:
        self.log.append("stopped")
        self.stopped_at_s = self._clock.now()


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


def edit(store: Store, change: dict[str, Any]) -> None:
    """As with kubectl."""
    store.execute(Patch(LEASE, "kube-system", "kube-scheduler", change, "merge"))


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


@pytest.mark.parametrize("delay_s", [0.0, 3.0, 3.9])
@pytest.mark.parametrize("fault", ["cut", "silent"])
def test_a_leader_stops_ten_seconds_after_it_asked_for_the_last_renewal(
    store: Store, clock: VirtualClock, fault: str, delay_s: float
) -> None:
    """Counted from the question and not from the answer: others count from the write."""
    replica = Replica(store, clock, "a", delay_s=delay_s)
    clock.advance(31)
    assert replica.log == ["started"]
    setattr(replica.connection, fault, True)

    clock.advance(60)

    asked_s = replica.connection.writes_s[-1]
    assert replica.log == ["started", "stopped"]
    assert replica.stopped_at_s == pytest.approx(asked_s + 10.0, abs=1e-3)


def test_a_lease_that_was_won_too_long_ago_is_no_office(store: Store, clock: VirtualClock) -> None:
    replica = Replica(store, clock, "a", delay_s=10.5)

    clock.advance(10.5 + 10.5)

    assert replica.log == ["started", "stopped"]
    assert not replica.elector.is_leader


def test_a_leader_whose_timers_are_stuck_holds_for_fifteen_seconds(
    store: Store, clock: VirtualClock
) -> None:
    replica = Replica(store, clock, "a")
    elector = replica.elector
    clock.advance(10)
    renewed_s = replica.connection.writes_s[-1]

    for passed_s, overdue_s in ((0.0, 0.0), (14.5, 0.0), (15.0, 0.0), (15.5, 0.5), (40.0, 25.0)):
        clock.now_s = renewed_s + passed_s
        assert elector.is_leader
        assert (elector.holds, elector.overdue_s) == (overdue_s == 0.0, overdue_s)

    elector.stop()
    assert (elector.holds, elector.overdue_s) == (False, 0.0)


@pytest.mark.parametrize("luck", [0.0, 0.25, 0.5, 0.999])
@pytest.mark.parametrize("retry_s", [2.0, 3.0, 5.0])
def test_a_lease_is_taken_over_when_it_has_not_changed_for_as_long_as_it_lasts(
    store: Store, clock: VirtualClock, luck: float, retry_s: float
) -> None:
    """At the first look after that, and looks are 0.8 to one retry period apart."""
    first = Replica(store, clock, "a")
    second = Replica(
        store, clock, "b", random=SimpleNamespace(random=lambda: luck), retry_period_s=retry_s
    )
    clock.advance(29.5)
    first.connection.silent = True
    clock.advance(60)

    looks_s, taken_s = second.connection.reads_s, second.connection.writes_s[0]
    seen_s = min(s for s in looks_s if s >= first.connection.writes_s[-1])
    assert taken_s == min(s for s in looks_s if s >= seen_s + 15.0)
    gaps = {round(b - a, 6) for a, b in pairwise(s for s in looks_s if s <= taken_s)}
    assert gaps == {round(retry_s * (1 - 0.2 * luck), 6)}
    assert first.stopped_at_s < taken_s
    assert (first.leaders, second.leaders) == (["a"], ["a", "b"])


def test_the_record_tells_who_leads_since_when(store: Store, clock: VirtualClock) -> None:
    first = Replica(store, clock, "a")
    won = lease(store).spec
    assert won.acquire_time == won.renew_time == format_micro_time(clock.now())
    clock.advance(9)
    held = lease(store).spec
    assert (held.acquire_time, held.lease_transitions) == (won.acquire_time, 0)
    assert held.renew_time == format_micro_time(first.connection.writes_s[-1])
    assert clock.now() - first.connection.writes_s[-1] < 2.0

    first.elector.stop()
    given_back = lease(store).spec
    assert (given_back.holder_identity, given_back.lease_duration_seconds) == ("", 1)
    assert given_back.acquire_time == given_back.renew_time == format_micro_time(clock.now())

    clock.advance(7)
    Replica(store, clock, "b")
    taken = lease(store).spec
    assert (taken.holder_identity, taken.lease_duration_seconds) == ("b", 15)
    assert (taken.acquire_time, taken.lease_transitions) == (format_micro_time(clock.now()), 1)


def test_a_note_on_the_lease_unseats_nobody(store: Store, clock: VirtualClock) -> None:
    """Somebody else's edit makes the fast renewal fail; then it is looked at, and renewed."""
    replica = Replica(store, clock, "a")
    clock.advance(5)
    won = lease(store).spec.acquire_time
    edit(store, {"metadata": {"labels": {"a": "b"}}})

    clock.advance(60)

    assert replica.log == ["started"]
    assert (lease(store).spec.acquire_time, lease(store).spec.lease_transitions) == (won, 0)
    assert len(replica.connection.reads_s) == 2, "the first look, and one after the edit"
    assert lease(store).metadata.labels == {"a": "b"}


def test_whoever_is_told_that_another_leads_stops_at_once(
    store: Store, clock: VirtualClock
) -> None:
    replica = Replica(store, clock, "a")
    clock.advance(5)
    edit(store, {"spec": {"holderIdentity": "thief"}})

    clock.advance(2)

    assert replica.log == ["started", "stopped"]
    assert replica.elector.leader == "thief"
    replica.elector.stop()
    assert lease(store).spec.holder_identity == "thief"


def test_a_lease_taken_by_another_is_not_given_back(store: Store, clock: VirtualClock) -> None:
    replica = Replica(store, clock, "a")
    clock.advance(5)
    edit(store, {"spec": {"holderIdentity": "thief"}})
    released: list[str] = []

    replica.elector.stop(lambda: released.append("released"))

    assert released == ["released"]
    assert lease(store).spec.holder_identity == "thief"


def test_whoever_stopped_asks_no_more(store: Store, clock: VirtualClock) -> None:
    leader, other = Replica(store, clock, "a"), Replica(store, clock, "b", seed=1, delay_s=1.0)
    clock.advance(20.5)
    released: list[str] = []

    other.elector.stop(lambda: released.append("released"))
    leader.elector.stop()
    counts = [len(r.connection.reads_s + r.connection.writes_s) for r in (leader, other)]
    clock.advance(60)

    assert released == ["released"]
    assert counts == [len(r.connection.reads_s + r.connection.writes_s) for r in (leader, other)]
    assert (leader.log, other.log) == (["started", "stopped"], [])


def test_a_leader_that_fails_tries_again_every_two_seconds(
    store: Store, clock: VirtualClock
) -> None:
    replica = Replica(store, clock, "a")
    clock.advance(7)
    renewed_s = replica.connection.writes_s[-1]
    replica.connection.cut = True
    clock.advance(6)
    looks_s = [s - renewed_s for s in replica.connection.reads_s[1:]]
    replica.connection.cut = False
    clock.advance(60)

    assert looks_s == pytest.approx([2.0, 4.0, 6.0])
    assert replica.log == ["started"]
    assert replica.elector.holds


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
