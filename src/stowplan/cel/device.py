"""A device as expressions see it: the variable `device`.

Names without a domain are under the driver's name.  A domain that the device does not have reads as
an empty map, for attributes and capacity alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stowplan.cel import quantities, semver
from stowplan.cel.errors import EvaluationError
from stowplan.cel.values import INT_MAX, INT_MIN, Value
from stowplan.objects.base import Quantity as QuantityText


class Version(str):
    """The value of a version attribute, as it is written."""

    __slots__ = ()


AttributeValue = bool | int | str | Version


class Domains(dict[Value, Value]):
    """By domain.  An unknown one is there, and empty."""

    __slots__ = ()

    def __missing__(self, key: Value) -> Value:
        return _EMPTY


_EMPTY: dict[Value, Value] = {}


@dataclass(frozen=True, slots=True)
class Device:
    driver: str
    attributes: Mapping[str, AttributeValue] = field(default_factory=dict)
    capacity: Mapping[str, QuantityText] = field(default_factory=dict)
    allow_multiple_allocations: bool = False
    _seen: list[dict[Value, Value]] = field(default_factory=list, compare=False, repr=False)
    """What expressions see, once one has looked."""

    def variable(self) -> dict[Value, Value]:
        """Raises `EvaluationError` for an attribute that nothing can be said about."""
        if not self._seen:
            self._seen.append(
                {
                    "driver": self.driver,
                    "allowMultipleAllocations": self.allow_multiple_allocations,
                    "attributes": self._by_domain(
                        {name: _attribute(name, it) for name, it in self.attributes.items()}
                    ),
                    "capacity": self._by_domain(
                        {name: _quantity(name, it) for name, it in self.capacity.items()}
                    ),
                }
            )
        return self._seen[0]

    def _by_domain(self, values: dict[str, Value]) -> Domains:
        domains = Domains()
        for name, value in values.items():
            domain, slash, short = name.partition("/")
            inner = domains.setdefault(domain if slash else self.driver, {})
            assert isinstance(inner, dict)
            inner[short if slash else name] = value
        return domains


def _attribute(name: str, value: AttributeValue) -> Value:
    if isinstance(value, Version):
        try:
            return semver.parse(value)
        except EvaluationError as error:
            problem = f"attribute {name}: parse semantic version: {error}"
            raise EvaluationError(problem) from None
    if isinstance(value, bool | str) or (isinstance(value, int) and INT_MIN <= value <= INT_MAX):
        return value
    raise EvaluationError(f"attribute {name}: unsupported attribute value")


def _quantity(name: str, amount: QuantityText) -> Value:
    try:
        return quantities.parse(str(amount))
    except EvaluationError as error:
        raise EvaluationError(f"capacity {name}: {error}") from None
