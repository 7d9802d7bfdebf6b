"""How much of a device a request takes, where several may share it.

Amounts are nanos beside the text that is written into an allocation.  Mirrors
`consumable_capacity.go` of upstream's allocator.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from stowplan.objects.base import Quantity, Resources
from stowplan.objects.devices import CapacityRequestPolicy, ValidRange
from stowplan.objects.quantity import ceil_value, parse_quantity
from stowplan.plugins.dynamic_resources.device_entry import Capacity, DeviceEntry

_NANO = 10**9
_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")

Taken = Mapping[str, int]
"""Capacity -> nanos."""


class Amount(NamedTuple):
    nanos: int
    text: str


Amounts = dict[str, Amount]


def amounts_taken(
    entry: DeviceEntry, requests: Resources | None, *taken: Taken | None
) -> Amounts | None:
    """What a request would take of each capacity; None if it cannot have that.

    `taken` is what others have of the device, or will have.
    """
    wanted = requests or {}
    if not wanted.keys() <= entry.capacity.keys():
        return None
    amounts: Amounts = {}
    for name, capacity in entry.capacity.items():
        amount = _amount(capacity, wanted.get(name))
        if not _is_allowed(amount, capacity.policy):
            return None
        total = amount.nanos + sum(it.get(name, 0) for it in taken if it)
        if total > capacity.value:
            return None
        amounts[name] = amount
    return amounts


def _amount(capacity: Capacity, wanted: Quantity | None) -> Amount:
    policy = capacity.policy
    if wanted is None:
        if policy is None or policy.default is None:
            return Amount(capacity.value, capacity.text)
        return _read(policy.default)
    amount = _read(wanted)
    if policy is None:
        return amount
    if policy.valid_range is not None:
        return _within(amount, policy.valid_range)
    valid = [_read(value) for value in policy.valid_values or ()]
    return next((it for it in valid if it.nanos >= amount.nanos), amount)


def _within(amount: Amount, valid: ValidRange) -> Amount:
    """Not less than the least, and on one of the steps."""
    least = _read(valid.min if valid.min is not None else 0)
    if amount.nanos < least.nanos:
        return least
    if valid.step is None:
        return amount
    start, step = ceil_value(least.nanos), ceil_value(parse_quantity(valid.step))
    if step <= 0:
        return amount
    units = start - (start - ceil_value(amount.nanos)) // step * step
    return Amount(units * _NANO, binary_text(units))


def _is_allowed(amount: Amount, policy: CapacityRequestPolicy | None) -> bool:
    if policy is None:
        return True
    if policy.default is not None and amount.nanos == parse_quantity(policy.default):
        return True
    valid = policy.valid_range
    if valid is not None:
        if valid.max is not None and amount.nanos > parse_quantity(valid.max):
            return False
        step = 0 if valid.step is None else ceil_value(parse_quantity(valid.step))
        start = 0 if valid.min is None else ceil_value(parse_quantity(valid.min))
        return not step or (ceil_value(amount.nanos) - start) % step == 0
    if policy.valid_values:
        return any(parse_quantity(value) == amount.nanos for value in policy.valid_values)
    return True


def _read(quantity: Quantity) -> Amount:
    return Amount(parse_quantity(quantity), str(quantity))


def binary_text(units: int) -> str:
    """
    >>> binary_text(1536 * 1024**2), binary_text(1000), binary_text(0)
    ('1536Mi', '1000', '0')
    """
    power = 0
    while units and units % 1024 == 0 and power < len(_SUFFIXES) - 1:
        units //= 1024
        power += 1
    return f"{units}{_SUFFIXES[power]}"
