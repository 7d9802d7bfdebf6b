"""Slices, classes and claims for tests, and pods that have them."""

from __future__ import annotations

from typing import Any

from stowplan.objects.codec import convert
from stowplan.objects.devices import DeviceClass, ResourceClaim, ResourceSlice
from stowplan.objects.pod import Pod
from tests.builders import pod

DRIVER = "gpu.example.com"

JSON = dict[str, Any]


def device_class(name: str = "gpu", **spec: Any) -> DeviceClass:
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    body = {"metadata": {"name": name}, "spec": {"selectors": selectors, **spec}}
    return convert(body, DeviceClass)


def devices(count: int, **fields: Any) -> list[JSON]:
    return [{"name": f"gpu-{number}", **fields} for number in range(count)]


def resource_slice(node: str, offered: list[JSON], **spec: Any) -> ResourceSlice:
    """Of one node, unless the spec says otherwise."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    where = {} if "allNodes" in spec else {"nodeName": node}
    body = {"driver": DRIVER, "pool": pool, "devices": offered, **where, **spec}
    return convert({"metadata": {"name": f"slice-{node}"}, "spec": body}, ResourceSlice)


def request(name: str = "r", count: int = 1, **fields: Any) -> JSON:
    return {"name": name, "exactly": {"deviceClassName": "gpu", "count": count, **fields}}


def claim(
    name: str,
    *requests: JSON,
    status: JSON | None = None,
    constraints: list[JSON] | None = None,
    **metadata: Any,
) -> ResourceClaim:
    asked = {"requests": list(requests) or [request()], "constraints": constraints}
    body = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            **metadata,
        },
        "spec": {"devices": asked},
        "status": status or {},
    }
    return convert(body, ResourceClaim)


def claiming(*claims: str, name: str = "p", **fields: Any) -> Pod:
    references = [{"name": f"r{n}", "resourceClaimName": it} for n, it in enumerate(claims)]
    return pod(name, spec={"resourceClaims": references}, **fields)


def allocated(*names: str, node: str = "a", **fields: Any) -> JSON:
    """The status of a claim with these devices."""
    results = [
        {"request": "r", "driver": DRIVER, "pool": node, "device": name, **fields} for name in names
    ]
    return {"allocation": {"devices": {"results": results}}}
