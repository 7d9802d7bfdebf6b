"""Patches of resource claims as schedulers write them, struct to struct.

A finalizer, then an allocation with a reservation: two patches for every pod that has a claim.
What is plain to see is right is done here; any other patch goes the long way, through JSON data.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import replace

from stowplan.objects.api import Patch
from stowplan.objects.base import KubeObject
from stowplan.objects.devices import (
    Allocation,
    ConsumerReference,
    ResourceClaim,
    ResourceClaimStatus,
)
from stowplan.objects.times import parse_time

FINALIZER = "resource.kubernetes.io/delete-protection"

_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")

_RESULT_FIELDS = frozenset({"request", "driver", "pool", "device"})
_CONSUMER_FIELDS = frozenset({"resource", "name", "uid"})
_RESULTS_MAX = 32


def patched_claim(claim: KubeObject, request: Patch, version: int) -> ResourceClaim | None:
    """The claim after such a patch; None for any other patch, and for what is no claim."""
    body = request.body
    if not isinstance(claim, ResourceClaim) or not isinstance(body, dict):
        return None
    if request.patch_type != "merge":
        return None
    metadata = claim.metadata
    if metadata.deletion_timestamp is not None:
        return None
    seen = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
    if request.subresource == "":
        if metadata.finalizers or body != {"metadata": {**seen, "finalizers": [FINALIZER]}}:
            return None
        meta = replace(metadata, finalizers=[FINALIZER], resource_version=f"{version}")
        return replace(claim, metadata=meta)
    if request.subresource != "status" or body.get("metadata") != seen or len(body) != 2:
        return None
    status = _allocated(claim, body.get("status"))
    if status is None:
        return None
    meta = replace(metadata, resource_version=f"{version}")
    return replace(claim, metadata=meta, status=status)


def _allocated(claim: ResourceClaim, patch: Any) -> ResourceClaimStatus | None:
    """The status of a claim that had no allocation, with one for one pod."""
    status = claim.status
    if status.allocation is not None or status.reserved_for or status.devices:
        return None
    if not isinstance(patch, dict) or patch.keys() != {"allocation", "reservedFor"}:
        return None
    allocation = _allocation(claim, patch["allocation"])
    consumer = _consumer(patch["reservedFor"])
    if allocation is None or consumer is None:
        return None
    return replace(status, allocation=allocation, reserved_for=[consumer])


def _allocation(claim: ResourceClaim, data: Any) -> Allocation | None:
    """Devices that are named and nothing else: no shares, no rights, no configuration."""
    if not isinstance(data, dict):
        return None
    devices, where = data.get("devices"), data.get("nodeSelector")
    wanted = {"devices": devices, "allocationTimestamp": data.get("allocationTimestamp")}
    if where is not None:
        wanted["nodeSelector"] = where
    results = devices.get("results") if isinstance(devices, dict) else None
    if data != wanted or not isinstance(results, list) or devices != {"results": results}:
        return None
    asked = {it.name for it in claim.spec.devices.requests or () if it.exactly is not None}
    if not 0 < len(results) <= _RESULTS_MAX or not all(_is_plain(it, asked) for it in results):
        return None
    if not _is_time(wanted["allocationTimestamp"]) or not (where is None or _is_one_node(where)):
        return None
    return msgspec.convert(data, Allocation)


def _is_plain(result: Any, asked: set[str]) -> bool:
    return (
        isinstance(result, dict)
        and result.keys() == _RESULT_FIELDS
        and result["request"] in asked
        and all(_is_name(result[field]) for field in ("driver", "pool", "device"))
        and "." not in result["device"]
    )


def _is_one_node(selector: Any) -> bool:
    try:
        (term,) = selector["nodeSelectorTerms"]
        ((name,),) = [it["values"] for it in term["matchFields"]]
    except (TypeError, KeyError, ValueError):
        return False
    only = {"key": "metadata.name", "operator": "In", "values": [name]}
    return selector == {"nodeSelectorTerms": [{"matchFields": [only]}]} and _is_name(name)


def _consumer(data: Any) -> ConsumerReference | None:
    if not isinstance(data, list) or len(data) != 1 or not isinstance(data[0], dict):
        return None
    (one,) = data
    if one.keys() != _CONSUMER_FIELDS or one["resource"] != "pods":
        return None
    if not _is_name(one["name"]) or not isinstance(one["uid"], str) or not one["uid"]:
        return None
    return ConsumerReference(resource="pods", name=one["name"], uid=one["uid"])


def _is_name(text: Any) -> bool:
    return isinstance(text, str) and _matches(text)


@lru_cache(maxsize=16_384)
def _matches(text: str) -> bool:
    return len(text) <= 63 and _NAME.fullmatch(text) is not None


@lru_cache(maxsize=64)
def _is_time(text: Any) -> bool:
    if not isinstance(text, str) or not _TIME.fullmatch(text):
        return False
    try:
        parse_time(text)
    except ValueError:
        return False
    return True
