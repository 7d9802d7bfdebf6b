"""Asking about one node again: filters that read the node object alone are left out only where it
is known what they say."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from stowplan.framework.cycle import Cycle
from stowplan.framework.plugin import Nominate
from stowplan.framework.reads import Reads
from stowplan.framework.status import Status, unschedulable
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod
from tests.builders import node, pod
from tests.core.harness import Cluster, make_plugin
from tests.deciding import Deciding


def beside_nominated(nominated: Pod, asked: Pod, where: Node) -> Status:
    """What `asked` hears about the node that `nominated` was promised."""
    run = Deciding([where, nominated, asked], random=Random(0))
    run.table.refresh(run.cache)
    infos = {info.pod.metadata.name: info for info in run.pending}
    run.nominator.add(infos[nominated.metadata.name], Nominate(where.metadata.name))
    info = infos[asked.metadata.name]
    framework = run.framework_of(info)
    assert framework is not None
    cycle = Cycle(framework.handle, framework.handle.nodes)
    framework.pre_filter(cycle, info)
    (status,) = framework.find_feasible(cycle, info).overrides.values()
    return status


@pytest.mark.parametrize("cpu", ["2", "9"])
def test_beside_nominated_pods_a_node_is_turned_down_for_what_it_is(cpu: str) -> None:
    """For its taint, that is, whether or not there is room without them."""
    tainted = node("node-1", cpu="4", taints=[{"key": "dedicated", "effect": "NoSchedule"}])

    status = beside_nominated(pod("first", cpu="3"), pod("asked", cpu=cpu), tainted)

    assert status.plugin == "TaintToleration"


def test_filters_that_count_pods_are_told_of_the_nominated_ones() -> None:
    term = {
        "labelSelector": {"matchLabels": {"app": "web"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    web = pod("first", labels={"app": "web"})

    status = beside_nominated(web, pod("asked", spec={"affinity": apart}), node("node-1"))

    assert status.plugin == "InterPodAffinity"


def test_a_filter_of_node_objects_that_comes_last_is_asked_before_anybody_is_evicted() -> None:
    def filter_node(self: Any, cycle: Any, pod: Any, info: Any) -> Status | None:
        return unschedulable("not this one") if info.name == "node-1" else None

    picky = make_plugin("Picky", reads=Reads.NODE, filter_node=filter_node)
    nodes = [node(f"node-{n}", cpu="4") for n in (1, 2)]
    low = [pod(f"low-{n}", cpu="3", node=f"node-{n}") for n in (1, 2)]
    cluster = Cluster(*nodes, *low, plugins=(picky,))

    cluster.add(pod("urgent", cpu="3", spec={"priority": 10}))

    # Both are too full, so there it was not the first to mind.
    (note,) = cluster.notes_of("urgent", "FailedScheduling")
    assert "2 Insufficient cpu" in note
    assert cluster.node_of("urgent") == "node-2"
    assert sorted(p.metadata.name for p in cluster.pods()) == ["low-1", "urgent"]
