"""A copy of a live cluster decides as the live scheduler does, and is never seen by the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import stowplan as sp
from stowplan.errors import Forbidden
from tests.e2e.harness.cluster import NOBODY, SCHEDULER
from tests.e2e.harness.kinds import only_on_kubernetes
from tests.e2e.harness.objects import (
    COLLECTIONS,
    ZONE,
    anti_affinity,
    node,
    pod,
    priority_class,
)
from tests.e2e.harness.scheduler import Scheduler
from tests.e2e.harness.world import World

APP = {"app": "web"}
WANTED = {"big": "n3", "near": "n2", "first": "n2", "second": "n1"}
"""There is one answer for each pod, whatever chance says."""


def _fill(world: World) -> None:
    world.add_nodes(
        node("n1", labels={ZONE: "a"}, cpu="2"),
        node("n2", labels={ZONE: "b", "disk": "ssd"}, cpu="2"),
        node("n3", labels={ZONE: "c"}, cpu="16"),
    )
    world.create(
        priority_class("low", 5),
        pod("big", cpu="10", labels=APP, affinity=anti_affinity(APP), priorityClassName="low"),
    )
    world.create(pod("near", nodeSelector={"disk": "ssd"}))
    world.create(
        pod(
            "first",
            labels=APP,
            nodeSelector={ZONE: "b"},
            affinity=anti_affinity(APP),
        )
    )
    world.create(pod("second", labels=APP, affinity=anti_affinity(APP)))
    world.create(pod("huge", cpu="64"))


def _versions(world: World) -> dict[str, str]:
    kinds = ("Pod", "Node", "Event")
    return {
        f"{kind} {it['metadata']['name']}": it["metadata"]["resourceVersion"]
        for kind in kinds
        for it in world.api.items(COLLECTIONS[kind])
    }


def _nodes(cluster: sp.Cluster) -> dict[str, str]:
    return {
        pod.name: pod.spec.node_name for pod in cluster.pods(pending=False, namespace="default")
    }


def test_a_copy_decides_as_the_live_scheduler_and_writes_nothing(
    world: World, new_scheduler: Callable[..., Scheduler]
) -> None:
    _fill(world)
    kubeconfig = world.cluster.kubeconfig(SCHEDULER)
    before = _versions(world)
    with sp.Cluster.from_kubeconfig(kubeconfig=kubeconfig) as copy:
        copy.run()
        foretold = _nodes(copy)
        why = copy.decision("default/huge").message
        copy.delete("default/near")
        copy.drain("n3")
    assert _versions(world) == before
    assert foretold == WANTED

    new_scheduler().start()
    assert world.until_bound(*WANTED) == foretold
    assert world.until_rejected("huge")["message"].startswith(why)
    with sp.Cluster.from_kubeconfig(kubeconfig=kubeconfig) as copy:
        copy.run()
        assert _nodes(copy) == foretold


@only_on_kubernetes
def test_a_copy_says_what_it_may_not_see(world: World) -> None:
    with pytest.raises(Forbidden, match="is forbidden"):
        sp.Cluster.from_kubeconfig(kubeconfig=world.cluster.kubeconfig(NOBODY))
    _fill(world)
    with sp.Cluster.from_kubeconfig(kubeconfig=world.cluster.kubeconfig(SCHEDULER)) as copy:
        told: list[Any] = list(copy.missing)
    assert (
        "no right to list priorityclasses.scheduling.k8s.io: new pods that name one are refused"
        in told
    )
