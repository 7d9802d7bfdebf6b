"""Pods that have to wait: what they are told, what wakes them, what is taken back for them."""

from __future__ import annotations

from tests.e2e.devices.case import case
from tests.e2e.devices.cases_choosing import gpu_class
from tests.e2e.devices.objects import (
    FINALIZER,
    claim,
    device,
    device_class,
    devices,
    exactly,
    first_available,
    from_template,
    slice_of,
    sub,
)
from tests.e2e.devices.stage import Data, Stage
from tests.e2e.harness.objects import (
    HOSTNAME,
    claimed,
    node,
    priority_class,
    storage_class,
    volume,
)
from tests.e2e.harness.objects import claim as volume_claim

ON_N2 = {"nodeSelector": {HOSTNAME: "n2"}}


@case(
    "0/2 nodes are available: 2 cannot allocate all claims. still not schedulable, preemption: "
    "0/2 nodes are available: 2 Preemption is not helpful for scheduling."
)
def no_device_anywhere(stage: Stage) -> None:
    gpu_class(stage)
    stage.nodes("n1", "n2")
    stage.claim("c", exactly("r", "gpu"))
    stage.pod("p", "c")
    stage.rejected("p")


@case("0/1 nodes are available: request r: device class gpu does not exist. no new claims to")
def no_such_class(stage: Stage) -> None:
    stage.on_nodes("n1", made=lambda: devices(1))
    stage.claim("c", exactly("r", "gpu"))
    stage.pod("p", "c")
    stage.rejected("p", "device class gpu does not exist")


@case('"device": "dev-0"')
def a_class_that_comes_later(stage: Stage) -> None:
    stage.on_nodes("n1", made=lambda: devices(1))
    stage.claim("c", exactly("r", "gpu"))
    stage.pod("p", "c")
    stage.rejected("p", "device class gpu does not exist")
    gpu_class(stage)
    stage.bound("p")


@case("request r/two: device class none does not exist")
def no_such_class_in_an_alternative(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(1))
    stage.claim("c", first_available("r", sub("one", "gpu"), sub("two", "none")))
    stage.pod("p", "c")
    stage.rejected("p", "device class none does not exist")


@case("resourceclaim not available on the node. still not schedulable")
def allocated_elsewhere_and_reserved(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", "n2", made=lambda: devices(1))
    stage.claim("c", exactly("r", "gpu"))
    other = {"resource": "pods", "name": "other", "uid": "11111111-1111-4111-8111-111111111111"}
    stage.allocate("c", "dev-0", reservedFor=[other])
    stage.pod("p", "c", **ON_N2)
    stage.rejected("p", "still not schedulable")


@case("deallocation of ResourceClaim completed", '"node": "n2"')
def allocated_elsewhere_and_not_reserved(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", "n2", made=lambda: devices(1))
    stage.claim("c", exactly("r", "gpu"))
    stage.allocate("c", "dev-0")
    stage.pod("p", "c", **ON_N2)
    stage.bound("p")


@case("cannot allocate all claims", is_a_race=True)
def deallocation_takes_the_devices_reports_as_well(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(1))
    stage.nodes("n2")
    stage.claim("c", exactly("r", "gpu"))
    stage.allocate("c", "dev-0")
    stage.report("c", "dev-0", "n1", Ready="True")
    stage.pod("p", "c", **ON_N2)
    stage.unallocated("c")
    # A second failure so soon after the first may be told as one more of the same.
    stage.rejected("p", "cannot allocate all claims", by_event=False)


@case("CEL runtime error: no such key: nope", "SchedulerError")
def an_expression_that_fails(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(1))
    stage.claim("c", exactly("r", "gpu", f'device.attributes["{stage.driver}"].nope == "x"'))
    stage.pod("p", "c")
    stage.rejected("p", "no such key: nope")


@case("CEL runtime error", "SchedulerError")
def an_expression_of_the_class_that_fails(stage: Stage) -> None:
    stage.create(device_class("gpu", f'device.attributes["{stage.driver}"].size / 0 == 1'))
    stage.on_nodes("n1", made=lambda: devices(1, attributes={"size": 1}))
    stage.claim("c", exactly("r", "gpu"))
    stage.pod("p", "c")
    stage.rejected("p", "CEL runtime error")


@case("CEL runtime error", "SchedulerError")
def an_expression_that_is_no_truth_value(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(1, attributes={"name": "x"}))
    stage.claim("c", exactly("r", "gpu", f'device.attributes["{stage.driver}"].name'))
    stage.pod("p", "c")
    stage.rejected("p", "CEL runtime error")


@case("Too many: 257: must have at most 256 items", "SchedulerError")
def a_claim_with_256_reservations(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(1))
    stage.claim("c", exactly("r", "gpu"))
    others = [
        {"resource": "pods", "name": f"o{n}", "uid": f"11111111-1111-4111-8111-{n:012}"}
        for n in range(256)
    ]
    stage.allocate("c", "dev-0", reservedFor=others)
    stage.pod("p", "c")
    stage.rejected("p", "Too many")


@case('"conditions": []')
def held_back_without_its_claim(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(1))
    stage.pod("p", "c")
    stage.quiet()


@case('"node": "n1"')
def a_claim_that_comes_later(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(1))
    stage.pod("p", "c")
    stage.settle()
    stage.claim("c", exactly("r", "gpu"))
    stage.bound("p")


@case('"conditions": []', '"deletionTimestamp": true')
def held_back_while_its_claim_is_being_deleted(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(1))
    made = claim("c", exactly("r", "gpu"))
    made["metadata"]["finalizers"] = ["example.com/mine"]
    stage.create(made)
    stage.delete("ResourceClaim", "c")
    stage.pod("p", "c")
    stage.quiet()


@case('"node": "n1"', '"name": "p-gpu-abcde"')
def a_claim_made_from_a_template(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(1))
    stage.pod("p", from_template("gpu", "t"))
    stage.settle()
    stage.made_for("p", "gpu", claim("p-gpu-abcde", exactly("r", "gpu")))
    stage.bound("p")


@case('"conditions": []')
def held_back_until_told_of_the_claim(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(1))
    stage.pod("p", from_template("gpu", "t"))
    stage.made_for("p", "gpu", claim("p-gpu-abcde", exactly("r", "gpu")), tell=False)
    stage.quiet()


@case('"conditions": []')
def held_back_from_a_claim_of_another_pod(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(1))
    stage.claim("p-gpu-abcde", exactly("r", "gpu"))
    stage.pod("p", from_template("gpu", "t"))
    stage.tell_claim("p", "gpu", "p-gpu-abcde")
    stage.quiet()


@case('"node": "n1"')
def a_template_that_needs_no_claim(stage: Stage) -> None:
    stage.nodes("n1")
    stage.pod("p", from_template("gpu", "t"))
    stage.tell_claim("p", "gpu", None)
    stage.bound("p")


@case("1 Insufficient cpu. no new claims to deallocate, preemption: 0/1")
def a_pod_without_claims_that_fits_nowhere(stage: Stage) -> None:
    stage.nodes("n1", cpu="1")
    stage.pod("p", cpu="2")
    stage.rejected("p")


@case('"device": "dev-0"')
def a_device_that_is_given_back(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(1))
    for name in ("a", "b"):
        stage.claim(name, exactly("r", "gpu"))
    stage.pod("pa", "a")
    stage.bound("pa")
    stage.pod("pb", "b")
    stage.rejected("pb", "cannot allocate all claims")
    stage.delete("Pod", "pa")
    stage.release("a")
    stage.bound("pb")


@case('"device": "dev-1"')
def a_slice_that_grows(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(1))
    stage.claim("c", exactly("r", "gpu", count=2))
    stage.pod("p", "c")
    stage.rejected("p", "cannot allocate all claims")

    def grow(it: Data) -> None:
        it["spec"]["devices"].append(device("dev-1"))
        it["spec"]["pool"]["generation"] = 2

    stage.replace("ResourceSlice", f"{stage.run}-n1", grow)
    stage.bound("p")


@case("cannot allocate all claims")
def a_slice_that_goes(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(1))
    stage.settle()
    stage.delete("ResourceSlice", f"{stage.run}-n1")
    stage.claim("c", exactly("r", "gpu"))
    stage.pod("p", "c")
    stage.rejected("p", "cannot allocate all claims")


@case('"node": "n2"')
def a_node_that_comes_with_its_devices(stage: Stage) -> None:
    gpu_class(stage)
    stage.nodes("n1")
    stage.claim("c", exactly("r", "gpu"))
    stage.pod("p", "c")
    stage.rejected("p", "cannot allocate all claims")
    stage.create(slice_of(f"{stage.run}-n2", stage.driver, devices(1), pool="n2"))
    stage.create(node("n2"))
    stage.bound("p")


@case('"device": "dev-0"')
def a_claim_that_is_deleted_and_made_again(stage: Stage) -> None:
    gpu_class(stage)
    stage.nodes("n1")
    stage.claim("c", exactly("r", "gpu"))
    stage.pod("p", "c")
    stage.rejected("p", "cannot allocate all claims")
    stage.delete("ResourceClaim", "c")
    stage.slice("n1", devices(1), pool="n1")
    stage.settle()
    stage.claim("c", exactly("other", "gpu"))
    stage.bound("p")


@case("1 cannot allocate all claims. still not schedulable, preemption: 0/1")
def no_preemption_for_devices(stage: Stage) -> None:
    gpu_class(stage)
    stage.create(priority_class(f"low-{stage.run}", 1), priority_class(f"high-{stage.run}", 1000))
    stage.on_nodes("n1", made=lambda: devices(1))
    for name in ("a", "b"):
        stage.claim(name, exactly("r", "gpu"))
    stage.pod("low", "a", priorityClassName=f"low-{stage.run}")
    stage.bound("low")
    stage.pod("high", "b", priorityClassName=f"high-{stage.run}")
    stage.rejected("high", "cannot allocate all claims")


@case('"nominated": "n1"', "Preempted by pod UID on node n1")
def preemption_by_a_pod_with_a_claim(stage: Stage) -> None:
    gpu_class(stage)
    stage.create(priority_class(f"low-{stage.run}", 1), priority_class(f"high-{stage.run}", 1000))
    stage.nodes("n1", cpu="1")
    stage.slice("n1", devices(1), pool="n1")
    stage.pod("low", cpu="800m", priorityClassName=f"low-{stage.run}")
    stage.bound("low")
    stage.claim("c", exactly("r", "gpu"))
    stage.pod("high", "c", cpu="800m", priorityClassName=f"high-{stage.run}")
    stage.event("low", "Preempted")
    stage.until(
        "it is nominated", lambda: stage.get("Pod", "high")["status"].get("nominatedNodeName")
    )


@case('"node": "n2"')
def a_volume_and_a_claim(stage: Stage) -> None:
    gpu_class(stage)
    name = f"local-{stage.run}"
    stage.on_nodes("n1", "n2", made=lambda: devices(1))
    pv = f"pv-{stage.run}"
    stage.create(storage_class(name, "kubernetes.io/no-provisioner"), volume(pv, name, "n2"))
    stage.patch("PersistentVolume", pv, {"status": {"phase": "Available"}}, "status")
    wanted = volume_claim("data", name)
    del wanted["metadata"]["namespace"]
    stage.create(wanted)
    stage.claim("c", exactly("r", "gpu"))
    stage.pod("p", "c", volumes=claimed("data"))
    stage.until(
        "the volume is kept for the claim",
        lambda: stage.get("PersistentVolume", pv)["spec"].get("claimRef"),
    )
    done = {"pv.kubernetes.io/bind-completed": "yes"}
    body = {"metadata": {"annotations": done}, "spec": {"volumeName": pv}}
    stage.patch("PersistentVolumeClaim", "data", body)
    stage.patch("PersistentVolumeClaim", "data", {"status": {"phase": "Bound"}}, "status")
    stage.patch("PersistentVolume", pv, {"status": {"phase": "Bound"}}, "status")
    stage.bound("p")


@case("example.com/theirs", FINALIZER, '"team": "red"')
def what_others_wrote_on_the_claim_stays(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(1))
    made = claim("c", exactly("r", "gpu"))
    made["metadata"] |= {
        "finalizers": ["example.com/theirs"],
        "labels": {"team": "red"},
        "annotations": {"example.com/note": "keep"},
    }
    stage.create(made)
    stage.pod("p", "c")
    stage.bound("p")
