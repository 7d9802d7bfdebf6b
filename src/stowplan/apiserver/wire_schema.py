"""Every field of the served kinds, with its type and its protobuf number, from `wire_schema.txt`.

The structs hold what scheduling reads; this table knows the rest by name.  `conforming` reads
bodies by it and writes what an object must show, `http.protobuf` decodes with it, `http.openapi`
describes it to kubectl.  The file is written by `tests/apiserver/write_wire_schema.py` and read
when first needed.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import NamedTuple

QUANTITY = "quantity.Quantity"
INT_OR_STRING = "intstr.IntOrString"
TIMES = frozenset({"meta.Time", "meta.MicroTime"})
RAW = frozenset({"runtime.RawExtension", "meta.FieldsV1"})
WRAPPED_LISTS = frozenset({"authentication.ExtraValue", "authorization.ExtraValue"})

_FLAGS = "^*%?"


class Field(NamedTuple):
    name: str
    number: int
    flag: str
    """`^` inlined, `*` list, `%` map, `?` pointer: zero is a value; else "": zero is absent."""
    type: str
    """`s` text, `i`, `j` (32 bits) whole number, `b` yes or no, `d` number, `y` bytes, or a
    message's name."""
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
    return message(f"{package}.{kind}")
