"""The kubelet of all nodes: bound pods run, some end, deleted ones go."""

from __future__ import annotations

import pytest

from stowplan.objects.kinds import POD
from tests.apiserver.controllers.world import World
from tests.apiserver.things import create, create_pod, delete, get_pod, pod_data


def conditions(world: World, name: str) -> dict[str, str]:
    found = world.get(POD, name)["status"]["conditions"]
    return {one["type"]: one["status"] for one in found}


def test_a_bound_pod_runs(world: World) -> None:
    create_pod(world.store, "a")
    world.run()

    status = world.get(POD, "a")["status"]
    assert status["phase"] == "Running"
    assert status["startTime"]
    assert conditions(world, "a")["Ready"] == "True"
    assert conditions(world, "a")["PodScheduled"] == "True"
    (container,) = status["containerStatuses"]
    assert (container["name"], container["ready"], container["restartCount"]) == ("c", True, 0)
    assert status["podIP"] != status["hostIP"]


def test_a_pod_that_is_not_bound_does_not() -> None:
    world = World(binds=False)
    create_pod(world.store, "a")
    world.run(100.0)

    assert get_pod(world.store, "a").status.phase == "Pending"


def test_a_pod_on_a_node_that_is_not_there_waits_for_it(world: World) -> None:
    create_pod(world.store, "a", node_name="late")
    world.run(10.0)
    assert get_pod(world.store, "a").status.phase == "Pending"
    world.add_node("late")
    world.run()

    assert get_pod(world.store, "a").status.phase == "Running"


def test_a_deleted_pod_goes(world: World) -> None:
    create_pod(world.store, "a")
    world.run()
    delete(world.store, POD, "a")
    assert get_pod(world.store, "a").metadata.deletion_timestamp is not None
    world.run()

    assert world.pod_names() == []


@pytest.mark.parametrize(("code", "phase"), [("0", "Succeeded"), ("3", "Failed")])
def test_a_pod_may_end(world: World, code: str, phase: str) -> None:
    body = pod_data("a", restartPolicy="Never")
    body["metadata"]["annotations"] = {"stowplan/run-seconds": "30", "stowplan/exit-code": code}
    create(world.store, POD, body)
    world.run(29.0)
    assert get_pod(world.store, "a").status.phase == "Running"
    world.run(3.0)

    status = world.get(POD, "a")["status"]
    assert status["phase"] == phase
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == int(code)
    assert conditions(world, "a")["Ready"] == "False"


def test_other_pods_run_for_ever(world: World) -> None:
    create_pod(world.store, "a")
    world.run(1_000_000.0)

    assert get_pod(world.store, "a").status.phase == "Running"
