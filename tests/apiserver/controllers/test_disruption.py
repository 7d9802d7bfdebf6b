"""PodDisruptionBudgets: how many pods may go, kept true."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.objects.kinds import DEPLOYMENT, POD, POD_DISRUPTION_BUDGET, STATEFUL_SET
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


def test_pods_that_nobody_scales_count_for_themselves(world: World) -> None:
    for name in ("a", "b", "c"):
        create_pod(world.store, name, labels={"app": "web"})
    world.create(POD_DISRUPTION_BUDGET, budget(maxUnavailable=1))

    assert numbers(world) == (3, 3, 2, 1)


def test_a_share_is_rounded_up_and_pods_of_several_owners_are_added_up(world: World) -> None:
    world.create(DEPLOYMENT, workload(replicas=4))
    both = workload("other", replicas=3)
    both["spec"]["selector"]["matchLabels"]["app"] = "web"
    both["spec"]["selector"]["matchLabels"]["of"] = "other"
    both["spec"]["template"]["metadata"]["labels"] = {"app": "web", "of": "other"}
    world.create(STATEFUL_SET, both)
    create_pod(world.store, "alone", labels={"app": "web"})
    world.run(10.0)
    world.create(POD_DISRUPTION_BUDGET, budget(minAvailable="50%"))
    assert numbers(world) == (8, 8, 4, 4)

    patch(world.store, POD_DISRUPTION_BUDGET, "web", {"spec": {"minAvailable": "51%"}})
    world.run()
    assert numbers(world) == (8, 8, 5, 3)


def test_pods_that_have_ended_or_are_going_are_not_healthy(world: World) -> None:
    for name in ("a", "b", "c"):
        create_pod(world.store, name, labels={"app": "web"})
    world.create(POD_DISRUPTION_BUDGET, budget(minAvailable=1))
    assert numbers(world) == (3, 3, 1, 2)

    patch(world.store, POD, "a", {"metadata": {"finalizers": ["example.com/stay"]}})
    delete(world.store, POD, "a")
    world.run()
    assert numbers(world) == (3, 2, 1, 1)
    patch(world.store, POD, "b", {"status": {"phase": "Succeeded"}}, "merge", "status")
    world.run()
    assert numbers(world) == (2, 1, 1, 0)


def test_whether_any_may_go_is_a_condition_with_its_time(world: World) -> None:
    def condition() -> tuple[str, str, str, str]:
        [one] = world.status(POD_DISRUPTION_BUDGET, "web")["conditions"]
        return one["type"], one["status"], one["reason"], one["lastTransitionTime"]

    world.create(POD_DISRUPTION_BUDGET, budget(minAvailable=1))
    *told, none_since = condition()
    assert told == ["DisruptionAllowed", "False", "InsufficientPods"]
    world.run(60.0)
    for name in ("a", "b"):
        create_pod(world.store, name, labels={"app": "web"})
    world.run(10.0)
    *told, some_since = condition()
    assert told == ["DisruptionAllowed", "True", "SufficientPods"]
    assert some_since > none_since

    create_pod(world.store, "c", labels={"app": "web"})
    world.run(60.0)
    assert numbers(world) == (3, 3, 1, 2)
    assert condition()[3] == some_since


def test_a_budget_that_was_made_anew_starts_anew(world: World) -> None:
    create_pod(world.store, "a", labels={"app": "web"})
    world.create(POD_DISRUPTION_BUDGET, budget(minAvailable=0))
    assert numbers(world) == (1, 1, 0, 1)
    delete(world.store, POD_DISRUPTION_BUDGET, "web")
    world.run(60.0)
    world.create(POD_DISRUPTION_BUDGET, budget(minAvailable=0))

    assert numbers(world) == (1, 1, 0, 1)


def test_a_budget_whose_number_was_taken_off_by_an_eviction_is_put_right(world: World) -> None:
    for name in ("a", "b"):
        create_pod(world.store, name, labels={"app": "web"})
    world.create(POD_DISRUPTION_BUDGET, budget(minAvailable=1))
    assert numbers(world) == (2, 2, 1, 1)

    taken = {"status": {"disruptionsAllowed": 0}}
    patch(world.store, POD_DISRUPTION_BUDGET, "web", taken, "merge", "status")
    world.run(5.0)
    assert numbers(world) == (2, 2, 1, 1)


def test_pods_that_come_and_go_without_ever_running_are_expected_meanwhile() -> None:
    world = World(binds=False)
    world.create(POD_DISRUPTION_BUDGET, budget(minAvailable=1))
    create_pod(world.store, "a", labels={"app": "web"})
    world.run()
    assert numbers(world) == (1, 0, 1, 0)

    delete(world.store, POD, "a")
    world.run()
    assert numbers(world) == (0, 0, 1, 0)
