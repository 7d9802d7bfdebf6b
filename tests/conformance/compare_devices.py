"""The fields of `compare`, and those of recordings with devices."""

from __future__ import annotations

from typing import Any

from tests.conformance import compare

Decision = dict[str, Any]


def _error(text: str) -> str:
    return text.split("CEL runtime error")[0]


def _claims(decision: Decision) -> dict[str, Any]:
    found = {}
    for name, claim in (decision.get("claims") or {}).items():
        devices = []
        for device in claim["devices"]:
            said = {k: v for k, v in device.items() if v not in (None, False, [], {})}
            if "shareID" in said:
                said["shareID"] = True
            devices.append(said)
        found[name] = {
            "devices": devices,
            "nodeSelector": claim.get("nodeSelector"),
            "reservedFor": claim.get("reservedFor") or [],
        }
    return found


FIELDS = {
    **compare.FIELDS,
    "claims": _claims,
    "nodeAllocations": lambda d: d.get("nodeAllocations") or {},
    "errors": lambda d: {n: _error(t) for n, t in (d.get("errors") or {}).items()},
    "preBindError": lambda d: (d.get("preBindError") or "").split(" is invalid")[0],
    "deallocated": lambda d: sorted(d.get("deallocated") or []),
    "requestMappings": lambda d: d.get("requestMappings") or [],
    "preEnqueue": lambda d: d.get("preEnqueue") or {},
    "problem": lambda d: d.get("problem") or "",
}


def differences(expected: list[Decision], actual: list[Decision]) -> list[str]:
    """One line for every field that differs; empty where all decisions agree."""
    actual = [
        _as_recorded(want, got) for want, got in zip(expected, actual, strict=False)
    ] + actual[len(expected) :]
    saved, compare.FIELDS = compare.FIELDS, FIELDS
    try:
        return compare.differences(expected, actual)
    finally:
        compare.FIELDS = saved


def _as_recorded(want: Decision, got: Decision) -> Decision:
    """Of several claims that could be deallocated, any one will do."""
    choices, chosen = want.get("deallocationChoices"), got.get("deallocated")
    if choices and chosen and set(chosen) <= set(choices):
        return {**got, "deallocated": want.get("deallocated")}
    return got
