"""Every field of the served kinds, with its type and its protobuf number, from `wire_schema.txt`.

The structs hold what scheduling reads; this table knows the rest by name.  `conforming` reads
bodies by it and writes what an object must show, `http.protobuf` decodes with it, `http.openapi`
describes it to kubectl.  The file is written by `tests/apiserver/write_wire_schema.py` and read
when first needed.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

QUANTITY = "quantity.Quantity"
INT_OR_STRING = "intstr.IntOrString"
TIMES = frozenset({"meta.Time", "meta.MicroTime"})
RAW = frozenset({"runtime.RawExtension", "meta.FieldsV1"})
WRAPPED_LISTS = frozenset({"authentication.ExtraValue", "authorization.ExtraValue"})

_FLAGS = "^*%?"
_DIFFERENCES = {"resourcebeta1": "resource", "resourcebeta2": "resource"}
"""Of these versions only what differs from another one is written down."""


class Field(NamedTuple):
    name: str
    number: int
    flag: str
    """`^` inlined, `*` list, `%` map, `?` pointer: zero is a value; else "": zero is absent."""
    type: str
    """`s` text, `i`, `j` (32 bits) whole number, `b` yes or no, `y` bytes, or a message's name."""
    always: bool
    """JSON shows it even where it is empty."""


class Message(NamedTuple):
    name: str
    by_number: dict[int, Field]
    by_name: dict[str, Field]
    """As JSON has them: inlined messages are spread out."""


@cache
def _lines() -> dict[str, str]:
    text = files(__package__).joinpath("wire_schema.txt").read_text()
    return dict(line.partition(" ")[::2] for line in text.splitlines())


@cache
def message(name: str) -> Message | None:
    line = _lines().get(name)
    if line is None:
        return None
    fields = [_field(word) for word in line.split()]
    by_name: dict[str, Field] = {}
    for field in fields:
        inlined = message(field.type) if field.flag == "^" else None
        if inlined is not None:
            by_name |= inlined.by_name
        else:
            by_name[field.name] = field
    return Message(name, {field.number: field for field in fields}, by_name)


def _field(word: str) -> Field:
    always = word[0] == "!"
    word = word.removeprefix("!")
    flag = word[0] if word[0] in _FLAGS else ""
    name, _, rest = word[len(flag) :].partition("=")
    digits = len(rest) - len(rest.lstrip("0123456789"))
    return Field(name, int(rest[:digits]), flag, rest[digits:].removeprefix(":"), always)


def message_of(api_version: str, kind: str) -> Message | None:
    """The message of a kind, or None when it is not known here."""
    if kind == "DeleteOptions":
        return message("meta.DeleteOptions")
    group, _, version = api_version.rpartition("/")
    package = f"{group.partition('.')[0] or 'core'}{version.removeprefix('v').removeprefix('1')}"
    found = message(f"{package}.{kind}")
    if found is None and package in _DIFFERENCES:
        found = message(f"{_DIFFERENCES[package]}.{kind}")
    return found


_NAMES_INSIDE = {
    "cel": "CEL", "ips": "IPs", "uid": "UID", "apiGroup": "APIGroup",
    **{name: f"{name.capitalize()}Value" for name in ("int", "bool", "string", "version")},
    **{f"{name}s": f"{name.capitalize()}Values" for name in ("int", "bool", "string", "version")},
}  # fmt: skip
_ZEROS: dict[str, Any] = {"s": "", "i": 0, "j": 0, "b": False, QUANTITY: "0"}


def internal_form(name: str, value: Any) -> Any:
    """A value of this message as kube-apiserver shows it where it refuses it.

    Its own types have all their fields, under Go's names.
    """
    known = message(name)
    if known is None or not isinstance(value, dict):
        return value
    if name == "meta.ObjectMeta":
        return {key: text for key, text in value.items() if text}
    shown: dict[str, Any] = {}
    for field in known.by_name.values():
        found, type_ = value.get(field.name), field.type
        if type_ == "meta.ObjectMeta":
            shown |= internal_form(type_, found or {})
            continue
        if found is None:
            inner = message(type_) is not None and not field.flag
            found = {} if inner else None if field.flag else _ZEROS.get(type_)
        if field.flag == "*" and found is not None:
            found = [internal_form(type_, it) for it in found]
        elif field.flag == "%" and found is not None:
            found = {key: internal_form(type_, found[key]) for key in sorted(found)}
        elif found is not None:
            found = internal_form(type_, found)
        called = _NAMES_INSIDE.get(field.name) or field.name[0].upper() + field.name[1:]
        shown[called] = found
    return shown
