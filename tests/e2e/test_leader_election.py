"""Two replicas and one lease: one of them schedules, and the other takes over when it must."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.harness.objects import node, pod
from tests.e2e.harness.scheduler import LEASE, QUICK_ELECTION, Scheduler
from tests.e2e.harness.world import World


def _holder(world: World) -> str:
    if not world.exists("Lease", LEASE):
        return ""
    holder: str = world.get("Lease", LEASE)["spec"].get("holderIdentity") or ""
    return holder


def _leads(scheduler: Scheduler) -> bool:
    # kube-scheduler's name for it, whatever the lease is called.
    labels = {"name": "kube-scheduler"}
    return scheduler.metric("leader_election_master_status", labels) == 1.0


@pytest.fixture
def replicas(world: World, new_scheduler: Callable[..., Scheduler]) -> tuple[Scheduler, Scheduler]:
    """The leader, and the one that stands by."""
    if world.exists("Lease", LEASE):
        world.delete("Lease", LEASE)
    one, other = (
        new_scheduler(name=name, leaderElection=QUICK_ELECTION).start() for name in ("one", "other")
    )
    world.until("one of them leads", lambda: _leads(one) or _leads(other))
    return (one, other) if _leads(one) else (other, one)


def test_only_one_of_two_replicas_schedules(
    world: World, replicas: tuple[Scheduler, Scheduler]
) -> None:
    leader, standby = replicas
    assert not _leads(standby)
    world.add_nodes(node("n1"))
    names = [f"p{i}" for i in range(10)]
    world.create(*(pod(it) for it in names))
    world.until_bound(*names)

    labels = {"result": "scheduled", "profile": "default-scheduler"}
    attempts = "scheduler_schedule_attempts_total"
    # Counted when the answer to a binding has come, which others may hear of first.
    world.until("all are counted", lambda: leader.metric(attempts, labels) == 10)
    assert standby.metric(attempts, labels) == 0
    lease = world.get("Lease", LEASE)["spec"]
    assert lease["leaseDurationSeconds"] == 3


def test_when_the_leader_is_killed_the_other_takes_over(
    world: World, replicas: tuple[Scheduler, Scheduler]
) -> None:
    leader, standby = replicas
    world.add_nodes(node("n1"))
    world.create(pod("before"))
    world.until_bound("before")
    holder = _holder(world)
    transitions = world.get("Lease", LEASE)["spec"]["leaseTransitions"]

    leader.process.kill()
    world.create(pod("after"))
    world.until_bound("after")
    assert _leads(standby)
    assert _holder(world) not in ("", holder)
    assert world.get("Lease", LEASE)["spec"]["leaseTransitions"] == transitions + 1


def test_a_leader_that_is_asked_to_stop_hands_over(
    world: World, replicas: tuple[Scheduler, Scheduler]
) -> None:
    leader, standby = replicas
    # Nobody to take it up at once: what the leader leaves behind can be seen.
    standby.process.kill()
    leader.process.signal(signal.SIGTERM)
    assert leader.process.wait() == 0, leader.process.tail()
    spec: dict[str, Any] = world.get("Lease", LEASE)["spec"]
    assert not spec.get("holderIdentity")
    assert spec["leaseDurationSeconds"] == 1

    standby.start()
    world.add_nodes(node("n1"))
    world.create(pod("after"))
    world.until_bound("after")


def test_a_leader_that_loses_its_lease_ends(
    world: World, replicas: tuple[Scheduler, Scheduler]
) -> None:
    leader, standby = replicas
    standby.process.kill()
    taken = {"spec": {"holderIdentity": "a-thief", "leaseDurationSeconds": 3600}}
    world.patch("Lease", LEASE, taken)
    assert leader.process.wait() == 1, leader.process.tail()
    assert _holder(world) == "a-thief"
