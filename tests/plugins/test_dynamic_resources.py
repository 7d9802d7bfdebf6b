"""DynamicResources beyond the recorded clusters: what is kept, shared, hinted, and given up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.config.duration import Duration
from stowplan.framework.errors import PluginFailed
from stowplan.framework.events import Hint
from stowplan.framework.status import SKIP_ALWAYS, Code
from stowplan.objects.pod import Pod
from stowplan.plugins.dynamic_resources import DynamicResources
from stowplan.plugins.dynamic_resources.filtering import CANNOT_ALLOCATE
from tests.builders import World, info, node, pod
from tests.plugins.asking import filtered
from tests.plugins.device_objects import (
    allocated,
    claim,
    claiming,
    device_class,
    devices,
    request,
    resource_slice,
)


def plugin(world: World, filter_s: int = 10) -> DynamicResources:
    given = {"filter_timeout": Duration.of_seconds(filter_s), "binding_timeout": None}
    return DynamicResources(SimpleNamespace(**given), world.handle)


def found(asked: DynamicResources, world: World, asking: Pod) -> dict[str, Any]:
    """Per node the reason against it, or what each claim would get; or the errors."""
    cycle, own = world.cycle(), info(asking)
    assert asked.pre_filter(cycle, own) is None
    shown = cycle.data["details"]
    try:
        asked.filter_nodes(cycle, own, world.table, slice(0, world.table.size))
    except PluginFailed:
        return {"errors": shown["errors"]()}
    statuses = filtered(asked, world, asking)
    there = shown["nodeAllocations"]()
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

SHAPES = {
    "one": [request()],
    "two": [request(count=2)],
    "both": [request(), request("s")],
    "all": [request(allocationMode="All", count=0)],
    "shared": [request(capacity={"requests": {"memory": "4Gi"}})],
}
NODES = ("a", "b", "c")


def offered(draw: st.DrawFn, name: str) -> Any:
    count = draw(st.integers(0, 3))
    if draw(st.booleans()):
        parts = {"consumesCounters": [{"counterSet": "s", "counters": {"n": {"value": "1"}}}]}
        return resource_slice(name, devices(count, **parts))
    kind = draw(st.sampled_from([{}, {"allowMultipleAllocations": True}]))
    return resource_slice(name, devices(count, capacity={"memory": {"value": "8Gi"}}, **kind))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_kept_searches_find_what_searches_made_anew_find(data: st.DataObject) -> None:
    draw = data.draw
    network = resource_slice("net", devices(2), allNodes=True)
    world = World(device_class(), network, *map(node, NODES))
    world.add(*(offered(draw, name) for name in NODES))
    old, held = plugin(world), []
    for step in range(draw(st.integers(1, 12))):
        shape = draw(st.sampled_from(sorted(SHAPES)))
        world.add(claim(f"c{step}", *SHAPES[shape]))
        asking = claiming(f"c{step}", name=f"p{step}")
        answers = found(old, world, asking)
        assert answers == found(plugin(world), world, asking)
        free = [name for name in NODES if isinstance(answers.get(name), dict)]
        what = draw(st.sampled_from(["take", "give back", "republish", "relabel"]))
        if what == "take" and free:
            where = draw(st.sampled_from(free))
            held.append((reserved(old, world, asking, where), asking, where))
        elif what == "give back" and held:
            cycle, whose, where = held.pop(draw(st.integers(0, len(held) - 1)))
            old.unreserve(cycle, info(whose), where)
        elif what == "republish":
            world.add(offered(draw, draw(st.sampled_from(NODES))))
        elif what == "relabel":
            world.add(node(draw(st.sampled_from(NODES)), labels={"step": str(step)}))


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


# -- limits ----------------------------------------------------------------------------------


def test_a_search_that_takes_too_many_steps_is_an_error() -> None:
    # The last request finds nothing, so all ways to choose for the others are tried in vain.
    world = World(device_class(), node("a"), resource_slice("a", devices(40)))
    hopeless = request("z", selectors=[{"cel": {"expression": "false"}}])
    world.add(claim("c", *(request(f"r{n}", 5) for n in range(4)), hopeless))
    asked, cycle, own = plugin(world, filter_s=1), world.cycle(), info(claiming("c"))
    assert asked.pre_filter(cycle, own) is None

    answer = asked.filter_node(cycle, own, world.table.info(0))

    assert answer is not None
    assert answer.code is Code.ERROR
    assert answer.reasons == ("node a: timed out trying to allocate devices",)


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
    ],
)
def test_hints_of_claims(old: Any, new: Any, expected: Hint) -> None:
    world = World(device_class(), FREE)

    assert plugin(world)._after_claim_change(claiming("c"), old, new) is expected


def test_no_claim_wakes_a_pod_whose_own_claim_is_missing() -> None:
    assert plugin(World())._after_claim_change(claiming("c"), HELD, FREE) is Hint.SKIP
