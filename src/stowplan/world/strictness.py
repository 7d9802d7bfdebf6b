"""Manifests as somebody types them: fields that do not exist, objects given twice, empty workloads.

An API server that validates strictly refuses a field it does not know; here it is refused with the
field that was probably meant.  Objects that have been through an API server are not looked at: what
one of another version knows is no mistake.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any

from stowplan.apiserver import wire_schema
from stowplan.apiserver.conforming import Malformed, conform
from stowplan.apiserver.wire_schema import Message
from stowplan.errors import InputError
from stowplan.objects.manifests import Manifest, describe
from stowplan.world.remarks import Remark, some_of

_UNKNOWN = re.compile(r'unknown field "(.*)"')
_STEP = re.compile(r"([^.\[\]]+)")
_NEAR = 0.6


def refuse_unknown(manifests: Iterable[Manifest]) -> None:
    """Raise InputError for the first field that does not exist."""
    for where, data in manifests:
        metadata = data.get("metadata")
        if isinstance(metadata, dict) and metadata.get("uid"):
            continue
        message = wire_schema.message_of(str(data.get("apiVersion")), str(data.get("kind")))
        unknown = _first_unknown(data, message) if message is not None else None
        if unknown is not None and message is not None:
            raise InputError(
                f"unknown field {unknown!r}",
                where=f"{where}: {describe(data)}",
                hint=_meant(unknown, message),
            )


def _first_unknown(data: dict[str, Any], message: Message) -> str | None:
    noted: list[str] = []
    try:
        conform(data, message, noted.append)
    except Malformed:
        # A value of a wrong type is refused with better words where it is decoded.
        return None
    found = (_UNKNOWN.fullmatch(text) for text in noted)
    return next((match[1] for match in found if match is not None), None)


def _meant(path: str, message: Message) -> str:
    """The nearest field that the object has at this place."""
    *steps, last = (step for step in _STEP.findall(path) if not step.isdecimal())
    at: Message | None = message
    for step in steps:
        field = at.by_name.get(step) if at is not None else None
        if field is not None:
            at = wire_schema.message(field.type)
    names = {} if at is None else {name.lower(): name for name in at.by_name}
    near = get_close_matches(last.lower(), names, n=1, cutoff=_NEAR)
    known = f"did you mean {names[near[0]]!r}?  " if near else ""
    return f"{known}`--lenient` ignores fields that do not exist"


def remarks_on_input(manifests: Iterable[Manifest]) -> Iterator[Remark]:
    """Objects that come more than once, and workloads that make no pods."""
    seen: set[tuple[str, str]] = set()
    twice: list[str] = []
    idle: list[str] = []
    for _, data in manifests:
        name = describe(data)
        if (str(data.get("apiVersion")), name) in seen:
            twice.append(name)
        elif _is_idle(data):
            idle.append(name)
        seen.add((str(data.get("apiVersion")), name))
    if twice:
        yield Remark(f"given twice, taken once: {some_of(twice)}")
    if idle:
        hint = "replicas are 0, it is suspended, or it makes its pods later"
        yield Remark(f"makes no pods: {some_of(idle)}", hint)


def _is_idle(data: dict[str, Any]) -> bool:
    spec = data.get("spec")
    if not isinstance(spec, dict):
        return False
    kind = data.get("kind")
    if kind in ("Deployment", "StatefulSet", "ReplicationController"):
        return spec.get("replicas") == 0
    if kind == "ReplicaSet":
        # The old sets of a Deployment are empty, and nobody wonders.
        return spec.get("replicas") == 0 and not data.get("metadata", {}).get("ownerReferences")
    return kind == "CronJob" or (kind == "Job" and spec.get("suspend") is True)
