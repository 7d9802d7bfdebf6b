"""Quantities: `100m`, `1.5Gi`, `2`, `1e3`, as exact whole numbers of nano-units.

Kubernetes does exact decimal arithmetic and keeps nothing finer than 10⁻⁹, so every quantity is an
integer number of nanos: sums are exact and quick, and rounding happens once, when a sum is turned
into milli-CPU or bytes.  Mirrors apimachinery's `resource.Quantity`.  Everything that counts
resources calls this, through `objects.resources`.
"""

from __future__ import annotations

import re
from functools import lru_cache

from stowplan.objects.base import Quantity

INT64_MAX = 2**63 - 1

_NANO = 10**9
_NANOS_PER_MILLI = 10**6
_EXPONENT_MAX = 64
"""Ten to this power is beyond any machine; the bound keeps `1e999999999` from eating memory."""
_LENGTH_MAX = 512

_GRAMMAR = re.compile(
    r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:([numkMGTPE])|([KMGTPE])i|[eE]([+-]?[0-9]{1,18}))?"
)
_DECIMAL_EXPONENT = {
    "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18
}  # fmt: skip
_BINARY_SHIFT = {"K": 10, "M": 20, "G": 30, "T": 40, "P": 50, "E": 60}

_DECIMAL_SUFFIXES = {power: suffix for suffix, power in _DECIMAL_EXPONENT.items()} | {0: ""}
_BINARY_SUFFIXES = ("", *(f"{suffix}i" for suffix in _BINARY_SHIFT))
_DIGITS_KEPT_MAX = 15

_WHAT_IS_RIGHT = (
    "a quantity is a number with an optional suffix: n u m k M G T P E, Ki Mi Gi Ti Pi Ei, "
    "or an exponent such as e3; for example 100m, 1.5Gi, 2"
)


class QuantityError(ValueError):
    """The text is no quantity; says which text, and what one looks like."""


@lru_cache(maxsize=8192)
def parse_quantity(quantity: Quantity) -> int:
    """The quantity in nanos.  Finer amounts are rounded up, away from zero: who asks gets some.

    >>> parse_quantity("100m"), parse_quantity("1Ki"), parse_quantity(0.5)
    (100000000, 1024000000000, 500000000)
    """
    text = quantity.strip() if isinstance(quantity, str) else repr(quantity)
    match = _GRAMMAR.fullmatch(text) if len(text) <= _LENGTH_MAX else None
    if match is None:
        raise _error(quantity)
    sign, whole, fraction, decimal, binary, exponent = match.groups(default="")
    digits = whole + fraction
    if not digits:
        raise _error(quantity)
    mantissa = int(digits)
    if binary:
        nanos = _divide_up((mantissa << _BINARY_SHIFT[binary]) * _NANO, len(fraction))
        nanos = min(nanos, INT64_MAX * _NANO)
    else:
        power = _DECIMAL_EXPONENT[decimal] if decimal else int(exponent or 0)
        if power > _EXPONENT_MAX and mantissa:
            raise QuantityError(f"{text!r} is too large; {_WHAT_IS_RIGHT}")
        shift = power + 9 - len(fraction)
        nanos = mantissa * 10 ** min(shift, 99) if shift >= 0 else _divide_up(mantissa, -shift)
    return -nanos if sign == "-" else nanos


@lru_cache(maxsize=8192)
def canonical(quantity: Quantity) -> str:
    """The quantity as an API server writes it: the largest suffix without a fraction.

    >>> canonical("0.5Gi"), canonical("1000m"), canonical(1.5), canonical("1e4"), canonical("0.0")
    ('512Mi', '1', '1500m', '10e3', '0')
    """
    nanos = parse_quantity(quantity)
    text = quantity.strip() if isinstance(quantity, str) else repr(quantity)
    match = _GRAMMAR.fullmatch(text)
    assert match is not None, "it was parsed"
    _, whole, fraction, decimal, binary, exponent = match.groups(default="")
    digits = (whole.lstrip("0") or "0") + fraction
    if len(digits) <= _DIGITS_KEPT_MAX and _is_canonical(digits, fraction, match):
        return text
    if nanos == 0:
        return "0"
    value, remainder = divmod(nanos, _NANO)
    if binary and remainder == 0 and abs(value) >= 1024:
        value, times = _factors_out(value, 1024)
        return f"{value}{_BINARY_SUFFIXES[times]}"
    value, times = _factors_out(nanos, 10)
    power = times - 9
    value, power = value * 10 ** (power % 3), power - power % 3
    if exponent and not decimal:
        return f"{value}e{power}" if power else str(value)
    return f"{value}{_DECIMAL_SUFFIXES[min(power, 18)]}"


def _is_canonical(digits: str, fraction: str, match: re.Match[str]) -> bool:
    """Whether the text is kept as it came: upstream's rule, which looks at its shape alone."""
    *_, decimal, binary, exponent = match.groups(default="")
    if binary:
        return not fraction and int(digits) % 8 != 0
    scale = (_DECIMAL_EXPONENT[decimal] if decimal else int(exponent or 0)) - len(fraction)
    plain = scale >= -9 and scale % 3 == 0
    return plain and not digits.endswith("000") and digits[0] != "0"


def _factors_out(value: int, base: int) -> tuple[int, int]:
    times = 0
    while value % base == 0 and abs(value) >= base:
        value //= base
        times += 1
    return value, times


def ceil_value(nanos: int) -> int:
    """Whole units, rounded away from zero: upstream's `Value()`.

    Beyond 64 bits, where upstream's answer has no meaning, it stays at the largest number.
    """
    return _ceil(nanos, _NANO)


def ceil_milli(nanos: int) -> int:
    """Thousandths, rounded away from zero: upstream's `MilliValue()`."""
    return _ceil(nanos, _NANOS_PER_MILLI)


def _ceil(nanos: int, unit: int) -> int:
    if nanos < 0:
        return max(nanos // unit, -INT64_MAX)
    return min(-(-nanos // unit), INT64_MAX)


def _divide_up(value: int, places: int) -> int:
    """Ceiling of `value` / 10**`places`, for `value` >= 0."""
    if places == 0:
        return value
    # More places than digits give 1 (or 0) whatever their number.
    divisor: int = 10 ** min(places, value.bit_length() + 1)
    return -(-value // divisor)


def _error(quantity: Quantity) -> QuantityError:
    shown = repr(quantity)
    if len(shown) > 80:
        shown = f"{shown[:77]}…"
    return QuantityError(f"{shown} is not a quantity; {_WHAT_IS_RIGHT}")
