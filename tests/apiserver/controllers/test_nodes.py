"""Nodes: the taint of a cordon, evictions by taints, pods of nodes that are gone."""

from __future__ import annotations

from stowplan.objects.kinds import NODE, REPLICA_SET
from stowplan.objects.pod import Toleration
from tests.apiserver.controllers.world import World, workload
from tests.apiserver.things import create_pod, delete, patch

CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def cordon(world: World, on: bool) -> None:
    patch(world.store, NODE, "n1", {"spec": {"unschedulable": on}}, "merge")
    world.run()


def taint(world: World, effect: str = "NoExecute") -> None:
    taints = [{"key": "broken", "value": "yes", "effect": effect}]
    patch(world.store, NODE, "n1", {"spec": {"taints": taints}}, "merge")
    world.run()


def test_a_cordon_is_a_taint_too(world: World) -> None:
    cordon(world, True)
    assert world.get(NODE, "n1")["spec"]["taints"] == [CORDON]
    cordon(world, False)

    assert "taints" not in world.get(NODE, "n1").get("spec", {})


def test_other_taints_stay(world: World) -> None:
    taint(world, "NoSchedule")
    cordon(world, True)
    keys = [one["key"] for one in world.get(NODE, "n1")["spec"]["taints"]]
    assert sorted(keys) == ["broken", CORDON["key"]]
    cordon(world, False)

    assert [one["key"] for one in world.get(NODE, "n1")["spec"]["taints"]] == ["broken"]


def test_no_execute_drives_pods_out(world: World) -> None:
    create_pod(world.store, "here", node_name="n1")
    create_pod(world.store, "there", node_name="n2")
    world.run()
    taint(world)

    assert world.pod_names() == ["there"]
    assert world.events("TaintManagerEviction") == ["Marking for deletion Pod default/here"]


def test_no_schedule_does_not(world: World) -> None:
    create_pod(world.store, "here", node_name="n1")
    world.run()
    taint(world, "NoSchedule")

    assert world.pod_names() == ["here"]


def tolerating(world: World, name: str, seconds: int | None) -> None:
    toleration = Toleration(
        key="broken", operator="Exists", effect="NoExecute", toleration_seconds=seconds
    )
    create_pod(world.store, name, node_name="n1", tolerations=[toleration])


def test_a_toleration_may_run_out(world: World) -> None:
    tolerating(world, "for-a-while", 60)
    tolerating(world, "for-ever", None)
    world.run()
    taint(world)
    world.run(55.0)
    assert world.pod_names() == ["for-a-while", "for-ever"]
    world.run(10.0)

    assert world.pod_names() == ["for-ever"]


def test_a_taint_that_goes_in_time_drives_nobody_out(world: World) -> None:
    tolerating(world, "for-a-while", 60)
    world.run()
    taint(world)
    world.run(30.0)
    patch(world.store, NODE, "n1", {"spec": {"taints": None}}, "merge")
    world.run(100.0)

    assert world.pod_names() == ["for-a-while"]


def test_pods_of_a_node_that_is_gone_go_after_a_while(world: World) -> None:
    world.create(REPLICA_SET, workload(replicas=3))
    assert {pod["spec"]["nodeName"] for pod in world.pods()} == {"n1", "n2", "n3"}
    world.nodes.remove("n1")
    delete(world.store, NODE, "n1")
    world.run(30.0)
    assert len(world.pods()) == 3
    world.run(30.0)

    assert {pod["spec"]["nodeName"] for pod in world.pods()} == {"n2", "n3"}
    assert len(world.pods()) == 3


def test_a_node_that_comes_back_keeps_its_pods(world: World) -> None:
    create_pod(world.store, "here", node_name="n1")
    world.run()
    delete(world.store, NODE, "n1")
    world.run(20.0)
    world.add_node("n1")
    world.run(100.0)

    assert world.pod_names() == ["here"]


def test_each_absence_of_a_node_counts_for_itself(world: World) -> None:
    create_pod(world.store, "here", node_name="n1")
    world.run()
    for _ in range(3):
        delete(world.store, NODE, "n1")
        world.run(30.0)
        world.add_node("n1")
        world.run(10.0)

    assert world.pod_names() == ["here"]


def test_every_taint_has_to_be_tolerated(world: World) -> None:
    """For ever the first, for a while the second, and not at all the third."""
    forever = Toleration(key="one", operator="Exists")
    awhile = Toleration(key="two", operator="Exists", effect="NoExecute", toleration_seconds=30)
    longer = Toleration(key="two", operator="Exists", effect="NoExecute", toleration_seconds=90)
    for name, tolerations in (("a", [forever]), ("b", [forever, awhile, longer])):
        create_pod(world.store, name, node_name="n1", tolerations=tolerations)
    world.run()

    def taints(*keys: str) -> None:
        listed = [{"key": key, "effect": "NoExecute"} for key in keys]
        patch(world.store, NODE, "n1", {"spec": {"taints": listed}}, "merge")
        world.run(5.0)

    taints("one")
    assert world.pod_names() == ["a", "b"]
    taints("one", "two")
    assert world.pod_names() == ["b"]
    world.run(20.0)
    assert world.pod_names() == ["b"]
    world.run(10.0)
    assert world.pod_names() == []
