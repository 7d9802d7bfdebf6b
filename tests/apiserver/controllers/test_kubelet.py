"""The kubelet of all nodes: bound pods run, some end, deleted ones go."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest

from stowplan.apiserver.kubelet_status import (
    ended_status,
    node_address,
    pod_address,
    running_status,
)
from stowplan.objects.kinds import POD
from tests.apiserver.controllers.world import World
from tests.apiserver.things import create, create_pod, delete, get_pod, pod_data
from tests.builders import pod


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


# -- what it reports -------------------------------------------------------------------------

NOW = "2026-01-01T00:01:00Z"
SIDECAR = {"name": "side", "image": "side:1", "restartPolicy": "Always"}
TWO = pod(
    "two",
    node="n1",
    spec={
        "containers": [{"name": "a", "image": "app:1"}, {"name": "b", "image": "app:1"}],
        "initContainers": [{"name": "first", "image": "init:1"}, SIDECAR],
    },
    status={"startTime": "2026-01-01T00:00:00Z"},
)


def test_every_container_of_a_running_pod_is_reported() -> None:
    status = running_status(TWO, NOW, detailed=True)

    assert (status["phase"], status["startTime"]) == ("Running", NOW)
    names = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
    assert status["conditions"] == [
        {"type": name, "status": "True", "lastTransitionTime": NOW} for name in names
    ]
    running = {"running": {"startedAt": NOW}}
    main, first = status["containerStatuses"], status["initContainerStatuses"]
    for name, one in zip("ab", main, strict=True):
        assert one["imageID"].startswith("app:1@sha256:")
        assert len(one["imageID"].partition("@sha256:")[2]) == 64
        assert one == {
            "name": name,
            "image": "app:1",
            "imageID": main[0]["imageID"],
            "containerID": f"stowplan://{TWO.uid}/{name}",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": running,
            "lastState": {},
        }
    done = {"exitCode": 0, "reason": "Completed", "startedAt": NOW, "finishedAt": NOW}
    assert [(one["name"], one["ready"], one["started"], one["state"]) for one in first] == [
        ("first", True, False, {"terminated": done}),
        ("side", True, True, running),
    ]


@pytest.mark.parametrize("code", [0, 1, 137])
def test_every_container_of_a_pod_that_ended_is_reported(code: int) -> None:
    status = ended_status(TWO, NOW, code, detailed=True)

    reason = "PodCompleted" if code == 0 else "PodFailed"
    assert status["phase"] == ("Succeeded" if code == 0 else "Failed")
    names = ("PodReadyToStartContainers", "ContainersReady", "Ready")
    assert status["conditions"] == [
        {"type": name, "status": "False", "reason": reason, "lastTransitionTime": NOW}
        for name in names
    ]
    ended = {
        "exitCode": code,
        "reason": "Completed" if code == 0 else "Error",
        "startedAt": "2026-01-01T00:00:00Z",
        "finishedAt": NOW,
    }
    for one in status["containerStatuses"]:
        assert (one["ready"], one["started"]) == (False, False)
        assert one["state"] == {"terminated": ended}


def test_without_details_only_what_schedulers_read_is_written() -> None:
    assert set(running_status(TWO, NOW, detailed=False)) == {"phase", "startTime", "conditions"}
    assert set(ended_status(TWO, NOW, 0, detailed=False)) == {"phase", "conditions"}
    plain = running_status(pod("p", node="n1"), NOW, detailed=True)
    assert "initContainerStatuses" not in plain


def test_addresses() -> None:
    """The same over restarts, so they are written down here; and such as hosts may have."""
    shared = pod("p", node="n1", spec={"hostNetwork": True})
    own, hosts = (running_status(it, NOW, detailed=True) for it in (TWO, shared))

    assert own["hostIP"] == hosts["hostIP"] == hosts["podIP"] == node_address("n1")
    assert own["podIP"] == pod_address(TWO.uid)
    for status in (own, hosts):
        assert status["hostIPs"] == [{"ip": status["hostIP"]}]
        assert status["podIPs"] == [{"ip": status["podIP"]}]
    names = [f"name-{n}" for n in range(2000)]
    for address, within in ((pod_address, "10.128.0.0/9"), (node_address, "172.16.0.0/12")):
        found = [ip_address(address(name)) for name in names]
        network = ip_network(within)
        assert all(it in network for it in found)
        assert {it.packed[3] for it in found} == set(range(1, 255))
        assert {it.packed[2] for it in found} == set(range(256))
        first = network.network_address.packed[1]
        assert {it.packed[1] for it in found} == set(
            range(first, first + 2 ** (16 - network.prefixlen))
        )
