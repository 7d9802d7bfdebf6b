"""Sets of fields, as `metadata.managedFields` writes them, and what can be done with them.

A set is a tree of JSON data: `f:name` for a field, `k:{"name":"web"}` for the item of a keyed list,
`v:"x"` for the member of a set, `.` for a node itself.  A leaf is an empty mapping.  Pure; mirrors
`structured-merge-diff`.  `server_side_apply` is the user.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from stowplan.apiserver.patch import MERGE_KEYS, PRIMITIVE_SETS

Fields = dict[str, Any]
Path = tuple[str, ...]

_MISSING = object()

_LIST_KEYS: dict[tuple[str, str], tuple[str, ...]] = {
    **{place: (key,) for place, key in MERGE_KEYS.items()},
    ("containers", "ports"): ("containerPort", "protocol"),
    ("spec", "ports"): ("port", "protocol"),
    ("spec", "topologySpreadConstraints"): ("topologyKey", "whenUnsatisfiable"),
}
_KEY_DEFAULTS = {"protocol": "TCP"}
_ATOMIC_MAPS = frozenset({("spec", "selector"), ("spec", "nodeSelector")})
_AS_CONTAINERS = frozenset({"initContainers", "ephemeralContainers"})


def list_keys(owner: str, field: str) -> tuple[str, ...]:
    """The keys of a list's items, empty when the list is one value."""
    return _LIST_KEYS.get(("containers" if owner in _AS_CONTAINERS else owner, field), ())


def is_set(owner: str, field: str) -> bool:
    return (owner, field) in PRIMITIVE_SETS


def is_atomic(owner: str, field: str) -> bool:
    return (owner, field) in _ATOMIC_MAPS


def item_key(item: Any, keys: tuple[str, ...]) -> str:
    """
    >>> item_key({"name": "web", "image": "i"}, ("name",))
    'k:{"name":"web"}'
    """
    item = item if isinstance(item, dict) else {}
    found = {key: item.get(key, _KEY_DEFAULTS.get(key)) for key in keys}
    return "k:" + json.dumps(found, separators=(",", ":"), sort_keys=True)


def member_key(member: Any) -> str:
    return "v:" + json.dumps(member, separators=(",", ":"))


def fields_of(value: Any, owner: str = "", field: str = "") -> Fields:
    """Every field that a value sets.

    >>> fields_of({"spec": {"replicas": 3}})
    {'f:spec': {'f:replicas': {}}}
    """
    if isinstance(value, dict) and not is_atomic(owner, field):
        return {f"f:{key}": fields_of(inner, field, key) for key, inner in value.items()}
    if isinstance(value, list):
        if is_set(owner, field):
            return {member_key(member): {} for member in value}
        if keys := list_keys(owner, field):
            return {item_key(item, keys): {".": {}, **fields_of(item, "", field)} for item in value}
    return {}


def leaves(fields: Fields, path: Path = ()) -> Iterator[Path]:
    for key, inner in fields.items():
        if inner:
            yield from leaves(inner, (*path, key))
        else:
            yield (*path, key)


def difference(left: Fields, right: Fields) -> Fields:
    """What is in `left` and not in `right`.

    >>> difference({"f:a": {}, "f:b": {"f:c": {}, "f:d": {}}}, {"f:b": {"f:c": {}}})
    {'f:a': {}, 'f:b': {'f:d': {}}}
    """
    result: Fields = {}
    for key, inner in left.items():
        if key not in right:
            result[key] = inner
        elif inner and (rest := difference(inner, right[key])):
            result[key] = rest
    return result


def contains(fields: Fields, path: Path) -> bool:
    """Whether a leaf is in the set, itself or as a part of something that is."""
    for key in path:
        if key not in fields:
            return False
        fields = fields[key]
        if not fields:
            return True
    return True


def value_at(data: Any, path: Path) -> Any:
    """The value of a leaf, or something that equals nothing."""
    for key in path:
        data = _step(data, key)
        if data is _MISSING:
            return _MISSING
    return data


def _step(data: Any, key: str) -> Any:
    kind, _, rest = key.partition(":")
    if key == ".":
        return True
    if kind == "f":
        return data.get(rest, _MISSING) if isinstance(data, dict) else _MISSING
    if not isinstance(data, list):
        return _MISSING
    if kind == "v":
        return next((member for member in data if member_key(member) == key), _MISSING)
    keys = tuple(json.loads(rest))
    return next((item for item in data if item_key(item, keys) == key), _MISSING)


def without(data: Any, fields: Fields) -> Any:
    """`data` with the fields of the set taken out, and what became empty by it."""
    if isinstance(data, dict):
        result = {}
        for key, value in data.items():
            inner = fields.get(f"f:{key}")
            if inner is None:
                result[key] = value
            elif inner and (kept := without(value, inner)):
                result[key] = kept
        return result
    if isinstance(data, list):
        return [kept for item in data if (kept := _kept_item(item, fields)) is not None]
    return data


def _kept_item(item: Any, fields: Fields) -> Any:
    for key, inner in fields.items():
        if key.startswith("v:") and member_key(item) == key:
            return None
        if key.startswith("k:") and item_key(item, tuple(json.loads(key[2:]))) == key:
            return None if "." in inner or not inner else without(item, inner)
    return item


def readable(path: Path) -> str:
    """
    >>> readable(("f:spec", "f:containers", 'k:{"name":"web"}', "f:image"))
    '.spec.containers[name="web"].image'
    """
    text = ""
    for key in path:
        if key.startswith("f:"):
            text += f".{key[2:]}"
        elif key.startswith("k:"):
            pairs = json.loads(key[2:]).items()
            text += f"[{','.join(f'{name}={json.dumps(value)}' for name, value in pairs)}]"
        elif key.startswith("v:"):
            text += f"[={key[2:]}]"
    return text
