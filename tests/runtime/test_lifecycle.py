"""A replica's life: only the leader binds, and every end is in good order."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.cluster.port import ListOptions
from stowplan.objects.api import Bind
from stowplan.objects.coordination import Event, Lease
from stowplan.objects.kinds import EVENT, LEASE
from stowplan.runtime.lifecycle import BROKEN, RELEASE_S
from tests.builders import node, pod
from tests.core.harness import is_a
from tests.runtime.replicas import GRACE_S, World

LEASE_S, RENEW_S, RETRY_S = 15.0, 10.0, 2.0


# -- the start --------------------------------------------------------------------------------


def test_without_election_it_schedules_at_once() -> None:
    world = World(node("n"), pod("p"))
    only = world.replica(elect=False)

    assert world.bound == {"p"}
    assert only.replica.is_leading


@pytest.mark.parametrize("kind", ["Node", "CSINode", "PodDisruptionBudget", "Pod"])
def test_nothing_is_decided_before_every_informer_has_its_list(kind: str) -> None:
    world = World(node("n"), pod("p"))
    late = world.replica(held_kinds=(kind,))
    world.clock.advance(5.0)
    assert (late.replica.is_leading, late.driver.caught_up, late.sent) == (True, False, [])

    late.line.let_lists_go()
    world.settle()

    assert late.driver.caught_up
    assert world.bound == {"p"}


def test_a_standby_follows_and_does_nothing() -> None:
    world = World(node("n"))
    leader, standby = world.replica("a"), world.replica("b")
    world.add(pod("p"))
    world.clock.advance(100.0)

    assert (leader.binds, standby.sent) == (["p"], [])
    assert (leader.replica.is_leading, standby.replica.is_leading) == (True, False)
    assert standby.driver.caught_up


def test_a_standby_may_wait_with_its_cache_too() -> None:
    world = World(node("n"))
    leader, standby = world.replica("a"), world.replica("b", delay_cache=True)
    world.clock.advance(60.0)
    assert (standby.line.lists, standby.driver.caught_up) == (0, False)

    leader.replica.stop()
    world.add(pod("p"))
    world.clock.advance(2.2 * RETRY_S)

    assert (standby.driver.caught_up, standby.binds) == (True, ["p"])


# -- asked to stop ----------------------------------------------------------------------------


def test_stopping_gives_the_lease_back_so_that_another_goes_on_soon() -> None:
    world = World(node("n"))
    leader, standby = world.replica("a"), world.replica("b")

    leader.replica.stop()
    world.settle()
    assert (leader.ended, world.holder) == ([0], "")
    world.add(pod("p"))
    world.clock.advance(2.2 * RETRY_S)

    assert (leader.binds, standby.binds) == ([], ["p"])
    assert world.holder == "b"


def test_a_binding_that_runs_comes_to_its_end_and_no_pod_is_taken_any_more() -> None:
    world = World(node("n"))
    only = world.replica()
    only.line.hold(is_a(Bind))
    world.add(pod("p"))

    only.replica.stop()
    world.add(pod("too-late"))
    world.clock.advance(GRACE_S - 1.0)
    assert (only.ended, world.holder) == ([], "a")
    assert only.replica.is_stopping

    only.line.release()
    world.settle()
    assert (only.ended, world.bound, only.binds) == ([0], {"p"}, ["p"])
    assert world.holder == ""


def test_what_happened_last_is_told_before_the_end() -> None:
    world = World(node("n"))
    only = world.replica()
    only.event_line.hold(lambda request: True)
    world.add(pod("p"))
    only.replica.stop()
    world.clock.advance(GRACE_S - 1.0)
    assert (only.ended, world.holder) == ([], "a")

    only.event_line.release()
    world.settle()

    assert only.ended == [0]
    assert only.recorder.pending == 0


def test_who_leads_is_told_on_the_lease() -> None:
    world = World(node("n"))
    leader = world.replica("a")
    world.replica("b")
    leader.replica.stop()
    world.clock.advance(5.0)

    events, _ = world.store.select(EVENT, ListOptions(namespace="kube-system"))
    told = [event for event, _ in events if isinstance(event, Event)]
    assert sorted(event.note for event in told) == [
        "a became leader",
        "a stopped leading",
        "b became leader",
    ]
    for event in told:
        about = event.regarding
        assert about is not None
        assert (event.type, event.reason) == ("Normal", "LeaderElection")
        assert event.reporting_controller == "default-scheduler"
        assert (about.api_version, about.kind) == ("coordination.k8s.io/v1", "Lease")
        assert about.name == "kube-scheduler"


def test_events_that_nobody_takes_delay_the_end_only_so_much() -> None:
    world = World(node("n"))
    only = world.replica()
    only.event_line.hold(lambda request: True)
    world.add(pod("p"))
    only.replica.stop()
    world.clock.advance(GRACE_S)

    assert (only.ended, world.holder) == ([0], "")


def test_a_binding_that_does_not_end_is_cut_off_before_the_lease_is_free() -> None:
    world = World(node("n"))
    only = world.replica()
    only.line.hold(is_a(Bind))
    world.add(pod("p"))
    only.replica.stop()

    world.clock.advance(GRACE_S)

    assert (only.ended, only.line.dropped, world.holder) == ([0], True, "")
    assert '"Stopping: some calls did not end in time" calls=1' in only.out.getvalue()


def test_asked_twice_it_ends_at_once() -> None:
    world = World(node("n"))
    only = world.replica()
    only.line.hold(is_a(Bind))
    world.add(pod("p"))
    only.replica.stop()
    world.settle()

    only.replica.stop()

    assert (only.ended, only.line.dropped) == ([1], True)


def test_a_standby_stops_at_once_and_leaves_the_lease_alone() -> None:
    world = World(node("n"))
    world.replica("a")
    standby = world.replica("b")

    standby.replica.stop()

    assert (standby.ended, world.holder) == ([0], "a")


def test_a_lease_that_cannot_be_given_back_delays_the_end_only_so_much() -> None:
    world = World(node("n"))
    only = world.replica()
    only.lease_line.hold(lambda request: True)
    only.replica.stop()
    world.clock.advance(RELEASE_S - 0.1)
    assert only.ended == []
    world.clock.advance(0.1)

    assert only.ended == [0]


# -- the lease is lost ------------------------------------------------------------------------


def test_a_leader_that_cannot_renew_stops_at_its_deadline_and_ends_with_1() -> None:
    world = World(node("n"))
    leader = world.replica("a")
    leader.lease_line.down = True
    world.clock.advance(RENEW_S - 0.1)
    assert (leader.ended, leader.replica.is_leading) == ([], True)

    world.clock.advance(0.1)
    world.add(pod("p"))
    world.clock.advance(60.0)

    assert (leader.ended, leader.binds, leader.line.dropped) == ([1], [], True)
    assert "Leaderelection lost" in leader.out.getvalue()


def test_a_leader_whose_renewals_are_never_answered_stops_too() -> None:
    world = World(node("n"))
    leader = world.replica("a")
    leader.lease_line.hold(lambda request: True)

    world.clock.advance(RENEW_S)

    assert leader.ended == [1]


def test_a_leader_that_sees_another_in_office_stops_at_its_next_look() -> None:
    world = World(node("n"))
    leader, other = world.replica("a"), world.replica("b")
    world.clock.advance(30.0)
    # As if an operator had given the lease to the other.
    _give_lease_to(world, "b")

    world.clock.advance(RETRY_S)

    assert leader.ended == [1]
    assert not other.ended


def _give_lease_to(world: World, name: str) -> None:
    lease = world.store.read(LEASE, "kube-system", "kube-scheduler")[0]
    assert isinstance(lease, Lease)
    spec = msgspec.structs.replace(lease.spec, holder_identity=name)
    world.store.put(msgspec.structs.replace(lease, spec=spec))


def test_after_standing_still_nothing_is_written_by_yesterdays_lease() -> None:
    """A process that was stopped goes on where it was, before any of its timers has gone off."""
    world = World(node("n"))
    leader = world.replica("a")
    world.clock.advance(30.0)
    assert leader.replica.may_write

    world.clock.now_s += LEASE_S - RETRY_S
    assert leader.replica.may_write
    world.clock.now_s += RETRY_S + 0.1

    assert leader.replica.is_leading
    assert not leader.replica.may_write


def test_a_standby_may_not_write() -> None:
    world = World(node("n"))
    leader, standby = world.replica("a"), world.replica("b")

    assert (leader.replica.may_write, standby.replica.may_write) == (True, False)
    leader.replica.stop()
    world.settle()
    assert not leader.replica.may_write


def test_the_end_of_one_is_the_beginning_of_the_other() -> None:
    world = World(node("n"))
    leader, standby = world.replica("a"), world.replica("b")
    leader.lease_line.down = True
    world.clock.advance(1.0)
    world.add(pod("p"))
    world.clock.advance(RENEW_S)
    world.add(pod("q"))

    world.clock.advance(LEASE_S + 3 * RETRY_S)

    assert (leader.binds, standby.binds) == (["p"], ["q"])


outages = st.lists(
    st.tuples(st.sampled_from("abc"), st.floats(0.0, 40.0), st.floats(0.1, 30.0)), max_size=6
)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(outages, st.integers(0, 3))
def test_two_never_bind_in_the_same_term(
    cuts: list[tuple[str, float, float]], stopped: int
) -> None:
    """Whatever happens to the lines to the lease: bindings of different replicas never mix."""
    world = World(node("n", pods=1000))
    replicas = {name: world.replica(name) for name in "abc"}
    for name, at_s, lasts_s in cuts:
        line = replicas[name].lease_line
        world.clock.at(at_s, lambda line=line: setattr(line, "down", True))
        world.clock.at(at_s + lasts_s, lambda line=line: setattr(line, "down", False))
    for number in range(40):
        world.clock.at(number * 2.0, lambda n=number: world.store.put(pod(f"p{n}")))
    if stopped < 3:
        world.clock.at(33.3, replicas["abc"[stopped]].replica.stop)
    leaders_max = 0
    for _ in range(160):
        world.clock.advance(0.5)
        leading = [name for name, one in replicas.items() if one.replica.is_leading]
        leaders_max = max(leaders_max, len(leading))

    assert leaders_max == 1
    times = sorted(
        (at_s, name)
        for name, one in replicas.items()
        for at_s, request in one.sent
        if isinstance(request, Bind)
    )
    terms = [name for i, (_, name) in enumerate(times) if i == 0 or times[i - 1][1] != name]
    assert len(terms) == len(set(terms)), "a replica that lost its lease bound again"


# -- a mistake of ours ------------------------------------------------------------------------


def test_a_machine_that_breaks_ends_the_process_and_frees_the_lease() -> None:
    world = World(node("n"))
    only = world.replica()

    def broken(event: object, now_s: float) -> list[object]:
        raise LookupError("no such thing")

    only.driver.machine.handle = broken  # type: ignore[method-assign, assignment]
    with pytest.raises(LookupError):
        world.add(pod("p"))
    world.settle()

    assert (only.ended, world.holder) == ([BROKEN], "")
    assert "LookupError: no such thing" in only.out.getvalue()


# -- the election on another thread -----------------------------------------------------------


class Elsewhere:
    """What the election tells the replica is heard when the replica has time for it."""

    def __init__(self) -> None:
        self.told: list[Callable[[], None]] = []

    def hear(self) -> None:
        told, self.told = self.told, []
        for action in told:
            action()


def test_a_lease_that_was_lost_stops_writes_before_the_replica_hears_of_it() -> None:
    world, elsewhere = World(node("n")), Elsewhere()
    leader = world.replica("a", back=lambda action: elsewhere.told.append(action))
    elsewhere.hear()
    assert (leader.replica.is_leading, leader.replica.may_write) == (True, True)

    leader.lease_line.down = True
    world.clock.advance(RENEW_S + 0.1)
    assert (leader.replica.is_leading, leader.replica.may_write) == (True, False)
    elsewhere.hear()

    assert leader.ended == [1]


def test_stopped_before_it_heard_that_it_leads_it_gives_the_lease_back() -> None:
    world, elsewhere = World(node("n"), pod("p")), Elsewhere()
    leader = world.replica("a", back=lambda action: elsewhere.told.append(action))
    leader.replica.stop()
    world.settle()
    elsewhere.hear()

    assert (leader.ended, world.holder, leader.binds) == ([0], "", [])


def test_halted_from_outside_it_sends_nothing_and_leaves_the_end_to_others() -> None:
    world = World(node("n"))
    leader = world.replica("a")
    leader.replica.halt()
    world.add(pod("p"))
    world.clock.advance(60.0)

    assert (leader.binds, leader.ended, leader.replica.may_write) == ([], [], False)
