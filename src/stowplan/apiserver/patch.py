"""The kinds of PATCH, as pure functions from JSON data to JSON data.

`merge` is RFC 7386, `json` is RFC 6902, `strategic` is Kubernetes' own: a merge patch that knows
which lists are keyed; `append` is for callers in this process.  Nothing given is changed; what a
patch does not touch is shared with the
result.  `store` calls `apply_patch`; the tables below say how Kubernetes' types declare their
lists (the `patchStrategy` and `patchMergeKey` of each field).
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from stowplan.cluster.appending import append
from stowplan.errors import ApiError, BadRequest, Invalid

JSON_PATCH_OPERATIONS_MAX = 10_000

MERGE_KEYS: dict[tuple[str, str], str] = {
    ("metadata", "ownerReferences"): "uid",
    ("spec", "containers"): "name",
    ("spec", "initContainers"): "name",
    ("spec", "ephemeralContainers"): "name",
    ("spec", "volumes"): "name",
    ("spec", "imagePullSecrets"): "name",
    ("spec", "hostAliases"): "ip",
    ("spec", "topologySpreadConstraints"): "topologyKey",
    ("spec", "schedulingGates"): "name",
    ("spec", "resourceClaims"): "name",
    ("spec", "ports"): "port",
    ("spec", "drivers"): "name",
    ("containers", "env"): "name",
    ("containers", "ports"): "containerPort",
    ("containers", "volumeMounts"): "mountPath",
    ("containers", "volumeDevices"): "devicePath",
    ("status", "conditions"): "type",
    ("status", "addresses"): "type",
    ("status", "podIPs"): "ip",
    ("status", "hostIPs"): "ip",
    ("status", "resourceClaimStatuses"): "name",
    ("status", "reservedFor"): "uid",
}
"""(field the list's owner sits in, list field) to the key of its items.

A list that is neither here nor in `PRIMITIVE_SETS` is replaced whole: tolerations, taints,
container statuses and the lists inside affinity among them.
"""

_SAME_AS_CONTAINERS = frozenset({"initContainers", "ephemeralContainers"})

PRIMITIVE_SETS = frozenset({("metadata", "finalizers"), ("spec", "podCIDRs")})

REPLACED_MAPS = frozenset({("PodDisruptionBudget", "spec", "selector")})


def apply_patch(patch_type: str, kind: str, target: dict[str, Any], body: Any) -> dict[str, Any]:
    """What `target`, an object of `kind`, is after the patch."""
    if patch_type == "json":
        result = apply_json_patch(target, body)
    elif not isinstance(body, dict):
        raise BadRequest(f"a {patch_type} patch must be an object, not {_type_of(body)}")
    elif patch_type == "merge":
        result = apply_merge_patch(target, body)
    elif patch_type == "strategic":
        result = apply_strategic_patch(target, body, kind)
    elif patch_type == "append":
        result = append(target, body)
    else:
        raise ApiError(
            f"the body of the request was in an unknown format: patch type {patch_type!r}",
            code=415,
            reason="UnsupportedMediaType",
            hint="use merge, strategic or json",
        )
    if not isinstance(result, dict):
        raise Invalid(f"the patch turns the object into {_type_of(result)}")
    return result


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386.

    >>> apply_merge_patch({"a": {"b": 1, "c": 2}}, {"a": {"b": None, "d": [3]}})
    {'a': {'c': 2, 'd': [3]}}
    """
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = apply_merge_patch(result.get(key), value)
    return result


def apply_strategic_patch(target: dict[str, Any], patch: dict[str, Any], kind: str = "") -> Any:
    """A merge patch in which keyed lists are merged item by item.

    >>> target = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    >>> patch = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    >>> apply_strategic_patch(target, patch)
    {'status': {'conditions': [{'type': 'Ready', 'status': 'True'}]}}
    """
    return _merge_map(target, patch, kind, "")


def _merge_map(target: dict[str, Any], patch: dict[str, Any], kind: str, field: str) -> Any:
    directive = patch.get("$patch")
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise BadRequest(f"unknown patch directive: {directive!r}")
    result = dict(target)
    if "$retainKeys" in patch:
        retained = _list_of(patch, "$retainKeys")
        result = {key: value for key, value in result.items() if key in retained}
    for key, value in patch.items():
        if key.startswith("$"):
            _apply_directive(result, patch, key)
        elif value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = _merge_child(result.get(key), value, kind, field, key)
        elif isinstance(value, list):
            result[key] = _merge_list(result.get(key), value, kind, field, key)
        else:
            result[key] = value
    return result


def _apply_directive(result: dict[str, Any], patch: dict[str, Any], key: str) -> None:
    """Carry out `$deleteFromPrimitiveList`; `$setElementOrder` asks for order only."""
    name, _, field = key.partition("/")
    if name == "$deleteFromPrimitiveList" and isinstance(result.get(field), list):
        unwanted = _list_of(patch, key)
        result[field] = [item for item in result[field] if item not in unwanted]


def _list_of(patch: dict[str, Any], directive: str) -> list[Any]:
    value = patch[directive]
    if not isinstance(value, list):
        raise BadRequest(f"{directive} must be a list, not {_type_of(value)}")
    return value


def _merge_child(old: Any, value: dict[str, Any], kind: str, field: str, key: str) -> Any:
    if (kind, field, key) in REPLACED_MAPS or not isinstance(old, dict):
        old = {}
    return _merge_map(old, value, kind, key)


def _merge_list(old: Any, value: list[Any], kind: str, field: str, key: str) -> list[Any]:
    before = old if isinstance(old, list) else []
    if (field, key) in PRIMITIVE_SETS:
        union = list(before)
        for item in value:
            if item not in union:
                union.append(item)
        return union
    owner = "containers" if field in _SAME_AS_CONTAINERS else field
    merge_key = MERGE_KEYS.get((owner, key))
    if merge_key is None:
        return value
    if not isinstance(old, list) and not any(map(_has_directive, value)):
        # Where there is no list yet, the patch is the list, whatever its keys are.
        return value
    if any(_is_directive(item, "replace") for item in value):
        return [item for item in value if not _is_directive(item, "replace")]
    merged = list(before)
    for item in value:
        _merge_item(merged, item, merge_key, kind, key)
    return merged


def _has_directive(item: Any) -> bool:
    return isinstance(item, dict) and any(key.startswith("$") for key in item)


def _is_directive(item: Any, directive: str) -> bool:
    return isinstance(item, dict) and item.get("$patch") == directive


def _merge_item(merged: list[Any], item: Any, merge_key: str, kind: str, field: str) -> None:
    if not isinstance(item, dict) or merge_key not in item:
        raise BadRequest(f"map: {item} does not contain declared merge key: {merge_key}")
    position = next(
        (
            n
            for n, old in enumerate(merged)
            if isinstance(old, dict) and old.get(merge_key) == item[merge_key]
        ),
        None,
    )
    if _is_directive(item, "delete"):
        if position is not None:
            del merged[position]
    elif position is None:
        merged.append(_merge_map({}, item, kind, field))
    else:
        merged[position] = _merge_map(merged[position], item, kind, field)


def apply_json_patch(target: Any, operations: Any) -> Any:
    """RFC 6902.

    >>> apply_json_patch({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}])
    {'a': [1, 2]}
    """
    if not isinstance(operations, list):
        raise BadRequest(f"a json patch must be a list of operations, not {_type_of(operations)}")
    if len(operations) > JSON_PATCH_OPERATIONS_MAX:
        raise ApiError(
            "The allowed maximum operations in a JSON patch is "
            f"{JSON_PATCH_OPERATIONS_MAX}, got {len(operations)}",
            code=413,
            reason="RequestEntityTooLarge",
        )
    document = [deepcopy(target)]
    for operation in operations:
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            raise BadRequest(f"not a json patch operation: {operation!r}")
        _apply_operation(document, operation)
    return document[0]


def _apply_operation(document: list[Any], operation: dict[str, Any]) -> None:
    """Change `document`, which is a list of one so that the root has a place as well."""
    op, path = operation.get("op"), operation["path"]
    if op == "add":
        _add(document, path, deepcopy(_value(operation)))
    elif op == "remove":
        _remove(document, path)
    elif op == "replace":
        # As upstream's library does it, a missing member is replaced as well.
        owner, key = _owner(document, path, op)
        if isinstance(owner, list) and owner is not document:
            key = _index(key, len(owner) - 1, path, op)
        owner[key] = deepcopy(_value(operation))
    elif op == "move":
        source = _source(operation)
        if path.startswith(source + "/"):
            raise _rejected(f"move operation does not apply: {path} is inside {source}")
        _add(document, path, _remove(document, source))
    elif op == "copy":
        owner, key = _locate(document, _source(operation), op)
        _add(document, path, deepcopy(owner[key]))
    elif op == "test":
        _test(document, path, operation.get("value"))
    else:
        raise _rejected(f"unknown json patch operation: {op!r}")


def _value(operation: dict[str, Any]) -> Any:
    if "value" not in operation:
        raise BadRequest(f"json patch operation without a value: {operation}")
    return operation["value"]


def _source(operation: dict[str, Any]) -> str:
    source = operation.get("from")
    if not isinstance(source, str):
        raise BadRequest(f"json patch operation without from: {operation}")
    return source


def _add(document: list[Any], path: str, value: Any) -> None:
    owner, token = _owner(document, path, "add")
    if isinstance(owner, dict) or owner is document:
        owner[token] = value
    elif token == "-":
        owner.append(value)
    else:
        owner.insert(_index(token, len(owner), path, "add"), value)


def _remove(document: list[Any], path: str) -> Any:
    owner, key = _locate(document, path, "remove")
    if owner is document:
        raise _rejected("remove operation does not apply: the whole object cannot be removed")
    return owner.pop(key)


def _test(document: list[Any], path: str, expected: Any) -> None:
    try:
        owner, key = _locate(document, path, "test")
    except Invalid:
        if expected is None:
            return
        raise
    if not _same(owner[key], expected):
        raise _rejected(f"testing value {path} failed: test failed")


def _same(left: Any, right: Any) -> bool:
    """Equal as JSON: Python's `True == 1` is not."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)


def _locate(document: list[Any], path: str, op: str) -> tuple[Any, Any]:
    """The container and the key of a value that must exist."""
    owner, token = _owner(document, path, op)
    if isinstance(owner, dict):
        if token not in owner:
            raise _missing(op, path)
        return owner, token
    if owner is document:
        return owner, token
    return owner, _index(token, len(owner) - 1, path, op)


def _owner(document: list[Any], path: str, op: str) -> tuple[Any, Any]:
    if path == "":
        return document, 0
    if not path.startswith("/"):
        raise BadRequest(f"not a JSON pointer: {path!r}")
    tokens = [part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")]
    owner = document[0]
    for token in tokens[:-1]:
        if isinstance(owner, dict) and token in owner:
            owner = owner[token]
        elif isinstance(owner, list):
            owner = owner[_index(token, len(owner) - 1, path, op)]
        else:
            raise _missing(op, path)
    if not isinstance(owner, dict | list):
        raise _missing(op, path)
    return owner, tokens[-1]


def _index(token: str, index_max: int, path: str, op: str) -> int:
    if not token.isascii() or not token.isdigit() or (token[0] == "0" and token != "0"):
        raise _missing(op, path)
    if int(token) > index_max:
        raise _rejected(
            f'{op} operation does not apply: doc is missing path: "{path}": out of range'
        )
    return int(token)


def _missing(op: str, path: str) -> Invalid:
    return _rejected(f'{op} operation does not apply: doc is missing path: "{path}": missing value')


def _rejected(why: str) -> Invalid:
    """Upstream does not say why; a hint does, for those who see it."""
    return Invalid("the server rejected our request due to an error in our request", hint=why)


def _type_of(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", type(None): "null"}
    return names.get(type(value), type(value).__name__)
