"""Older versions of resource.k8s.io, as data, made into v1.

v1beta2 has the shape of v1.  In v1beta1 a request carries its fields itself instead of under
`exactly`, and a device under `basic`.  `objects.manifests` calls it for what users hand in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

GROUP = "resource.k8s.io"
V1 = f"{GROUP}/v1"
_WITHOUT_CHANGE = f"{GROUP}/v1beta2"
_RESHAPED = f"{GROUP}/v1beta1"

_OF_THE_REQUEST = frozenset({"name", "firstAvailable"})


def as_v1(data: dict[str, Any]) -> dict[str, Any]:
    """The object in v1, if it is one of resource.k8s.io in a version that can be read."""
    version = data.get("apiVersion")
    if version == _WITHOUT_CHANGE:
        return {**data, "apiVersion": V1}
    reshape = _RESHAPE.get(str(data.get("kind"))) if version == _RESHAPED else None
    if reshape is None:
        return data
    return {**data, "apiVersion": V1, "spec": reshape(data.get("spec"))}


def _same(spec: Any) -> Any:
    return spec


def _claim(spec: Any) -> Any:
    return _within(spec, "devices", lambda devices: _each(devices, "requests", _request))


def _template(spec: Any) -> Any:
    return _within(spec, "spec", _claim)


def _slice(spec: Any) -> Any:
    return _each(spec, "devices", _device)


def _request(request: Any) -> Any:
    if not isinstance(request, dict) or request.get("firstAvailable"):
        return request
    own = {name: value for name, value in request.items() if name in _OF_THE_REQUEST}
    exactly = {name: value for name, value in request.items() if name not in _OF_THE_REQUEST}
    return {**own, "exactly": exactly} if exactly else own


def _device(device: Any) -> Any:
    if not isinstance(device, dict) or not isinstance(device.get("basic"), dict):
        return device
    return {"name": device.get("name"), **device["basic"]}


def _each(data: Any, field: str, change: Callable[[Any], Any]) -> Any:
    def changed(items: Any) -> Any:
        return [change(item) for item in items] if isinstance(items, list) else items

    return _within(data, field, changed)


def _within(data: Any, field: str, change: Callable[[Any], Any]) -> Any:
    if not isinstance(data, dict) or field not in data:
        return data
    return {**data, field: change(data[field])}


_RESHAPE: dict[str, Callable[[Any], Any]] = {
    "ResourceClaim": _claim,
    "ResourceClaimTemplate": _template,
    "ResourceSlice": _slice,
    "DeviceClass": _same,
}
