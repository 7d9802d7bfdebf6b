"""Conversions: `int("3")`, `string(1.5)`, `timestamp("…")` and their like."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from stowplan.cel.errors import EvaluationError
from stowplan.cel.times import (
    duration_text,
    of_seconds,
    parse_duration,
    parse_timestamp,
    timestamp_text,
)
from stowplan.cel.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    Duration,
    Timestamp,
    TypeValue,
    UInt,
    Value,
    as_int,
    as_uint,
    type_name,
)

_BOOLS = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
_SIGNED = re.compile(r"[+-]?[0-9]+")
_UNSIGNED = re.compile(r"[0-9]+")
_FLOAT = re.compile(r"[+-]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)?")
_HEX_FLOAT = re.compile(r"[+-]?0[xX][0-9a-fA-F]*\.?[0-9a-fA-F]*[pP][+-]?[0-9]+")
_NAMED_FLOATS = {"inf": math.inf, "infinity": math.inf, "nan": math.nan}
_DIGITS_MAX = 400
_EXPONENT_FROM = 6


def _unconvertible(value: Value, wanted: str) -> EvaluationError:
    return EvaluationError(f"type conversion error from '{type_name(value)}' to '{wanted}'")


def string_to_bool(text: str) -> bool:
    if text not in _BOOLS:
        raise _unconvertible(text, "bool")
    return _BOOLS[text]


def string_to_int(text: str) -> int:
    if _SIGNED.fullmatch(text) and len(text) <= _DIGITS_MAX and INT_MIN <= int(text) <= INT_MAX:
        return int(text)
    raise _unconvertible(text, "int")


def double_to_int(value: float) -> int:
    if not INT_MIN < value < INT_MAX:
        raise EvaluationError("integer overflow")
    return as_int(math.trunc(value))


def string_to_uint(text: str) -> UInt:
    if _UNSIGNED.fullmatch(text) and len(text) <= _DIGITS_MAX and int(text) <= UINT_MAX:
        return UInt(text)
    raise _unconvertible(text, "uint")


def double_to_uint(value: float) -> UInt:
    if not 0 <= value < UINT_MAX:
        raise EvaluationError("unsigned integer overflow")
    return UInt(math.trunc(value))


def string_to_double(text: str) -> float:
    sign = -1.0 if text[:1] == "-" else 1.0
    named = _NAMED_FLOATS.get(text.lstrip("+-").lower()) if len(text) < 10 else None
    if named is not None and text[:2] not in ("--", "++", "+-", "-+"):
        return sign * named
    try:
        found = math.inf
        if _FLOAT.fullmatch(text):
            found = float(text)
        elif _HEX_FLOAT.fullmatch(text):
            found = float.fromhex(text)
    except (ValueError, OverflowError):
        found = math.inf
    if math.isinf(found):
        raise _unconvertible(text, "double")
    return found


def double_text(value: float) -> str:
    """The shortest text that gives the number again; with an exponent from a million on."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "-0" if math.copysign(1.0, value) < 0 else "0"
    mantissa, _, exponent = f"{value!r}e0".partition("e")
    power = int(exponent.partition("e")[0])
    sign = "-" if mantissa[0] == "-" else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = f"{whole}{fraction}"
    power += len(whole) - 1 - (len(digits) - len(digits.lstrip("0")))
    digits = digits.strip("0")
    if -4 <= power < _EXPONENT_FROM:
        if power < 0:
            return f"{sign}0.{'0' * (-power - 1)}{digits}"
        padded = digits.ljust(power + 1, "0")
        rest = padded[power + 1 :]
        return f"{sign}{padded[: power + 1]}" + (f".{rest}" if rest else "")
    point = f".{digits[1:]}" if digits[1:] else ""
    return f"{sign}{digits[0]}{point}e{'-' if power < 0 else '+'}{abs(power):02}"


def bytes_to_string(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None


def string_to_duration(text: str) -> Duration:
    found = parse_duration(text)
    if found is None:
        raise _unconvertible(text, "google.protobuf.Duration")
    return found


def int_to_duration(value: int) -> Duration:
    raise _unconvertible(value, "google.protobuf.Duration")


def string_to_timestamp(text: str) -> Timestamp:
    found = parse_timestamp(text)
    if found is None:
        raise _unconvertible(text, "google.protobuf.Timestamp")
    return found


def int_to_timestamp(seconds: int) -> Timestamp:
    found = of_seconds(seconds)
    if found is None:
        raise EvaluationError("timestamp overflow")
    return found


def _same(value: Value) -> Value:
    return value


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "bool_to_bool": _same,
    "string_to_bool": string_to_bool,
    "bytes_to_bytes": _same,
    "string_to_bytes": str.encode,
    "double_to_double": _same,
    "int64_to_double": float,
    "uint64_to_double": float,
    "string_to_double": string_to_double,
    "duration_to_duration": _same,
    "int64_to_duration": int_to_duration,
    "string_to_duration": string_to_duration,
    "to_dyn": _same,
    "int64_to_int64": _same,
    "double_to_int64": double_to_int,
    "duration_to_int64": lambda value: value.nanos,
    "string_to_int64": string_to_int,
    "timestamp_to_int64": lambda value: value.nanos // 10**9,
    "uint64_to_int64": lambda value: as_int(int(value)),
    "string_to_string": _same,
    "bool_to_string": lambda value: "true" if value else "false",
    "bytes_to_string": bytes_to_string,
    "double_to_string": double_text,
    "duration_to_string": duration_text,
    "int64_to_string": str,
    "timestamp_to_string": timestamp_text,
    "uint64_to_string": lambda value: str(int(value)),
    "ip_to_string": str,
    "cidr_to_string": str,
    "timestamp_to_timestamp": _same,
    "int64_to_timestamp": int_to_timestamp,
    "string_to_timestamp": string_to_timestamp,
    "type": lambda value: TypeValue(type_name(value)),
    "uint64_to_uint64": _same,
    "double_to_uint64": double_to_uint,
    "int64_to_uint64": as_uint,
    "string_to_uint64": string_to_uint,
}
