"""A backlog of pods, and room for 2,000 of them, while things are killed.

Afterwards every place is taken, and no node has more than fits: neither a scheduler that starts
anew nor one that lost its watches or the answers to its bindings may forget what was bound.  Those
for whom there is no room take every place that anybody believes to be free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from http.client import HTTPException

import pytest

from tests.e2e.harness.api import Refused
from tests.e2e.harness.cluster import Cluster
from tests.e2e.harness.cutting_proxy import CuttingProxy
from tests.e2e.harness.objects import COLLECTIONS, node, pod
from tests.e2e.harness.scheduler import Scheduler
from tests.e2e.harness.world import World, overcommitted

PODS = 2_000
"""For which there is room."""
TOO_MANY = 100
NODES = 50
ROUNDS = 2
CALLS_A_SECOND = 120
"""So that the backlog lasts, and each fault finds bindings under way."""
LAST = 250
"""Places that are still free when answers are lost."""
LOST = 10
"""Of so many bindings at least; the other calls under way are events and conditions."""
WAIT_S = 90.0
LOOK_EVERY_S = 0.25


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
    created = world.create(*(pod(f"p{i}", cpu="100m") for i in range(PODS + TOO_MANY)))
    return {it["metadata"]["uid"] for it in created}


def _waiting(world: World) -> int:
    """How many places are to be filled yet."""
    try:
        waiting = world.api.items(COLLECTIONS["Pod"], fieldSelector="spec.nodeName=")
        return len(waiting) - TOO_MANY
    except (HTTPException, OSError, Refused):
        return PODS  # It starts anew; the next look will tell.


def _wait_for(world: World, most: int) -> None:
    what = f"no more than {most} places are free"
    world.until(what, lambda: _waiting(world) <= most, timeout_s=WAIT_S, poll_s=LOOK_EVERY_S)


def _lose_answers(world: World, proxy: CuttingProxy) -> None:
    """When little room is left: bindings arrive, and the scheduler does not hear of it.

    Were it to believe that they failed, it would give their room to those who still wait.
    """
    _wait_for(world, LAST)
    proxy.swallow_answers()
    before = _waiting(world)
    world.until(
        "bindings arrive whose answers are lost",
        lambda: _waiting(world) <= before - LOST,
        poll_s=LOOK_EVERY_S,
    )
    proxy.cut()
    assert _waiting(world) > LOST, "too few are left to be a test"


@pytest.mark.timeout(300)
def test_nothing_is_lost_or_overcommitted_whatever_is_killed(
    world: World,
    backlog: set[str],
    new_scheduler: Callable[..., Scheduler],
    proxy: CuttingProxy,
) -> None:
    scheduler = new_scheduler(proxy_port=proxy.port, qps=CALLS_A_SECOND).start()

    def cut_the_connections() -> None:
        # With them go the answers to bindings that have arrived.
        assert proxy.cut() > 0

    def kill_the_api_server() -> None:
        world.cluster.kill()
        # The scheduler does not wait for it to be ready either.
        world.cluster.start(wait=False)

    def kill_the_scheduler() -> None:
        assert scheduler.process.exit_code is None, "it outlives its connections and its API server"
        scheduler.process.kill()
        scheduler.start()

    faults = [cut_the_connections, kill_the_api_server, kill_the_scheduler] * ROUNDS
    for number, fault in enumerate(faults, start=1):
        # Some pods are bound since the last one, and many are not yet.
        _wait_for(world, PODS - number * PODS // (len(faults) + 4))
        assert _waiting(world), f"{fault.__name__}: too late to be a test"
        fault()

    _lose_answers(world, proxy)
    _wait_for(world, 0)
    pods = world.pods()
    assert {it["metadata"]["uid"] for it in pods} == backlog
    assert overcommitted(world.api.items(COLLECTIONS["Node"]), pods) == {}
