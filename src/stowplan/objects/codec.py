"""Structs to and from JSON, without losing what the structs do not know.

The structs hold what scheduling reads.  An object that is stored and handed back must keep the
rest, so `split` gives the struct and a `rest`, and `join` puts them together again: the struct wins
wherever it says something.  The embedded API server stores objects this way.

A rest is what remains of one mapping or list, `None` when nothing does:

- `{"keep": {key: value}}`   values the struct did not take, as written
- `{"was": {key: [new, old]}}`   values it took but would write differently
- `{"in": {key: rest}}`   what remains deeper inside
- `{"items": [[index, identity, rest]]}`   the same for a list; an entry that moved is found again
  by its name or type, and its rest is dropped with it
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from stowplan.objects.base import KubeObject, Struct

_StructT = TypeVar("_StructT", bound=Struct)
_KubeT = TypeVar("_KubeT", bound=KubeObject)

_DEPTH_MAX = 200
_IDENTITIES = ("name", "type", "uid", "key", "topologyKey", "containerPort", "kind")
_QUANTITY_MAPS = frozenset(
    {"requests", "limits", "capacity", "allocatable", "allocatedResources", "overhead", "podFixed"}
)

_encoder = msgspec.json.Encoder()


def encode(obj: Struct) -> bytes:
    return _encoder.encode(obj)


def convert(data: Any, struct_type: type[_StructT]) -> _StructT:
    """The struct of a decoded object; raises `msgspec.ValidationError`.

    A null stands for "not given", whatever the field, as it does in Go.
    """
    try:
        return msgspec.convert(data, struct_type)
    except msgspec.ValidationError:
        pruned = _without_nulls(data, _DEPTH_MAX)
        return msgspec.convert(pruned, struct_type)


def decode_json(raw: bytes, struct_type: type[_StructT]) -> _StructT:
    """Straight from bytes to the struct, with the same leniency towards null."""
    try:
        return msgspec.json.decode(raw, type=struct_type)
    except msgspec.ValidationError:
        return convert(msgspec.json.decode(raw), struct_type)


def split(data: dict[str, Any], struct_type: type[_KubeT]) -> tuple[_KubeT, dict[str, Any] | None]:
    """The struct, and what it does not hold."""
    obj = convert(data, struct_type)
    return obj, _mapping_rest(data, msgspec.to_builtins(obj), _DEPTH_MAX)


def join(obj: Struct, rest: dict[str, Any] | None) -> dict[str, Any]:
    """The whole object as JSON data.  `join(*split(x, T)) == x`."""
    written: dict[str, Any] = msgspec.to_builtins(obj)
    return _merge_mapping(written, rest) if rest else written


def _without_nulls(data: Any, depth: int) -> Any:
    if depth == 0:
        raise msgspec.ValidationError("Object is nested too deep")
    if isinstance(data, dict):
        return {
            key: _without_nulls(value, depth - 1) if key not in _QUANTITY_MAPS else _zeros(value)
            for key, value in data.items()
            if value is not None
        }
    if isinstance(data, list):
        return [_without_nulls(value, depth - 1) for value in data]
    return data


def _zeros(quantities: Any) -> Any:
    """A quantity of null is 0."""
    if not isinstance(quantities, dict):
        return quantities
    return {name: 0 if value is None else value for name, value in quantities.items()}


def _rest(data: Any, written: Any, depth: int) -> dict[str, Any] | None:
    if isinstance(data, dict) and isinstance(written, dict):
        return _mapping_rest(data, written, depth)
    if isinstance(data, list) and isinstance(written, list):
        return _list_rest(data, written, depth)
    return None


def _mapping_rest(
    data: dict[str, Any], written: dict[str, Any], depth: int
) -> dict[str, Any] | None:
    if depth == 0:
        raise msgspec.ValidationError("Object is nested too deep")
    if data == written:
        return None
    keep: dict[str, Any] = {}
    was: dict[str, Any] = {}
    inside: dict[str, Any] = {}
    for key, value in data.items():
        if key not in written:
            keep[key] = value
        elif value != written[key]:
            deeper = _rest(value, written[key], depth - 1)
            if deeper is None:
                was[key] = [written[key], value]
            else:
                inside[key] = deeper
    parts = {"keep": keep, "was": was, "in": inside}
    return {name: part for name, part in parts.items() if part} or None


def _list_rest(data: list[Any], written: list[Any], depth: int) -> dict[str, Any] | None:
    items = []
    for index, (value, item) in enumerate(zip(data, written, strict=True)):
        if value != item:
            deeper = _rest(value, item, depth - 1)
            if deeper is not None:
                items.append([index, _identity(item), deeper])
    return {"items": items} if items else None


def _identity(item: Any) -> list[Any]:
    if not isinstance(item, dict):
        return []
    return [item[key] for key in _IDENTITIES if key in item]


def _merge(written: Any, rest: dict[str, Any]) -> Any:
    if isinstance(written, dict):
        return _merge_mapping(written, rest)
    if isinstance(written, list):
        return _merge_list(written, rest)
    return written


def _merge_mapping(written: dict[str, Any], rest: dict[str, Any]) -> dict[str, Any]:
    merged = dict(written)
    for key, value in rest.get("keep", {}).items():
        if key not in merged:
            merged[key] = value
        elif isinstance(value, dict) and isinstance(merged[key], dict):
            merged[key] = {**value, **merged[key]}
    for key, (new, old) in rest.get("was", {}).items():
        if key in merged and merged[key] == new:
            merged[key] = old
    for key, deeper in rest.get("in", {}).items():
        if key in merged:
            merged[key] = _merge(merged[key], deeper)
    return merged


def _merge_list(written: list[Any], rest: dict[str, Any]) -> list[Any]:
    merged = list(written)
    by_identity: dict[str, list[int]] = {}
    for index, item in enumerate(written):
        by_identity.setdefault(repr(_identity(item)), []).append(index)
    for index, identity, deeper in rest.get("items", ()):
        places = by_identity.get(repr(identity), [])
        place = index if index in places else next(iter(places), None)
        if place is not None:
            merged[place] = _merge(merged[place], deeper)
    return merged
