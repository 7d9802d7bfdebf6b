"""Bodies in Kubernetes' protobuf, decoded to JSON data.

kubectl and every Go program send it by default when they create built-in kinds; answers stay JSON,
which they all accept.  An envelope names the kind, the body's fields are numbers that
`wire_schema` knows.  Mirrors apimachinery's `serializer/protobuf`.
"""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from stowplan.apiserver import wire_schema
from stowplan.apiserver.wire_schema import Field, Message
from stowplan.errors import BadRequest
from stowplan.objects.times import format_micro_time, format_time

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"

_MAGIC = b"k8s\x00"
_DEPTH_MAX = 64
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_NUMBERS = ("i", "j", "b")

Data = dict[str, Any]


class _Malformed(ValueError):
    pass


def decode_protobuf(raw: bytes) -> Data:
    """The object with its apiVersion and kind; raises 400."""
    if raw[:4] != _MAGIC:
        raise BadRequest("provided data does not appear to be a protobuf message")
    try:
        envelope = dict(_raw_fields(raw[4:]))
        type_meta = dict(_raw_fields(_bytes(envelope.get(1, b""))))
        api_version = _bytes(type_meta.get(1, b"")).decode()
        kind = _bytes(type_meta.get(2, b"")).decode()
        message = wire_schema.message_of(api_version, kind)
        if message is None:
            raise BadRequest(f'no kind "{kind}" is registered for version "{api_version}"')
        body = _decode(_bytes(envelope.get(2, b"")), message, _DEPTH_MAX)
    except (ValueError, OverflowError, msgspec.DecodeError) as error:
        raise BadRequest(f"the body is no valid protobuf: {error}") from None
    return {"apiVersion": api_version, "kind": kind, **body}


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise _Malformed(f"expected bytes, found {value!r}")
    return value


def _raw_fields(raw: bytes) -> list[tuple[int, Any]]:
    """Numbers and undecoded values, in the order they come."""
    fields: list[tuple[int, Any]] = []
    position = 0
    while position < len(raw):
        tag, position = _varint(raw, position)
        number, wire_type = tag >> 3, tag & 7
        value: Any
        if wire_type == _VARINT:
            value, position = _varint(raw, position)
        else:
            if wire_type == _BYTES:
                size, position = _varint(raw, position)
            elif wire_type in (_FIXED64, _FIXED32):
                size = 8 if wire_type == _FIXED64 else 4
            else:
                raise _Malformed(f"wire type {wire_type}")
            value = raw[position : position + size]
            if len(value) != size:
                raise _Malformed("unexpected end")
            position += size
        fields.append((number, value))
    return fields


def _varint(raw: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if position >= len(raw) or shift > 63:
            raise _Malformed("a number without an end")
        byte = raw[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & 0xFFFFFFFFFFFFFFFF, position
        shift += 7


def _decode(raw: bytes, message: Message, depth: int) -> Data:
    if depth == 0:
        raise _Malformed("nested too deep")
    data: Data = {}
    for number, value in _raw_fields(raw):
        field = message.by_number.get(number)
        if field is None:
            # A field of a newer version; nobody here could name it.
            continue
        if field.flag == "*":
            data.setdefault(field.name, []).extend(_items(value, field, depth))
        elif field.flag == "%":
            key, item = _entry(value, field, depth)
            data.setdefault(field.name, {})[key] = item
        elif field.flag == "^":
            data.update(_value(value, field, depth))
        else:
            found = _value(value, field, depth)
            # Go writes the zeros of plain fields, and JSON leaves them out.
            if field.flag == "?" or found not in ("", 0, None, {}, []):
                data[field.name] = found
    return data


def _items(value: Any, field: Field, depth: int) -> list[Any]:
    if field.type in _NUMBERS and isinstance(value, bytes):
        return _packed(value)
    return [_value(value, field, depth)]


def _packed(raw: bytes) -> list[int]:
    numbers, position = [], 0
    while position < len(raw):
        number, position = _varint(raw, position)
        numbers.append(_signed(number))
    return numbers


def _entry(value: Any, field: Field, depth: int) -> tuple[str, Any]:
    parts = dict(_raw_fields(_bytes(value)))
    empty: Any = 0 if field.type in _NUMBERS else b""
    return _bytes(parts.get(1, b"")).decode(), _value(parts.get(2, empty), field, depth)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _value(value: Any, field: Field, depth: int) -> Any:
    kind = field.type
    if kind in _NUMBERS:
        if not isinstance(value, int):
            raise _Malformed(f"{field.name} is no number")
        return bool(value) if kind == "b" else _signed(value)
    raw = _bytes(value)
    if kind == "s":
        return raw.decode()
    if kind == "y":
        return base64.b64encode(raw).decode()
    return _message_value(raw, kind, depth)


def _message_value(raw: bytes, kind: str, depth: int) -> Any:
    """A message; some stand for a plain value in JSON."""
    if kind == wire_schema.QUANTITY:
        return _bytes(dict(_raw_fields(raw)).get(1, b"")).decode() or "0"
    if kind == wire_schema.INT_OR_STRING:
        parts = dict(_raw_fields(raw))
        if parts.get(1, 0) == 0:
            return _signed(int(parts.get(2, 0)))
        return _bytes(parts.get(3, b"")).decode()
    if kind in wire_schema.TIMES:
        return _time(raw, micro=kind.endswith("MicroTime"))
    if kind in wire_schema.RAW:
        inner = _bytes(dict(_raw_fields(raw)).get(1, b""))
        return msgspec.json.decode(inner) if inner else None
    if kind in wire_schema.WRAPPED_LISTS:
        return [_bytes(value).decode() for _, value in _raw_fields(raw)]
    message = wire_schema.message(kind)
    assert message is not None, f"{kind} is used and not described"
    return _decode(raw, message, depth - 1)


def _time(raw: bytes, *, micro: bool) -> str | None:
    parts = dict(_raw_fields(raw))
    if not parts:
        return None
    seconds, nanos = _signed(int(parts.get(1, 0))), int(parts.get(2, 0))
    if micro:
        return format_micro_time(seconds + nanos / 1e9)
    return format_time(seconds)
