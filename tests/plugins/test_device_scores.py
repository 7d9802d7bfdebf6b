"""Extended resources that are devices, in scores: counted where the node lists none of them."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from stowplan.framework.events import Action, Hint, Resource
from stowplan.objects.devices import ResourceClaim, ResourceSlice
from stowplan.objects.pod import Pod
from stowplan.plugins.dynamic_resources import DynamicResources
from stowplan.plugins.dynamic_resources.claim_cache import ClaimCache
from stowplan.plugins.dynamic_resources.class_counts import ClassCounts
from stowplan.plugins.dynamic_resources.pools import Slices
from stowplan.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from stowplan.plugins.node_resources_fit import NodeResourcesFit
from tests.builders import World, info, node, pod
from tests.plugins.asking import hint, raw_scores
from tests.plugins.device_objects import (
    DRIVER,
    allocated,
    claim,
    device_class,
    devices,
    request,
    resource_slice,
)

GPU = "example.com/gpu"


def world(*more: Any, **spec: Any) -> World:
    nodes = [node(name) for name in ("a", "b", "none")]
    listed = node("listed", allocatable={"cpu": "4", "memory": "32Gi", "pods": "110", GPU: "2"})
    slices = [resource_slice("a", devices(4)), resource_slice("b", devices(8))]
    held = claim("held", request(count=2), status=allocated("gpu-0", "gpu-1"))
    return World(
        *nodes, listed, *slices, held, device_class(extendedResourceName=GPU, **spec), *more
    )


def fit(made: World, kind: str = "LeastAllocated") -> NodeResourcesFit:
    DynamicResources(None, made.handle)
    strategy = SimpleNamespace(
        type=kind,
        resources=[SimpleNamespace(name=GPU, weight=1)],
        requested_to_capacity_ratio=None,
    )
    args = SimpleNamespace(
        ignored_resources=[], ignored_resource_groups=[], scoring_strategy=strategy
    )
    return NodeResourcesFit(args, made.handle)


def wants(count: int = 1, **fields: Any) -> Pod:
    return pod("wants", requests={GPU: str(count)}, **fields)


def test_devices_of_the_class_are_counted_and_those_in_use() -> None:
    made = world()
    found = raw_scores(fit(made), made, wants())
    assert found == {"a": 25, "b": 87, "none": 0, "listed": 50}
    assert raw_scores(fit(made, "MostAllocated"), made, wants()) == {
        "a": 75,
        "b": 12,
        "none": 0,
        "listed": 50,
    }


def test_what_is_held_later_counts_at_once() -> None:
    made = world()
    plugin = fit(made)
    raw_scores(plugin, made, wants())
    made.add(claim("more", status=allocated("gpu-0", node="b")))
    assert raw_scores(plugin, made, wants()) == {"a": 25, "b": 75, "none": 0, "listed": 50}
    made.add(resource_slice("none", devices(2)))
    assert raw_scores(plugin, made, wants()) == {"a": 25, "b": 75, "none": 50, "listed": 50}


def test_a_selector_that_fails_counts_nothing() -> None:
    expression = f'device.attributes["{DRIVER}"].none == "x"'
    made = world(selectors=[{"cel": {"expression": expression}}])
    assert raw_scores(fit(made), made, wants()) == {"a": 0, "b": 0, "none": 0, "listed": 50}


def test_without_a_class_nothing_but_what_nodes_list_counts() -> None:
    made = World(node("a"), resource_slice("a", devices(4)))
    assert raw_scores(fit(made), made, wants()) == {"a": 0}


def test_who_asks_for_no_devices_is_scored_from_what_is_kept() -> None:
    made = world()
    plugin = fit(made)
    assert plugin.signature(info(wants())) is None
    assert plugin.signature(info(pod("plain", cpu="1"))) is not None


def test_balance_counts_devices_as_well() -> None:
    made = world()
    DynamicResources(None, made.handle)
    names = [SimpleNamespace(name="cpu"), SimpleNamespace(name=GPU)]
    plugin = NodeResourcesBalancedAllocation(SimpleNamespace(resources=names), made.handle)
    wanted = wants(2, cpu="4")
    # Of the 4 on a, 2 are in use: balanced 75, and 100 with all that this one wants.
    found = raw_scores(plugin, made, wanted)
    assert found is not None
    assert found["a"] == (150 + 100 - 75) // 2
    assert found["none"] == 75


@pytest.mark.parametrize("seed", range(8))
def test_counts_that_follow_are_those_of_a_count_from_scratch(seed: int) -> None:
    random, made = Random(seed), world()
    one = device_class(extendedResourceName=GPU)
    kept = ClassCounts(made.handle.derived(ClaimCache), made.handle.derived(Slices))
    for number in range(30):
        name = random.choice(("a", "b", "none"))
        match random.randrange(4):
            case 0:
                made.add(resource_slice(name, devices(random.randrange(6))))
            case 1:
                key = resource_slice(name, []).key
                if key in made.objects.all(ResourceSlice):
                    made.objects.remove(made.objects.all(ResourceSlice)[key])
            case 2:
                status = allocated(f"gpu-{random.randrange(4)}", node=name)
                made.add(claim(f"c{number}", status=status))
            case _:
                claims = list(made.objects.all(ResourceClaim).values())
                if claims:
                    made.objects.remove(random.choice(claims))
        totals, used = kept.on_nodes(one, made.table)
        fresh = ClassCounts(ClaimCache(made.objects), Slices(made.objects))
        for there, row in made.table.row_of.items():
            node_info = made.table.info(row)
            assert fresh.on_node(one, node_info) == (totals[row], used[row]), there
        assert np.array_equal(fresh.on_nodes(one, made.table)[0], totals)


# -- hints -----------------------------------------------------------------------------------


def test_a_node_that_leaves_a_resource_to_devices_from_now_on_may_help() -> None:
    made = world()
    has = {"cpu": "4", "memory": "32Gi", "pods": "110"}
    before, after = node("n", allocatable={**has, GPU: "1"}), node("n", allocatable=has)
    act = Action.UPDATE_NODE_ALLOCATABLE
    assert hint(fit(made), Resource.NODE, act, wants(2), before, after) is Hint.QUEUE
    assert hint(fit(made), Resource.NODE, act, wants(2), after, before) is Hint.SKIP
    assert hint(fit(made), Resource.NODE, act, pod(cpu="1"), before, after) is Hint.SKIP


def test_a_class_helps_when_it_comes_and_when_it_gets_the_name() -> None:
    made = world()
    implicit = pod(requests={"deviceclass.resource.kubernetes.io/gpu": "1"})
    nameless, named = device_class(), device_class(extendedResourceName=GPU)
    other = device_class(extendedResourceName=GPU, config=[])

    def after(who: Pod, old: Any, new: Any) -> Hint | None:
        action = Action.ADD if old is None else Action.UPDATE
        return hint(fit(made), Resource.DEVICE_CLASS, action, who, old, new)

    assert after(wants(), None, named) is Hint.QUEUE
    assert after(wants(), None, nameless) is Hint.SKIP
    assert after(wants(), nameless, named) is Hint.QUEUE
    assert after(wants(), named, other) is Hint.SKIP
    assert after(implicit, None, nameless) is Hint.QUEUE
    assert after(implicit, nameless, named) is Hint.SKIP
