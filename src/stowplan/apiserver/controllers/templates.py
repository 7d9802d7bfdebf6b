"""Pods from templates: their bodies, their owners, and what the hash of a template is.

Pure functions that all workload controllers share.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from stowplan.objects.base import KubeObject
from stowplan.objects.pod import Pod
from stowplan.objects.times import parse_time

Data = dict[str, Any]

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_HASH_LENGTH = 10
_COPIED = ("labels", "annotations", "finalizers")
_ENDED = frozenset({"Succeeded", "Failed"})


def template_hash(template: Mapping[str, Any] | None) -> str:
    """Ten letters that are equal for equal templates."""
    text = msgspec.json.encode(template or {}, order="deterministic")
    number = int.from_bytes(hashlib.sha256(text).digest()[:8], "big")
    letters = ""
    for _ in range(_HASH_LENGTH):
        number, digit = divmod(number, len(_ALPHABET))
        letters += _ALPHABET[digit]
    return letters


def owner_reference(owner: KubeObject) -> Data:
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod_from(
    template: Mapping[str, Any] | None,
    owner: KubeObject,
    *,
    name: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    generate_name: str = "",
) -> Data:
    """The body of a new pod; without a name it gets one from the owner's."""
    template = template or {}
    written = template.get("metadata") or {}
    metadata: Data = {key: written[key] for key in _COPIED if written.get(key)}
    metadata["ownerReferences"] = [owner_reference(owner)]
    if labels:
        metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    if annotations:
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
    if name:
        metadata["name"] = name
    else:
        metadata["generateName"] = generate_name or f"{owner.name}-"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": template.get("spec") or {},
    }


def is_active(pod: Pod) -> bool:
    """Neither ended nor on its way out."""
    return pod.status.phase not in _ENDED and pod.metadata.deletion_timestamp is None


def ready_since(pod: Pod) -> float | None:
    """When the pod became ready; None when it is not."""
    for condition in pod.status.conditions or ():
        if condition.type == "Ready":
            if condition.status != "True":
                return None
            since = condition.last_transition_time
            return parse_time(since) if since else 0.0
    return None


def is_available(pod: Pod, min_ready_s: int, now_s: float) -> bool:
    since = ready_since(pod)
    return since is not None and since + min_ready_s <= now_s


def scaled_value(value: int | str | None, total: int, *, round_up: bool, default: int) -> int:
    """A number, or a percentage of `total`.

    >>> scaled_value("25%", 10, round_up=True, default=0)
    3
    >>> scaled_value("25%", 10, round_up=False, default=0)
    2
    """
    if value is None:
        return default
    if isinstance(value, int):
        return value
    percent = value.removesuffix("%")
    if not percent.isdecimal():
        return default
    exact = total * int(percent)
    return -(-exact // 100) if round_up else exact // 100
