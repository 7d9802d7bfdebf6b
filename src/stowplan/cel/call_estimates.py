"""What a call may cost, and how large its result may be: the functions' part of `cost.py`.

`path_size` knows the limits that the API sets to a device.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from stowplan.cel.estimates import MAX, UNKNOWN, Estimate, Path, Range, fixed
from stowplan.cel.syntax import Literal, Node
from stowplan.cel.types import Type

_STRING = 0.1
_REGEX = 0.25
_ONE = fixed(1)
_LIST = fixed(10)
_ADDRESS = Range(4, 16)
_FORMAT_PATTERN = 128
_FORMAT_NAME = 64

_DRIVER, _VALUE, _ENTRIES, _DOMAIN, _ID = 63, 64, 32, 63, 32


@dataclass(frozen=True, slots=True)
class Operand:
    node: Node
    known_size: Range | None
    path: Path

    @property
    def size(self) -> Range:
        if self.known_size is not None:
            return self.known_size
        found = path_size(self.path)
        return UNKNOWN if found is None else found


def path_size(path: Path) -> Range | None:
    if path[:1] != ("device",):
        return None
    match path[1:]:
        case ():
            return Range(0, 0)
        case ("driver",):
            return Range(0, _DRIVER)
        case ("allowMultipleAllocations",):
            return Range(0, 1)
        case ("attributes" | "capacity",) | ("attributes" | "capacity", "@values" | "@items"):
            return Range(0, _ENTRIES)
        case ("attributes" | "capacity", "@keys"):
            return Range(0, _DOMAIN)
        case ("attributes" | "capacity", "@values" | "@items", "@keys"):
            return Range(0, _ID)
        case ("attributes", "@values" | "@items", _):
            return Range(0, _VALUE)
        case ("capacity", "@values" | "@items", "@values" | "@items"):
            return Range(0, 0)
        case _:
            return None


Estimator = Callable[[Operand | None, list[Operand]], Estimate]


def _of_target(factor: float, *, sized: bool) -> Estimator:
    def estimate(target: Operand | None, _args: list[Operand]) -> Estimate:
        assert target is not None
        return Estimate(target.size.scaled(factor), target.size if sized else None)

    return estimate


def _of_argument(factor: float, *, sized: bool = False) -> Estimator:
    def estimate(_target: Operand | None, args: list[Operand]) -> Estimate:
        return Estimate(args[0].size.scaled(factor), args[0].size if sized else None)

    return estimate


def _traversal(target: Operand | None, _args: list[Operand]) -> Estimate:
    assert target is not None
    element = _element(target)
    if element is None:
        return Estimate(target.size.scaled(_STRING))
    each = _ONE
    if element[0].kind in ("string", "bytes"):
        each += element[1].scaled(_STRING)
    return Estimate(target.size * each)


def _element(of: Operand) -> tuple[Type, Range] | None:
    if not of.node.type.parameters:
        return None
    found = path_size((*of.path, "@items")) if of.path else None
    return of.node.type.parameters[0], UNKNOWN if found is None else found


def _replace(target: Operand | None, args: list[Operand]) -> Estimate:
    assert target is not None
    size, old, new = target.size, args[0].size, args[1].size
    count_high, kept_high = _replaced(size.high, old.low, shrinks=new.high <= old.low)
    count_low, kept_low = _replaced(size.low, old.high, shrinks=old.high <= new.low)
    result = Range(count_low, count_high) * new + Range(kept_low, kept_high)
    return Estimate(size.scaled(2 * _STRING), result)


def _replaced(size: int, old: int, *, shrinks: bool) -> tuple[int, int]:
    """How often something may be replaced, and how much may stay besides."""
    if old == 0:
        return min(size + 1, MAX), size
    if shrinks:
        return 0, size
    return min(math.ceil(float(size) / float(old)), MAX), 0


def _split(target: Operand | None, args: list[Operand]) -> Estimate:
    assert target is not None
    most = target.size.high
    if len(args) > 1 and isinstance(args[1].node, Literal) and type(args[1].node.value) is int:
        most = args[1].node.value % 2**64
    return Estimate(target.size.scaled(2 * _STRING), Range(0, most))


def _join(target: Operand | None, args: list[Operand]) -> Estimate:
    assert target is not None
    count = target.size
    element = _element(target)
    size = fixed(0) if element is None else count * element[1]
    if args:
        size += args[0].size * Range(max(count.low - 1, 0), max(count.high - 1, 0))
    return Estimate(size.scaled(_STRING), size)


def _find(target: Operand | None, args: list[Operand]) -> Estimate:
    assert target is not None
    cost = (target.size + _ONE).scaled(_STRING) * args[0].size.scaled(_REGEX)
    return Estimate(cost, Range(0, target.size.high))


def _matches(target: Operand | None, args: list[Operand]) -> Estimate:
    if target is None:
        return Estimate(_ONE)
    return Estimate((target.size + _ONE).scaled(_STRING) * args[0].size.scaled(_REGEX))


def _contains(target: Operand | None, args: list[Operand]) -> Estimate:
    assert target is not None
    return Estimate(target.size.scaled(_STRING) * args[0].size.scaled(_STRING))


def _contains_ip(text: bool) -> Estimator:
    def estimate(_target: Operand | None, args: list[Operand]) -> Estimate:
        cost = (_ADDRESS + _ADDRESS).scaled(_STRING)
        return Estimate(cost + args[0].size.scaled(_STRING) if text else cost)

    return estimate


def _contains_cidr(text: bool) -> Estimator:
    def estimate(target: Operand | None, args: list[Operand]) -> Estimate:
        cost = _contains_ip(text)(target, args).cost
        return Estimate(cost + _ADDRESS.scaled(_STRING) + _ONE)

    return estimate


def _validate(_target: Operand | None, args: list[Operand]) -> Estimate:
    return Estimate(args[0].size.scaled(_STRING).scaled(_FORMAT_PATTERN * _REGEX))


def _equals(_target: Operand | None, args: list[Operand]) -> Estimate:
    one, other = args
    of = one.node.type
    if of == other.node.type:
        if of.name in _FIXED_EQUALITY:
            return Estimate(_ONE)
        if of.name == "kubernetes.NamedFormat":
            return Estimate(Range(1, _FORMAT_NAME).scaled(_STRING))
        if of.name == "kubernetes.URL":
            size = _ONE if other.known_size is None else other.known_size
            return Estimate(Range(1, size.high).scaled(_STRING))
    return _compare(None, args)


_FIXED_EQUALITY = {
    *("net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver"),
    *(f"kubernetes.authorization.{it}" for it in ("Authorizer", "PathCheck", "GroupCheck")),
    *(f"kubernetes.authorization.{it}" for it in ("ResourceCheck", "Decision")),
}


def _compare(_target: Operand | None, args: list[Operand]) -> Estimate:
    most = min(_plain_size(args[0]).high, _plain_size(args[1]).high)
    return Estimate(Range(1 if most else 0, most).scaled(_STRING))


def _plain_size(of: Operand) -> Range:
    return UNKNOWN if of.known_size is None else of.known_size


def _add_text(_target: Operand | None, args: list[Operand]) -> Estimate:
    size = _plain_size(args[0]) + _plain_size(args[1])
    return Estimate(size.scaled(_STRING), size)


def _add_list(_target: Operand | None, args: list[Operand]) -> Estimate:
    return Estimate(_ONE, _plain_size(args[0]) + _plain_size(args[1]))


def _to_bytes(_target: Operand | None, args: list[Operand]) -> Estimate:
    size = _plain_size(args[0])
    return Estimate(size.scaled(_STRING), Range(size.low, size.high * 4 % 2**64))


def _to_string(_target: Operand | None, args: list[Operand]) -> Estimate:
    size = _plain_size(args[0])
    return Estimate(size.scaled(_STRING), Range(size.low // 4, size.high))


def _quote(_target: Operand | None, args: list[Operand]) -> Estimate:
    size = _plain_size(args[0])
    return Estimate(size.scaled(_STRING), Range(size.low + 2, (size.high * 2 + 2) % 2**64))


def _format(target: Operand | None, _args: list[Operand]) -> Estimate:
    assert target is not None
    return Estimate(_plain_size(target).scaled(_STRING))


def _new_list(size: Range, factor: float) -> Estimate:
    return Estimate(size.scaled(factor) + _ONE + _LIST, size)


def _literal_int(of: Operand, otherwise: int) -> int:
    value = of.node.value if isinstance(of.node, Literal) else None
    return max(value, 0) if type(value) is int else otherwise


def _slice(target: Operand | None, args: list[Operand]) -> Estimate:
    assert target is not None
    start, end = _literal_int(args[0], 0), _literal_int(args[1], target.size.high)
    return _new_list(fixed((end - start) % 2**64), 1)


def _range(_target: Operand | None, args: list[Operand]) -> Estimate:
    return _new_list(fixed(_literal_int(args[0], MAX)), 1)


def _reverse(target: Operand | None, _args: list[Operand]) -> Estimate:
    assert target is not None
    return _new_list(target.size, 1)


def _flatten(target: Operand | None, args: list[Operand]) -> Estimate:
    assert target is not None
    return _new_list(target.size, float(_literal_int(args[0], MAX) if args else 1))


def _self_compared(of: Operand, element: str = "") -> Estimate:
    factor = 2.1 if element in ("string", "bytes") else 2.0
    return _new_list(of.size * of.size, factor)


def _sets(factor: int) -> Estimator:
    return lambda _target, args: Estimate((args[0].size * args[1].size).scaled(factor) + _ONE)


_BY_FUNCTION: dict[str, Estimator] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _traversal),
    "url": _of_argument(_STRING, sized=True),
    **dict.fromkeys(
        ("lowerAscii", "upperAscii", "substring", "trim"), _of_target(_STRING, sized=True)
    ),
    "replace": _replace,
    "split": _split,
    "join": _join,
    **dict.fromkeys(("find", "findAll"), _find),
    **dict.fromkeys(
        ("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"),
        _of_argument(_STRING),
    ),
    "ip.isCanonical": _of_argument(2 * _STRING),
    "validate": _validate,
    "check": lambda _target, _args: Estimate(fixed(350_000)),
    "_==_": _equals,
    "_!=_": _compare,
}
_BY_OVERLOAD: dict[str, Estimator] = {
    "string_to_ip": _of_argument(_STRING),
    "cidr_contains_ip_string": _contains_ip(True),
    "cidr_contains_ip_ip": _contains_ip(False),
    "cidr_contains_cidr_string": _contains_cidr(True),
    "cidr_contains_cidr": _contains_cidr(False),
    "string_format": _format,
    "string_to_bytes": _to_bytes,
    "bytes_to_string": _to_string,
    "strings_quote": _quote,
    **dict.fromkeys(
        ("starts_with_string", "ends_with_string"),
        lambda _target, args: Estimate(_plain_size(args[0]).scaled(_STRING)),
    ),
    "in_list": lambda _target, args: Estimate(_plain_size(args[1]).scaled(1)),
    "matches_string": _matches,
    "contains_string": _contains,
    "add_string": _add_text,
    "add_bytes": _add_text,
    "add_list": _add_list,
    **dict.fromkeys(
        (
            f"{order}_{kind}"
            for order in ("less", "less_equals", "greater", "greater_equals")
            for kind in ("string", "bytes")
        ),
        _compare,
    ),
    "dra_includes_dyn_dyn": lambda _target, _args: Estimate(Range(0, 48)),
    "list_slice": _slice,
    "lists_range": _range,
    "list_reverse": _reverse,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
}


def call_estimate(
    function: str, overload: str, target: Operand | None, args: list[Operand]
) -> Estimate:
    """Of the call alone; `cost.py` adds its operands."""
    if overload == "list_distinct" and target is not None:
        return _self_compared(target)
    if function == "sort" and target is not None:
        return _self_compared(target, overload.split("_")[1])
    if function == "@sortByAssociatedKeys":
        return _self_compared(args[0], overload.split("_")[1])
    found = _BY_OVERLOAD.get(overload) or _BY_FUNCTION.get(function)
    return Estimate(_ONE) if found is None else found(target, args)
