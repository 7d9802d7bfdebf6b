"""More puzzles about devices: who holds them, where they are, what selects them."""

from __future__ import annotations

from copy import deepcopy

from tests.answers.building import GONE, Data, Puzzle, node, pod, taint
from tests.answers.puzzles_nodes import CPU, tolerating
from tests.answers.puzzles_storage import (
    REQUEST,
    claiming,
    device_class,
    resource_claim,
    resource_slice,
)

PROTECTED = "resource.kubernetes.io/delete-protection"


def held(name: str, on: str = "a", device: str = "gpu-0", by: str = "old") -> Data:
    """A claim that a pod has a device through."""
    claim = resource_claim(name)
    claim["metadata"]["finalizers"] = [PROTECTED]
    result = {"request": "r", "driver": "gpu.example", "pool": on, "device": device}
    fields = [{"key": "metadata.name", "operator": "In", "values": [on]}]
    claim["status"] = {
        "allocation": {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
        },
        "reservedFor": [{"resource": "pods", "name": by, "uid": f"uid-{by}"}],
    }
    return claim


def holder(name: str = "old", on: str = "a", claim: str = "held") -> Data:
    made = pod(name, on=on, resourceClaims=[{"name": "devices", "resourceClaimName": claim}])
    made["metadata"]["uid"] = f"uid-{name}"
    return made


def template(name: str, claim: Data) -> Data:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"spec": claim["spec"]},
    }


def from_template(name: str) -> Data:
    return pod(resourceClaims=[{"name": "devices", "resourceClaimTemplateName": name}])


def described(**device: object) -> Data:
    """One device with attributes and the like."""
    found = resource_slice(1)
    found["spec"]["devices"][0].update(device)
    return found


def selecting(expression: str) -> Data:
    return resource_claim(selectors=[{"cel": {"expression": expression}}])


def with_requests(*requests: Data, constraints: list[Data] | None = None) -> Data:
    claim = resource_claim()
    claim["spec"]["devices"] = {"requests": list(requests)}
    if constraints:
        claim["spec"]["devices"]["constraints"] = constraints
    return claim


A100 = {"attributes": {"model": {"string": "a100"}}, "capacity": {"memory": {"value": "40Gi"}}}
MODEL = "device.attributes['gpu.example'].model == '{}'"
MEMORY = "device.capacity['gpu.example'].memory.compareTo(quantity('{}')) >= 0"
EXPRESSION = f"{REQUEST}/selectors/0/cel/expression"


def far_apart() -> Data:
    found = deepcopy(resource_slice(2))
    for number, device in enumerate(found["spec"]["devices"]):
        device["attributes"] = {"numa": {"int": number}}
    return found


PUZZLES = [
    Puzzle(
        "devices on a tainted node",
        [
            node("a", taints=[taint("gpu")]),
            node("b"),
            device_class(),
            resource_slice(1),
            resource_claim(),
            claiming(),
        ],
        [("Pod", "p", {"/spec/tolerations": [tolerating("gpu")]})],
        covers="DynamicResources TaintToleration",
    ),
    Puzzle(
        "devices on a cordoned node",
        [
            node("a", unschedulable=True),
            node("b"),
            device_class(),
            resource_slice(1),
            resource_claim(),
            claiming(),
        ],
        [("Node", "a", {"/spec/unschedulable": GONE})],
        covers="DynamicResources NodeUnschedulable",
    ),
    Puzzle(
        "devices on a node that is nearly full",
        [
            node("a"),
            node("b"),
            pod("old", "3500m", on="a"),
            device_class(),
            resource_slice(1),
            resource_claim(),
            claiming(),
        ],
        [("Pod", "p", {CPU: "500m"})],
        covers="DynamicResources NodeResourcesFit",
    ),
    Puzzle(
        "every device is held: another node with its devices",
        [
            node("a"),
            device_class(),
            resource_slice(1),
            held("held"),
            holder(),
            resource_claim(),
            claiming(),
        ],
        create=["Node", "ResourceSlice"],
        covers="DynamicResources",
    ),
    Puzzle(
        "a device claim that is not there",
        [node("a"), device_class(), resource_slice(1), claiming()],
        create=["ResourceClaim"],
        covers="DynamicResources",
    ),
    Puzzle(
        "a device class that nothing is like",
        [
            node("a"),
            device_class("accelerators"),
            resource_slice(1),
            resource_claim(of="xyz"),
            claiming(),
        ],
        [("ResourceClaim", "gpus", {f"{REQUEST}/deviceClassName": "accelerators"})],
        covers="DynamicResources",
    ),
    Puzzle(
        "a template that is misspelt",
        [
            node("a"),
            device_class(),
            resource_slice(1),
            template("template", resource_claim()),
            from_template("tempalte"),
        ],
        [("Pod", "p", {"/spec/resourceClaims/0/resourceClaimTemplateName": "template"})],
        covers="DynamicResources",
    ),
    Puzzle(
        "a class that is misspelt in a template",
        [
            node("a"),
            device_class(),
            resource_slice(1),
            template("t", resource_claim(of="gppu")),
            from_template("t"),
        ],
        [
            (
                "ResourceClaimTemplate",
                "t",
                {"/spec" + REQUEST + "/deviceClassName": "gpu"},
            )
        ],
        covers="DynamicResources",
    ),
    Puzzle(
        "a device with a taint",
        [
            node("a"),
            device_class(),
            described(taints=[taint("broken", "yes")]),
            resource_claim(),
            claiming(),
        ],
        [
            (
                "ResourceClaim",
                "gpus",
                {f"{REQUEST}/tolerations": [tolerating("broken", "yes")]},
            )
        ],
        covers="DynamicResources",
    ),
    Puzzle(
        "a model that is misspelt",
        [
            node("a"),
            device_class(),
            described(**A100),
            selecting(MODEL.format("a10")),
            claiming(),
        ],
        [("ResourceClaim", "gpus", {EXPRESSION: MODEL.format("a100")})],
        covers="DynamicResources",
    ),
    Puzzle(
        "an attribute that is misspelt",
        [
            node("a"),
            device_class(),
            described(**A100),
            selecting(MODEL.format("a100").replace("model", "modle")),
            claiming(),
        ],
        [("ResourceClaim", "gpus", {EXPRESSION: MODEL.format("a100")})],
        covers="DynamicResources",
    ),
    Puzzle(
        "more memory than any device has",
        [
            node("a"),
            device_class(),
            described(**A100),
            selecting(MEMORY.format("80Gi")),
            claiming(),
        ],
        [("ResourceClaim", "gpus", {EXPRESSION: MEMORY.format("40Gi")})],
        covers="DynamicResources",
    ),
    Puzzle(
        "two requests that together ask for too much",
        [
            node("a"),
            device_class(),
            resource_slice(2),
            with_requests(
                {"name": "r", "exactly": {"deviceClassName": "gpu"}},
                {"name": "s", "exactly": {"deviceClassName": "gpu", "count": 2}},
            ),
            claiming(),
        ],
        [("ResourceClaim", "gpus", {"/spec/devices/requests/1/exactly/count": 1})],
        covers="DynamicResources",
    ),
    Puzzle(
        "devices that must be alike and are not",
        [
            node("a"),
            device_class(),
            far_apart(),
            with_requests(
                {"name": "r", "exactly": {"deviceClassName": "gpu"}},
                {"name": "s", "exactly": {"deviceClassName": "gpu"}},
                constraints=[{"requests": ["r", "s"], "matchAttribute": "gpu.example/numa"}],
            ),
            claiming(),
        ],
        [("ResourceClaim", "gpus", {"/spec/devices/constraints": GONE})],
        covers="DynamicResources",
    ),
    Puzzle(
        "the better of two choices is misspelt",
        [
            node("a"),
            device_class(),
            resource_slice(2),
            with_requests(
                {
                    "name": "r",
                    "firstAvailable": [
                        {"name": "best", "deviceClassName": "gpuu"},
                        {"name": "next", "deviceClassName": "gpu", "count": 3},
                    ],
                }
            ),
            claiming(),
        ],
        [
            (
                "ResourceClaim",
                "gpus",
                {"/spec/devices/requests/0/firstAvailable/0/deviceClassName": "gpu"},
            )
        ],
        covers="DynamicResources",
    ),
]
