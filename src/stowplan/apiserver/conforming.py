"""Bodies as their kind declares them: read by `wire_schema`, with what Go's decoder does to them.

`conform` drops what the kind does not have and names it, refuses values of a wrong type, takes null
and zero for "not given", and writes quantities in their canonical form.  `complete` adds, to an
object that is shown, the fields that are there even when they are empty.  Both walk the schema, so
that a new kind or field is a line of `wire_schema.txt`.  Mirrors apimachinery's `serializer/json`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from functools import cache
from typing import Any

from stowplan.apiserver import wire_schema
from stowplan.apiserver.wire_schema import Field, Message
from stowplan.objects.quantity import QuantityError, canonical, parse_quantity
from stowplan.objects.times import parse_time

Data = dict[str, Any]
Note = Callable[[str], None]

DEPTH_MAX = 200
INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1

_QUANTITY_RULE = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d\.\d{6}([Zz]|[+-]\d\d:\d\d)")
_AMOUNT = "amount"
_OF_EVERY_OBJECT = ("apiVersion", "kind")
# Messages inside others that may say what kind they are.
_TYPED = frozenset({"meta.DeleteOptions"})
_OPAQUE = wire_schema.RAW | wire_schema.WRAPPED_LISTS
_GO_TYPES = {"s": "string", "i": "int64", "j": "int32", "b": "bool", "y": "[]uint8"}


class Malformed(ValueError):
    """A value that no field of this type can hold, worded as Go words it."""


class Twice(dict[str, Any]):
    """A mapping of a body in which keys were said more than once; the last one counts."""

    earlier: list[tuple[str, Any]]


class Conformed(dict[str, Any]):
    """A body that was read by the schema: it need not be again."""


def conform(data: Data, message: Message, note: Note = lambda _: None) -> Conformed:
    """A copy that has nothing but what the message declares; notes what it leaves out."""
    return Conformed(_mapping(data, message, "", note, DEPTH_MAX))


def _mapping(data: Any, message: Message, path: str, note: Note, depth: int) -> Data:
    if not isinstance(data, dict):
        raise _mistyped(data, path, message.name)
    if depth == 0:
        raise Malformed("exceeded max depth")
    found: Data = {}
    fields = message.by_name
    if isinstance(data, Twice):
        for key, value in data.earlier:
            note(f'duplicate field "{path}{key}"')
            if value is not None and (field := fields.get(key)) is not None:
                _field(value, field, f"{path}{key}", note, depth)
    for key, value in data.items():
        field = fields.get(key)
        if field is None:
            if key not in _OF_EVERY_OBJECT or (path and message.name not in _TYPED):
                note(f'unknown field "{path}{key}"')
            elif value is not None and not path:
                found[key] = value
        elif value is not None:
            taken = _field(value, field, f"{path}{key}", note, depth)
            # A pointer to zero is a value; zero itself is none, unless it is always shown.
            if taken or field.flag == "?" or (field.always and taken != []):
                found[key] = taken
    return found


def _field(value: Any, field: Field, path: str, note: Note, depth: int) -> Any:
    if field.flag == "*":
        if not isinstance(value, list):
            raise _mistyped(value, path, f"[]{_go_type(field.type)}")
        return [
            _value(item, field.type, f"{path}[{n}]", note, depth) for n, item in enumerate(value)
        ]
    if field.flag == "%":
        if not isinstance(value, dict):
            raise _mistyped(value, path, f"map[string]{_go_type(field.type)}")
        if isinstance(value, Twice):
            for key, item in value.earlier:
                note(f'duplicate field "{path}.{key}"')
                _value(item, field.type, f"{path}.{key}", note, depth)
        # Maps of quantities are resources, of which there is nothing finer than a thousandth.
        is_list = field.type == wire_schema.QUANTITY and field.name != "podFixed"
        type_ = _AMOUNT if is_list else field.type
        return {
            key: _value(item, type_, f"{path}.{key}", note, depth) for key, item in value.items()
        }
    return _value(value, field.type, path, note, depth)


def _value(value: Any, type_: str, path: str, note: Note, depth: int) -> Any:
    scalar = _SCALARS.get(type_)
    if scalar is not None:
        return _ZEROS.get(type_, "") if value is None else scalar(value, path)
    if type_ in _OPAQUE:
        return value
    inner = wire_schema.message(type_)
    assert inner is not None, f"{type_} is used and not described"
    return _mapping({} if value is None else value, inner, f"{path}.", note, depth - 1)


def unknown_fields(data: Data, message: Message, note: Note, path: str = "") -> None:
    """Note the fields of a patch that the message does not have; it may be of any type else."""
    if isinstance(data, Twice):
        for key, _ in data.earlier:
            note(f'duplicate field "{path}{key}"')
    for key, value in data.items():
        field = message.by_name.get(key)
        if field is not None and field.type not in _SCALARS:
            inner = wire_schema.message(field.type)
            if inner is not None and field.type not in _OPAQUE:
                for where, part in _parts(value, field.flag, f"{path}{key}"):
                    unknown_fields(part, inner, note, f"{where}.")
        # What begins with a dollar directs a strategic merge patch.
        elif field is None and not key.startswith("$") and (path or key not in _OF_EVERY_OBJECT):
            note(f'unknown field "{path}{key}"')


def _parts(value: Any, flag: str, path: str) -> list[tuple[str, Data]]:
    found: list[tuple[str, Any]] = [(path, value)]
    if flag == "*":
        found = (
            [(f"{path}[{n}]", item) for n, item in enumerate(value)]
            if isinstance(value, list)
            else []
        )
    elif flag == "%" and isinstance(value, dict):
        found = [(f"{path}.{key}", item) for key, item in value.items()]
    return [(where, item) for where, item in found if isinstance(item, dict)]


def _text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise _mistyped(value, path, "string")
    return value


def _whole(limit: int, type_: str) -> Callable[[Any, str], int]:
    def read(value: Any, path: str) -> int:
        if type(value) is not int or not -limit - 1 <= value <= limit:
            raise _mistyped(value, path, type_)
        return value

    return read


def _yes_or_no(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        raise _mistyped(value, path, "bool")
    return value


def _bytes(value: Any, path: str) -> str:
    text = _text(value, path)
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Malformed("illegal base64 data at input byte 0") from None
    return text


def _quantity(value: Any, path: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise Malformed(_QUANTITY_RULE)
    try:
        return canonical(value)
    except QuantityError:
        raise Malformed(_QUANTITY_RULE) from None


def _amount(value: Any, path: str) -> str:
    text = _quantity(value, path)
    nanos = parse_quantity(text)
    return canonical(f"{-(-nanos // 10**6)}m") if nanos % 10**6 else text


def _int_or_string(value: Any, path: str) -> int | str:
    if isinstance(value, str):
        return value
    return _whole(INT32_MAX, "int32")(value, path)


def _time_like(pattern: re.Pattern[str], example: str) -> Callable[[Any, str], str]:
    def read(value: Any, path: str) -> str:
        text = _text(value, path)
        try:
            if not pattern.fullmatch(text):
                raise ValueError(text)
            parse_time(text)
        except ValueError:
            raise Malformed(f'parsing time "{text}" as "{example}": cannot parse') from None
        return text

    return read


_SCALARS: dict[str, Callable[[Any, str], Any]] = {
    "s": _text,
    "i": _whole(INT64_MAX, "int64"),
    "j": _whole(INT32_MAX, "int32"),
    "b": _yes_or_no,
    "y": _bytes,
    wire_schema.QUANTITY: _quantity,
    _AMOUNT: _amount,
    wire_schema.INT_OR_STRING: _int_or_string,
    "meta.Time": _time_like(_TIME, "2006-01-02T15:04:05Z07:00"),
    "meta.MicroTime": _time_like(_MICRO_TIME, "2006-01-02T15:04:05.000000Z07:00"),
}
_ZEROS: dict[str, Any] = {
    "i": 0,
    "j": 0,
    "b": False,
    wire_schema.QUANTITY: "0",
    _AMOUNT: "0",
    wire_schema.INT_OR_STRING: 0,
    **dict.fromkeys(wire_schema.TIMES, None),
}


def _go_type(type_: str) -> str:
    return _GO_TYPES.get(type_, type_)


def _mistyped(value: Any, path: str, wanted: str) -> Malformed:
    found = {dict: "object", list: "array", str: "string", bool: "bool"}.get(type(value), "number")
    if found == "number":
        found = f"number {value}"
    return Malformed(
        f"json: cannot unmarshal {found} into Go struct field .{path} of type {_go_type(wanted)}"
    )


# What is shown.


def complete(data: Data, message: Message) -> Data:
    """The object with every field that its kind always shows, where it has none of them."""
    plan = _plan(message.name)
    if plan is None:
        return data
    shown, inside = plan
    result = data
    for name, zero in shown:
        if result.get(name) is None:
            result = {**result, name: zero}
    for name, flag, inner in inside:
        value = result.get(name)
        if value is None:
            continue
        if flag == "*":
            filled: Any = [
                complete(item, inner) if isinstance(item, dict) else item for item in value
            ]
        elif flag == "%":
            filled = {key: complete(item, inner) for key, item in value.items()}
        else:
            filled = complete(value, inner)
        result = {**result, name: filled}
    return result


_Plan = tuple[tuple[tuple[str, Any], ...], tuple[tuple[str, str, Message], ...]]


@cache
def _plan(name: str) -> _Plan | None:
    """What to add to a message and where to look inside it; None where nothing is missing."""
    message = wire_schema.message(name)
    assert message is not None, f"{name} is used and not described"
    shown, inside = [], []
    for field in message.by_name.values():
        if field.always:
            shown.append((field.name, _zero(field)))
        inner = None if field.type in _SCALARS else wire_schema.message(field.type)
        # JSON schemas contain themselves, and are never empty.
        if inner is not None and inner.name != name and _plan(inner.name) is not None:
            inside.append((field.name, field.flag, inner))
    return (tuple(shown), tuple(inside)) if shown or inside else None


def _zero(field: Field) -> Any:
    if field.flag:
        return None
    if field.type in _SCALARS:
        return _ZEROS.get(field.type, "")
    inner = wire_schema.message(field.type)
    return {} if inner is None else complete({}, inner)
