"""Server-side apply: each applier owns the fields it set, and only those change with it.

What an applier no longer sets goes, unless another one owns it too; to change what another one
owns is a conflict, unless forced.  Ownership is in `metadata.managedFields`, for appliers alone:
writes by PUT, PATCH and POST own nothing here, so only two appliers can be in conflict.  Pure, on
JSON data.  Mirrors apimachinery's `managedfields` and `structured-merge-diff`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from stowplan.apiserver.http.field_sets import (
    Fields,
    contains,
    difference,
    fields_of,
    is_atomic,
    is_set,
    item_key,
    leaves,
    list_keys,
    readable,
    value_at,
    without,
)
from stowplan.apiserver.http.status import CausedError
from stowplan.errors import BadRequest

Data = dict[str, Any]

CONFLICTS_MAX = 100
UNKNOWN_MANAGER = "unknown"

_UNOWNED = ("apiVersion", "kind")
_UNOWNED_METADATA = (
    "name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "selfLink",
    "managedFields",
)  # fmt: skip


class Applier(NamedTuple):
    manager: str
    api_version: str
    now: str
    force: bool


def check_config(config: Any, name: str) -> Data:
    """The configuration to apply, which must be about the object of the URL."""
    if not isinstance(config, dict) or not isinstance(config.get("metadata") or {}, dict):
        raise BadRequest("an apply configuration must be an object")
    metadata = config.get("metadata") or {}
    if metadata.get("managedFields") is not None:
        raise BadRequest("metadata.managedFields must be nil")
    if metadata.get("name", name) != name:
        raise BadRequest(
            f"the name of the object ({metadata['name']}) does not match the name on the URL "
            f"({name})"
        )
    return {**config, "metadata": metadata}


def apply(live: Data | None, config: Data, applier: Applier) -> Data:
    """The object after the apply, `managedFields` included; `live` is None for a new one."""
    if not applier.manager:
        raise BadRequest(
            'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for '
            "apply patch"
        )
    wanted = fields_of(_owned_part(config))
    entries = _entries(live or {})
    if live is not None and not entries:
        entries = [_before_first_apply(live, applier)]
    others = [entry for entry in entries if not _is_mine(entry, applier)]
    before: Fields = {}
    for entry in entries:
        if _is_mine(entry, applier):
            before = entry.get("fieldsV1") or {}
    if live is not None:
        others = _settle_conflicts(live, config, wanted, others, force=applier.force)
    dropped = difference(before, wanted)
    for entry in others:
        dropped = difference(dropped, entry.get("fieldsV1") or {})
    result = _merge(without(live or {}, dropped), config, "", "")
    mine = {
        "manager": applier.manager,
        "operation": "Apply",
        "apiVersion": applier.api_version,
        "time": applier.now,
        "fieldsType": "FieldsV1",
        "fieldsV1": wanted,
    }
    unchanged = [entry for entry in entries if _is_mine(entry, applier) and before == wanted]
    metadata = {**result.get("metadata", {}), "managedFields": [*others, *(unchanged or [mine])]}
    return {**result, "metadata": metadata}


def _owned_part(config: Data) -> Data:
    metadata = {
        key: value
        for key, value in (config.get("metadata") or {}).items()
        if key not in _UNOWNED_METADATA
    }
    owned = {key: value for key, value in config.items() if key not in _UNOWNED}
    owned.pop("metadata", None)
    return {**owned, "metadata": metadata} if metadata else owned


def _entries(live: Data) -> list[Data]:
    entries = (live.get("metadata") or {}).get("managedFields") or []
    return [
        entry
        for entry in entries
        if isinstance(entry, dict) and isinstance(entry.get("fieldsV1") or {}, dict)
    ]


def _before_first_apply(live: Data, applier: Applier) -> Data:
    """Whoever wrote the object by other means owns all of it until somebody applies."""
    return {
        "manager": UNKNOWN_MANAGER,
        "operation": "Update",
        "apiVersion": applier.api_version,
        "time": applier.now,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields_of(_owned_part(live)),
    }


def _is_mine(entry: Data, applier: Applier) -> bool:
    return entry.get("manager") == applier.manager and entry.get("operation") == "Apply"


def _settle_conflicts(
    live: Data, config: Data, wanted: Fields, others: list[Data], *, force: bool
) -> list[Data]:
    """The other owners with what they keep; raises 409 when they would lose something."""
    changed = [
        path
        for path in leaves(wanted)
        if path[-1] != "." and value_at(live, path) != value_at(config, path)
    ]
    conflicts = []
    settled = []
    for entry in others:
        owned = entry.get("fieldsV1") or {}
        lost = [path for path in changed if contains(owned, path)]
        conflicts += [(_called(entry), path) for path in lost]
        for path in lost:
            owned = difference(owned, _tree(path))
        if owned:
            settled.append({**entry, "fieldsV1": owned})
    if conflicts and not force:
        raise _conflict(conflicts[:CONFLICTS_MAX])
    return settled if force else others


def _called(entry: Data) -> str:
    """How a conflict names an owner: one that does not apply with the version that it used."""
    using = f" using {entry.get('apiVersion')}" if entry.get("operation") == "Update" else ""
    return f'"{entry.get("manager", "")}"{using}'


def _tree(path: tuple[str, ...]) -> Fields:
    tree: Fields = {}
    for key in reversed(path):
        tree = {key: tree}
    return tree


def _conflict(conflicts: list[tuple[str, tuple[str, ...]]]) -> CausedError:
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {manager}",
            "field": readable(path),
        }
        for manager, path in conflicts
    ]
    return CausedError(_conflict_text(conflicts), code=409, reason="Conflict", causes=causes)


def _conflict_text(conflicts: list[tuple[str, tuple[str, ...]]]) -> str:
    if len(conflicts) == 1:
        manager, path = conflicts[0]
        return f"Apply failed with 1 conflict: conflict with {manager}: {readable(path)}"
    lines = []
    for manager in sorted({manager for manager, _ in conflicts}):
        lines.append(f"conflicts with {manager}:")
        lines += [f"- {readable(path)}" for owner, path in conflicts if owner == manager]
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)


def _merge(live: Any, config: Any, owner: str, field: str) -> Any:
    """`config` laid over `live`."""
    if isinstance(config, dict) and isinstance(live, dict) and not is_atomic(owner, field):
        merged = dict(live)
        for key, value in config.items():
            merged[key] = _merge(live.get(key), value, field, key)
        return merged
    if isinstance(config, list) and isinstance(live, list):
        if is_set(owner, field):
            return [*live, *(member for member in config if member not in live)]
        if keys := list_keys(owner, field):
            return _merge_items(live, config, keys, field)
    return config


def _merge_items(
    live: list[Any], config: list[Any], keys: tuple[str, ...], field: str
) -> list[Any]:
    """In the order of the configuration, with what others added where it was."""
    known = {item_key(item, keys): item for item in live}
    applied = {item_key(item, keys): item for item in config}
    merged = [item for key, item in known.items() if key not in applied]
    return [_merge(known.get(key), item, "", field) for key, item in applied.items()] + merged
