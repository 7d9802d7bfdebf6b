"""Which devices are chosen: pools, counts, selectors, constraints, prioritised lists."""

from __future__ import annotations

from tests.e2e.devices.case import case
from tests.e2e.devices.objects import (
    claim,
    device,
    device_class,
    devices,
    exactly,
    first_available,
    slice_of,
    sub,
)
from tests.e2e.devices.stage import Stage
from tests.e2e.harness.objects import HOSTNAME, ZONE, node, node_selector


def gpu_class(stage: Stage, name: str = "gpu", **spec: object) -> None:
    stage.create(device_class(name, f'device.driver == "{stage.driver}"', **spec))


@case('"device": "dev-0"', '"reservedFor": [{"resource": "pods", "name": "p"', "delete-protection")
def one_device(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(3))
    stage.claim("c", exactly("r", "gpu"))
    stage.pod("p", "c")
    stage.bound("p")


@case('"device": "dev-1"')
def several_of_one_request(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(3))
    stage.claim("c", exactly("r", "gpu", count=2))
    stage.pod("p", "c")
    stage.bound("p")


@case('"device": "dev-2"')
def one_pod_after_the_other(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(3))
    for number in range(3):
        stage.claim(f"c{number}", exactly("r", "gpu"))
        stage.pod(f"p{number}", f"c{number}")
        stage.bound(f"p{number}")


@case('"device": "dev-3"')
def all_devices_of_a_node(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(4))
    stage.claim("c", exactly("r", "gpu", allocationMode="All"))
    stage.pod("p", "c")
    stage.bound("p")


@case("2 cannot allocate all claims")
def all_devices_but_one_is_taken(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(2))
    stage.nodes("n2")
    stage.claim("one", exactly("r", "gpu"))
    stage.pod("first", "one")
    stage.bound("first")
    stage.claim("all", exactly("r", "gpu", allocationMode="All"))
    stage.pod("p", "all")
    stage.rejected("p", "cannot allocate all claims")


@case('"device": "large"')
def a_selector_of_the_request(stage: Stage) -> None:
    gpu_class(stage)
    sizes = {"small": 1, "middle": 2, "large": 3}
    stage.on_nodes(
        "n1", made=lambda: [device(name, attributes={"size": n}) for name, n in sizes.items()]
    )
    text = f'device.attributes["{stage.driver}"].size > 2'
    stage.claim("c", exactly("r", "gpu", text))
    stage.pod("p", "c")
    stage.bound("p")


@case('"device": "fits"')
def versions_and_quantities(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes(
        "n1",
        made=lambda: [
            device("old", attributes={"v": {"version": "1.2.3"}}, capacity={"memory": "80Gi"}),
            device("small", attributes={"v": {"version": "2.0.0"}}, capacity={"memory": "8Gi"}),
            device("fits", attributes={"v": {"version": "2.1.0"}}, capacity={"memory": "40Gi"}),
        ],
    )
    domain = f'"{stage.driver}"'
    stage.claim(
        "c",
        exactly(
            "r",
            "gpu",
            f'device.attributes[{domain}].v.isGreaterThan(semver("1.9.0"))',
            f'device.capacity[{domain}].memory.compareTo(quantity("16Gi")) >= 0',
        ),
    )
    stage.pod("p", "c")
    stage.bound("p")


@case('"device": "of-a"', '"device": "of-b"')
def slices_go_by_their_names(stage: Stage) -> None:
    gpu_class(stage)
    stage.nodes("n1")
    for name in ("b", "a"):
        stage.slice(name, [device(f"of-{name}")], pool="n1", count=2)
    stage.claim("c", exactly("r", "gpu", count=2))
    stage.pod("p", "c")
    stage.bound("p")


@case('"pool": "a/x"')
def pools_go_by_their_names(stage: Stage) -> None:
    gpu_class(stage)
    stage.nodes("n1")
    for pool in ("b", "a/y", "a/x"):
        name = pool.replace("/", "-")
        stage.slice(name, [device("d")], pool=pool, nodeName="n1")
    stage.claim("c", exactly("r", "gpu", count=2))
    stage.pod("p", "c")
    stage.bound("p")


@case('"device": "new"')
def an_older_generation_does_not_count(stage: Stage) -> None:
    gpu_class(stage)
    stage.nodes("n1")
    stage.slice("a", [device("old")], pool="n1", generation=1)
    stage.slice("b", [device("new")], pool="n1", generation=2)
    stage.claim("c", exactly("r", "gpu"))
    stage.pod("p", "c")
    stage.bound("p")


@case('"device": "dev-0"')
def a_pool_that_is_not_complete_yet(stage: Stage) -> None:
    gpu_class(stage)
    stage.nodes("n1")
    stage.slice("a", devices(1), pool="n1", count=2)
    stage.claim("c", exactly("r", "gpu"))
    stage.pod("p", "c")
    stage.rejected("p", "1 cannot allocate all claims")
    stage.slice("b", [device("other")], pool="n1", count=2)
    stage.bound("p")


@case("is currently being updated")
def all_devices_of_a_pool_that_is_not_complete(stage: Stage) -> None:
    gpu_class(stage)
    stage.nodes("n1")
    stage.slice("a", devices(1), pool="n1", count=2)
    stage.claim("c", exactly("r", "gpu", allocationMode="All"))
    stage.pod("p", "c")
    stage.rejected("p", "is currently being updated")


@case("1 invalid resource pools were encountered")
def a_pool_that_contradicts_itself(stage: Stage) -> None:
    gpu_class(stage)
    stage.nodes("n1")
    for name in ("a", "b"):
        stage.slice(name, [device("same")], pool="n1", count=2)
    stage.claim("c", exactly("r", "gpu"))
    stage.pod("p", "c")
    stage.rejected("p", "invalid resource pools were encountered")


@case('"matchExpressions": [{"key": "topology.kubernetes.io/zone"')
def devices_of_a_zone(stage: Stage) -> None:
    gpu_class(stage)
    stage.create(node("n1", labels={ZONE: "z1"}), node("n2", labels={ZONE: "z2"}))
    stage.slice("z2", devices(2), pool="z2", nodeSelector=node_selector(ZONE, "z2"))
    stage.claim("c", exactly("r", "gpu"))
    stage.pod("p", "c")
    stage.bound("p")


@case('"pool": "everywhere"')
def devices_of_all_nodes(stage: Stage) -> None:
    gpu_class(stage)
    stage.nodes("n1")
    stage.slice("all", devices(2), pool="everywhere", allNodes=True)
    stage.claim("c", exactly("r", "gpu"))
    stage.pod("p", "c")
    stage.bound("p")


@case('"device": "mine"')
def each_device_says_where_it_is(stage: Stage) -> None:
    gpu_class(stage)
    stage.nodes("n1")
    made = [
        device("elsewhere", nodeName="n2"),
        device("mine", nodeSelector=node_selector(HOSTNAME, "n1")),
        device("anywhere", allNodes=True),
    ]
    stage.slice("mixed", made, pool="mixed", perDeviceNodeSelection=True)
    stage.claim("c", exactly("r", "gpu", count=2))
    stage.pod("p", "c")
    stage.bound("p")


@case('"matchFields": [{"key": "metadata.name"')
def a_device_that_binds_to_the_node(stage: Stage) -> None:
    gpu_class(stage)
    stage.nodes("n1")
    stage.slice("all", [device("d", bindsToNode=True)], pool="fabric", allNodes=True)
    stage.claim("c", exactly("r", "gpu"))
    stage.pod("p", "c")
    stage.bound("p")


@case('"device": "b0"', '"device": "b1"')
def devices_with_an_attribute_in_common(stage: Stage) -> None:
    gpu_class(stage)
    numa = {"a0": 0, "b0": 1, "a2": 2, "b1": 1}
    stage.on_nodes(
        "n1", made=lambda: [device(name, attributes={"numa": n}) for name, n in numa.items()]
    )
    stage.claim(
        "c",
        exactly("one", "gpu"),
        exactly("two", "gpu"),
        constraints=[{"matchAttribute": f"{stage.driver}/numa"}],
    )
    stage.pod("p", "c")
    stage.bound("p")


@case('"device": "b"')
def devices_with_different_attributes(stage: Stage) -> None:
    gpu_class(stage)
    rack = {"a": "x", "a2": "x", "b": "y"}
    stage.on_nodes(
        "n1", made=lambda: [device(name, attributes={"rack": it}) for name, it in rack.items()]
    )
    stage.claim(
        "c",
        exactly("r", "gpu", count=2),
        constraints=[{"requests": ["r"], "distinctAttribute": f"{stage.driver}/rack"}],
    )
    stage.pod("p", "c")
    stage.bound("p")


@case('"request": "r/good"')
def the_second_alternative(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(2))
    best = sub("best", "gpu", count=4)
    stage.claim("c", first_available("r", best, sub("good", "gpu", count=2)))
    stage.pod("p", "c")
    stage.bound("p")


@case('"request": "r/best"', '"node": "n2"')
def the_node_with_the_better_alternative(stage: Stage) -> None:
    gpu_class(stage)
    stage.nodes("n1", "n2", "n3")
    for name, count in (("n1", 1), ("n2", 4), ("n3", 1)):
        stage.slice(name, devices(count), pool=name)
    stage.claim("c", first_available("r", sub("best", "gpu", count=4), sub("good", "gpu")))
    stage.pod("p", "c")
    stage.bound("p")


@case("number of requested devices 33 exceeds the claim limit of 32")
def more_devices_than_a_claim_can_have(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(40))
    stage.claim("c", exactly("r", "gpu", count=33))
    stage.pod("p", "c")
    stage.rejected("p", "exceeds the claim limit")


@case('"device": "dev-1"')
def two_claims_of_one_pod(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(3))
    stage.claim("second", exactly("r", "gpu"))
    stage.claim("first", exactly("r", "gpu"))
    stage.pod("p", "first", "second")
    stage.bound("p")


@case('"node": "n2"')
def claims_of_two_drivers_meet_on_one_node(stage: Stage) -> None:
    gpu_class(stage)
    other = f"nic.{stage.run}.example.com"
    stage.create(device_class("nic", f'device.driver == "{other}"'))
    stage.on_nodes("n1", "n2", made=lambda: devices(1))
    stage.create(slice_of(f"{stage.run}-nic", other, devices(1), pool="n2"))
    stage.claim("c", exactly("gpu", "gpu"), exactly("nic", "nic"))
    stage.pod("p", "c")
    stage.bound("p")


@case('"device": "dev-0"')
def objects_of_v1beta1(stage: Stage) -> None:
    expression = f'device.driver == "{stage.driver}"'
    made = device_class("gpu", expression)
    made["apiVersion"] = "resource.k8s.io/v1beta1"
    offered = slice_of(f"{stage.run}-n1", stage.driver, [], pool="n1")
    offered["apiVersion"] = "resource.k8s.io/v1beta1"
    offered["spec"]["devices"] = [{"name": "dev-0", "basic": {"attributes": {"a": {"int": 1}}}}]
    asked = claim("c")
    asked["apiVersion"] = "resource.k8s.io/v1beta1"
    asked["spec"]["devices"]["requests"] = [{"name": "r", "deviceClassName": "gpu"}]
    stage.nodes("n1")
    stage.create(made, offered, asked)
    stage.pod("p", "c")
    stage.bound("p")


@case('"device": "dev-0"')
def objects_of_v1beta2(stage: Stage) -> None:
    made = device_class("gpu", f'device.driver == "{stage.driver}"')
    offered = slice_of(f"{stage.run}-n1", stage.driver, devices(1), pool="n1")
    asked = claim("c", exactly("r", "gpu"))
    for it in (made, offered, asked):
        it["apiVersion"] = "resource.k8s.io/v1beta2"
    stage.nodes("n1")
    stage.create(made, offered, asked)
    stage.pod("p", "c")
    stage.bound("p")
