"""Quantities as values of expressions, and the functions on them.

The amount is exact, in nanos (`objects/quantity.py`).  Whether a quantity "is an integer" depends
on how it was written: upstream keeps short decimals as a 64-bit number and a power of ten and says
yes only if that power is not negative; everything else it keeps as a big decimal and says no.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from stowplan.cel.errors import EvaluationError, no_such_overload
from stowplan.cel.values import INT_MAX, INT_MIN, Implementation, KubernetesValue
from stowplan.objects.quantity import INT64_MAX, QuantityError, parse_quantity

_FORMAT = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_SUFFIX = "unable to parse quantity's suffix"
_PARTS = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(.*)", re.DOTALL)
_SUFFIXES = re.compile(r"[numkMGTPE]?|[KMGTPE]i|[eE][+-]?[0-9]+")
_SUFFIX_LETTERS = re.compile(r"[eEinumkKMGTP]*[-+]?[0-9]*")
_POWERS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SHIFTS = {"K": 10, "M": 20, "G": 30, "T": 40, "P": 50, "E": 60}
_DIGITS_MAX = 18
_LENGTH_MAX = 512


@dataclass(frozen=True, slots=True, eq=False)
class Quantity(KubernetesValue):
    nanos: int
    digits: int | None = None
    """With `power`, the amount as a number times a power of ten; None if it is a big decimal."""
    power: int = 0
    computed: bool = False
    """Upstream cannot compare anything with a sum or difference on the right side."""
    text: str = ""
    """As it was written."""

    cel_type = "kubernetes.Quantity"
    go_type = "*resource.Quantity"

    def equals(self, other: object) -> bool:
        assert isinstance(other, Quantity)
        if other.computed:
            raise no_such_overload()
        return self.nanos == other.nanos

    def as_integer(self) -> int | None:
        if self.digits is None or self.power < 0:
            return None
        value: int = self.digits * 10**self.power
        return value if INT_MIN <= value <= INT_MAX else None

    def plus(self, other: Quantity, sign: int = 1) -> Quantity:
        digits, power = self._sum(other, sign)
        if digits is None:
            return Quantity(self.nanos + sign * other.nanos, computed=True)
        return Quantity(digits * 10 ** (9 + power), digits, power, computed=True)

    def _sum(self, other: Quantity, sign: int) -> tuple[int | None, int]:
        if self.digits is None or other.digits is None:
            return None, 0
        if other.digits == 0:
            return self.digits, self.power
        if self.digits == 0:
            return sign * other.digits, other.power
        power = min(self.power, other.power)
        if sign < 0 and other.digits == INT_MIN:
            sign = 1  # Its negative is itself, in 64 bits.
        mine = self.digits * 10 ** (self.power - power)
        theirs = sign * other.digits * 10 ** (other.power - power)
        if all(INT_MIN <= it <= INT_MAX for it in (mine, theirs, mine + theirs)):
            return mine + theirs, power
        return None, 0

    def __str__(self) -> str:
        return self.text or f"{self.nanos}n"

    def as_float(self) -> float:
        if self.digits is None:
            return self.nanos / 10**9
        return self.digits * float(f"1e{self.power}")


@lru_cache(maxsize=4096)
def parse(text: str) -> Quantity:
    match = _PARTS.match(text) if len(text) <= _LENGTH_MAX else None
    if not text or match is None:
        raise EvaluationError(_FORMAT)
    sign, whole, fraction, suffix = match.groups(default="")
    if not _SUFFIX_LETTERS.fullmatch(suffix):
        raise EvaluationError(_FORMAT)
    if not _SUFFIXES.fullmatch(suffix):
        raise EvaluationError(_SUFFIX)
    if not whole and not fraction and not suffix:
        return Quantity(0, 0)
    try:
        nanos = parse_quantity(f"{sign}{whole or '0'}.{fraction}{suffix}")
    except QuantityError:
        # Larger than anything that is compared with it, and equal to others of its kind.
        nanos = INT64_MAX * 10**64 * (-1 if sign == "-" else 1)
    number = int(f"{whole}{fraction}" or "0") * (-1 if sign == "-" else 1)
    return Quantity(nanos, *_short(number, whole, fraction, suffix), text=text)


def _short(number: int, whole: str, fraction: str, suffix: str) -> tuple[int | None, int]:
    if suffix.endswith("i"):
        shift = _SHIFTS[suffix[0]]
        room = 15 - len(whole) - shift * 3 // 10 - 1
        return (None, 0) if fraction or room < 0 else (number << shift, 0)
    power = _POWERS[suffix] if suffix in _POWERS else int(suffix[1:])
    power -= len(fraction)
    if len(whole) + len(fraction) > _DIGITS_MAX or power < -9:
        return None, 0
    return number, power


def is_quantity(text: str) -> bool:
    try:
        parse(text)
    except EvaluationError:
        return False
    return True


def compare(one: Quantity, other: Quantity) -> int:
    return (one.nanos > other.nanos) - (one.nanos < other.nanos)


def as_integer(value: Quantity) -> int:
    found = value.as_integer()
    if found is None:
        raise EvaluationError("cannot convert value to integer")
    return found


def of_int(value: int) -> Quantity:
    return Quantity(value * 10**9, value)


FUNCTIONS: dict[str, Implementation] = {
    "string_to_quantity": parse,
    "is_quantity_string": is_quantity,
    "quantity_add": Quantity.plus,
    "quantity_add_int": lambda one, other: one.plus(of_int(other)),
    "quantity_sub": lambda one, other: one.plus(other, -1),
    "quantity_sub_int": lambda one, other: one.plus(of_int(other), -1),
    "quantity_get_float": Quantity.as_float,
    "quantity_get_int": as_integer,
    "quantity_is_integer": lambda value: value.as_integer() is not None,
    "quantity_compare_to": compare,
    "quantity_is_greater_than": lambda one, other: one.nanos > other.nanos,
    "quantity_is_less_than": lambda one, other: one.nanos < other.nanos,
    "quantity_sign": lambda value: (value.nanos > 0) - (value.nanos < 0),
}
