"""DefaultPreemption's gate: whom it holds back, asked one by one or all at once."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.framework.plugin import make_plugin
from stowplan.framework.status import Code
from stowplan.objects.pod import Pod
from stowplan.plugins.default_preemption import DefaultPreemption
from stowplan.plugins.dynamic_resources import DynamicResources
from stowplan.plugins.scheduling_gates import SchedulingGates
from stowplan.state.pod_info import PodInfo
from tests.builders import World, info, pod

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
