"""What an evaluation has cost, counted as kube-scheduler counts it.

Only expressions whose worst case comes near the limit are counted (`compiled.py`): the others
cannot reach it.  Sizes are characters, bytes or elements; a string costs a tenth per character.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from stowplan.cel.errors import CostExceeded
from stowplan.cel.formats import NamedFormat
from stowplan.cel.network import CIDR, IP
from stowplan.cel.values import KubernetesValue, Optional, Value

LIST, MAP = 10, 30
_STRING = 0.1
_REGEX = 0.25
_TRAVERSED_MAX = 1_000_000

CallCost = Callable[[list[Value], Value], int]


class Meter:
    __slots__ = ("limit", "spent")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.spent = 0

    def add(self, cost: int) -> None:
        self.spent += cost
        if self.spent > self.limit:
            raise CostExceeded


def size_of(value: Value) -> int:
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    if isinstance(value, IP | CIDR):
        return value.size
    if isinstance(value, Optional) and value.present:
        return size_of(value.value)
    return 1


def _traversal(value: Value) -> int:
    """Elements of elements included; strings a tenth each, rounded down."""
    total, pending = 0, [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str | bytes):
            total += int(len(item.encode() if isinstance(item, str) else item) * _STRING)
        elif isinstance(item, list):
            pending += item
        elif isinstance(item, dict):
            pending += [*item, *item.values()]
        else:
            total += 1
        if len(pending) > _TRAVERSED_MAX or total > _TRAVERSED_MAX:
            raise CostExceeded
    return total


def _first(factor: float) -> CallCost:
    return lambda args, _result: math.ceil(size_of(args[0]) * factor)


def _pattern(args: list[Value], _result: Value) -> int:
    text = math.ceil((1 + size_of(args[0])) * _STRING)
    return text * math.ceil(size_of(args[1]) * _REGEX)


def _validate(args: list[Value], _result: Value) -> int:
    assert isinstance(args[0], NamedFormat)
    text = math.ceil((1 + size_of(args[1])) * _STRING)
    return text * math.ceil(args[0].pattern_size * _REGEX)


def _contains(args: list[Value], _result: Value) -> int:
    return math.ceil(size_of(args[0]) * _STRING) * math.ceil(size_of(args[1]) * _STRING)


def _compare(args: list[Value], _result: Value) -> int:
    return math.ceil(min(size_of(args[0]), size_of(args[1])) * _STRING)


def _equals(args: list[Value], result: Value) -> int:
    return 1 if isinstance(args[0], KubernetesValue) else _compare(args, result)


def _contains_ip(args: list[Value], _result: Value) -> int:
    cost = math.ceil(2 * size_of(args[0]) * _STRING)
    return cost + (math.ceil(size_of(args[1]) * _STRING) if isinstance(args[1], str) else 0)


def _contains_cidr(args: list[Value], result: Value) -> int:
    return _contains_ip(args, result) + math.ceil(size_of(args[0]) * _STRING) + 1


def _made_list(args: list[Value], result: Value) -> int:
    return size_of(result) + 1 + LIST


def _flatten(args: list[Value], _result: Value) -> int:
    depth = args[1] if len(args) > 1 and isinstance(args[1], int) else 1
    return size_of(args[0]) * depth + 1 + LIST


def _self_compare(items: Value) -> int:
    assert isinstance(items, list)
    factor = 2.1 if items and isinstance(items[0], str | bytes) else 2.0
    return int(len(items) ** 2 * factor) + 1 + LIST


def _sets(factor: int) -> CallCost:
    return lambda args, _result: 1 + size_of(args[0]) * size_of(args[1]) * factor


_BY_FUNCTION: dict[str, CallCost] = {
    **dict.fromkeys(
        ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"),
        lambda args, _result: _traversal(args[0]),
    ),
    **dict.fromkeys(
        (
            *("url", "lowerAscii", "upperAscii", "substring", "trim", "cidr", "isIP", "isCIDR"),
            *("quantity", "isQuantity", "semver", "isSemver"),
        ),
        _first(_STRING),
    ),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _first(2 * _STRING)),
    "join": lambda _args, result: math.ceil(size_of(result) * 2 * _STRING),
    **dict.fromkeys(("find", "findAll"), _pattern),
    "ip": lambda args, _result: (
        math.ceil(size_of(args[0]) * _STRING) if isinstance(args[0], str) else 1
    ),
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "validate": _validate,
    "_==_": _equals,
    "_!=_": _compare,
    **dict.fromkeys(("slice", "lists.range", "reverse"), _made_list),
    "flatten": _flatten,
    "distinct": lambda args, _result: _self_compare(args[0]),
    "sort": lambda args, _result: _self_compare(args[0]),
    "@sortByAssociatedKeys": lambda args, _result: _self_compare(args[1]),
    "sets.contains": _sets(1),
    "sets.intersects": _sets(1),
    "sets.equivalent": _sets(2),
}
_BY_OVERLOAD: dict[str, CallCost] = {
    **dict.fromkeys(
        (
            *("starts_with_string", "ends_with_string", "string_to_bytes", "bytes_to_string"),
            *("strings_quote", "string_format"),
        ),
        _first(_STRING),
    ),
    "in_list": lambda args, _result: size_of(args[1]),
    **dict.fromkeys(
        (
            f"{order}_{kind}"
            for order in ("less", "less_equals", "greater", "greater_equals")
            for kind in ("string", "bytes")
        ),
        _compare,
    ),
    **dict.fromkeys(
        ("add_string", "add_bytes"),
        lambda args, _result: math.ceil((size_of(args[0]) + size_of(args[1])) * _STRING),
    ),
    "matches_string": _pattern,
    "contains_string": _contains,
}


def call_cost(function: str, overloads: list[str]) -> CallCost | None:
    """None where every call costs one."""
    found = _BY_FUNCTION.get(function)
    if found is None and len(overloads) == 1:
        found = _BY_OVERLOAD.get(overloads[0])
    return found
