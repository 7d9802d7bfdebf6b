"""What must hold of the capacities of a device, and of the amounts of them that can be had.

One of the checks of `device_rules`.  Mirrors the capacity policies of
`pkg/apis/resource/validation`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from stowplan.apiserver.answers import (
    Problem,
    duplicate,
    invalid,
    not_allowed,
    required,
    too_many,
)
from stowplan.apiserver.device_checks import Data, Scope, qualified_name
from stowplan.objects.quantity import canonical, parse_quantity

_VALUES_MAX = 10


def capacities(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
    shared = bool(value.get("allowMultipleAllocations"))
    for name, capacity in (value.get("capacity") or {}).items():
        yield from qualified_name(f"{where}.capacity", name)
        policy = (capacity or {}).get("requestPolicy")
        place = f"{where}.capacity[{name}].requestPolicy"
        if policy is None:
            continue
        if not shared:
            yield not_allowed(place, "allowMultipleAllocations must be true")
        else:
            yield from _policy(place, policy, capacity.get("value", "0"))


def _policy(where: str, policy: Data, most: Any) -> Iterator[Problem]:
    values, range_ = policy.get("validValues"), policy.get("validRange")
    if values and range_ is not None:
        text = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" '
        yield not_allowed(where, f"{text}at the same time")
        return
    for name, found, check in (
        ("validValues", values, _valid_values),
        ("validRange", range_, _valid_range),
    ):
        if found or (name == "validRange" and found is not None):
            if policy.get("default") is None:
                yield required(f"{where}.default", f"required when {name} is defined")
            else:
                yield from check(f"{where}.{name}", found, policy["default"], most)


def _valid_values(where: str, values: Any, default: Any, most: Any) -> Iterator[Problem]:
    amounts = [parse_quantity(it) for it in values]
    for n, (one, other) in enumerate(itertools.pairwise(amounts)):
        if one > other:
            text = "values must be sorted in ascending order"
            yield invalid(f"{where}[{n + 1}]", values[n + 1], text)
    if len(values) > _VALUES_MAX:
        yield too_many(where, len(values), _VALUES_MAX)
    else:
        for n, amount in enumerate(amounts):
            if amount > parse_quantity(most):
                text = f"option is larger than capacity value: {most}"
                yield invalid(f"{where}[{n}]", values[n], text)
        whole = [_whole(it) for it in values]
        for n, number in enumerate(whole):
            if number in whole[:n]:
                yield duplicate(f"{where}[{n}]", str(number))
    if len(values) > _VALUES_MAX or parse_quantity(default) not in amounts:
        text = "default value is not valid according to the requestPolicy"
        yield invalid(where, default, text)


def _valid_range(where: str, range_: Any, default: Any, most: Any) -> Iterator[Problem]:
    least, limit, step = (range_.get(name) for name in ("min", "max", "step"))
    if least is None:
        yield required(f"{where}.min", "required when validRange is defined")
        return
    low, usual, all_ = (parse_quantity(it) for it in (least, default, most))
    if low > all_:
        yield invalid(f"{where}.min", least, f"min is larger than capacity value: {most}")
    if usual < low:
        yield invalid(f"{where}.min", default, f"default is less than min: {least}")
    if limit is not None:
        high = parse_quantity(limit)
        for wrong, shown, text in (
            (low > high, least, f"min is larger than max: {limit}"),
            (high > all_, limit, f"max is larger than capacity value: {most}"),
            (usual > high, default, f"default is more than max: {limit}"),
        ):
            if wrong:
                yield invalid(f"{where}.max", shown, text)
    if step is not None:
        added = low + parse_quantity(step)
        if added > all_:
            text = f"one step {_like(added, least)} is larger than capacity value: {most}"
            yield invalid(f"{where}.step", step, text)
        for amount in (default, limit):
            if amount is None or not _whole(step):
                continue
            if (_whole(amount) - _whole(least)) % _whole(step):
                text = f"value is not a multiple of a given step ({step}) from ({least})"
                yield invalid(f"{where}.step", amount, text)


def _whole(quantity: Any) -> int:
    return -(-parse_quantity(quantity) // 10**9)


def _like(nanos: int, example: Any) -> str:
    """An amount, in the kind of unit that another one is written in."""
    number = nanos // 10**9
    if str(example).endswith("i"):
        for unit, suffix in ((2**60, "Ei"), (2**50, "Pi"), (2**40, "Ti"), (2**30, "Gi"),
                             (2**20, "Mi"), (2**10, "Ki")):  # fmt: skip
            if number and number % unit == 0:
                return f"{number // unit}{suffix}"
    return canonical(f"{nanos}n")
