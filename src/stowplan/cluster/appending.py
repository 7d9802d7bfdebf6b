"""Objects written back exactly as they are stored, with more in some of their lists.

What a user left opaque (parameters of devices) may not change by a byte, and JSON does not keep
it: an API server writes it without blanks when asked in JSON, and sorts its keys when patched.  In
protobuf the bytes stay.  Nor has the object to be understood: a message that comes again within
another is merged into it, so what is to be added is put behind what was read.

An API server that has no protobuf to offer keeps JSON as it is; there the same is done to that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

PROTOBUF = "application/vnd.kubernetes.protobuf"
JSON = "application/json"
ACCEPT = f"{PROTOBUF}, {JSON};q=0.5"

_MAGIC = b"k8s\0"
_RAW = 2
"""The field of the envelope that has the object."""
_BYTES = 2
"""How strings and messages are written."""

_META = {"uid": 5, "resourceVersion": 6, "finalizers": 14}
_CONSUMER = {"apiGroup": 1, "resource": 3, "name": 4, "uid": 5}
_FIELDS: dict[str, Any] = {
    "metadata": (1, _META),
    "status": (3, {"reservedFor": (2, _CONSUMER)}),
}
"""Of a ResourceClaim, what is ever appended: name -> number, or number and fields within."""


def appended(stored: bytes, body: dict[str, Any]) -> tuple[bytes, str]:
    """What to put in place of `stored`, and of which media type it is; ValueError."""
    if not stored.startswith(_MAGIC):
        return msgspec.json.encode(append(msgspec.json.decode(stored), body)), JSON
    fields = []
    for number, value in _fields(stored[len(_MAGIC) :]):
        fields.append(_field(number, value + _message(body, _FIELDS) if number == _RAW else value))
    return _MAGIC + b"".join(fields), PROTOBUF


def append(target: Any, body: Any) -> Any:
    """
    >>> append({"a": {"b": [1], "c": 2}}, {"a": {"b": [3], "d": 4}})
    {'a': {'b': [1, 3], 'c': 2, 'd': 4}}
    """
    if isinstance(body, list):
        return [*(target or ()), *body]
    if not isinstance(body, dict):
        return body
    known = target if isinstance(target, dict) else {}
    return {**known, **{name: append(known.get(name), value) for name, value in body.items()}}


def _message(data: dict[str, Any], fields: dict[str, Any]) -> bytes:
    written = []
    for name, value in data.items():
        known = fields[name]
        number, within = known if isinstance(known, tuple) else (known, {})
        for it in value if isinstance(value, list) else [value]:
            inner = _message(it, within) if isinstance(it, dict) else str(it).encode()
            written.append(_field(number, inner))
    return b"".join(written)


def _field(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    """
    >>> _varint(300).hex()
    'ac02'
    """
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Those of the envelope: all of them are strings or messages."""
    position = 0
    while position < len(message):
        key, position = _read_varint(message, position)
        size, position = _read_varint(message, position)
        if key & 7 != _BYTES or position + size > len(message):
            raise ValueError("this is no object of Kubernetes in protobuf")
        yield key >> 3, message[position : position + size]
        position += size


def _read_varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(message) and shift < 64:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise ValueError("a number in protobuf has no end")
