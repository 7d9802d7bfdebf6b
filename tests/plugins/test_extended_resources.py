"""The claim for extended resources that are had as devices: spec/dra.md, 9.2."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.objects.pod import Pod
from stowplan.plugins.dynamic_resources.extended_resources import (
    is_special_claim_of,
    new_special_claim,
    special_claim_for,
)
from tests.builders import pod
from tests.plugins.device_objects import claim, device_class

GPU, NIC = "example.com/gpu", "example.com/nic"
CLASSES = {GPU: device_class("gpus"), NIC: device_class("nics")}


def container(name: str, gpu: Any = None, *, stays: bool = False, **more: Any) -> dict[str, Any]:
    requests = {} if gpu is None else {GPU: gpu}
    policy = {"restartPolicy": "Always"} if stays else {}
    return {"name": name, "resources": {"requests": {**requests, **more}}, **policy}


def of(first: list[dict[str, Any]], main: list[dict[str, Any]]) -> Pod:
    return pod("p", spec={"initContainers": first, "containers": main})


@pytest.mark.parametrize(
    ("asking", "requests", "mappings"),
    [
        pytest.param(
            of([], [container("a", "2"), container("b"), container("c", "0"), container("d", 1)]),
            {"container-0-request-0": 2, "container-3-request-0": 1},
            [("a", "container-0-request-0"), ("d", "container-3-request-0")],
            id="a request for each container that wants some",
        ),
        pytest.param(
            of([], [container("a", "1", cpu="1", memory="1Gi"), container("b", "1", zzz="1")]),
            {"container-0-request-1": 1, "container-1-request-0": 1},
            [("a", "container-0-request-1"), ("b", "container-1-request-0")],
            id="numbered among all that the container requests, sorted",
        ),
        pytest.param(
            of([container("a", "1", stays=True)], [container("b", "1")]),
            {"container-0-request-0": 1, "container-1-request-0": 1},
            [("a", "container-0-request-0"), ("b", "container-1-request-0")],
            id="a sidecar is there for as long as the pod",
        ),
        pytest.param(
            of([container("a", "2")], [container("b", "2"), container("c", "1")]),
            {"container-1-request-0": 2, "container-2-request-0": 1},
            [
                ("b", "container-1-request-0"),
                ("c", "container-2-request-0"),
                ("a", "container-1-request-0"),
            ],
            id="what comes first uses what comes later, no more of it than it needs",
        ),
        pytest.param(
            of([container("a", "3")], [container("b", "2"), container("c", "1")]),
            {"container-1-request-0": 2, "container-2-request-0": 1},
            [
                ("b", "container-1-request-0"),
                ("c", "container-2-request-0"),
                ("a", "container-1-request-0"),
                ("a", "container-2-request-0"),
            ],
            id="of several",
        ),
        pytest.param(
            of([container("a", "1", stays=True), container("b", "1")], []),
            {"container-0-request-0": 1, "container-1-request-0": 1},
            [("a", "container-0-request-0"), ("b", "container-1-request-0")],
            id="a sidecar before it has devices of its own",
        ),
        pytest.param(
            of([container("b", "1"), container("a", "1", stays=True)], []),
            {"container-1-request-0": 1},
            [("a", "container-1-request-0"), ("b", "container-1-request-0")],
            id="a sidecar after it lends them",
        ),
        pytest.param(
            of(
                [container("a", "3"), container("b", "5"), container("c", "5")], [container("d", 1)]
            ),
            {"container-1-request-0": 4, "container-3-request-0": 1},
            [
                ("d", "container-3-request-0"),
                ("a", "container-3-request-0"),
                ("a", "container-1-request-0"),
                ("b", "container-3-request-0"),
                ("b", "container-1-request-0"),
                ("c", "container-3-request-0"),
                ("c", "container-1-request-0"),
            ],
            id="only the largest shortage is asked for, the first of equals",
        ),
    ],
)
def test_requests_and_who_uses_them(
    asking: Pod, requests: dict[str, int], mappings: list[tuple[str, str]]
) -> None:
    made = special_claim_for(asking, new_special_claim(asking), frozenset({GPU}), CLASSES)

    asked = [(it.name, it.exactly) for it in made.claim.spec.devices.requests or ()]
    assert {name: it.count for name, it in asked if it is not None} == requests
    assert [name for name, _ in asked] == sorted(requests)
    assert {(it.device_class_name, it.allocation_mode) for _, it in asked if it is not None} == {
        ("gpus", "ExactCount")
    }
    assert [(it.container_name, it.request_name) for it in made.mappings] == mappings
    assert {it.resource_name for it in made.mappings} == {GPU}


def test_resources_go_by_their_names_and_requests_too() -> None:
    names = [f"c{n}" for n in range(11)]
    asking = of([], [container(name, "1", **{NIC: "1"}) for name in names])

    made = special_claim_for(asking, new_special_claim(asking), frozenset({NIC, GPU}), CLASSES)

    requests = [it.name for it in made.claim.spec.devices.requests or ()]
    assert requests == sorted(f"container-{n}-request-{m}" for n in range(11) for m in range(2))
    assert requests[2:4] == ["container-1-request-0", "container-1-request-1"]
    assert requests[4:6] == ["container-10-request-0", "container-10-request-1"]
    by_resource = [(it.container_name, it.resource_name) for it in made.mappings]
    assert by_resource == [(name, it) for it in (GPU, NIC) for name in names]


def test_on_a_node_that_needs_none_of_it_the_claim_is_empty() -> None:
    asking = of([], [container("a", "1")])

    made = special_claim_for(asking, new_special_claim(asking), frozenset(), CLASSES)

    assert (made.claim.spec.devices.requests, made.mappings) == (None, ())


def test_the_claim_belongs_to_its_pod_alone() -> None:
    asking = pod("p", requests={GPU: "1"})
    new = new_special_claim(asking)
    [owner] = new.metadata.owner_references or ()

    assert new.metadata.name == "<extended-resources>"
    assert new.metadata.generate_name == "p-extended-resources-"
    assert new.metadata.annotations == {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert (owner.api_version, owner.kind, owner.controller) == ("v1", "Pod", True)
    assert is_special_claim_of(new, asking)
    uid = asking.metadata.uid
    assert not is_special_claim_of(new, pod("p", metadata={"uid": "another"}))
    assert not is_special_claim_of(new, pod("q", metadata={"uid": uid}))
    assert not is_special_claim_of(new, pod("p", namespace="other", metadata={"uid": uid}))
    assert not is_special_claim_of(claim("c"), asking)
