"""What the simulation has found, each told as the smallest story; docs/reliability.md lists them.

The seed that found it may tell another story once the simulation has changed; these do not.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from stowplan.apiserver.controllers.bundle import Controllers
from stowplan.apiserver.controllers.resource_claims import FINALIZER
from stowplan.apiserver.store import Store
from stowplan.clock import VirtualClock
from stowplan.errors import NotFound
from stowplan.framework.plugin import Wait
from stowplan.objects.api import Bind, Create, Delete, Patch
from stowplan.objects.kinds import NODE, POD, RESOURCE_CLAIM
from stowplan.plugins import IN_TREE
from tests.builders import node, pod, pod_group
from tests.core.group_world import GANGS, PREEMPTION, TOPOLOGY, GroupWorld
from tests.core.harness import Cluster, is_a, make_plugin

WEB = {"app": "web"}


def test_a_preemptor_hears_of_victims_that_ended_while_it_was_held_back() -> None:
    """Seed 109: the evictions took so long that the victims went before they were through."""
    victims = [pod(name, node="node-1", cpu="1") for name in ("one", "two")]
    cluster = Cluster(node("node-1", cpu="2"), *victims)
    cluster.api.hold(is_a(Delete))
    cluster.add(pod("urgent", cpu="2", spec={"priority": 100}))

    cluster.delete("one")
    cluster.delete("two")
    # Until the evictions are through the preemptor is not to be tried; and no pod ends after them.
    assert cluster.place("urgent") == "gated"
    cluster.api.release()
    cluster.run(15)

    assert cluster.node_of("urgent") == "node-1"


def test_a_pod_hears_that_one_has_other_labels_than_when_it_was_decided_on() -> None:
    """Seed 41162: a pod was labelled while it waited at Permit, and its new labels came with it."""

    def permit(self: Any, cycle: Any, pod: Any, node: str) -> Wait | None:
        return Wait(60.0) if pod.key.endswith("first") else None

    cluster = Cluster(node("node-1"), plugins=(make_plugin("Slow", permit=permit),))
    cluster.add(pod("first", labels=WEB))
    apart = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": WEB}}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
    cluster.add(pod("second", spec={"affinity": {"podAntiAffinity": terms}}))
    assert not cluster.node_of("second")

    cluster.patch(POD, "first", {"metadata": {"labels": {"app": "other"}}})
    cluster.machine.waiting.allow(cluster.pod("first").metadata.uid, "Slow")
    cluster.add(pod("third"))
    cluster.run(15)

    assert cluster.node_of("first") == "node-1"
    assert cluster.node_of("second") == "node-1"


def test_a_pod_hears_when_it_has_become_the_first_of_its_sort() -> None:
    """Seed 43950: where nobody is left whom it wants to be near, it may go anywhere."""
    near = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": WEB}}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": [near]}
    other = pod("other", node="node-1", labels=WEB, cpu="1")
    cluster = Cluster(node("node-1", cpu="1"), node("node-2", cpu="1"), other)
    cluster.patch_node("node-1", {"spec": {"unschedulable": True}})
    cluster.add(pod("web", labels=WEB, cpu="1", spec={"affinity": {"podAffinity": terms}}))
    assert not cluster.node_of("web")

    cluster.delete("other")
    cluster.run(15)

    assert cluster.node_of("web") == "node-2"


def test_a_claim_that_its_pod_never_heard_of_goes_with_the_pod() -> None:
    """Seeds 920059 and 2000932: a claim for extended resources was reserved and then deleted by
    somebody; its pod was never told of it, was bound by hand, and went."""
    clock = VirtualClock(1_000.0)
    store = Store(clock, create_namespaces=True)
    Controllers(store, clock=clock, call_later=clock.at, random=Random(0)).start()
    store.execute(Create(NODE, "", node("node-1")))
    store.execute(Create(POD, "default", pod("web")))
    uid = store.read(POD, "default", "web")[0].uid
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": uid, "controller": True}
    metadata = {"name": "it", "ownerReferences": [owner], "finalizers": [FINALIZER]}
    ask = {"name": "r", "exactly": {"deviceClassName": "whole"}}
    claim = {"metadata": metadata, "spec": {"devices": {"requests": [ask]}}}
    store.execute(Create(RESOURCE_CLAIM, "default", claim))
    result = {"request": "r", "driver": "d.example.com", "pool": "node-1", "device": "one"}
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": "web", "uid": uid}],
    }
    store.execute(Patch(RESOURCE_CLAIM, "default", "it", {"status": status}, "merge", "status"))
    store.execute(Bind("default", "web", uid, "node-1"))
    store.execute(Delete(RESOURCE_CLAIM, "default", "it"))
    clock.run(until_s=clock.now_s + 10.0)

    store.execute(Delete(POD, "default", "web", grace_period_seconds=0))
    clock.run(until_s=clock.now_s + 10.0)

    with pytest.raises(NotFound):
        store.read(RESOURCE_CLAIM, "default", "it")


def test_a_member_whose_gate_opens_before_its_group_is_there_is_not_forgotten() -> None:
    """Seed 1000019: it waited alone, and what woke the group was told to entries of groups only."""
    spec = {"schedulingGates": [{"name": "wait"}]}
    gated = [pod(name, group="g", cpu=1, spec=spec) for name in ("one", "two")]
    world = GroupWorld(node("node-1", cpu=4), gates=GANGS).add(*gated).run()

    for each in gated:
        opened = replace(each.metadata, resource_version="2")
        world.update(replace(each, metadata=opened, spec=replace(each.spec, scheduling_gates=None)))
    world.run()
    world.add(pod_group("g", min_count=2)).run(15)

    assert world.nodes().keys() == {"one", "two"}


def test_a_group_within_a_topology_where_no_node_is_left_waits() -> None:
    """Seed 2001192: placements of no nodes at all were an internal error."""
    only = node("node-1", labels={"rack": "a"})
    world = GroupWorld(only, gates=TOPOLOGY).add(pod_group("g", min_count=1, topology="rack"))
    world.remove_node(only)

    world.add(pod("one", group="g", cpu=1)).run()

    assert "SchedulerError" not in world.message("one")
    world.add(only).run(15)
    assert world.nodes() == {"one": "node-1"}


def test_a_group_whose_last_placed_member_goes_may_go_to_another_domain() -> None:
    """Seed 1000077: those that waited for room where the others were did not hear of it."""
    racks = [node(name, cpu=1, labels={"rack": name}) for name in ("a", "b")]
    world = GroupWorld(*racks, gates=TOPOLOGY).add(pod_group("g", topology="rack"))
    there = pod("one", group="g", cpu=1, node="a")
    world.add(there, pod("other", node="b", cpu=1), pod("two", group="g", cpu=1)).run()
    world.delete(world.pods["default/other"])
    world.run(15)
    assert "two" not in world.nodes()

    world.remove_node(racks[0])
    world.delete(there)
    world.run(15)

    assert world.nodes()["two"] == "b"


def test_a_member_is_not_bound_where_its_victim_still_runs() -> None:
    """Seed 1002705: enough others fitted, so that the group was bound; it waited at Permit."""

    def permit(self: Any, cycle: Any, pod: Any, node: str) -> Wait | None:
        return Wait(1.0) if pod.key.endswith("late") else None

    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Slow"}]}}}],
    }
    world = GroupWorld(
        *(node("free", cpu=2), node("full", cpu=1), pod("victim", node="full", cpu=1)),
        pod_group("g", min_count=2),
        config=config,
        registry={**IN_TREE, "Slow": make_plugin("Slow", permit=permit)},
    )
    world.graceful = True

    urgent = {"one": 9, "two": 9, "late": 8}
    world.add(*(pod(n, group="g", cpu=1, spec={"priority": p}) for n, p in urgent.items())).run(9)

    assert world.condition("g")[0] == "True"
    assert world.nodes() == {"victim": "full", "one": "free", "two": "free"}
    assert world.pods["default/late"].status.nominated_node_name == "full"
    assert world.evicted() == ["victim"]


def test_a_group_for_which_there_was_no_node_at_all_hears_of_one() -> None:
    """Seed 1003441: no plugin had turned its members down, so that no event was for them."""
    world = GroupWorld(pod_group("g", min_count=2))
    world.add(*(pod(name, group="g", cpu=1) for name in ("one", "two"))).run(30)

    world.add(node("node-1", cpu=2)).run(15)

    assert world.nodes().keys() == {"one", "two"}


@pytest.mark.parametrize("is_deleted", [False, True], ids=["cannot go there", "is deleted"])
def test_a_place_that_was_kept_for_a_member_in_vain_is_for_others(is_deleted: bool) -> None:
    """Seed 2000384: no status had said that it was kept, so that none said that it was free."""
    there = node("node-1", cpu=1, labels={"disk": "ssd"})
    world = GroupWorld(there, pod("victim", node="node-1", cpu=1), gates=PREEMPTION)
    world.graceful = True
    picky = {"priority": 5, "nodeSelector": {"disk": "ssd"}}
    member = pod("member", group="g", cpu=1, spec=picky)
    world.add(pod_group("g", min_count=1, priority=9), member).run()
    world.add(pod("other", cpu=1)).run()
    world.finish()
    world.run()
    assert world.nodes() == {}

    if is_deleted:
        world.delete(world.pods["default/member"])
    else:
        world.add(node("node-1", cpu=1))
    world.run(15)

    assert world.nodes() == {"other": "node-1"}


def test_places_are_not_kept_for_a_gang_that_has_too_few_members() -> None:
    """Seed 3000515: one of them was deleted while the victims of the group left."""
    world = GroupWorld(node("node-1", cpu=2), gates=PREEMPTION)
    world.add(*(pod(f"victim-{n}", node="node-1", cpu=1) for n in range(2)))
    world.graceful = True
    world.add(pod_group("g", min_count=2, priority=9))
    world.add(*(pod(name, group="g", cpu=1, spec={"priority": 5}) for name in ("one", "two"))).run()
    world.add(pod("other", cpu=2)).run()

    world.delete(world.pods["default/one"])
    world.finish()
    world.run(15)

    assert world.nodes() == {"other": "node-1"}
