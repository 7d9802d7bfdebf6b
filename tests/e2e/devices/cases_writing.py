"""What is written: configuration, opaque parameters, reservations, special claims."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.devices.case import case
from tests.e2e.devices.cases_choosing import gpu_class
from tests.e2e.devices.objects import (
    claim,
    device_class,
    devices,
    exactly,
    first_available,
    opaque,
    sub,
)
from tests.e2e.devices.stage import Data, Stage
from tests.e2e.harness.objects import node, pod

ODD = {"zebra": 1, "apple": {"y": [1, 2.50, "x"], "b": None}, "mango": "é"}
"""No order that anybody would sort into."""


def _compact(it: Any) -> str:
    return json.dumps(it, separators=(",", ":"))


@case('\\"source\\": \\"FromClass\\", \\"requests\\": [\\"one\\", \\"two\\"]')
def configuration_of_classes_and_claims(stage: Stage) -> None:
    for name in ("gpu", "nic"):
        config = [opaque(stage.driver, {"class": name, "n": n}) for n in range(2)]
        gpu_class(stage, name, config=config)
    stage.on_nodes("n1", made=lambda: devices(4))
    config = [
        opaque(stage.driver, {"for": "two"}, "two"),
        opaque(stage.driver, {"for": "all"}),
        opaque(stage.driver, {"for": "one and three"}, "one", "three"),
    ]
    asked = [exactly("one", "gpu"), exactly("three", "nic"), exactly("two", "gpu")]
    stage.create_text("ResourceClaim", _compact(claim("c", *asked, config=config)))
    stage.pod("p", "c")
    stage.bound("p")


@case('\\"for\\": \\"second\\"')
def configuration_of_the_chosen_alternative(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(1))
    config = [
        opaque(stage.driver, {"for": "first"}, "r/first"),
        opaque(stage.driver, {"for": "second"}, "r/second"),
        opaque(stage.driver, {"for": "either"}, "r"),
    ]
    asked = first_available("r", sub("first", "gpu", count=3), sub("second", "gpu"))
    stage.create_text("ResourceClaim", _compact(claim("c", asked, config=config)))
    stage.pod("p", "c")
    stage.bound("p")


@case('\\"zebra\\": 1, \\"apple\\"')
def parameters_in_an_order_of_their_own(stage: Stage) -> None:
    gpu_class(stage, config=[opaque(stage.driver, ODD)])
    stage.on_nodes("n1", made=lambda: devices(1))
    made = claim("c", exactly("r", "gpu"), config=[opaque(stage.driver, ODD)])
    stage.create_text("ResourceClaim", _compact(made))
    stage.pod("p", "c")
    stage.bound("p")


@case('\\"zebra\\": 1, \\"apple\\"')
def parameters_of_the_class_alone(stage: Stage) -> None:
    made = device_class("gpu", f'device.driver == "{stage.driver}"')
    made["spec"]["config"] = [opaque(stage.driver, ODD)]
    stage.create_text("DeviceClass", _compact(made))
    stage.on_nodes("n1", made=lambda: devices(1))
    stage.claim("c", exactly("r", "gpu"))
    stage.pod("p", "c")
    stage.bound("p")


@case('\\"zebra\\": 1, \\"apple\\"')
def parameters_stored_with_blanks(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(1))
    made = claim("c", exactly("r", "gpu"), config=[opaque(stage.driver, ODD)])
    stage.create_text("ResourceClaim", json.dumps(made, indent=2))
    stage.pod("p", "c")
    stage.bound("p")


@case('"name": "p2"', '\\"zebra\\": 1')
def a_further_pod_for_odd_parameters(stage: Stage) -> None:
    gpu_class(stage, config=[opaque(stage.driver, ODD)])
    stage.on_nodes("n1", made=lambda: devices(1))
    made = claim("c", exactly("r", "gpu"), config=[opaque(stage.driver, ODD)])
    stage.create_text("ResourceClaim", json.dumps(made))
    for name in ("p1", "p2"):
        stage.pod(name, "c")
        stage.bound(name)


@case("deallocation of ResourceClaim completed", '\\"zebra\\": 1')
def odd_parameters_of_a_claim_that_is_given_back(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", "n2", made=lambda: devices(1))
    made = claim("c", exactly("r", "gpu"), config=[opaque(stage.driver, ODD)])
    stage.create_text("ResourceClaim", _compact(made))
    stage.pod("first", "c", nodeSelector={"kubernetes.io/hostname": "n1"})
    stage.bound("first")
    stage.delete("Pod", "first")
    body = {"status": {"reservedFor": None}}
    stage.patch("ResourceClaim", "c", body, "status")
    stage.pod("p", "c", nodeSelector={"kubernetes.io/hostname": "n2"})
    stage.bound("p")


@case('"name": "p"', '"networkData"')
def what_drivers_said_stays(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(1))
    stage.claim("c", exactly("r", "gpu"))
    stage.allocate("c", "dev-0")
    said = {
        "driver": stage.driver,
        "pool": "n1",
        "device": "dev-0",
        "data": {"b": 1, "a": 2},
        "networkData": {"interfaceName": "eth1", "ips": ["10.0.0.1/24"]},
    }
    stage.patch("ResourceClaim", "c", {"status": {"devices": [said]}}, "status")
    stage.pod("p", "c")
    stage.bound("p")


# -- extended resources ---------------------------------------------------------------------


def wants(*amounts: dict[str, str], init: tuple[dict[str, str], ...] = ()) -> Data:
    """Containers that ask for these."""

    def container(name: str, wanted: dict[str, str]) -> Data:
        both = {"requests": {"cpu": "10m", **wanted}, "limits": wanted}
        return {"name": name, "image": "i", "resources": both}

    made: Data = {"containers": [container(f"c{n}", it) for n, it in enumerate(amounts)]}
    if init:
        made["initContainers"] = [container(f"i{n}", it) for n, it in enumerate(init)]
    return made


def extended(stage: Stage, name: str, spec: Data) -> None:
    stage.settle()
    body = pod(name, schedulerName=stage.side.profile)
    del body["metadata"]["namespace"]
    body["spec"] |= spec
    stage.create(body)


@case(
    '"p-extended-resources-*****"',
    '"resource.kubernetes.io/extended-resource-claim": "true"',
    '"requestName": "container-0-request-1"',
)
def an_extended_resource(stage: Stage) -> None:
    gpu_class(stage, extendedResourceName="example.com/gpu")
    stage.on_nodes("n1", made=lambda: devices(2))
    extended(stage, "p", wants({"example.com/gpu": "1"}))
    stage.bound("p")


@case('"requestName": "container-2-request-1"')
def extended_resources_of_several_containers(stage: Stage) -> None:
    gpu_class(stage, extendedResourceName="example.com/gpu")
    stage.on_nodes("n1", made=lambda: devices(6))
    one, two, four = ({"example.com/gpu": it} for it in "124")
    extended(stage, "p", wants(one, two, init=(four,)))
    stage.bound("p")


@case('"resourceName": "deviceclass.resource.kubernetes.io/gpu"')
def an_extended_resource_by_the_name_of_its_class(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(2))
    extended(stage, "p", wants({"deviceclass.resource.kubernetes.io/gpu": "2"}))
    stage.bound("p")


@case('"extended": null', '"node": "n1"')
def an_extended_resource_that_a_device_plugin_serves(stage: Stage) -> None:
    gpu_class(stage, extendedResourceName="example.com/gpu")
    made = node("n1")
    made["status"]["allocatable"]["example.com/gpu"] = "2"
    stage.create(made)
    extended(stage, "p", wants({"example.com/gpu": "1"}))
    stage.bound("p")


@case("cannot allocate all claims")
def more_of_an_extended_resource_than_there_is(stage: Stage) -> None:
    gpu_class(stage, extendedResourceName="example.com/gpu")
    stage.on_nodes("n1", made=lambda: devices(1))
    extended(stage, "p", wants({"example.com/gpu": "2"}))
    stage.rejected("p", "cannot allocate all claims")


@case("Insufficient example.com/gpu")
def an_extended_resource_without_a_class(stage: Stage) -> None:
    stage.on_nodes("n1", made=lambda: devices(1))
    extended(stage, "p", wants({"example.com/gpu": "1"}))
    stage.rejected("p", "Insufficient example.com/gpu")


@case('"requestName": "container-0-request-1"', '"request": "r"')
def an_extended_resource_beside_a_claim(stage: Stage) -> None:
    gpu_class(stage, extendedResourceName="example.com/gpu")
    stage.on_nodes("n1", made=lambda: devices(2))
    stage.claim("c", exactly("r", "gpu"))
    spec = wants({"example.com/gpu": "1"})
    spec["resourceClaims"] = [{"name": "c", "resourceClaimName": "c"}]
    extended(stage, "p", spec)
    stage.bound("p")


@case("nil or empty request mappings")
def a_claim_and_a_resource_that_a_device_plugin_serves(stage: Stage) -> None:
    gpu_class(stage, extendedResourceName="example.com/gpu")
    made = node("n1")
    made["status"]["allocatable"]["example.com/gpu"] = "2"
    stage.create(made)
    stage.slice("n1", devices(1), pool="n1")
    stage.claim("c", exactly("r", "gpu"))
    spec = wants({"example.com/gpu": "1"})
    spec["resourceClaims"] = [{"name": "c", "resourceClaimName": "c"}]
    extended(stage, "p", spec)
    stage.rejected("p", "nil or empty request mappings")


@case("deletion of ResourceClaim completed", '"node": "n1"')
def a_claim_for_extended_resources_that_was_left_over(stage: Stage) -> None:
    gpu_class(stage, extendedResourceName="example.com/gpu")
    stage.nodes("n1")
    extended(stage, "p", wants({"example.com/gpu": "1"}))
    stage.rejected("p", "cannot allocate all claims")
    left = claim("p-extended-resources-abcde", exactly("container-0-request-1", "gpu"))
    left["metadata"]["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
    stage.made_for("p", "", left, tell=False)
    stage.settle()
    stage.slice("n1", devices(1), pool="n1")
    stage.rejected("p", "deletion of ResourceClaim completed")
    stage.patch("Node", "n1", {"metadata": {"labels": {"wake": "up"}}})
    stage.bound("p")


@case('"resource": "pods", "name": "p"', '"node": "n1"', theirs="field is immutable")
def a_claim_that_was_allocated_without_saying_when(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(1))
    stage.claim("c", exactly("r", "gpu"))
    stage.allocate("c", "dev-0", allocation={"allocationTimestamp": None})
    stage.pod("p", "c")
    if stage.side.is_stock:
        stage.rejected("p", "field is immutable")
    else:
        stage.bound("p")


@case('"node": "n1"')
def parameters_with_numbers_of_any_size(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(1))
    config = [opaque(stage.driver, "PARAMETERS")]
    text = _compact(claim("c", exactly("r", "gpu"), config=config))
    odd = '{"long":123456789012345678901234567890,"exact":1.50}'
    stage.create_text("ResourceClaim", text.replace('"PARAMETERS"', odd))
    stage.pod("p", "c")
    stage.bound("p")
