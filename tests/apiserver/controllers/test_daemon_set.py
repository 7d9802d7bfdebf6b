"""DaemonSets: one pod on every node that suits."""

from __future__ import annotations

from stowplan.objects.kinds import DAEMON_SET, NODE, POD
from tests.apiserver.controllers.world import World, workload
from tests.apiserver.things import create_pod, delete, patch


def on_nodes(world: World) -> list[str]:
    return sorted(pod["spec"].get("nodeName", "") for pod in world.pods())


def test_every_node_has_one(world: World) -> None:
    world.create(DAEMON_SET, workload())

    status = world.status(DAEMON_SET, "web")
    assert on_nodes(world) == ["n1", "n2", "n3"]
    assert (status["desiredNumberScheduled"], status["numberReady"]) == (3, 3)
    assert (status["currentNumberScheduled"], status["updatedNumberScheduled"]) == (3, 3)


def test_a_new_node_gets_one(world: World) -> None:
    world.create(DAEMON_SET, workload())
    world.add_node("n4")
    world.run()

    assert on_nodes(world) == ["n1", "n2", "n3", "n4"]


def test_a_selector(world: World) -> None:
    body = workload()
    body["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "ssd"}
    world.create(DAEMON_SET, body)
    assert on_nodes(world) == []
    patch(world.store, NODE, "n2", {"metadata": {"labels": {"disk": "ssd"}}})
    world.run()
    assert on_nodes(world) == ["n2"]

    patch(world.store, NODE, "n2", {"metadata": {"labels": {"disk": None}}})
    world.run()
    assert on_nodes(world) == []


def test_taints_keep_it_away_unless_tolerated(world: World) -> None:
    taints = [{"key": "own", "value": "x", "effect": "NoSchedule"}]
    patch(world.store, NODE, "n1", {"spec": {"taints": taints}}, "merge")
    world.create(DAEMON_SET, workload("plain"))
    tolerant = workload("tolerant")
    tolerant["spec"]["template"]["spec"]["tolerations"] = [{"operator": "Exists"}]
    world.create(DAEMON_SET, tolerant)

    by_name: dict[str, list[str]] = {}
    for pod in world.pods():
        by_name.setdefault(pod["metadata"]["labels"]["app"], []).append(pod["spec"]["nodeName"])
    assert sorted(by_name["plain"]) == ["n2", "n3"]
    assert sorted(by_name["tolerant"]) == ["n1", "n2", "n3"]


def test_a_cordoned_node_keeps_its_own(world: World) -> None:
    world.create(DAEMON_SET, workload())
    patch(world.store, NODE, "n1", {"spec": {"unschedulable": True}}, "merge")
    world.run(5.0)

    assert on_nodes(world) == ["n1", "n2", "n3"]


def test_a_pod_that_goes_comes_back(world: World) -> None:
    world.create(DAEMON_SET, workload())
    delete(world.store, POD, world.pod_names()[0])
    world.run()

    assert on_nodes(world) == ["n1", "n2", "n3"]


def test_of_two_on_a_node_the_older_stays(world: World) -> None:
    create_pod(world.store, "older", node_name="n1", labels={"app": "other"})
    world.run(10.0)
    world.create(DAEMON_SET, workload())
    younger = [pod["metadata"] for pod in world.pods() if pod["metadata"]["name"] != "older"]
    assert len(younger) == 3
    # Of the same template, so that it need not be replaced.
    patch(world.store, POD, "older", {"metadata": {"labels": younger[0]["labels"]}}, "merge")
    world.run(5.0)

    assert on_nodes(world) == ["n1", "n2", "n3"]
    assert "older" in world.pod_names()


def test_a_new_template_goes_round_node_by_node(world: World) -> None:
    world.create(DAEMON_SET, workload())
    world.seen.clear()
    image = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "app:2"}]}}}}
    patch(world.store, DAEMON_SET, "web", image)
    world.run(10.0)

    assert [what for what, _ in world.seen] == ["DELETED", "ADDED"] * 3
    assert {pod["spec"]["containers"][0]["image"] for pod in world.pods()} == {"app:2"}


def test_it_goes_with_its_pods(world: World) -> None:
    world.create(DAEMON_SET, workload())
    delete(world.store, DAEMON_SET, "web")
    world.run()

    assert world.pods() == []
