"""A gang that does not fit costs no more than its members, each tried once."""

from __future__ import annotations

import pytest

from stowplan.objects.pod import Pod
from tests.bench.count_bytecodes import BytecodeCounter
from tests.builders import node, pod, pod_group
from tests.core.group_world import GANGS, TOPOLOGY, GroupWorld
from tests.core.test_gangs import members

COUNT = 100
NODES = 30
ALLOWED = 1.05
"""Some of the gang are counted on nodes first, and taken off again."""


def counted(world: GroupWorld, pods: list[Pod]) -> int:
    world.add(*pods)
    counter = BytecodeCounter()
    counter.start()
    world.run()
    counter.stop()
    assert not world.bound()
    return counter.bytecodes


@pytest.mark.parametrize(("gates", "topology"), [(GANGS, ""), (TOPOLOGY, ""), (TOPOLOGY, "rack")])
def test_a_gang_that_does_not_fit_costs_what_its_members_cost(gates: str, topology: str) -> None:
    nodes = [node(f"n{n}", cpu=2, labels={"rack": f"r{n % 5}"}) for n in range(NODES)]
    full = [pod(f"full-{n}", node=f"n{n}", cpu=2) for n in range(NODES)]
    alone = counted(
        GroupWorld(*nodes, *full, gates=gates),
        [pod(f"p-{n}", cpu=1, spec={"priority": 0}) for n in range(COUNT)],
    )

    gang = pod_group("g", min_count=COUNT, topology=topology)
    together = counted(GroupWorld(*nodes, gang, gates=gates), members("g", COUNT))

    assert together <= ALLOWED * alone
