"""Devices that are not simply free or taken: counters, shares, administration, taints."""

from __future__ import annotations

from tests.e2e.devices.case import case
from tests.e2e.devices.cases_choosing import gpu_class
from tests.e2e.devices.objects import device, device_class, devices, exactly, taint
from tests.e2e.devices.stage import Data, Stage


def label_for_admins(stage: Stage, value: str | None) -> None:
    labels = {"resource.kubernetes.io/admin-access": value}
    path = f"/api/v1/namespaces/{stage.namespace}"
    stage.api.patch(path, {"metadata": {"labels": labels}})


def _part(name: str, counters: str, memory: str) -> Data:
    uses = {"counterSet": counters, "counters": {"memory": {"value": memory}}}
    return device(name, consumesCounters=[uses])


def _card(stage: Stage, made: list[Data], memory: str = "40Gi") -> None:
    """A pool of two slices: what the card has, and the parts it can be cut into."""
    card = {"name": "card", "counters": {"memory": {"value": memory}}}
    stage.nodes("n1")
    stage.slice("counters", [], pool="n1", count=2, sharedCounters=[card])
    stage.slice("parts", made, pool="n1", count=2)


@case('"device": "whole"', "cannot allocate all claims")
def the_whole_card_leaves_no_part(stage: Stage) -> None:
    gpu_class(stage)
    _card(stage, [_part("whole", "card", "40Gi"), _part("part", "card", "10Gi")])
    for name in ("a", "b"):
        stage.claim(name, exactly("r", "gpu"))
    stage.pod("pa", "a")
    stage.bound("pa")
    stage.pod("pb", "b")
    stage.rejected("pb", "cannot allocate all claims")


@case('"device": "part-3"')
def parts_until_the_card_is_used_up(stage: Stage) -> None:
    gpu_class(stage)
    parts = [_part(f"part-{n}", "card", "10Gi") for n in range(6)]
    _card(stage, [_part("whole", "card", "40Gi"), *parts])
    stage.claim("c", exactly("r", "gpu", count=4))
    stage.pod("p", "c")
    stage.bound("p")


@case("1 invalid resource pools were encountered")
def a_counter_nobody_has(stage: Stage) -> None:
    gpu_class(stage)
    _card(stage, [_part("part", "other", "10Gi")])
    stage.claim("c", exactly("r", "gpu"))
    stage.pod("p", "c")
    stage.rejected("p", "invalid resource pools")


def _shareable(**policy: object) -> list[Data]:
    memory: Data = {"value": "40Gi"}
    if policy:
        memory["requestPolicy"] = policy
    return [device("d", allowMultipleAllocations=True, capacity={"memory": memory})]


def _memory(amount: str) -> Data:
    return {"capacity": {"requests": {"memory": amount}}}


@case('"shareID": "UID"', '"memory": "24Gi"', "cannot allocate all claims")
def shares_of_a_device(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=_shareable)
    for name, amount in (("a", "24Gi"), ("b", "16Gi"), ("c", "1Gi")):
        stage.claim(name, exactly("r", "gpu", **_memory(amount)))
    for name in "ab":
        stage.pod(f"p{name}", name)
        stage.bound(f"p{name}")
    stage.pod("pc", "c")
    stage.rejected("pc", "cannot allocate all claims")


@case('"memory": "3Gi"')
def a_share_is_rounded_up_to_a_step(stage: Stage) -> None:
    gpu_class(stage)
    steps = {"min": "1Gi", "max": "30Gi", "step": "1Gi"}
    stage.on_nodes("n1", made=lambda: _shareable(default="1Gi", validRange=steps))
    stage.claim("c", exactly("r", "gpu", **_memory("2100Mi")))
    stage.pod("p", "c")
    stage.bound("p")


@case('"memory": "8Gi"')
def a_share_is_one_of_some_values(stage: Stage) -> None:
    gpu_class(stage)
    values = ["4Gi", "8Gi", "16Gi"]
    stage.on_nodes("n1", made=lambda: _shareable(default="4Gi", validValues=values))
    stage.claim("c", exactly("r", "gpu", **_memory("5Gi")))
    stage.pod("p", "c")
    stage.bound("p")


@case('"memory": "4Gi"')
def a_share_without_an_amount_is_the_default(stage: Stage) -> None:
    gpu_class(stage)
    values = ["4Gi", "8Gi"]
    stage.on_nodes("n1", made=lambda: _shareable(default="4Gi", validValues=values))
    stage.claim("c", exactly("one", "gpu"), exactly("two", "gpu", **_memory("8Gi")))
    stage.pod("p", "c")
    stage.bound("p")


@case('"device": "large"')
def a_capacity_that_not_every_device_has(stage: Stage) -> None:
    gpu_class(stage)
    made = [
        device("none"),
        device("small", capacity={"memory": "8Gi"}),
        device("large", capacity={"memory": "80Gi"}),
    ]
    stage.on_nodes("n1", made=lambda: made)
    stage.claim("c", exactly("r", "gpu", **_memory("40Gi")))
    stage.pod("p", "c")
    stage.bound("p")


@case('"adminAccess": true')
def administration_of_a_device_in_use(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(1))
    label_for_admins(stage, "true")
    stage.claim("use", exactly("r", "gpu"))
    stage.claim("admin", exactly("r", "gpu", adminAccess=True, allocationMode="All"))
    stage.pod("user", "use")
    stage.bound("user")
    stage.pod("monitor", "admin")
    stage.bound("monitor")


@case("admin access to devices requires the")
def administration_where_it_is_no_more_allowed(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(1))
    label_for_admins(stage, "true")
    stage.claim("admin", exactly("r", "gpu", adminAccess=True))
    label_for_admins(stage, None)
    stage.pod("p", "admin")
    stage.rejected("p", "admin access to devices requires")


@case('"device": "clean"')
def a_tainted_device_is_passed_over(stage: Stage) -> None:
    gpu_class(stage)
    made = [
        device("sick", taints=[taint("health")]),
        device("leaving", taints=[taint("maintenance", "NoExecute")]),
        device("clean", taints=[taint("note", "None")]),
    ]
    stage.on_nodes("n1", made=lambda: made)
    stage.claim("c", exactly("r", "gpu"))
    stage.pod("p", "c")
    stage.bound("p")


@case('"device": "sick"', '"tolerations": [{')
def a_taint_that_is_tolerated(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: [device("sick", taints=[taint("health", value="bad")])])
    tolerations = [
        {"key": "health", "operator": "Equal", "value": "bad", "effect": "NoSchedule"},
        {"operator": "Exists", "key": "other", "tolerationSeconds": 5, "effect": "NoExecute"},
    ]
    stage.claim("c", exactly("r", "gpu", tolerations=tolerations))
    stage.pod("p", "c")
    stage.bound("p")


@case('"device": "d"')
def a_taint_that_goes_away(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: [device("d", taints=[taint("health")])])
    stage.claim("c", exactly("r", "gpu"))
    stage.pod("p", "c")
    stage.rejected("p", "cannot allocate all claims")

    def heal(it: Data) -> None:
        del it["spec"]["devices"][0]["taints"]
        it["spec"]["pool"]["generation"] += 1

    stage.replace("ResourceSlice", f"{stage.run}-n1", heal)
    stage.bound("p")


@case('"reservedFor": [{"resource": "pods", "name": "p1"', '"name": "p2"')
def two_pods_share_a_claim(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(2))
    stage.claim("c", exactly("r", "gpu"))
    for name in ("p1", "p2"):
        stage.pod(name, "c")
        stage.bound(name)


@case('"node": "n1"', is_a_race=True)
def pods_that_share_a_claim_come_together(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(2))
    stage.nodes("n2")
    for name in ("p1", "p2", "p3"):
        stage.pod(name, "c")  # Held back, since there is no claim yet.
    stage.claim("c", exactly("r", "gpu"))
    stage.bound("p1", "p2", "p3")

    def all_in() -> bool:
        return len(stage.get("ResourceClaim", "c")["status"]["reservedFor"]) == 3

    stage.until("all have it reserved", all_in)


@case("resourceclaim not available on the node")
def a_shared_claim_binds_the_second_pod_to_the_node(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", "n2", made=lambda: devices(2))
    stage.claim("c", exactly("r", "gpu"))
    stage.pod("p1", "c", nodeSelector={"kubernetes.io/hostname": "n1"})
    stage.bound("p1")
    stage.pod("p2", "c", nodeSelector={"kubernetes.io/hostname": "n2"})
    stage.rejected("p2", "resourceclaim not available on the node")


@case('"device": "dev-1"')
def two_classes_over_the_same_devices(stage: Stage) -> None:
    gpu_class(stage)
    stage.create(device_class("second", 'device.attributes["x"].y == 1 || true'))
    stage.on_nodes("n1", made=lambda: devices(2))
    stage.claim("c", exactly("one", "gpu"), exactly("two", "second"))
    stage.pod("p", "c")
    stage.bound("p")
