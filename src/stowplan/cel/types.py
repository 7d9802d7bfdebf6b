"""Static types, and which type may stand for which.

`Substitution` holds what is known of type parameters while an expression is checked.  `checker.py`
uses both; `declarations.py` writes the types of functions as text, read by `parse_type`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Type:
    kind: str
    name: str
    """As it is written: `list`, `int`, `kubernetes.Quantity`, or a parameter's name."""
    parameters: tuple[Type, ...] = ()

    def __str__(self) -> str:
        return _text(self, _LONG_NAMES)

    def shown(self) -> str:
        """As messages of the checker write it."""
        return _text(self, _SHORT_NAMES)


def _text(of: Type, names: dict[str, str]) -> str:
    name = names.get(of.kind, of.name)
    if not of.parameters:
        return name
    return f"{name}({', '.join(_text(it, names) for it in of.parameters)})"


_LONG_NAMES = {"error": "*error*", "any": "google.protobuf.Any"}
_SHORT_NAMES = {
    "duration": "duration",
    "timestamp": "timestamp",
    "null": "null",
    "error": "!error!",
}

BOOL = Type("bool", "bool")
INT = Type("int", "int")
UINT = Type("uint", "uint")
DOUBLE = Type("double", "double")
STRING = Type("string", "string")
BYTES = Type("bytes", "bytes")
NULL = Type("null", "null_type")
DURATION = Type("duration", "google.protobuf.Duration")
TIMESTAMP = Type("timestamp", "google.protobuf.Timestamp")
DYN = Type("dyn", "dyn")
ANY = Type("any", "any")
ERROR = Type("error", "error")
TYPE = Type("type", "type")
DEVICE = Type("struct", "kubernetes.DRADevice")
QUANTITY = Type("struct", "kubernetes.Quantity")

SIMPLE = {
    it.name: it
    for it in (BOOL, INT, UINT, DOUBLE, STRING, BYTES, NULL, DURATION, TIMESTAMP, DYN, ANY)
}
_OPAQUE = {"net.IP", "net.CIDR", "optional_type"}


def list_of(element: Type) -> Type:
    return Type("list", "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", "map", (key, value))


def optional_of(value: Type) -> Type:
    return Type("opaque", "optional_type", (value,))


def type_of(value: Type) -> Type:
    return Type("type", "type", (value,))


def parameter(name: str) -> Type:
    return Type("parameter", name)


def parse_type(text: str) -> Type:
    """Single capital letters are type parameters.

    >>> str(parse_type("map(string, list(A))"))
    'map(string, list(A))'
    """
    name, _, rest = text.strip().partition("(")
    if rest:
        return named_type(name, [parse_type(part) for part in split_types(rest[:-1])])
    return named_type(name, [])


def split_types(text: str) -> list[str]:
    """At the commas outside of parentheses."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def named_type(name: str, parameters: list[Type]) -> Type:
    if name in SIMPLE:
        return SIMPLE[name]
    if name in ("list", "map", "type"):
        return Type(name, name, tuple(parameters))
    if len(name) == 1:
        return parameter(name)
    return Type("opaque" if name in _OPAQUE else "struct", name, tuple(parameters))


def is_dyn(of: Type) -> bool:
    return of.kind in ("dyn", "any")


def unwrap_optional(of: Type) -> tuple[Type, bool]:
    if of.name == "optional_type" and of.kind == "opaque":
        return of.parameters[0], True
    return of, False


def is_as_general(one: Type, other: Type) -> bool:
    if is_dyn(one) or one.kind == "parameter":
        return True
    if is_dyn(other) or other.kind == "parameter" or one.kind != other.kind:
        return False
    if one.kind == "type":
        return True
    if one.kind in ("opaque", "list", "map"):
        return (
            one.name == other.name
            and len(one.parameters) == len(other.parameters)
            and all(map(is_as_general, one.parameters, other.parameters))
        )
    return one == other


def more_general(one: Type, other: Type) -> Type:
    return one if is_as_general(one, other) else other


_NULLABLE = {"opaque", "struct", "any", "duration", "timestamp", "null"}


class Substitution:
    """What the type parameters met so far stand for."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[Type, Type] = {}

    def assign(self, ones: list[Type], others: list[Type]) -> bool:
        """Whether each type may stand for its counterpart; what that says of parameters is kept."""
        kept = dict(self._known)
        if len(ones) == len(others) and all(map(self._assignable, ones, others)):
            return True
        self._known = kept
        return False

    def apply(self, to: Type, *, free_as_dyn: bool = False) -> Type:
        while to in self._known:
            to = self._known[to]
        if to.kind == "parameter":
            return DYN if free_as_dyn else to
        if not to.parameters:
            return to
        inner = tuple(self.apply(it, free_as_dyn=free_as_dyn) for it in to.parameters)
        return Type(to.kind, to.name, inner)

    def _assignable(self, one: Type, other: Type) -> bool:
        if other.kind == "parameter":
            decided = self._bind(other, one)
            if decided is not None:
                return decided
        if one.kind == "parameter":
            return self._bind(one, other) is True
        if is_dyn(one) or is_dyn(other) or "error" in (one.kind, other.kind):
            return True
        if one.kind == "null":
            return other.kind in _NULLABLE
        if other.kind == "null":
            return one.kind in _NULLABLE
        if one.kind == "type":
            return other.kind == "type"
        if one.kind in ("opaque", "list", "map"):
            return (
                one.name == other.name
                and len(one.parameters) == len(other.parameters)
                and all(map(self._assignable, one.parameters, other.parameters))
            )
        return one == other

    def _bind(self, free: Type, value: Type) -> bool | None:
        """True if `free` may stand for `value`, False if it stands for something else already,
        None if it would contain itself.
        """
        if free == value:
            return True
        known = self._known.get(free)
        if known is not None:
            if known == value:
                return True
            if not self._assignable(value, known):
                return False
            general = more_general(value, known)
            if not self._contains(general, free):
                self._known[free] = general
            return True
        if self._contains(value, free):
            return None
        self._known[free] = value
        return True

    def _contains(self, within: Type, free: Type) -> bool:
        if within == free:
            return True
        if within.kind == "parameter":
            known = self._known.get(within)
            return known is not None and self._contains(known, free)
        return any(self._contains(it, free) for it in within.parameters)
