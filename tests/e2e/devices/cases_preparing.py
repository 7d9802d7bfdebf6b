"""Devices that have to be prepared before the pod may run there, and schedulers that end midway."""

from __future__ import annotations

import threading

from tests.e2e.devices.case import case
from tests.e2e.devices.cases_choosing import gpu_class
from tests.e2e.devices.objects import device, devices, exactly
from tests.e2e.devices.stage import Data, Stage


def _fabric(name: str = "d") -> list[Data]:
    return [
        device(
            name,
            bindsToNode=True,
            bindingConditions=["Attached"],
            bindingFailureConditions=["Broken"],
        )
    ]


def _pending(stage: Stage, pod: str = "p") -> None:
    """A pod that waits for its device to be attached."""
    gpu_class(stage)
    stage.on_nodes("n1", made=_fabric)
    stage.claim("c", exactly("r", "gpu"))
    stage.pod(pod, "c")
    stage.event(pod, "BindingConditionsPending")
    stage.allocated("c")


@case("waiting for binding conditions for device on node n1", '"node": ""')
def a_device_that_is_being_attached(stage: Stage) -> None:
    _pending(stage)


@case('"node": "n1"', "BindingConditionsPending")
def a_device_that_was_attached(stage: Stage) -> None:
    _pending(stage)
    stage.report("c", "d", "n1", Attached="True")
    stage.bound("p")


@case('device binding failed: claim=c, reason=Because, message=\\"Broken is True\\"')
def a_device_that_cannot_be_attached(stage: Stage) -> None:
    _pending(stage)
    stage.report("c", "d", "n1", Broken="True")
    stage.rejected("p", "device binding failed")


@case("device binding timeout")
def a_device_that_is_never_attached(stage: Stage) -> None:
    _pending(stage)
    stage.rejected("p", "device binding timeout")


@case('"device": "ready"')
def devices_that_need_no_preparation_come_first(stage: Stage) -> None:
    gpu_class(stage)
    stage.nodes("n1")
    stage.slice("a", _fabric(), pool="a", nodeName="n1")
    stage.slice("b", [device("ready")], pool="b", nodeName="n1")
    stage.claim("c", exactly("r", "gpu"))
    stage.pod("p", "c")
    stage.bound("p")


def _attached(stage: Stage, state: str) -> None:
    """Allocated long ago by somebody else, with a device that has to be attached."""
    result = {
        "request": "r",
        "driver": stage.driver,
        "pool": "n1",
        "device": "d",
        "bindingConditions": ["Attached"],
        "bindingFailureConditions": ["Broken"],
    }
    stage.claim("c", exactly("r", "gpu"))
    stage.allocate("c", allocation={"devices": {"results": [result]}})
    stage.report("c", "d", "n1", Attached=state)


@case('"node": "n1"', "BindingConditionsPending")
def a_device_that_has_been_attached_for_long(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=_fabric)
    _attached(stage, "True")
    stage.pod("p", "c")
    stage.bound("p")


@case('"node": "n2"', is_a_race=True)
def a_device_that_was_waited_for_in_vain(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=_fabric)
    stage.on_nodes("n2", made=lambda: devices(1))
    _attached(stage, "False")
    stage.pod("p", "c", nodeSelector={"kubernetes.io/hostname": "n2"})
    stage.bound("p")


@case('"bindingConditions"', is_a_race=True)
def a_device_that_failed_is_given_back_and_tried_again(stage: Stage) -> None:
    _pending(stage)
    stage.report("c", "d", "n1", Broken="True")
    stage.rejected("p", "device binding failed")
    stage.until(
        "it has been given back",
        lambda: not stage.get("ResourceClaim", "c")["status"].get("devices"),
    )
    stage.allocated("c")
    stage.report("c", "d", "n1", Attached="True")
    stage.bound("p")


@case('"free"', is_a_race=True)
def what_was_reserved_before_a_write_failed_is_not_reserved_any_more(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(2))
    stage.claim("free", exactly("r", "gpu"))
    stage.claim("full", exactly("r", "gpu"))
    others = [
        {"resource": "pods", "name": f"o{n}", "uid": f"11111111-1111-4111-8111-{n:012}"}
        for n in range(256)
    ]
    stage.allocate("full", "dev-0", reservedFor=others)
    stage.pod("p", "free", "full")
    stage.rejected("p", "Too many")
    stage.delete("Pod", "p")
    stage.until(
        "nobody has it reserved",
        lambda: not stage.get("ResourceClaim", "free")["status"].get("reservedFor"),
    )


@case('"node": "n1"')
def a_claim_that_is_reserved_for_the_pod_already(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(2))
    stage.claim("c", exactly("r", "gpu"))
    stage.pod("p", "c", schedulingGates=[{"name": "example.com/wait"}])
    uid = stage.get("Pod", "p")["metadata"]["uid"]
    stage.allocate("c", "dev-1", reservedFor=[{"resource": "pods", "name": "p", "uid": uid}])
    stage.settle()
    stage.patch("Pod", "p", {"spec": {"schedulingGates": None}})
    stage.bound("p")


@case('"claims": {"c"', is_a_race=True)
def a_pod_that_goes_while_its_device_is_attached(stage: Stage) -> None:
    _pending(stage)
    stage.delete("Pod", "p")
    stage.report("c", "d", "n1", Attached="True")
    stage.until(
        "nobody has it reserved",
        lambda: not stage.get("ResourceClaim", "c")["status"].get("reservedFor"),
    )


@case('"node": "n1"', is_a_race=True)
def a_scheduler_that_ends_while_a_device_is_attached(stage: Stage) -> None:
    _pending(stage)
    stage.side.kill()
    stage.report("c", "d", "n1", Attached="True")
    stage.side.start()
    stage.bound("p")


@case('"device": "dev-1"', '"node": "n1"', is_a_race=True)
def a_scheduler_that_starts_with_claims_there(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(2))
    stage.claim("a", exactly("r", "gpu"))
    stage.pod("pa", "a")
    stage.bound("pa")
    stage.side.kill()
    stage.claim("b", exactly("r", "gpu"))
    stage.pod("pb", "b")
    stage.side.start()
    stage.bound("pb")


@case('"node": "n1"', is_a_race=True)
def a_claim_that_somebody_keeps_writing_to(stage: Stage) -> None:
    gpu_class(stage)
    stage.on_nodes("n1", made=lambda: devices(8))
    for number in range(4):
        stage.claim(f"c{number}", exactly("r", "gpu"))
    over = threading.Event()

    def annotate() -> None:
        number = 0
        while not over.is_set():
            number += 1
            note = {"metadata": {"annotations": {"example.com/n": str(number)}}}
            for claim in range(4):
                stage.patch("ResourceClaim", f"c{claim}", note)

    writer = threading.Thread(target=annotate)
    writer.start()
    try:
        for number in range(4):
            stage.pod(f"p{number}", f"c{number}")
        stage.bound(*(f"p{number}" for number in range(4)))
    finally:
        over.set()
        writer.join()
    for number in range(4):
        note = {"metadata": {"annotations": {"example.com/n": None}}}
        stage.patch("ResourceClaim", f"c{number}", note)
