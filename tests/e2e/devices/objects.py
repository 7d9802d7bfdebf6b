"""Devices and claims as JSON data, with what the cases care about in the arguments."""

from __future__ import annotations

from typing import Any

Data = dict[str, Any]

GROUP = "resource.k8s.io"
API = f"{GROUP}/v1"
FINALIZER = "resource.kubernetes.io/delete-protection"


def device_class(name: str, *expressions: str, **spec: Any) -> Data:
    selectors = [{"cel": {"expression": it}} for it in expressions]
    return {
        "apiVersion": API,
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": selectors, **spec},
    }


def device(name: str, **fields: Any) -> Data:
    """`attributes` and `capacity` may be given as plain values."""
    attributes = {key: _attribute(it) for key, it in fields.pop("attributes", {}).items()}
    capacity = {
        key: it if isinstance(it, dict) else {"value": it}
        for key, it in fields.pop("capacity", {}).items()
    }
    made: Data = {"name": name, **fields}
    if attributes:
        made["attributes"] = attributes
    if capacity:
        made["capacity"] = capacity
    return made


def _attribute(value: Any) -> Data:
    if isinstance(value, dict):
        return value
    kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "string"
    return {kind: value}


def devices(count: int, **fields: Any) -> list[Data]:
    return [device(f"dev-{number}", **fields) for number in range(count)]


def slice_of(
    name: str,
    driver: str,
    made: list[Data],
    *,
    pool: str = "",
    generation: int = 1,
    count: int = 1,
    **spec: Any,
) -> Data:
    """Without a place in `spec` it is that of the node with the pool's name."""
    places = {"nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"}
    if not places & spec.keys():
        spec["nodeName"] = pool
    if made:
        spec["devices"] = made
    return {
        "apiVersion": API,
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": driver,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
            **spec,
        },
    }


def exactly(name: str, class_name: str, *expressions: str, **fields: Any) -> Data:
    return {"name": name, "exactly": _ask(class_name, expressions, fields)}


def first_available(name: str, *subrequests: Data) -> Data:
    return {"name": name, "firstAvailable": list(subrequests)}


def sub(name: str, class_name: str, *expressions: str, **fields: Any) -> Data:
    return {"name": name, **_ask(class_name, expressions, fields)}


def _ask(class_name: str, expressions: tuple[str, ...], fields: Data) -> Data:
    made: Data = {"deviceClassName": class_name, **fields}
    if expressions:
        made["selectors"] = [{"cel": {"expression": it}} for it in expressions]
    return made


def claim(name: str, *requests: Data, **devices: Any) -> Data:
    """`devices` is what stands beside the requests: `constraints`, `config`."""
    return {
        "apiVersion": API,
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": list(requests), **devices}},
    }


def opaque(driver: str, parameters: Any, *requests: str) -> Data:
    made: Data = {"opaque": {"driver": driver, "parameters": parameters}}
    return {**made, "requests": list(requests)} if requests else made


def named(name: str) -> Data:
    """The reference of a pod to a claim."""
    return {"name": name, "resourceClaimName": name}


def from_template(name: str, template: str) -> Data:
    return {"name": name, "resourceClaimTemplateName": template}


def taint(key: str, effect: str = "NoSchedule", value: str = "") -> Data:
    return {"key": key, "effect": effect, **({"value": value} if value else {})}
