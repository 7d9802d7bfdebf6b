"""Constraints of a claim: devices that must agree, or must differ, in an attribute.

Each remembers the devices chosen so far, and forgets those that the search takes back.  What
`Distinct` forgets is what upstream forgets: it keeps one value per request, which goes as soon as
any device of that request is taken back.
"""

from __future__ import annotations

from typing import Any, Protocol

from stowplan.objects.devices import DeviceConstraint
from stowplan.plugins.dynamic_resources.device_entry import DeviceEntry, attribute_value

Value = tuple[str, Any]


class Constraint(Protocol):
    attribute: str

    def concerns(self, request: str, sub: str) -> bool: ...

    def add(self, request: str, sub: str, entry: DeviceEntry) -> bool:
        """Take the device in, unless it violates the constraint."""

    def remove(self, request: str, sub: str) -> None: ...


class _OfRequests:
    def __init__(self, constraint: DeviceConstraint, attribute: str) -> None:
        self._requests = frozenset(constraint.requests or ())
        self.attribute = attribute
        self._count = 0

    def concerns(self, request: str, sub: str) -> bool:
        names = self._requests
        return not names or request in names or (bool(sub) and f"{request}/{sub}" in names)

    def value(self, entry: DeviceEntry) -> Value | None:
        found = entry.attribute(self.attribute)
        return None if found is None else attribute_value(found)


class Match(_OfRequests):
    _common: Value | None = None

    def add(self, request: str, sub: str, entry: DeviceEntry) -> bool:
        if not self.concerns(request, sub):
            return True
        value = self.value(entry)
        if value is None or (self._count and value != self._common):
            return False
        self._common = value
        self._count += 1
        return True

    def remove(self, request: str, sub: str) -> None:
        if self.concerns(request, sub):
            self._count -= 1


class Distinct(_OfRequests):
    def __init__(self, constraint: DeviceConstraint, attribute: str) -> None:
        super().__init__(constraint, attribute)
        self._values: dict[str, Value] = {}

    def add(self, request: str, sub: str, entry: DeviceEntry) -> bool:
        if not self.concerns(request, sub):
            return True
        value = self.value(entry)
        if value is None or (self._count and value in self._values.values()):
            return False
        self._values[request] = value
        self._count += 1
        return True

    def remove(self, request: str, sub: str) -> None:
        if self.concerns(request, sub):
            self._values.pop(request, None)
            self._count -= 1


def make_constraint(constraint: DeviceConstraint) -> Constraint | None:
    """None for one of a sort that is not known."""
    if constraint.match_attribute is not None:
        return Match(constraint, constraint.match_attribute)
    if constraint.distinct_attribute is not None:
        return Distinct(constraint, constraint.distinct_attribute)
    return None
