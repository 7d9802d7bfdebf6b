"""Claims of pods: made from templates, given back when pods end, deleted when nobody needs them."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.apiserver.controllers.resource_claims import FINALIZER, claim_name_base
from stowplan.errors import Unavailable
from stowplan.objects.api import Get
from stowplan.objects.kinds import POD, POD_GROUP, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE
from tests.apiserver.controllers.world import Data, Lagging, World
from tests.apiserver.things import delete, names, patch, pod_data

REQUESTS: Data = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
TEMPLATE: Data = {
    "metadata": {"name": "t"},
    "spec": {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}, "spec": REQUESTS},
}


def user(name: str = "p", *, ends_after_s: int = 0, **claim: str) -> Data:
    """A pod with one claim, `gpu`."""
    body = pod_data(name, resourceClaims=[{"name": "gpu", **claim}])
    if ends_after_s:
        body["metadata"]["annotations"] = {"stowplan/run-seconds": str(ends_after_s)}
    return body


def allocate(world: World, name: str, *pods: str) -> None:
    """As a scheduler does it."""
    result = {"request": "r", "driver": "d.example.com", "pool": "p", "device": "d"}
    consumers = [
        {"resource": "pods", "name": it, "uid": world.get(POD, it)["metadata"]["uid"]}
        for it in pods
    ]
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": consumers}
    finalizers = {"metadata": {"finalizers": [FINALIZER]}}
    patch(world.store, RESOURCE_CLAIM, name, finalizers, "merge")
    patch(world.store, RESOURCE_CLAIM, name, {"status": status}, "merge", "status")
    world.run()


def claims(world: World) -> list[str]:
    return names(world.store, RESOURCE_CLAIM, namespace="default")


def reserved_for(world: World, claim: str) -> list[str]:
    return [it["name"] for it in world.status(RESOURCE_CLAIM, claim).get("reservedFor", ())]


@pytest.mark.parametrize("lag_s", [0.0, 0.3])
def test_a_template_becomes_a_claim_of_the_pods_own(lag_s: float) -> None:
    world = World(lag_s=lag_s)
    world.create(RESOURCE_CLAIM_TEMPLATE, TEMPLATE)
    pod = world.create(POD, user(resourceClaimTemplateName="t"))
    world.run(10.0)

    (name,) = claims(world)
    claim = world.get(RESOURCE_CLAIM, name)
    assert name.startswith("p-gpu-")
    assert claim["metadata"]["labels"] == {"a": "b"}
    assert claim["metadata"]["annotations"] == {
        "c": "d",
        "resource.kubernetes.io/pod-claim-name": "gpu",
    }
    assert claim["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod.uid, "controller": True}
    ]
    (request,) = claim["spec"]["devices"]["requests"]
    assert request["exactly"]["deviceClassName"] == "gpu"
    assert world.status(POD, "p")["resourceClaimStatuses"] == [
        {"name": "gpu", "resourceClaimName": name}
    ]


def test_a_template_that_comes_later(world: World) -> None:
    world.create(POD, user(resourceClaimTemplateName="t"))
    missing = 'resourceclaimtemplate.resource.k8s.io "t" not found'
    note = f'PodResourceClaim gpu: resource claim template "t": {missing}'
    assert {*world.events("FailedResourceClaimCreation")} == {note}
    assert claims(world) == []

    world.create(RESOURCE_CLAIM_TEMPLATE, TEMPLATE)
    assert len(claims(world)) == 1


def test_a_generated_claim_ends_with_its_pod(world: World) -> None:
    world.create(RESOURCE_CLAIM_TEMPLATE, TEMPLATE)
    world.create(POD, user(ends_after_s=30, resourceClaimTemplateName="t"))
    (name,) = claims(world)
    allocate(world, name, "p")
    world.run(20.0)
    assert reserved_for(world, name) == ["p"]

    world.run(20.0)
    assert world.status(POD, "p")["phase"] == "Succeeded"
    assert claims(world) == []


def test_a_deleted_pod_takes_its_claim_with_it(world: World) -> None:
    world.create(RESOURCE_CLAIM_TEMPLATE, TEMPLATE)
    world.create(POD, user(resourceClaimTemplateName="t"))
    (name,) = claims(world)
    allocate(world, name, "p")

    delete(world.store, POD, "p")
    world.run(60.0)
    assert world.pod_names() == []
    assert claims(world) == []


def test_a_shared_claim_is_given_back_by_the_last_pod(world: World) -> None:
    world.create(RESOURCE_CLAIM, {"metadata": {"name": "c"}, "spec": REQUESTS})
    for name, seconds in (("a", 10), ("b", 30)):
        world.create(POD, user(name, ends_after_s=seconds, resourceClaimName="c"))
    allocate(world, "c", "a", "b")

    world.run(15.0)
    assert reserved_for(world, "c") == ["b"]
    assert "allocation" in world.status(RESOURCE_CLAIM, "c")
    world.run(20.0)
    claim = world.get(RESOURCE_CLAIM, "c")
    assert claim["status"] == {}
    assert "finalizers" not in claim["metadata"]


def test_reservations_of_pods_that_never_were_or_were_replaced(world: World) -> None:
    world.create(RESOURCE_CLAIM, {"metadata": {"name": "c"}, "spec": REQUESTS})
    world.create(POD, user("a", resourceClaimName="c"))
    allocate(world, "c", "a")
    others: list[Any] = [
        {"resource": "pods", "name": "a", "uid": "another"},
        {"resource": "pods", "name": "ghost", "uid": "ghost"},
        {"apiGroup": "example.com", "resource": "jobs", "name": "j", "uid": "j"},
    ]
    body = {"status": {"reservedFor": others}}
    patch(world.store, RESOURCE_CLAIM, "c", body, "strategic", "status")
    world.run(5.0)

    # What is not a pod is not for this controller to judge.
    assert sorted(reserved_for(world, "c")) == ["a", "j"]


def test_a_deleted_claim_waits_until_nobody_uses_it(world: World) -> None:
    world.create(RESOURCE_CLAIM, {"metadata": {"name": "c"}, "spec": REQUESTS})
    world.create(POD, user("a", ends_after_s=30, resourceClaimName="c"))
    allocate(world, "c", "a")

    delete(world.store, RESOURCE_CLAIM, "c")
    world.run(10.0)
    assert claims(world) == ["c"]
    world.run(30.0)
    assert claims(world) == []


def test_a_deleted_claim_that_nobody_uses_goes_at_once(world: World) -> None:
    world.create(RESOURCE_CLAIM, {"metadata": {"name": "c"}, "spec": REQUESTS})
    allocate(world, "c")

    delete(world.store, RESOURCE_CLAIM, "c")
    world.run()
    assert claims(world) == []


def test_a_pod_on_a_node_gets_its_reservation(world: World) -> None:
    """Somebody placed it by hand, past the scheduler."""
    world.create(RESOURCE_CLAIM, {"metadata": {"name": "c"}, "spec": REQUESTS})
    allocate(world, "c")
    world.create(POD, user("a", resourceClaimName="c"))
    world.run(5.0)

    assert reserved_for(world, "c") == ["a"]


def test_a_claim_for_extended_resources_ends_with_its_pod(world: World) -> None:
    pod = pod_data("p")
    pod["metadata"]["annotations"] = {"stowplan/run-seconds": "30"}
    amounts = {"example.com/gpu": "1"}
    pod["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    uid = world.create(POD, pod).uid
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True}
    world.create(
        RESOURCE_CLAIM,
        {"metadata": {"name": "x", "ownerReferences": [owner]}, "spec": REQUESTS},
    )
    allocate(world, "x", "p")
    names_ = {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r"}
    made = {"resourceClaimName": "x", "requestMappings": [names_]}
    patch(
        world.store,
        POD,
        "p",
        {"status": {"extendedResourceClaimStatus": made}},
        subresource="status",
    )
    world.run(40.0)

    assert claims(world) == []


def test_long_names_are_shortened_alike() -> None:
    assert claim_name_base("pod", "gpu") == "pod-gpu-"
    base = claim_name_base("p" * 60, "c" * 20)
    assert len(base) <= 57
    assert base == "p" * 41 + "-" + "c" * 13


GROUP_GATES = frozenset({"GenericWorkload", "DRAWorkloadResourceClaims"})
LISTED: Data = {"name": "gpu", "resourceClaimTemplateName": "t"}


def group_world(lag_s: float = 0.0) -> World:
    """Two pods of a group that lists the claim they name, and one that names another."""
    world = World(lag_s=lag_s, gates=GROUP_GATES)
    world.create(RESOURCE_CLAIM_TEMPLATE, TEMPLATE)
    spec = {"schedulingPolicy": {"basic": {}}, "resourceClaims": [LISTED]}
    world.create(POD_GROUP, {"metadata": {"name": "g"}, "spec": spec})
    for name in ("a", "b"):
        body = user(name, resourceClaimTemplateName="t")
        body["spec"]["schedulingGroup"] = {"podGroupName": "g"}
        world.create(POD, body)
    world.run(10.0)
    return world


@pytest.mark.parametrize("lag_s", [0.0, 0.3])
def test_a_group_has_one_claim_for_all_its_pods(lag_s: float) -> None:
    world = group_world(lag_s)

    (name,) = claims(world)
    meta = world.get(RESOURCE_CLAIM, name)["metadata"]
    (owner,) = meta["ownerReferences"]
    told = [{"name": "gpu", "resourceClaimName": name}]
    assert name.startswith("g-gpu-")
    assert meta["annotations"]["resource.kubernetes.io/pod-claim-name"] == "gpu"
    assert (owner["apiVersion"], owner["kind"], owner["name"], owner["controller"]) == (
        "scheduling.k8s.io/v1alpha2",
        "PodGroup",
        "g",
        True,
    )
    assert world.status(POD_GROUP, "g")["resourceClaimStatuses"] == told
    assert [world.status(POD, it)["resourceClaimStatuses"] for it in "ab"] == [told, told]


def test_a_pod_that_names_what_its_group_does_not_list_has_its_own() -> None:
    world = group_world()
    (shared,) = claims(world)
    body = user("c", resourceClaimTemplateName="t")
    body["spec"]["resourceClaims"][0]["name"] = "mine"
    body["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    world.create(POD, body)
    world.run(10.0)

    (own,) = {*claims(world)} - {shared}
    assert own.startswith("c-mine-")


def test_the_claim_of_a_group_stays_until_the_group_is_gone() -> None:
    world = group_world()
    (name,) = claims(world)
    allocate(world, name)
    uid = world.get(POD_GROUP, "g")["metadata"]["uid"]
    # The pods run already: whoever bound them forgot to reserve it.
    assert world.status(RESOURCE_CLAIM, name)["reservedFor"] == [
        {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": uid}
    ]

    for pod in ("a", "b"):
        delete(world.store, POD, pod)
    world.run(10.0)
    assert world.status(RESOURCE_CLAIM, name)["allocation"]

    delete(world.store, POD_GROUP, "g")
    world.run(10.0)
    assert claims(world) == []


def test_a_group_whose_template_is_missing_says_so() -> None:
    world = World(gates=GROUP_GATES)
    spec = {"schedulingPolicy": {"basic": {}}, "resourceClaims": [LISTED]}
    world.create(POD_GROUP, {"metadata": {"name": "g"}, "spec": spec})
    world.run(10.0)

    missing = 'resourceclaimtemplate.resource.k8s.io "t" not found'
    note = f'PodGroupResourceClaim gpu: resource claim template "t": {missing}'
    assert {*world.events("FailedResourceClaimCreation")} == {note}


def test_a_pod_that_cannot_be_asked_about_keeps_its_reservation(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its watch may be behind; only who is known to be gone has given up what it had."""
    whole = Lagging.call

    def unsure(self: Lagging, requests: Any, done: Any) -> None:
        if any(isinstance(it, Get) and it.kind is POD for it in requests):
            done(0, [Unavailable("not now")] * len(requests))
        else:
            whole(self, requests, done)

    world.create(RESOURCE_CLAIM, {"metadata": {"name": "c"}, "spec": REQUESTS})
    allocate(world, "c")
    ghost = [{"resource": "pods", "name": "ghost", "uid": "ghost"}]
    with monkeypatch.context() as patched:
        patched.setattr(Lagging, "call", unsure)
        body = {"status": {"reservedFor": ghost}}
        patch(world.store, RESOURCE_CLAIM, "c", body, "strategic", "status")
        world.run(5.0)
        assert reserved_for(world, "c") == ["ghost"]

    patch(world.store, RESOURCE_CLAIM, "c", {"metadata": {"labels": {"a": "b"}}}, "merge")
    world.run(5.0)
    assert reserved_for(world, "c") == []
