"""Extended resources: which class stands for one, where it counts in scores, what wakes pods."""

from __future__ import annotations

from tests.e2e.devices.case import case
from tests.e2e.devices.cases_choosing import gpu_class
from tests.e2e.devices.cases_writing import extended, wants
from tests.e2e.devices.objects import claim, device_class, devices, exactly
from tests.e2e.devices.stage import Stage
from tests.e2e.harness.objects import node

GPU = "example.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"


def _lists(stage: Stage, name: str, count: str) -> None:
    """A node with a device plugin."""
    made = node(name)
    made["status"]["allocatable"][GPU] = count
    stage.create(made)


@case('"node": "n2"')
def the_node_with_the_larger_share_of_devices_free(stage: Stage) -> None:
    gpu_class(stage, extendedResourceName=GPU)
    stage.on_nodes("n1", made=lambda: devices(8))
    stage.on_nodes("n2", made=lambda: devices(4))
    stage.claim("taken", exactly("r", "gpu", count=5))
    stage.allocate("taken", *(f"dev-{n}" for n in range(5)))
    extended(stage, "p", wants({GPU: "1"}))
    stage.bound("p")


@case('"node": "n1"')
def devices_are_weighed_against_what_a_device_plugin_lists(stage: Stage) -> None:
    gpu_class(stage, extendedResourceName=GPU)
    stage.on_nodes("n1", made=lambda: devices(8))
    _lists(stage, "n2", "2")
    extended(stage, "p", wants({GPU: "1"}))
    stage.bound("p")


@case('"node": "n1"')
def a_node_that_leaves_the_resource_to_devices(stage: Stage) -> None:
    gpu_class(stage, extendedResourceName=GPU)
    _lists(stage, "n1", "1")
    stage.slice("n1", devices(2), pool="n1")
    extended(stage, "p", wants({GPU: "2"}))
    stage.rejected("p", "Insufficient example.com/gpu")
    stage.patch("Node", "n1", {"status": {"allocatable": {GPU: None}}}, "status")
    stage.bound("p")


@case('"node": "n1"', '"requestName": "container-0-request-1"')
def a_class_that_comes_to_stand_for_the_resource(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(2))
    extended(stage, "p", wants({GPU: "1"}))
    stage.rejected("p", "Insufficient example.com/gpu")
    stage.patch("DeviceClass", "gpu", {"spec": {"extendedResourceName": GPU}})
    stage.bound("p")


@case('"node": "n1"')
def a_class_that_comes_later_by_its_own_name(stage: Stage) -> None:
    stage.on_nodes("n1", made=lambda: devices(2))
    extended(stage, "p", wants({IMPLICIT: "1"}))
    stage.rejected("p", f"Insufficient {IMPLICIT}")
    gpu_class(stage)
    stage.bound("p")


@case('"device": "dev-1"')
def of_two_classes_the_younger_stands_for_the_resource(stage: Stage) -> None:
    first = 'device.attributes["example.com"].n == 0'
    second = 'device.attributes["example.com"].n == 1'
    stage.create(device_class("zebra", first, extendedResourceName=GPU))
    stage.until_next_second()
    stage.create(device_class("apple", second, extendedResourceName=GPU))
    made = devices(2)
    for number, it in enumerate(made):
        it["attributes"] = {"example.com/n": {"int": number}}
    stage.on_nodes("n1", made=lambda: made)
    extended(stage, "p", wants({GPU: "1"}))
    stage.bound("p")


@case('"requestName": "container-1-request-1"')
def a_sidecar_that_wants_devices(stage: Stage) -> None:
    gpu_class(stage, extendedResourceName=GPU)
    stage.on_nodes("n1", made=lambda: devices(6))
    spec = wants({GPU: "1"}, init=({GPU: "3"}, {GPU: "2"}))
    spec["initContainers"][1]["restartPolicy"] = "Always"
    extended(stage, "p", spec)
    stage.bound("p")


@case('"node": "n2"', "resourceclaim not available on the node")
def a_claim_elsewhere_beside_an_extended_resource(stage: Stage) -> None:
    gpu_class(stage, extendedResourceName=GPU)
    stage.on_nodes("n1", "n2", made=lambda: devices(2))
    stage.claim("c", exactly("r", "gpu"))
    stage.allocate("c", "dev-0", pool="n1")
    spec = wants({GPU: "1"})
    spec["resourceClaims"] = [{"name": "c", "resourceClaimName": "c"}]
    spec["nodeSelector"] = {"kubernetes.io/hostname": "n2"}
    extended(stage, "p", spec)
    stage.bound("p")


@case("cannot allocate all claims", '"node": "n1"')
def devices_that_another_pod_gives_back(stage: Stage) -> None:
    gpu_class(stage, extendedResourceName=GPU)
    stage.on_nodes("n1", made=lambda: devices(1))
    stage.claim("c", exactly("r", "gpu"))
    stage.allocate("c", "dev-0")
    extended(stage, "p", wants({GPU: "1"}))
    stage.rejected("p", "cannot allocate all claims")
    stage.release("c")
    stage.bound("p")


@case('"resource.kubernetes.io/extended-resource-claim"', '"node": "n1"')
def a_claim_that_only_looks_like_one_for_extended_resources(stage: Stage) -> None:
    gpu_class(stage, extendedResourceName=GPU)
    stage.on_nodes("n1", made=lambda: devices(2))
    other = claim("other", exactly("r", "gpu"))
    other["metadata"]["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
    stage.create(other)
    extended(stage, "p", wants({GPU: "1"}))
    stage.bound("p")
