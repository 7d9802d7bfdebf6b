"""PodDisruptionBudgets: how many pods may go, kept true."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.objects.kinds import DEPLOYMENT, POD, POD_DISRUPTION_BUDGET
from tests.apiserver.controllers.world import World, workload
from tests.apiserver.things import create_pod, delete, patch


def budget(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }


def numbers(world: World) -> tuple[int, int, int, int]:
    """Expected, healthy, needed, and how many may go."""
    status = world.status(POD_DISRUPTION_BUDGET, "web")
    keys = ("expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed")
    expected, healthy, needed, allowed = (status.get(key, 0) for key in keys)
    return expected, healthy, needed, allowed


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"minAvailable": 3}, (5, 5, 3, 2)),
        ({"minAvailable": "50%"}, (5, 5, 3, 2)),
        ({"maxUnavailable": 1}, (5, 5, 4, 1)),
        ({"maxUnavailable": "30%"}, (5, 5, 3, 2)),
        ({"minAvailable": 7}, (5, 5, 7, 0)),
        ({"minAvailable": 0}, (5, 5, 0, 5)),
    ],
)
def test_numbers_and_shares(
    world: World, spec: dict[str, Any], found: tuple[int, int, int, int]
) -> None:
    world.create(DEPLOYMENT, workload(replicas=5))
    world.create(POD_DISRUPTION_BUDGET, budget(**spec))

    assert numbers(world) == found


def test_it_follows_the_pods(world: World) -> None:
    world.create(POD_DISRUPTION_BUDGET, budget(minAvailable=2))
    assert numbers(world) == (0, 0, 2, 0)
    for name in ("a", "b", "c"):
        create_pod(world.store, name, labels={"app": "web"})
    create_pod(world.store, "other", labels={"app": "db"})
    world.run()
    assert numbers(world) == (3, 3, 2, 1)

    not_ready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    patch(world.store, POD, "a", not_ready, "strategic", "status")
    world.run()
    assert numbers(world) == (3, 2, 2, 0)
    delete(world.store, POD, "a")
    delete(world.store, POD, "b")
    world.run()
    assert numbers(world) == (1, 1, 2, 0)


def test_a_share_is_of_what_is_wanted_not_of_what_is_there() -> None:
    world = World(binds=False)
    world.create(DEPLOYMENT, workload(replicas=4))
    world.create(POD_DISRUPTION_BUDGET, budget(maxUnavailable=2))

    assert numbers(world) == (4, 0, 2, 0)


def test_it_says_which_version_it_is_about(world: World) -> None:
    made = world.create(POD_DISRUPTION_BUDGET, budget(minAvailable=1))

    status = world.status(POD_DISRUPTION_BUDGET, "web")
    assert status["observedGeneration"] == made.metadata.generation
