"""Devices that have to be prepared first: is a claim ready, has it failed, is it too late?

A driver says so in the claim's status, by conditions that the device named.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto

from stowplan.objects.base import Condition
from stowplan.objects.devices import AllocatedDevice, DeviceStatus, ResourceClaim
from stowplan.objects.times import parse_time


class Readiness(Enum):
    READY = auto()
    PENDING = auto()
    FAILED = auto()
    TIMED_OUT = auto()


def conditional_results(claim: ResourceClaim) -> list[AllocatedDevice]:
    """Those that have conditions."""
    allocation = claim.status.allocation
    if allocation is None:
        return []
    return [it for it in allocation.devices.results or () if it.binding_conditions]


def readiness(
    claim: ResourceClaim, now_s: float, timeout_s: float
) -> tuple[Readiness, Condition | None]:
    """And the condition that says it failed."""
    results = conditional_results(claim)
    if not results:
        return Readiness.READY, None
    is_ready = True
    for result in results:
        met = {it.type: it for it in _conditions(claim, result) if it.status == "True"}
        for name in result.binding_failure_conditions or ():
            if name in met:
                return Readiness.FAILED, met[name]
        if not all(name in met for name in result.binding_conditions or ()):
            is_ready = False
            break
    if is_ready:
        return Readiness.READY, None
    allocation = claim.status.allocation
    assert allocation is not None
    since = allocation.allocation_timestamp
    if since and parse_time(since) + timeout_s < now_s:
        return Readiness.TIMED_OUT, None
    return Readiness.PENDING, None


def _conditions(claim: ResourceClaim, result: AllocatedDevice) -> Iterator[Condition]:
    for status in claim.status.devices or ():
        if _is_about(status, result):
            yield from status.conditions or ()
            return


def _is_about(status: DeviceStatus, result: AllocatedDevice) -> bool:
    return (status.driver, status.pool, status.device) == (
        result.driver,
        result.pool,
        result.device,
    )
