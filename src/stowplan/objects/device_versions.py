"""Older versions of resource.k8s.io, as data, made into v1 and back.

v1beta2 has the shape of v1.  In v1beta1 a request carries its fields itself instead of under
`exactly`, and a device under `basic`.  `objects.manifests` calls it for what users hand in, the
embedded API server for what it is sent and shows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

GROUP = "resource.k8s.io"
V1 = f"{GROUP}/v1"
V1BETA2 = f"{GROUP}/v1beta2"
V1BETA1 = f"{GROUP}/v1beta1"

_Change = Callable[[Any], Any]

_OF_THE_REQUEST = frozenset({"name", "firstAvailable"})


def as_v1(data: dict[str, Any]) -> dict[str, Any]:
    """The object in v1, if it is one of resource.k8s.io in a version that can be read."""
    version = data.get("apiVersion")
    if version == V1BETA2:
        return {**data, "apiVersion": V1}
    if version != V1BETA1 or data.get("kind") not in _PATHS:
        return data
    return _reshaped({**data, "apiVersion": V1}, _request, _device)


def as_version(data: dict[str, Any], api_version: str) -> dict[str, Any]:
    """An object of v1 in one of the older versions."""
    data = {**data, "apiVersion": api_version}
    return _reshaped(data, _flat_request, _basic_device) if api_version == V1BETA1 else data


def _reshaped(data: dict[str, Any], request: _Change, device: _Change) -> dict[str, Any]:
    path, of_device = _PATHS[data["kind"]]
    if not path:
        return data
    change = device if of_device else request
    return cast(dict[str, Any], _at(data, path, change))


def _request(request: Any) -> Any:
    if not isinstance(request, dict):
        return request
    own = {name: value for name, value in request.items() if name in _OF_THE_REQUEST}
    exactly = {name: value for name, value in request.items() if name not in _OF_THE_REQUEST}
    return {**own, "exactly": exactly} if exactly else own


def _flat_request(request: Any) -> Any:
    if not isinstance(request, dict):
        return request
    own = {name: value for name, value in request.items() if name != "exactly"}
    return {**own, **(request.get("exactly") or {})}


def _device(device: Any) -> Any:
    if not isinstance(device, dict) or not isinstance(device.get("basic"), dict):
        return device
    return {"name": device.get("name"), **device["basic"]}


def _basic_device(device: Any) -> Any:
    if not isinstance(device, dict):
        return device
    basic = {name: value for name, value in device.items() if name != "name"}
    return {"name": device.get("name"), "basic": basic}


def _at(data: Any, path: tuple[str, ...], change: _Change) -> Any:
    """With every member of the list at the path changed."""
    if not isinstance(data, dict) or path[0] not in data:
        return data
    name, *rest = path
    found = data[name]
    if rest:
        return {**data, name: _at(found, tuple(rest), change)}
    return {**data, name: [change(it) for it in found] if isinstance(found, list) else found}


_REQUESTS = ("spec", "devices", "requests")
_PATHS: dict[str, tuple[tuple[str, ...], bool]] = {
    "ResourceClaim": (_REQUESTS, False),
    "ResourceClaimTemplate": (("spec", *_REQUESTS), False),
    "ResourceSlice": (("spec", "devices"), True),
    "DeviceClass": ((), False),
}
"""Where each kind has requests, or devices, that look different in v1beta1."""
