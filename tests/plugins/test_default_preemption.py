"""DefaultPreemption: whom its gate holds back, one by one or all at once, and who may evict."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.framework.plugin import make_plugin
from stowplan.framework.status import Code, Status, error
from stowplan.objects.base import KubeObject
from stowplan.objects.pod import Pod
from stowplan.objects.pod_groups import (
    GENERIC_WORKLOAD,
    TOPOLOGY_AWARE,
    WORKLOAD_AWARE_PREEMPTION,
    PodGroup,
)
from stowplan.plugins.default_preemption import DefaultPreemption
from stowplan.plugins.dynamic_resources import DynamicResources
from stowplan.plugins.scheduling_gates import SchedulingGates
from stowplan.state.pod_info import PodInfo
from tests.builders import World, info, node, pod, pod_group
from tests.plugins.test_claim_writes import driven

ARGS = SimpleNamespace(min_candidate_nodes_percentage=10, min_candidate_nodes_absolute=100)

victims_now = st.sampled_from(["there", "gone", "terminating", "another"])
stages = st.none() | st.just("early") | victims_now
"""Not preempting; its last victim is not due yet; due, and what became of the victim."""


def preempting(of_pod: list[str | None]) -> tuple[DefaultPreemption, list[PodInfo]]:
    """The plugin, and pods at these stages."""
    known: dict[str, PodInfo] = {}
    plugin = DefaultPreemption(ARGS, replace(World().handle, pod_by_key=known.get))
    pods = []
    for n, stage in enumerate(of_pod):
        waiting = info(pod(f"urgent-{n}"))
        pods.append(waiting)
        if stage is None:
            continue
        last = info(pod(f"victim-{n}", node="node-1"))
        plugin.preempting[waiting.uid] = None if stage == "early" else last
        if stage == "another":
            known[last.key] = info(pod(f"victim-{n}", node="node-1"))
        elif stage == "terminating":
            metadata = {"uid": last.uid, "deletionTimestamp": "2026-01-01T00:00:00Z"}
            known[last.key] = info(pod(f"victim-{n}", node="node-1", metadata=metadata))
        elif stage != "gone":
            known[last.key] = last
    return plugin, pods


@pytest.mark.parametrize(
    ("stage", "held"),
    [
        pytest.param(None, False, id="not-preempting"),
        pytest.param("early", True, id="other-victims-first"),
        pytest.param("there", True, id="last-victim-there"),
        pytest.param("terminating", False, id="last-victim-leaving"),
        pytest.param("gone", False, id="last-victim-gone"),
        pytest.param("another", False, id="another-of-its-name"),
    ],
)
def test_a_preemptor_is_held_back_until_its_last_victim_leaves(
    stage: str | None, held: bool
) -> None:
    plugin, [waiting] = preempting([stage])

    status = plugin.pre_enqueue(waiting)

    assert (status is not None) == held
    if status is not None:
        assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


@given(st.lists(stages, max_size=6), st.data())
def test_all_at_once_is_one_by_one(of_pod: list[str | None], data: st.DataObject) -> None:
    plugin, pods = preempting(of_pod)
    asked = [each for each in pods if data.draw(st.booleans())]

    assert plugin.pre_enqueue_all(asked) == [plugin.pre_enqueue(each) for each in asked]


GATED = pod(spec={"schedulingGates": [{"name": "a"}]})
CLAIMING = pod(spec={"resourceClaims": [{"name": "gpu"}]})


@pytest.mark.parametrize("plugin_class", [SchedulingGates, DynamicResources])
@given(pods=st.lists(st.sampled_from([pod(), GATED, CLAIMING]), max_size=4))
def test_other_gates_answer_for_many_as_for_each(
    plugin_class: type[SchedulingGates | DynamicResources], pods: list[Pod]
) -> None:
    plugin = make_plugin(plugin_class, None, World().handle)
    infos = list(map(info, pods))

    assert plugin.pre_enqueue_all(infos) == [plugin.pre_enqueue(each) for each in infos]


# -- who may evict others ----------------------------------------------------------------------

GROUPS, TOPOLOGY, WHOLE = GENERIC_WORKLOAD, TOPOLOGY_AWARE, WORKLOAD_AWARE_PREEMPTION
NOT_HELPFUL = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
UNKNOWN_GROUP = "preemption: pod group for pod not found"
PLACED = "preemption: not eligible due to placement-based pod group scheduling limitation"
TOGETHER = "preemption: not eligible due to workload aware preemption enabled"


def answer(
    asking: Pod, *objects: KubeObject, features: set[str] | None = None, final: bool = False
) -> str:
    """What PostFilter says where no node could be helped by evicting anybody."""
    world = World(node("n"), *objects)
    own = info(asking)
    handle = replace(
        world.handle, features=frozenset(features or ()), pod_by_key={own.key: own}.get
    )
    code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if final else Code.UNSCHEDULABLE
    diagnosis = SimpleNamespace(
        node_count=1,
        resolvable_rows=lambda: np.zeros(0, np.intp),
        status=lambda row: Status(code, ("no",), "Some"),
    )
    cycle = SimpleNamespace(statuses=diagnosis)
    steps = DefaultPreemption(ARGS, handle).post_filter(cycle, own)  # type: ignore[arg-type]
    (result, status), asked = driven(steps)
    assert asked == []
    assert status is not None
    assert status.code is Code.UNSCHEDULABLE
    is_withdrawn = result is not None and result.nominate.node == ""
    assert is_withdrawn is (status.reasons[0] == NOT_HELPFUL)
    return status.reasons[0]


@pytest.mark.parametrize(
    ("features", "group", "said"),
    [
        (set(), pod_group("g", topology="zone"), NOT_HELPFUL),
        ({TOPOLOGY, WHOLE}, None, NOT_HELPFUL),
        ({GROUPS}, None, NOT_HELPFUL),
        ({GROUPS, TOPOLOGY}, None, UNKNOWN_GROUP),
        ({GROUPS, TOPOLOGY}, pod_group("g"), NOT_HELPFUL),
        ({GROUPS, TOPOLOGY}, pod_group("g", topology="zone"), PLACED),
        ({GROUPS, WHOLE}, pod_group("g"), TOGETHER),
        ({GROUPS, TOPOLOGY, WHOLE}, pod_group("g"), TOGETHER),
        ({GROUPS, TOPOLOGY, WHOLE}, pod_group("g", topology="zone"), PLACED),
    ],
)
def test_members_of_groups_evict_nobody_on_their_own_account(
    features: set[str], group: PodGroup | None, said: str
) -> None:
    objects = [] if group is None else [group]
    assert answer(pod("m", group="g"), *objects, features=features) == said
    assert answer(pod("alone"), *objects, features=features) == NOT_HELPFUL


LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
WAITS = "preemption: not eligible due to a terminating pod on the nominated node."


def victim(priority: int = 0, **condition: str) -> Pod:
    told = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    status = {"conditions": [{**told, **condition}]}
    return pod("v", node="n", spec={"priority": priority}, status=status, metadata=LEAVING)


@pytest.mark.parametrize(
    ("there", "final", "said"),
    [
        (victim(), False, WAITS),
        (victim(), True, NOT_HELPFUL),
        (victim(priority=5), False, NOT_HELPFUL),
        (victim(priority=4), False, WAITS),
        (victim(type="Ready"), False, NOT_HELPFUL),
        (victim(status="False"), False, NOT_HELPFUL),
        (victim(reason="EvictionByEvictionAPI"), False, NOT_HELPFUL),
        (pod("v", node="n", metadata=LEAVING), False, NOT_HELPFUL),
    ],
)
def test_a_pod_waits_for_victims_that_are_on_their_way_out(
    there: Pod, final: bool, said: str
) -> None:
    asking = pod("p", spec={"priority": 5}, status={"nominatedNodeName": "n"})
    assert answer(asking, there, final=final) == said
    for elsewhere in ({"nominatedNodeName": "gone"}, {}):
        other = pod("p", spec={"priority": 5}, status=elsewhere)
        assert answer(other, there, final=final) == NOT_HELPFUL
    never = pod("p", spec={"priority": 5, "preemptionPolicy": "Never"})
    assert answer(never, there) == "preemption: not eligible due to preemptionPolicy=Never."


def test_a_pod_that_is_gone_evicts_nobody() -> None:
    handle = replace(World(node("n")).handle, pod_by_key=lambda key: None)
    cycle = SimpleNamespace(statuses=None)
    steps = DefaultPreemption(ARGS, handle).post_filter(cycle, info(pod("p")))  # type: ignore[arg-type]

    (result, status), _ = driven(steps)
    assert result is None
    assert status == error('preemption: pod "p" not found')
