"""Pods of every kind find their node, or say why not, on either API server."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.e2e.harness.objects import (
    HOSTNAME,
    ZONE,
    anti_affinity,
    claim,
    claimed,
    node,
    node_selector,
    path_of,
    pod,
    pod_affinity,
    priority_class,
    spread,
    storage_class,
    volume,
)
from tests.e2e.harness.world import World

Data = dict[str, Any]

APP = {"app": "web"}


def test_a_plain_pod_is_bound_and_an_event_says_so(scheduled: World) -> None:
    scheduled.add_nodes(node("n1"))
    [created] = scheduled.create(pod("plain"))

    assert scheduled.until_bound("plain") == {"plain": "n1"}
    assert scheduled.condition("plain")["status"] == "True"
    event = scheduled.until_event("plain", "Scheduled")
    assert (event["type"], event["action"]) == ("Normal", "Binding")
    assert event["note"] == "Successfully assigned default/plain to n1"
    assert event["reportingController"] == "default-scheduler"
    assert event["reportingInstance"].startswith("default-scheduler-")
    assert event["regarding"]["uid"] == created["metadata"]["uid"]


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {"disk": "ssd"}},
        {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": node_selector("disk", "ssd")
                }
            }
        },
        {
            "affinity": {
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "weight": 100,
                            "preference": node_selector("disk", "ssd")["nodeSelectorTerms"][0],
                        }
                    ]
                }
            }
        },
    ],
    ids=["selector", "required", "preferred"],
)
def test_node_affinity_chooses_the_node(scheduled: World, spec: Data) -> None:
    others = [node(f"hdd-{i}", labels={"disk": "hdd"}) for i in range(3)]
    scheduled.add_nodes(*others, node("ssd", labels={"disk": "ssd"}))
    scheduled.create(pod("picky", **spec))
    assert scheduled.until_bound("picky") == {"picky": "ssd"}


def test_pod_affinity_follows_and_anti_affinity_keeps_apart(scheduled: World) -> None:
    scheduled.add_nodes(*(node(f"n{i}", labels={ZONE: f"z{i % 2}"}) for i in range(4)))
    scheduled.create(pod("first", labels={"app": "db"}))
    zone = int(scheduled.until_bound("first")["first"][1:]) % 2
    follower = pod_affinity({"app": "db"}, ZONE)
    apart = anti_affinity(APP)
    scheduled.create(
        *(pod(f"follower-{i}", affinity=follower) for i in range(3)),
        *(pod(f"apart-{i}", labels=APP, affinity=apart) for i in range(4)),
    )

    followers = scheduled.until_bound(*(f"follower-{i}" for i in range(3)))
    assert {int(name[1:]) % 2 for name in followers.values()} == {zone}
    keepers = scheduled.until_bound(*(f"apart-{i}" for i in range(4)))
    assert sorted(keepers.values()) == ["n0", "n1", "n2", "n3"]


def test_topology_spread_balances_zones(scheduled: World) -> None:
    scheduled.add_nodes(*(node(f"n{i}", labels={ZONE: f"z{i % 3}"}) for i in range(6)))
    names = [f"spread-{i}" for i in range(9)]
    constraint = [spread(APP, ZONE)]
    scheduled.create(*(pod(it, labels=APP, topologySpreadConstraints=constraint) for it in names))

    bound = scheduled.until_bound(*names)
    assert Counter(int(it[1:]) % 3 for it in bound.values()) == {0: 3, 1: 3, 2: 3}


def test_host_ports_are_not_given_twice(scheduled: World) -> None:
    scheduled.add_nodes(node("n1"), node("n2"))
    with_port = [pod(f"port-{i}") for i in range(3)]
    for it in with_port:
        it["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    scheduled.create(*with_port[:2])
    assert sorted(scheduled.until_bound("port-0", "port-1").values()) == ["n1", "n2"]

    scheduled.create(with_port[2])
    rejected = scheduled.until_rejected("port-2")
    assert "2 node(s) didn't have free ports for the requested pod ports" in rejected["message"]
    scheduled.delete("Pod", "port-0")
    scheduled.until_bound("port-2")


def test_a_tainted_node_is_for_those_who_tolerate_it(scheduled: World) -> None:
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    scheduled.add_nodes(node("n1", taints=[taint]))
    toleration = {"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"}
    scheduled.create(pod("stranger"), pod("friend", tolerations=[toleration]))

    scheduled.until_bound("friend")
    rejected = scheduled.until_rejected("stranger")
    assert rejected["message"].startswith(
        "0/1 nodes are available: 1 node(s) had untolerated taint(s)."
    )
    scheduled.patch("Node", "n1", {"spec": {"taints": None}})
    scheduled.until_bound("stranger")


def test_a_cordoned_node_is_left_alone_until_uncordoned(scheduled: World) -> None:
    scheduled.add_nodes(node("n1", unschedulable=True))
    scheduled.create(pod("waits"))
    assert "1 node(s) were unschedulable" in scheduled.until_rejected("waits")["message"]
    scheduled.patch("Node", "n1", {"spec": {"unschedulable": False}})
    scheduled.until_bound("waits")


def test_a_gated_pod_waits_for_its_gate(scheduled: World) -> None:
    scheduled.add_nodes(node("n1"))
    scheduled.create(pod("gated", schedulingGates=[{"name": "example.com/wait"}]), pod("free"))

    scheduled.until_bound("free")
    assert scheduled.node_of("gated") == ""
    assert scheduled.condition("gated")["reason"] == "SchedulingGated"
    scheduled.patch("Pod", "gated", {"spec": {"schedulingGates": []}})
    scheduled.until_bound("gated")


def test_a_pod_that_fits_nowhere_says_why_and_is_bound_once_it_does(scheduled: World) -> None:
    scheduled.add_nodes(node("n1", cpu="1"), node("n2", cpu="1"))
    scheduled.create(pod("large", cpu="2"))

    rejected = scheduled.until_rejected("large")
    assert rejected["reason"] == "Unschedulable"
    assert rejected["message"] == (
        "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate,"
        " preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    )
    event = scheduled.until_event("large", "FailedScheduling")
    assert (event["type"], event["action"]) == ("Warning", "Scheduling")
    assert event["note"] == rejected["message"]

    scheduled.add_nodes(node("n3", cpu="4"))
    assert scheduled.until_bound("large") == {"large": "n3"}


def test_without_nodes_a_pod_waits_for_the_first(scheduled: World) -> None:
    scheduled.create(pod("early"))
    assert scheduled.until_rejected("early")["message"] == "no nodes available to schedule pods"
    scheduled.add_nodes(node("n1"))
    scheduled.until_bound("early")


def test_pods_of_another_scheduler_are_left_alone(scheduled: World) -> None:
    scheduled.add_nodes(node("n1"))
    scheduled.create(pod("foreign", schedulerName="somebody-else"), pod("ours"))
    scheduled.until_bound("ours")

    foreign = scheduled.get("Pod", "foreign")
    assert "nodeName" not in foreign["spec"]
    assert "conditions" not in foreign["status"]


def test_preemption_evicts_the_less_important(scheduled: World) -> None:
    scheduled.create(priority_class("low", 1), priority_class("high", 1000))
    scheduled.add_nodes(node("n1", cpu="1"))
    scheduled.create(pod("victim", cpu="800m", priorityClassName="low"))
    scheduled.until_bound("victim")
    [preemptor] = scheduled.create(pod("vip", cpu="800m", priorityClassName="high"))

    scheduled.until(
        "the victim is being deleted",
        lambda: "deletionTimestamp" in scheduled.get("Pod", "victim")["metadata"],
    )
    target = scheduled.condition("victim", "DisruptionTarget")
    assert (target["status"], target["reason"]) == ("True", "PreemptionByScheduler")
    assert target["message"] == (
        "default-scheduler: preempting to accommodate a higher priority pod"
    )
    event = scheduled.until_event("victim", "Preempted")
    assert (event["type"], event["action"]) == ("Normal", "Preempting")
    assert event["note"] == f"Preempted by pod {preemptor['metadata']['uid']} on node n1"
    scheduled.until(
        "the node is kept for the preemptor",
        lambda: scheduled.get("Pod", "vip")["status"].get("nominatedNodeName") == "n1",
    )
    assert scheduled.until_rejected("vip")["reason"] == "Unschedulable"

    # Nobody runs a kubelet here: the victim is gone when we say so.
    scheduled.delete("Pod", "victim")
    assert scheduled.until_bound("vip") == {"vip": "n1"}


def test_a_claim_that_waits_for_its_consumer_gets_the_volume_of_the_chosen_node(
    scheduled: World,
) -> None:
    scheduled.create(storage_class("local", "kubernetes.io/no-provisioner"))
    scheduled.add_nodes(node("n1"), node("n2"))
    scheduled.create(volume("pv-1", "local", on_node="n2"), claim("data", "local"))
    _set_phase(scheduled, "PersistentVolume", "pv-1", "Available")
    scheduled.create(pod("db", volumes=claimed("data")))

    def reserved() -> Data | None:
        reference: Data | None = scheduled.get("PersistentVolume", "pv-1")["spec"].get("claimRef")
        return reference

    reference = scheduled.until("the volume is kept for the claim", reserved)
    assert reference["name"] == "data"
    assert scheduled.node_of("db") == ""

    _bind_as_the_controller_does(scheduled, "data", "pv-1")
    assert scheduled.until_bound("db") == {"db": "n2"}


def test_a_claim_to_be_provisioned_is_told_the_node(scheduled: World) -> None:
    scheduled.create(storage_class("fast", "example.com/fast"))
    scheduled.add_nodes(node("n1"), node("n2", labels={"disk": "ssd"}))
    scheduled.create(claim("fresh", "fast"))
    scheduled.create(pod("db", volumes=claimed("fresh"), nodeSelector={"disk": "ssd"}))

    def selected() -> str:
        annotations = scheduled.get("PersistentVolumeClaim", "fresh")["metadata"].get("annotations")
        return (annotations or {}).get("volume.kubernetes.io/selected-node", "")

    assert scheduled.until("the provisioner is told the node", selected) == "n2"
    assert scheduled.node_of("db") == ""

    scheduled.create(volume("pv-fresh", "fast", on_node="n2"))
    claim_uid = scheduled.get("PersistentVolumeClaim", "fresh")["metadata"]["uid"]
    reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "fresh"}
    scheduled.patch(
        "PersistentVolume", "pv-fresh", {"spec": {"claimRef": {**reference, "uid": claim_uid}}}
    )
    _bind_as_the_controller_does(scheduled, "fresh", "pv-fresh")
    assert scheduled.until_bound("db") == {"db": "n2"}


def test_a_pod_whose_claim_does_not_exist_waits_for_it(scheduled: World) -> None:
    scheduled.create(storage_class("local", "kubernetes.io/no-provisioner"))
    scheduled.add_nodes(node("n1"))
    scheduled.create(pod("db", volumes=claimed("later")))
    rejected = scheduled.until_rejected("db")
    assert 'persistentvolumeclaim "later" not found' in rejected["message"]

    scheduled.create(claim("later", "local"), volume("pv-1", "local", on_node="n1"))
    _set_phase(scheduled, "PersistentVolume", "pv-1", "Available")
    scheduled.until(
        "the volume is kept for the claim",
        lambda: scheduled.get("PersistentVolume", "pv-1")["spec"].get("claimRef"),
    )
    _bind_as_the_controller_does(scheduled, "later", "pv-1")
    scheduled.until_bound("db")


def _bind_as_the_controller_does(world: World, claim_name: str, volume_name: str) -> None:
    """The volume controller is not here; these are its writes."""
    completed = {"pv.kubernetes.io/bind-completed": "yes"}
    world.patch(
        "PersistentVolumeClaim",
        claim_name,
        {"metadata": {"annotations": completed}, "spec": {"volumeName": volume_name}},
    )
    _set_phase(world, "PersistentVolumeClaim", claim_name, "Bound")
    _set_phase(world, "PersistentVolume", volume_name, "Bound")


def _set_phase(world: World, kind: str, name: str, phase: str) -> None:
    world.api.patch(f"{path_of(kind, name)}/status", {"status": {"phase": phase}})


def test_a_pod_that_names_its_node_is_none_of_our_business(scheduled: World) -> None:
    """It still takes room there."""
    scheduled.add_nodes(node("n1", cpu="1"))
    scheduled.create(pod("static", cpu="800m", nodeName="n1"))
    scheduled.create(pod("other", cpu="800m", nodeSelector={HOSTNAME: "n1"}))
    assert "1 Insufficient cpu" in scheduled.until_rejected("other")["message"]
    assert scheduled.events("static", "Scheduled") == []
