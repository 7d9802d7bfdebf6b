"""Equality, order and arithmetic, as cel-go has them: 64-bit integers that never wrap around,
numbers of different types that compare by value, and no order for what is not a number.

`functions.py` names these by overload; `compiler.py` picks them where it knows the types.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from stowplan.cel.errors import Aborted, CostExceeded, EvaluationError, no_such_overload
from stowplan.cel.values import (
    ELEMENTS_MAX,
    Duration,
    KubernetesValue,
    Optional,
    Timestamp,
    UInt,
    Value,
    as_int,
    as_uint,
    bounded,
    map_key,
)

NUMBERS = (int, UInt, float)
_NANOS = 10**9
DURATION_MIN, DURATION_MAX = -(2**63), 2**63 - 1
TIMESTAMP_MIN, TIMESTAMP_MAX = -62_135_596_800 * _NANOS, 253_402_300_800 * _NANOS - 1


def equal(one: Value, other: Value) -> bool:
    """Whatever is of another type is not equal, except that a Kubernetes value on the left side
    only compares with its own kind.
    """
    kind = type(one)
    if kind is type(other):
        if kind in _PLAIN:
            return one == other
        if isinstance(one, list | dict | Optional):
            return _Comparison().equal(one, other)
        if isinstance(one, KubernetesValue):
            return one.equals(other)
        return one == other
    if one is None or other is None:
        return False
    if isinstance(one, KubernetesValue):
        raise no_such_overload()
    if kind in NUMBERS and type(other) in NUMBERS:
        return one == other
    if isinstance(one, dict) and isinstance(other, dict):
        return _Comparison().equal(one, other)
    return False


_PLAIN = frozenset({str, int, bool, float, bytes, UInt, type(None), Duration, Timestamp})


class _Comparison:
    """Of collections, which may share parts and be larger than they look: a bound is kept."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = ELEMENTS_MAX

    def equal(self, one: Value, other: Value) -> bool:
        if isinstance(one, list) and isinstance(other, list):
            return len(one) == len(other) and all(map(self._inside, one, other))
        if isinstance(one, dict) and isinstance(other, dict):
            return len(one) == len(other) and all(
                key in other and self._inside(value, other[key]) for key, value in one.items()
            )
        if isinstance(one, Optional) and isinstance(other, Optional):
            if not (one.present and other.present):
                return one.present == other.present
            return self.equal(one.value, other.value)
        return equal(one, other)

    def _inside(self, one: Value, other: Value) -> bool:
        """Inside of a collection, what cannot be compared is not told apart."""
        self._left -= 1
        if self._left < 0:
            raise CostExceeded
        try:
            return self.equal(one, other)
        except Aborted:
            raise
        except EvaluationError:
            return True


def surely_equal(one: Value, other: Value) -> bool:
    """Where one is looked for among others, what cannot be compared is another one."""
    try:
        return equal(one, other)
    except Aborted:
        raise
    except EvaluationError:
        return False


def contains(value: Value, container: Value) -> bool:
    if isinstance(container, dict):
        return map_key(value) in container
    if isinstance(container, list):
        return any(surely_equal(value, it) for it in container)
    raise no_such_overload()


ORDERED = (str, int, float, bool, UInt, bytes, Duration, Timestamp)
Compare = Callable[[Value, Value], bool]


def ordering(symbol: str, compare: Callable[[Any, Any], bool]) -> Compare:
    def compared(one: Value, other: Value) -> bool:
        kind, other_kind = type(one), type(other)
        if kind is other_kind and kind in (str, int):
            return compare(one, other)
        if kind not in ORDERED:
            raise no_such_overload(symbol)
        if kind is other_kind:
            if isinstance(one, Duration | Timestamp):
                assert isinstance(other, Duration | Timestamp)
                return compare(one.nanos, other.nanos)
        elif not (kind in NUMBERS and other_kind in NUMBERS):
            raise no_such_overload()
        if one != one or other != other:
            raise EvaluationError("NaN values cannot be ordered")
        return compare(one, other)

    return compared


less = ordering("_<_", operator.lt)
less_equals = ordering("_<=_", operator.le)
greater = ordering("_>_", operator.gt)
greater_equals = ordering("_>=_", operator.ge)


def add(one: Value, other: Value) -> Value:
    kind = type(one)
    if kind is type(other):
        if kind is int:
            return as_int(one + other)  # type: ignore[operator]
        if kind in (str, float, bytes):
            return one + other  # type: ignore[operator]
        if isinstance(one, list) and isinstance(other, list):
            bounded(len(one) + len(other))
            return one + other
        if kind is UInt:
            return as_uint(int(one) + int(other))  # type: ignore[call-overload]
    if isinstance(one, Duration):
        if isinstance(other, Duration):
            return duration(one.nanos + other.nanos)
        if isinstance(other, Timestamp):
            return timestamp(one.nanos + other.nanos)
        raise no_such_overload()
    if isinstance(one, Timestamp):
        if isinstance(other, Duration):
            return timestamp(one.nanos + other.nanos)
        raise no_such_overload()
    raise no_such_overload() if kind in _ADDED else lacking(one, "_+_")


_ADDED = (str, int, float, UInt, bytes, list)


def subtract(one: Value, other: Value) -> Value:
    kind = type(one)
    if kind is type(other):
        if kind is int:
            return as_int(one - other)  # type: ignore[operator]
        if kind is float:
            return one - other  # type: ignore[operator]
        if kind is UInt:
            return as_uint(int(one) - int(other))  # type: ignore[call-overload]
    if isinstance(one, Duration):
        if isinstance(other, Duration):
            return duration(one.nanos - other.nanos)
        raise no_such_overload()
    if isinstance(one, Timestamp):
        if isinstance(other, Duration):
            return timestamp(one.nanos - other.nanos)
        if isinstance(other, Timestamp):
            return duration(one.nanos - other.nanos)
        raise no_such_overload()
    raise no_such_overload() if kind in NUMBERS else lacking(one, "_-_")


def multiply(one: Value, other: Value) -> Value:
    kind = _same_numbers(one, other, "_*_")
    if kind is int:
        return as_int(one * other)  # type: ignore[operator]
    if kind is float:
        return one * other  # type: ignore[operator]
    return as_uint(int(one) * int(other))  # type: ignore[call-overload]


def divide(one: Value, other: Value) -> Value:
    kind = _same_numbers(one, other, "_/_")
    if kind is float:
        return _divide_floats(one, other)  # type: ignore[arg-type]
    if other == 0:
        raise EvaluationError("division by zero")
    if kind is int:
        return as_int(_truncated(one, other))  # type: ignore[arg-type]
    return UInt(int(one) // int(other))  # type: ignore[call-overload]


def modulo(one: Value, other: Value) -> Value:
    kind = type(one)
    if kind not in (int, UInt):
        raise lacking(one, "_%_")
    if kind is not type(other):
        raise no_such_overload()
    if other == 0:
        raise EvaluationError("modulus by zero")
    assert isinstance(one, int)
    assert isinstance(other, int)
    if kind is UInt:
        return UInt(int(one) % int(other))
    as_int(_truncated(one, other))
    return one - other * _truncated(one, other)


def negate(value: Value) -> Value:
    if type(value) is int:
        return as_int(-value)
    if type(value) is float:
        return -value
    if isinstance(value, Duration):
        return duration(-value.nanos)
    raise no_such_overload() if isinstance(value, bool) else lacking(value, "-_")


def logical_not(value: Value) -> bool:
    if value is True or value is False:
        return not value
    raise no_such_overload()


def _same_numbers(one: Value, other: Value, symbol: str) -> type:
    kind = type(one)
    if kind not in NUMBERS:
        raise lacking(one, symbol)
    if kind is not type(other):
        raise no_such_overload()
    return kind


def lacking(value: Value, function: str) -> EvaluationError:
    """The value cannot do that; some types say less about it than others."""
    named = not isinstance(value, str | Timestamp | Duration)
    return no_such_overload(function if named else "")


def _truncated(one: int, other: int) -> int:
    """Towards zero, unlike Python."""
    quotient = abs(one) // abs(other)
    return quotient if (one < 0) == (other < 0) else -quotient


def _divide_floats(one: float, other: float) -> float:
    if other:
        return one / other
    if one == 0 or math.isnan(one):
        return math.nan
    return math.copysign(math.inf, one) * math.copysign(1.0, other)


def duration(nanos: int) -> Duration:
    if DURATION_MIN <= nanos <= DURATION_MAX:
        return Duration(nanos)
    raise EvaluationError("integer overflow")


def timestamp(nanos: int) -> Timestamp:
    if TIMESTAMP_MIN <= nanos <= TIMESTAMP_MAX:
        return Timestamp(nanos)
    raise EvaluationError("timestamp overflow")
