"""Claims of groups: section 11 of the specification, and members that share a claim."""

from __future__ import annotations

from typing import Any

from stowplan.objects.pod import Pod
from tests.builders import node, pod, pod_group
from tests.core.group_world import GANGS, GroupWorld
from tests.plugins.device_objects import claim, device_class, devices, resource_slice

CLAIMS = f"{GANGS},DRAWorkloadResourceClaims=true"


def sharing(count: int, cpu: int = 1, **reference: Any) -> list[Pod]:
    """Members that have one claim between them."""
    named = [{"name": "net", **(reference or {"resourceClaimName": "c"})}]
    return [pod(f"g-{n}", group="g", cpu=cpu, spec={"resourceClaims": named}) for n in range(count)]


def devices_on(*names: str) -> list[Any]:
    return [device_class(), *(resource_slice(name, devices(1)) for name in names)]


def test_members_that_share_a_claim_go_where_its_device_is() -> None:
    """In kube-scheduler 1.36 the second may land on another node."""
    nodes = [node("a", cpu=2), node("b", cpu=2), node("c", cpu=4)]
    world = GroupWorld(*nodes, *devices_on("a"), claim("c"), pod_group("g", min_count=2))

    world.add(*sharing(2)).run(3.0)

    assert world.nodes() == {"g-0": "a", "g-1": "a"}
    reserved = world.claims["default/c"].status.reserved_for or ()
    assert {each.name for each in reserved} == {"g-0", "g-1"}
    assert {each.resource for each in reserved} == {"pods"}


def test_no_room_beside_the_device_is_no_room() -> None:
    nodes = [node("a", cpu=1), node("b", cpu=4)]
    world = GroupWorld(*nodes, *devices_on("a"), claim("c"), pod_group("g", min_count=2))

    world.add(*sharing(2)).run(3.0)

    assert world.bound() == set()
    assert world.claims["default/c"].status.allocation is None
    plugin = world.machine.frameworks["default-scheduler"].plugins.instances["DynamicResources"]
    assert not plugin._claims.is_in_flight(world.claims["default/c"])
    assert not plugin._claims.held.dedicated


def test_others_do_not_share_what_is_in_flight() -> None:
    """But a group's claim that failed is free for the next."""
    world = GroupWorld(node("a", cpu=1), *devices_on("a"), claim("c"), pod_group("g", min_count=2))
    world.add(*sharing(2)).run(3.0)

    lone = pod("lone", cpu=1, spec={"resourceClaims": [{"name": "n", "resourceClaimName": "c"}]})
    world.add(lone).run(3.0)

    assert world.nodes() == {"lone": "a"}


def test_a_claim_that_the_group_lists_is_reserved_for_the_group() -> None:
    listed = {"resourceClaims": [{"name": "net", "resourceClaimName": "c"}]}
    world = GroupWorld(
        node("a"),
        *devices_on("a"),
        claim("c"),
        pod_group("g", min_count=2, spec=listed),
        gates=CLAIMS,
    )

    world.add(*sharing(2)).run(3.0)

    assert len(world.nodes()) == 2
    (reserved,) = world.claims["default/c"].status.reserved_for or ()
    assert (reserved.api_group, reserved.resource) == ("scheduling.k8s.io", "podgroups")
    assert (reserved.name, reserved.uid) == ("g", "uid-g")


def test_a_claim_made_of_the_groups_template_is_found_in_its_status() -> None:
    listed = {"resourceClaims": [{"name": "net", "resourceClaimTemplateName": "t"}]}
    made = {"resourceClaimStatuses": [{"name": "net", "resourceClaimName": "c"}]}
    owner = {"apiVersion": "v", "kind": "PodGroup", "name": "g", "uid": "uid-g", "controller": True}
    group = pod_group("g", min_count=2, spec=listed, status=made)
    owned = claim("c", ownerReferences=[owner])
    world = GroupWorld(node("a"), *devices_on("a"), owned, group, gates=CLAIMS)

    world.add(*sharing(2, resourceClaimTemplateName="t")).run(3.0)

    assert len(world.nodes()) == 2
