"""DynamicResources beyond the recorded clusters: what is kept, shared and hinted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stowplan.config.duration import Duration
from stowplan.framework.events import Action, Hint, Resource
from stowplan.framework.status import SKIP_ALWAYS, Code, unresolvable
from stowplan.objects.devices import ResourceClaim
from stowplan.objects.pod import Pod
from stowplan.plugins.dynamic_resources import DynamicResources
from stowplan.plugins.dynamic_resources.filtering import CANNOT_ALLOCATE
from stowplan.plugins.dynamic_resources.pod_claims import CONCERNED, names_of_change, names_of_pod
from tests.builders import World, info, node, pod
from tests.plugins.asking import filtered, hint
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


# -- claims of a pod (spec/dra.md, 2.1) --------------------------------------------------------


def templated(*statuses: dict[str, Any], name: str = "t", **fields: Any) -> Pod:
    """A pod whose claim `r0` is made for it by a controller."""
    reference = {"name": "r0", "resourceClaimTemplateName": "of-this"}
    status = {"resourceClaimStatuses": list(statuses)}
    return pod(name, spec={"resourceClaims": [reference]}, status=status, **fields)


def made_for(owner: Pod, name: str = "made", **fields: Any) -> ResourceClaim:
    """The claim that a controller made for the pod."""
    of = {"apiVersion": "v1", "kind": "Pod", "name": owner.metadata.name, "controller": True}
    return claim(name, ownerReferences=[{**of, "uid": owner.metadata.uid}], **fields)


MADE = templated({"name": "r0", "resourceClaimName": "made"})
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("asking", "claims", "problem"),
    [
        (pod("plain"), [], None),
        (claiming("c"), [claim("c")], None),
        (claiming("c", "c"), [claim("c")], None),
        (claiming("c"), [], 'could not find ResourceClaim "default/c"'),
        (
            claiming("c", namespace="other"),
            [claim("c")],
            'could not find ResourceClaim "other/c"',
        ),
        (claiming("c", "d"), [claim("c")], 'could not find ResourceClaim "default/d"'),
        (claiming("d", "e"), [claim("c")], 'could not find ResourceClaim "default/d"'),
        (claiming("c"), [claim("c", **DELETED)], 'resourceclaim "c" is being deleted'),
        (templated(), [], 'pod "default/t": ResourceClaim not created yet'),
        (
            templated({"name": "another", "resourceClaimName": "made"}),
            [claim("made")],
            'pod "default/t": ResourceClaim not created yet',
        ),
        (templated({"name": "r0"}), [], None),
        (
            pod(
                "two",
                spec={
                    "resourceClaims": [
                        {"name": "none", "resourceClaimTemplateName": "t"},
                        {"name": "r1", "resourceClaimName": "c"},
                    ]
                },
                status={"resourceClaimStatuses": [{"name": "none"}]},
            ),
            [],
            'could not find ResourceClaim "default/c"',
        ),
        (MADE, [made_for(MADE)], None),
        (MADE, [], 'could not find ResourceClaim "default/made"'),
        (MADE, [made_for(MADE, **DELETED)], 'resourceclaim "made" is being deleted'),
        (
            MADE,
            [claim("made")],
            "ResourceClaim default/made was not created for Pod default/t (Pod is not owner)",
        ),
        (
            MADE,
            [made_for(templated())],
            "ResourceClaim default/made was not created for Pod default/t (Pod is not owner)",
        ),
        (
            pod("none", spec={"resourceClaims": [{"name": "x"}]}),
            [],
            'pod "default/none", spec.resourceClaim "x": none of the supported fields are set',
        ),
    ],
)
def test_a_pod_whose_claims_are_not_all_there_waits_outside_the_queue(
    asking: Pod, claims: list[ResourceClaim], problem: str | None
) -> None:
    asked = plugin(World(*claims))

    status = asked.pre_enqueue(info(asking))

    expected = None if problem is None else unresolvable(problem)
    assert status == expected
    assert asked.pre_enqueue_all([info(pod()), info(asking)]) == [None, expected]
    assert asked.pre_enqueue_all([info(pod())]) == [None]
    if expected is not None:
        assert asked.pre_filter(World(*claims).cycle(), info(asking)) == expected


# -- hints (spec/dra.md, 3) --------------------------------------------------------------------

FREE, HELD = claim("c"), claim("c", status=allocated("gpu-0"))
OTHER_FREE, OTHER_HELD = claim("x"), claim("x", status=allocated("gpu-1"))
SAME_NAME = claim("c", uid="of another")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, FREE, Hint.QUEUE),
        (FREE, HELD, Hint.QUEUE),
        (HELD, HELD, Hint.SKIP),
        (FREE, claim("c", labels={"a": "b"}), Hint.SKIP),
        (HELD, FREE, Hint.QUEUE),
        (None, SAME_NAME, Hint.SKIP),
        (OTHER_HELD, OTHER_FREE, Hint.QUEUE),
        (OTHER_FREE, OTHER_HELD, Hint.SKIP),
        (None, OTHER_FREE, Hint.SKIP),
        (None, OTHER_HELD, Hint.SKIP),
        (OTHER_HELD, OTHER_HELD, Hint.SKIP),
        (OTHER_HELD, None, Hint.QUEUE),
        (OTHER_FREE, None, Hint.SKIP),
    ],
)
def test_hints_of_claims(old: Any, new: Any, expected: Hint) -> None:
    world = World(device_class(), FREE)
    action = Action.ADD if old is None else Action.DELETE if new is None else Action.UPDATE

    asked = plugin(world)
    assert hint(asked, Resource.RESOURCE_CLAIM, action, claiming("c"), old, new) is expected
    names = set(names_of_change(old, new))
    if not CONCERNED.concerns_all(old, new):
        assert expected is Hint.SKIP or not names.isdisjoint(names_of_pod(claiming("c")))
    assert names.isdisjoint(names_of_pod(claiming("y")))


def test_no_claim_wakes_a_pod_whose_own_claim_is_missing() -> None:
    asked, about = plugin(World()), (Resource.RESOURCE_CLAIM, Action.UPDATE)

    assert hint(asked, *about, claiming("c"), HELD, FREE) is Hint.SKIP
    assert hint(asked, *about, claiming("c"), OTHER_HELD, OTHER_FREE) is Hint.SKIP


def test_a_claim_made_for_a_pod_wakes_it_when_it_comes_and_when_it_goes() -> None:
    others, elsewhere = templated(), made_for(templated(), "elsewhere")
    asked, about = plugin(World(made_for(MADE))), Resource.RESOURCE_CLAIM

    assert hint(asked, about, Action.ADD, MADE, None, made_for(MADE)) is Hint.QUEUE
    assert hint(asked, about, Action.ADD, MADE, None, elsewhere) is Hint.SKIP
    assert hint(asked, about, Action.DELETE, MADE, made_for(MADE), None) is Hint.QUEUE
    assert hint(asked, about, Action.DELETE, MADE, elsewhere, None) is Hint.SKIP
    for old, new in ((None, made_for(MADE)), (made_for(MADE), None)):
        assert not set(names_of_change(old, new)).isdisjoint(names_of_pod(MADE))
        assert set(names_of_change(old, new)).isdisjoint(names_of_pod(others))


def test_a_pod_whose_claims_were_made_is_woken_once_they_are_all_there() -> None:
    early, made = templated(), made_for(MADE)
    about = (Resource.POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM)

    assert hint(plugin(World(made)), *about, MADE, early, MADE) is Hint.QUEUE
    assert hint(plugin(World()), *about, MADE, early, MADE) is Hint.SKIP
    assert hint(plugin(World(made)), *about, claiming(), early, MADE) is Hint.SKIP


GPUS = {"example.com/gpu": "1"}
SPECIAL = {"resource.kubernetes.io/extended-resource-claim": "true"}
LEFT = pod("left", requests=GPUS)
SIDE = {"name": "side", "resources": {"requests": GPUS}}


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        (claiming("free", name="left"), Hint.QUEUE),
        (claiming("held", "free", name="left"), Hint.QUEUE),
        (claiming("held", name="left"), Hint.SKIP),
        (claiming("missing", name="left"), Hint.SKIP),
        (claiming(name="left"), Hint.SKIP),
        (pod("left", cpu="1"), Hint.SKIP),
        (pod("left", requests={"cpu": "1", **GPUS}), Hint.QUEUE),
        (pod("left", spec={"initContainers": [SIDE]}), Hint.QUEUE),
        (LEFT, Hint.SKIP),
    ],
    ids=[
        "kept for it",
        "one is kept for it",
        "written down",
        "no claim",
        "no devices",
        "no such resource",
        "devices instead of a resource",
        "of an init container",
        "their claim is written",
    ],
)
def test_devices_kept_for_a_pod_that_was_not_bound_wake_others(left: Pod, expected: Hint) -> None:
    """Simulated seed 234: a claim that was never written tells nobody that it is free again."""
    held = claim("held", status=allocated("gpu-0"))
    written = made_for(LEFT, "written", annotations=SPECIAL, status=allocated("gpu-2"))
    resource = device_class(extendedResourceName="example.com/gpu")
    world = World(resource, FREE, claim("free"), held, written)
    asked, about = plugin(world), (Resource.POD, Action.DELETE)

    assert hint(asked, *about, claiming("c"), left, None) is expected
    assert hint(asked, *about, claiming("gone"), left, None) is Hint.SKIP
    if not left.spec.resource_claims:
        nobody = plugin(World(device_class(), FREE))
        assert hint(nobody, *about, claiming("c"), left, None) is Hint.SKIP


def test_extended_resources_before_there_is_any_claim() -> None:
    """What the simulation found first: nothing had been shown of claims when they were counted."""
    whole = device_class("gpu", extendedResourceName="example.com/gpu")
    world = World(node("a"), whole, resource_slice("a", devices(1)))
    wants = pod("p", requests={"example.com/gpu": "1"})

    [given] = reserved(plugin(world), world, wants, "a").data["DynamicResources"].given.values()

    [result] = given.devices.results
    assert (result.request, result.device) == ("container-0-request-0", "gpu-0")
