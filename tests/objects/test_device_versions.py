"""Older versions of resource.k8s.io are read as what they mean in v1."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.objects.devices import ResourceClaim, ResourceSlice
from stowplan.objects.manifests import decode

ASK: dict[str, Any] = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2}
DEVICE: dict[str, Any] = {"attributes": {"model": {"string": "x"}}, "capacity": {}}


def read(version: str, kind: str, spec: Any) -> Any:
    metadata = {"name": "x"}
    return decode(
        {
            "apiVersion": f"resource.k8s.io/{version}",
            "kind": kind,
            "metadata": metadata,
            "spec": spec,
        },
        "test",
    )


@pytest.mark.parametrize(
    ("version", "request_"),
    [
        ("v1", {"name": "r", "exactly": ASK}),
        ("v1beta2", {"name": "r", "exactly": ASK}),
        ("v1beta1", {"name": "r", **ASK}),
    ],
)
def test_requests(version: str, request_: Any) -> None:
    claim = read(version, "ResourceClaim", {"devices": {"requests": [request_]}})

    assert isinstance(claim, ResourceClaim)
    assert claim.spec == read("v1", "ResourceClaim", {"devices": {"requests": [
        {"name": "r", "exactly": ASK}
    ]}}).spec  # fmt: skip
    assert claim.spec.devices.requests
    exactly = claim.spec.devices.requests[0].exactly
    assert exactly is not None
    assert (exactly.device_class_name, exactly.count) == ("gpu", 2)


@pytest.mark.parametrize(
    ("version", "device"),
    [
        ("v1", {"name": "d", **DEVICE}),
        ("v1beta2", {"name": "d", **DEVICE}),
        ("v1beta1", {"name": "d", "basic": DEVICE}),
    ],
)
def test_devices(version: str, device: Any) -> None:
    found = read(version, "ResourceSlice", {"driver": "d", "devices": [device]})

    assert isinstance(found, ResourceSlice)
    assert found.spec.devices
    attributes = found.spec.devices[0].attributes
    assert attributes is not None
    assert attributes["model"].string == "x"
