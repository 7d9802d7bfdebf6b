"""What a PUT may change, and what stays as it was.

Pure, on JSON data.  System metadata stays; a write to the object leaves its status alone and a
write to a status leaves everything else alone (kinds of the core group also take labels and
annotations with it, as upstream does).
"""

from __future__ import annotations

from typing import Any

from stowplan.apiserver.device_checks import DeviceKey, device_key
from stowplan.apiserver.pod_update import resized_spec
from stowplan.apiserver.services import keep_addresses
from stowplan.errors import BadRequest, NotFound
from stowplan.objects.kinds import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    DEVICE_CLASS,
    EVENT,
    LEASE,
    POD,
    PRIORITY_CLASS,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    RESOURCE_SLICE,
    RUNTIME_CLASS,
    SERVICE,
    STORAGE_CLASS,
    WORKLOAD,
    Kind,
)

Data = dict[str, Any]

WITHOUT_STATUS = frozenset(
    kind.name
    for kind in (
        CSI_DRIVER,
        CSI_NODE,
        CSI_STORAGE_CAPACITY,
        DEVICE_CLASS,
        EVENT,
        LEASE,
        PRIORITY_CLASS,
        RESOURCE_CLAIM_TEMPLATE,
        RESOURCE_SLICE,
        RUNTIME_CLASS,
        STORAGE_CLASS,
        WORKLOAD,
    )
)

_SYSTEM_METADATA = (
    "name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink",
)  # fmt: skip
_PRIORITY_FIELDS = ("priority", "preemptionPolicy")


def merge_update(kind: Kind, subresource: str, body: Data, current: Data) -> Data:
    """The object that a PUT of `body` makes out of `current`."""
    if subresource == "":
        return _merge_object(kind, body, current)
    if subresource == "status" and kind.name not in WITHOUT_STATUS:
        return _merge_status(kind, body, current)
    if subresource == "resize" and kind is POD:
        spec = resized_spec(_mapping(body, "spec"), _mapping(current, "spec"))
        return {**current, "spec": spec}
    raise NotFound("the server could not find the requested resource")


def _merge_object(kind: Kind, body: Data, current: Data) -> Data:
    merged = {**body, "apiVersion": kind.api_version, "kind": kind.name}
    merged["metadata"] = _merge_metadata(_mapping(body, "metadata"), _mapping(current, "metadata"))
    if kind.name not in WITHOUT_STATUS:
        _carry_over(merged, current, ("status",))
    if kind is SERVICE:
        return keep_addresses(merged, current)
    if kind is POD:
        # Filled in at creation, from classes that may have changed since.
        spec = dict(_mapping(body, "spec"))
        before = _mapping(current, "spec")
        missing = [key for key in _PRIORITY_FIELDS if spec.get(key) is None]
        _carry_over(spec, before, missing)
        merged["spec"] = spec
    return merged


def _merge_status(kind: Kind, body: Data, current: Data) -> Data:
    merged = {**current, "status": body.get("status") or {}}
    if kind.group == "":
        metadata = dict(_mapping(current, "metadata"))
        _carry_over(metadata, _mapping(body, "metadata"), ("labels", "annotations"))
        merged["metadata"] = metadata
    return _without_freed_devices(merged, current) if kind is RESOURCE_CLAIM else merged


def _without_freed_devices(merged: Data, current: Data) -> Data:
    """What drivers said of devices goes when a claim gives them back."""
    status = merged["status"]
    if not status.get("devices"):
        return merged
    freed = _devices(current) - _devices(merged)
    devices = [it for it in status["devices"] if device_key(it) not in freed]
    kept = {key: value for key, value in status.items() if key != "devices"}
    return {**merged, "status": {**kept, "devices": devices} if devices else kept}


def _devices(claim: Data) -> set[DeviceKey]:
    allocation = _mapping(_mapping(claim, "status"), "allocation")
    results = _mapping(allocation, "devices").get("results") or ()
    return {device_key(it) for it in results}


def _merge_metadata(body: Data, current: Data) -> Data:
    merged = dict(body)
    _carry_over(merged, current, _SYSTEM_METADATA)
    if "managedFields" not in body:
        # Who applied what is known from before; clients rarely send it back.
        _carry_over(merged, current, ("managedFields",))
    return merged


def _carry_over(target: Data, source: Data, keys: list[str] | tuple[str, ...]) -> None:
    """Make `target` the same as `source` in these keys, absent ones included."""
    for key in keys:
        if key in source:
            target[key] = source[key]
        else:
            target.pop(key, None)


def _mapping(data: Data, key: str) -> Data:
    value = data.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadRequest(f"{key} must be an object, not {value!r}")
    return value
