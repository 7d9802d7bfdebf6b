"""A backlog of 2,000 pods on nodes with room for exactly that many, while things are killed.

Afterwards every pod has a node, and no node has more than fits: neither a restarted scheduler nor
one that lost its watches may forget what it or its predecessor bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.e2e.harness.cluster import Cluster
from tests.e2e.harness.cutting_proxy import CuttingProxy
from tests.e2e.harness.objects import COLLECTIONS, node, pod
from tests.e2e.harness.scheduler import Scheduler
from tests.e2e.harness.world import World, overcommitted

PODS = 2_000
NODES = 50
FAULTS = 3
WAIT_S = 90.0


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[CuttingProxy]:
    made = CuttingProxy(cluster.port)
    yield made
    made.close()


@pytest.fixture
def backlog(world: World) -> set[str]:
    """The uids of pods that wait for a scheduler, on nodes that they fill to the last millicore."""
    per_node = PODS // NODES
    world.add_nodes(*(node(f"n{i}", cpu=f"{per_node * 100}m") for i in range(NODES)))
    created = world.create(*(pod(f"p{i}", cpu="100m") for i in range(PODS)))
    return {it["metadata"]["uid"] for it in created}


def _bound(world: World) -> int:
    return sum("nodeName" in it["spec"] for it in world.pods())


def _wait_for(world: World, count: int) -> None:
    world.until(f"{count} pods are bound", lambda: _bound(world) >= count, timeout_s=WAIT_S)


def _wait_for_share(world: World, fault: int) -> None:
    """The moment for the next fault: some pods are bound since the last, and many are not yet."""
    _wait_for(world, fault * PODS // (FAULTS + 3))
    assert _bound(world) < PODS, "too late to be a test"


def _check(world: World, backlog: set[str]) -> None:
    _wait_for(world, PODS)
    pods = world.pods()
    assert {it["metadata"]["uid"] for it in pods} == backlog
    assert overcommitted(world.api.items(COLLECTIONS["Node"]), pods) == {}


def test_a_scheduler_that_is_killed_again_and_again(
    world: World, backlog: set[str], new_scheduler: Callable[..., Scheduler]
) -> None:
    scheduler = new_scheduler().start()
    for fault in range(1, FAULTS + 1):
        _wait_for_share(world, fault)
        scheduler.process.kill()
        scheduler.start()
    _check(world, backlog)


def test_an_api_server_that_is_killed_again_and_again(
    world: World, backlog: set[str], new_scheduler: Callable[..., Scheduler]
) -> None:
    scheduler = new_scheduler().start()
    for fault in range(1, FAULTS + 1):
        _wait_for_share(world, fault)
        world.cluster.kill()
        world.cluster.start()
    _check(world, backlog)
    assert scheduler.process.exit_code is None, "the scheduler outlives its API server"


def test_connections_that_are_cut_again_and_again(
    world: World,
    backlog: set[str],
    new_scheduler: Callable[..., Scheduler],
    proxy: CuttingProxy,
) -> None:
    scheduler = new_scheduler(proxy_port=proxy.port).start()
    for fault in range(1, FAULTS + 1):
        _wait_for_share(world, fault)
        assert proxy.cut() > 0
    _check(world, backlog)
    assert scheduler.process.exit_code is None, "the scheduler outlives its connections"
