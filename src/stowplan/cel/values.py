"""The values of expressions, as Python sees them.

bool, int, float, str, bytes, None, list and dict stand for themselves; the rest is here, except
for what a library alone makes (`quantities.py`, `semver.py`, `network.py`, `formats.py`).  A dict's
keys are as `map_key` makes them, because Python takes True and 1 for the same key.
`type_name` is what `type()` and messages call a value's type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stowplan.cel.errors import EvaluationError

INT_MIN, INT_MAX = -(2**63), 2**63 - 1
UINT_MAX = 2**64 - 1

Value = object


class UInt(int):
    """An unsigned integer."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class TypeValue:
    """What `type(x)` gives."""

    name: str


@dataclass(frozen=True, slots=True)
class BoolKey:
    """True or False as the key of a map."""

    value: bool


@dataclass(frozen=True, slots=True, eq=False)
class CollectionKey:
    """A list or map as the key of a map: equal to nothing but itself."""

    value: Value


@dataclass(frozen=True, slots=True)
class Duration:
    nanos: int


@dataclass(frozen=True, slots=True)
class Timestamp:
    """Nanoseconds since 1970 in UTC."""

    nanos: int


@dataclass(frozen=True, slots=True)
class Optional:
    value: Value = None
    present: bool = False


NONE = Optional()


class KubernetesValue:
    """A value of a Kubernetes library: comparing it with another type is an error."""

    __slots__ = ()
    cel_type = ""

    def equals(self, other: object) -> bool:
        return self == other


_NAMES: dict[type, str] = {
    bool: "bool",
    int: "int",
    UInt: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    dict: "map",
    TypeValue: "type",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    Optional: "optional_type",
}


def type_name(value: Value) -> str:
    found = _NAMES.get(type(value))
    if found is not None:
        return found
    if isinstance(value, dict):
        return "map"
    assert isinstance(value, KubernetesValue), value
    return value.cel_type


def as_int(value: int) -> int:
    if INT_MIN <= value <= INT_MAX:
        return value
    raise EvaluationError("integer overflow")


def as_uint(value: int) -> UInt:
    if 0 <= value <= UINT_MAX:
        return UInt(value)
    raise EvaluationError("unsigned integer overflow")


def map_key(value: Value) -> Value:
    """How a key is kept: equal numbers of any type are one key, and True is not 1."""
    if value is True or value is False:
        return BoolKey(value)
    if isinstance(value, list | dict):
        return CollectionKey(value)
    return value


def from_key(key: Value) -> Value:
    return key.value if isinstance(key, BoolKey | CollectionKey) else key


def elements(of: Value) -> list[Value]:
    """What a loop goes over: the elements of a list, the keys of a map."""
    if isinstance(of, list):
        return of
    if isinstance(of, dict):
        return [from_key(key) for key in of]
    raise EvaluationError(f"got '{_go_name(of)}', expected iterable type")


def _go_name(value: Value) -> str:
    short = type_name(value).removeprefix("google.protobuf.").removesuffix("_type")
    return f"types.{short[:1].upper()}{short[1:]}"


Implementation = Callable[..., Value]
