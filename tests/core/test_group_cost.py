"""A gang that does not fit costs what its members cost, each tried once, and little more."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.objects.pod import Pod
from tests.bench.count_bytecodes import BytecodeCounter
from tests.builders import node, pod, pod_group
from tests.core.group_world import GANGS, TOPOLOGY, GroupWorld

COUNT = 100
NODES = 30
RACKS = 5
ALLOWED = 1.15
"""Those that find a node are counted there, and taken off again: a tenth of the trial."""


def counted(world: GroupWorld, pods: list[Pod]) -> int:
    world.add(*pods)
    counter = BytecodeCounter()
    counter.start()
    world.run()
    counter.stop()
    assert not world.bound()
    return counter.bytecodes


HOST = "kubernetes.io/hostname"
APART = [{"labelSelector": {"matchLabels": {"app": "g"}}, "topologyKey": HOST}]
PORT = {"containerPort": 80, "hostPort": 80}
CAUSES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "room": ({}, {}),
    "taint": ({"taints": [{"key": "team", "value": "x", "effect": "NoSchedule"}]}, {}),
    "selector": ({}, {"nodeSelector": {"disk": "ssd"}}),
    "cordon": ({"unschedulable": True}, {}),
    "apart": (
        {},
        {
            "affinity": {
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": APART}
            }
        },
    ),
    "port": ({}, {"containers": [{"name": "main", "image": "app", "ports": [PORT]}]}),
}
"""What is the matter: of the nodes, and of the pods."""


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize(("gates", "topology"), [(GANGS, ""), (TOPOLOGY, ""), (TOPOLOGY, "rack")])
def test_a_gang_that_does_not_fit_costs_what_its_members_cost(
    gates: str, topology: str, cause: str
) -> None:
    of_nodes, of_pods = CAUSES[cause]
    nodes = [
        node(f"n{n}", cpu=2, labels={"rack": f"r{n % RACKS}"}, **of_nodes) for n in range(NODES)
    ]
    full = [
        pod(f"full-{n}", node=f"n{n}", cpu=2, labels={"app": "g"}, spec=of_pods)
        for n in range(NODES)
    ]
    spec = {"priority": 0, **of_pods}
    cpu = 2 if cause == "room" else "1m"
    alone = counted(
        GroupWorld(*nodes, *full, gates=gates),
        [pod(f"p-{n}", cpu=cpu, spec=spec, labels={"app": "g"}) for n in range(COUNT)],
    )

    gang = pod_group("g", min_count=COUNT, topology=topology)
    together = counted(
        GroupWorld(*nodes, gang, gates=gates),
        [pod(f"g-{n}", group="g", cpu=cpu, spec=spec, labels={"app": "g"}) for n in range(COUNT)],
    )

    assert together <= ALLOWED * alone
