"""What claims ask for, in the form in which the search needs it.

A request that names alternatives is a list of `Ask`s, one after the other; any other is a list of
one.  What a node does not change is read once per attempt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stowplan.objects.base import Resources
from stowplan.objects.devices import (
    DeviceAsk,
    DeviceClass,
    DeviceConstraint,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)
from stowplan.plugins.dynamic_resources.device_entry import DeviceEntry

RESULTS_MAX = 32
"""Devices that one claim can have."""


class AllocationError(Exception):
    """Ends the attempt: not "does not fit", but a claim that cannot be understood."""


@dataclass(slots=True, eq=False)
class Ask:
    """A request, or one alternative of a prioritised list."""

    request: str
    sub: str
    """Its name among the alternatives; empty for a request that has none."""
    ask: DeviceAsk
    device_class: DeviceClass
    selectors: tuple[str, ...]
    """The class's, then its own."""
    is_admin: bool
    capacity: Resources | None
    tolerations: list[DeviceToleration] | None
    claim_key: str

    @property
    def name(self) -> str:
        return f"{self.request}/{self.sub}" if self.sub else self.request

    @property
    def bare_name(self) -> str:
        return self.sub or self.request

    @property
    def count(self) -> int:
        return self.ask.count or 1

    def selects(self, entry: DeviceEntry) -> bool:
        """Raises `AllocationError` where an expression fails."""
        found = entry.selected_by(self.selectors)
        if found is True or found is False:
            return found
        number, problem = found
        spec = self.device_class.spec
        of_class = len(spec.selectors or ())
        if number < of_class:
            whose = f"class {self.device_class.metadata.name}"
        else:
            whose, number = f"claim {self.claim_key}", number - of_class
        raise AllocationError(f"{whose}: selector #{number}: {problem}")


@dataclass(slots=True, eq=False)
class ClaimAsk:
    claim: ResourceClaim
    requests: list[list[Ask]]
    constraints: list[DeviceConstraint]

    @property
    def key(self) -> str:
        return self.claim.key


def read_claim(claim: ResourceClaim, classes: Mapping[str, DeviceClass]) -> ClaimAsk:
    """Raises `AllocationError`."""
    devices = claim.spec.devices
    requests: list[list[Ask]] = []
    for request in devices.requests or ():
        if request.exactly is not None:
            requests.append([_read(claim, request.name, "", request.exactly, classes)])
        else:
            requests.append(
                [
                    _read(claim, request.name, sub.name, sub, classes)
                    for sub in request.first_available or ()
                ]
            )
    return ClaimAsk(claim, requests, list(devices.constraints or ()))


def _read(
    claim: ResourceClaim,
    request: str,
    sub: str,
    ask: DeviceAsk,
    classes: Mapping[str, DeviceClass],
) -> Ask:
    where = f"claim {claim.key}, request {sub or request}"
    for number, selector in enumerate(ask.selectors or ()):
        if selector.cel is None:
            raise AllocationError(
                f"{where}, selector #{number}: CEL expression empty (unsupported selector type?)"
            )
    found = classes.get(ask.device_class_name)
    if found is None:
        name = ask.device_class_name
        raise AllocationError(
            f"{where}: could not retrieve device class {name}: "
            f'deviceclass.resource.k8s.io "{name}" not found'
        )
    return Ask(
        request,
        sub,
        ask,
        found,
        (*expressions_of(found.spec.selectors), *expressions_of(ask.selectors)),
        isinstance(ask, ExactDeviceRequest) and bool(ask.admin_access),
        ask.capacity.requests if ask.capacity is not None else None,
        ask.tolerations,
        claim.key,
    )


def expressions_of(selectors: Sequence[object] | None) -> tuple[str, ...]:
    return tuple(
        "" if (cel := getattr(selector, "cel", None)) is None else cel.expression
        for selector in selectors or ()
    )
