"""Fields that Kubernetes does not know: most likely misspelled.

kubectl asks for strict validation, other clients are warned.  What is unknown is kept all the
same: a newer client may know more than this server.  Mirrors the strict decoding errors of
apimachinery's `serializer/json`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stowplan.apiserver.http import wire_schema
from stowplan.apiserver.http.resources import Resource
from stowplan.apiserver.http.wire_schema import Field, Message
from stowplan.errors import BadRequest

UNKNOWN_MAX = 20
"""Named in one answer."""

_OF_EVERY_OBJECT = frozenset({"apiVersion", "kind"})
_OPAQUE = {*wire_schema.TIMES, *wire_schema.RAW, *wire_schema.WRAPPED_LISTS}
_OPAQUE |= {wire_schema.QUANTITY, wire_schema.INT_OR_STRING}


def check_fields(resource: Resource, body: Any, level: str) -> list[str]:
    """Warnings about unknown fields; raises 400 where the client wants it strict."""
    if level == "Ignore" or not isinstance(body, dict):
        return []
    message = wire_schema.message_of(resource.api_version, resource.kind.name)
    if message is None:
        return []
    known = {key: value for key, value in body.items() if key not in _OF_EVERY_OBJECT}
    found = []
    for path in _unknown(known, message, ""):
        found.append(f'unknown field "{path}"')
        if len(found) == UNKNOWN_MAX:
            break
    if found and level == "Strict":
        kind = resource.kind.name
        raise BadRequest(
            f'{kind} in version "{resource.version}" cannot be handled as a {kind}: strict '
            f"decoding error: {', '.join(found)}"
        )
    return found


def _unknown(data: dict[str, Any], message: Message, path: str) -> Iterator[str]:
    for key, value in data.items():
        if not isinstance(key, str) or key.startswith("$"):
            # A directive of a strategic merge patch.
            continue
        where = f"{path}.{key}" if path else key
        field = message.by_name.get(key)
        if field is None:
            yield where
        else:
            yield from _inside(value, field, where)


def _inside(value: Any, field: Field, where: str) -> Iterator[str]:
    if len(field.type) == 1 or field.type in _OPAQUE:
        return
    inner = wire_schema.message(field.type)
    if inner is None:
        return
    if field.flag == "*" and isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, dict):
                yield from _unknown(item, inner, f"{where}[{index}]")
    elif field.flag == "%" and isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, dict):
                yield from _unknown(item, inner, f"{where}.{key}")
    elif isinstance(value, dict):
        yield from _unknown(value, inner, where)
