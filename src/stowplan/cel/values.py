"""The values of expressions, as Python sees them.

bool, int, float, str, bytes, None, list and dict stand for themselves; the rest is here, except
for what a library alone makes (`quantities.py`, `semver.py`, `network.py`, `formats.py`).  A dict's
keys are as `map_key` makes them, because Python takes True and 1 for the same key.
`type_name` is what `type()` and messages call a value's type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stowplan.cel.errors import Aborted, CostExceeded, EvaluationError

INT_MIN, INT_MAX = -(2**63), 2**63 - 1
UINT_MAX = 2**64 - 1

Value = object

TEXT_MAX = 10_000_000
"""Characters, and"""
ELEMENTS_MAX = 1_000_000
"""elements that anything may grow to: a few operations are cheaper than what they make is large."""


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


@dataclass(frozen=True, slots=True)
class Failure:
    """Inside of an optional: that it cannot be taken out."""

    message: str


class KubernetesValue:
    """A value of a Kubernetes library: comparing it with another type is an error."""

    __slots__ = ()
    cel_type = ""
    go_type = ""
    """Upstream's name of what is inside, which some of its messages show."""
    hashable = True

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


def bounded(size: int, largest: int = ELEMENTS_MAX) -> None:
    if size > largest:
        raise CostExceeded


def map_key(value: Value) -> Value:
    """How a key is kept: equal numbers of any type are one key, and True is not 1."""
    if value is True or value is False:
        return BoolKey(value)
    if isinstance(value, list | dict):
        return CollectionKey(value)
    if isinstance(value, bytes) or (isinstance(value, KubernetesValue) and not value.hashable):
        problem = f"hash of unhashable type {go_name(value)}"
        raise Aborted(f"internal error: runtime error: {problem}")
    return value


def from_key(key: Value) -> Value:
    return key.value if isinstance(key, BoolKey | CollectionKey) else key


def elements(of: Value) -> list[Value]:
    """What a loop goes over: the elements of a list, the keys of a map."""
    if isinstance(of, list):
        return of
    if isinstance(of, dict):
        return [from_key(key) for key in of]
    raise EvaluationError(f"got '{go_name(of)}', expected iterable type")


def go_name(value: Value) -> str:
    """Upstream's name of the type, which some of its messages show."""
    if isinstance(value, dict):
        return "*types.baseMap"
    if isinstance(value, KubernetesValue):
        return f"cel.{type_name(value).rpartition('.')[2].removeprefix('Named')}"
    if isinstance(value, Optional):
        return "*types.Optional"
    short = type_name(value).removeprefix("google.protobuf.").removesuffix("_type")
    return f"types.{short[:1].upper()}{short[1:]}"


Implementation = Callable[..., Value]


def go_quoted(text: str) -> str:
    """As Go's `%q` writes it."""
    shown = [_ESCAPES.get(it) or (it if it.isprintable() else _escaped(it)) for it in text]
    return f'"{"".join(shown)}"'


_ESCAPES = {
    '"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r",
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\v": "\\v",
}  # fmt: skip


def _escaped(character: str) -> str:
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
