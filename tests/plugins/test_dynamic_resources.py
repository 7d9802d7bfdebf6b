"""DynamicResources beyond the recorded clusters: what is kept, shared and hinted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stowplan.config.duration import Duration
from stowplan.framework.events import Hint
from stowplan.framework.status import SKIP_ALWAYS, Code
from stowplan.objects.pod import Pod
from stowplan.plugins.dynamic_resources import DynamicResources
from stowplan.plugins.dynamic_resources.filtering import CANNOT_ALLOCATE
from stowplan.plugins.dynamic_resources.pod_claims import CONCERNED, names_of_change, names_of_pod
from tests.builders import World, info, node, pod
from tests.plugins.asking import filtered
from tests.plugins.device_objects import (
    allocated,
    claim,
    claiming,
    device_class,
    devices,
    resource_slice,
)


def plugin(world: World, filter_s: int = 10) -> DynamicResources:
    given = {"filter_timeout": Duration.of_seconds(filter_s), "binding_timeout": None}
    return DynamicResources(SimpleNamespace(**given), world.handle)


def found(asked: DynamicResources, world: World, asking: Pod) -> dict[str, Any]:
    """Per node the reason against it, or what each claim would get."""
    cycle, own = world.cycle(), info(asking)
    assert asked.pre_filter(cycle, own) is None
    asked.filter_nodes(cycle, own, world.table, slice(0, world.table.size))
    details = cycle.details()
    assert details is not None
    statuses, there = filtered(asked, world, asking), details["nodeAllocations"]()
    return {
        name: there[name] if status is None else status.reasons for name, status in statuses.items()
    }


def reserved(asked: DynamicResources, world: World, asking: Pod, where: str) -> Any:
    cycle, own = world.cycle(), info(asking)
    assert asked.pre_filter(cycle, own) is None
    assert asked.filter_node(cycle, own, world.table.info(world.row(where))) is None
    assert asked.reserve(cycle, own, where) is None
    return cycle


# -- what is kept ----------------------------------------------------------------------------


def test_pods_without_claims_are_never_asked_about_again() -> None:
    world = World(device_class(extendedResourceName="example.com/gpu"), node("a"))

    assert plugin(world).pre_filter(world.cycle(), info(pod(cpu="1"))) == SKIP_ALWAYS


# -- what is shared --------------------------------------------------------------------------


def test_what_one_profile_has_reserved_another_does_not_give_away() -> None:
    world = World(device_class(), node("a"), resource_slice("a", devices(1)))
    world.add(claim("c1"), claim("c2"))
    ours, theirs = plugin(world), plugin(world)

    cycle = reserved(ours, world, claiming("c1"), "a")
    assert found(theirs, world, claiming("c2")) == {"a": (CANNOT_ALLOCATE,)}

    ours.unreserve(cycle, info(claiming("c1")), "a")
    assert found(theirs, world, claiming("c2")) == {"a": {"c2": ["r=gpu.example.com/a/gpu-0"]}}


def test_a_claim_that_is_being_allocated_waits() -> None:
    world = World(device_class(), node("a"), resource_slice("a", devices(1)), claim("c"))
    asked = plugin(world)
    reserved(asked, world, claiming("c"), "a")

    status = asked.pre_filter(world.cycle(), info(claiming("c", name="q")))

    assert status is not None
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.reasons == ("resource claim default/c is in the process of being allocated",)


# -- hints -----------------------------------------------------------------------------------

FREE, HELD = claim("c"), claim("c", status=allocated("gpu-0"))
OTHER_FREE, OTHER_HELD = claim("x"), claim("x", status=allocated("gpu-1"))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, FREE, Hint.QUEUE),
        (FREE, HELD, Hint.QUEUE),
        (HELD, HELD, Hint.SKIP),
        (OTHER_HELD, OTHER_FREE, Hint.QUEUE),
        (OTHER_FREE, OTHER_HELD, Hint.SKIP),
        (None, OTHER_FREE, Hint.SKIP),
        (OTHER_HELD, None, Hint.QUEUE),
        (OTHER_FREE, None, Hint.SKIP),
    ],
)
def test_hints_of_claims(old: Any, new: Any, expected: Hint) -> None:
    world = World(device_class(), FREE)

    assert plugin(world)._after_claim_change(claiming("c"), old, new) is expected
    names = set(names_of_change(old, new))
    if not CONCERNED.concerns_all(old, new):
        assert expected is Hint.SKIP or not names.isdisjoint(names_of_pod(claiming("c")))
    assert names.isdisjoint(names_of_pod(claiming("y")))


def test_no_claim_wakes_a_pod_whose_own_claim_is_missing() -> None:
    assert plugin(World())._after_claim_change(claiming("c"), HELD, FREE) is Hint.SKIP


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        (claiming("free", name="left"), Hint.QUEUE),
        (claiming("held", name="left"), Hint.SKIP),
        (claiming("missing", name="left"), Hint.SKIP),
        (claiming(name="left"), Hint.SKIP),
    ],
    ids=["kept for it", "written down", "no claim", "no devices"],
)
def test_devices_kept_for_a_pod_that_was_not_bound_wake_others(left: Pod, expected: Hint) -> None:
    """Simulated seed 234: a claim that was never written tells nobody that it is free again."""
    held = claim("held", status=allocated("gpu-0"))
    world = World(device_class(), FREE, claim("free"), held)

    assert plugin(world)._after_pod_left(claiming("c"), left, None) is expected


def test_extended_resources_before_there_is_any_claim() -> None:
    """What the simulation found first: nothing had been shown of claims when they were counted."""
    whole = device_class("gpu", extendedResourceName="example.com/gpu")
    world = World(node("a"), whole, resource_slice("a", devices(1)))
    wants = pod("p", requests={"example.com/gpu": "1"})

    [given] = reserved(plugin(world), world, wants, "a").data["DynamicResources"].given.values()

    [result] = given.devices.results
    assert (result.request, result.device) == ("container-0-request-0", "gpu-0")
