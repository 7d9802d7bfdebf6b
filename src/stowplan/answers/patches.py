"""The difference of two objects as a JSON patch (RFC 6902), as short as can be read well."""

from __future__ import annotations

from typing import Any

Operation = dict[str, Any]


def json_patch(before: Any, after: Any, path: str = "") -> list[Operation]:
    """What turns `before` into `after`.

    >>> json_patch({"a": [1], "b": 2}, {"a": [1, 3]})
    [{'op': 'add', 'path': '/a/-', 'value': 3}, {'op': 'remove', 'path': '/b'}]
    """
    if before == after:
        return []
    if isinstance(before, dict) and isinstance(after, dict):
        return _of_maps(before, after, path)
    if isinstance(before, list) and isinstance(after, list):
        return _of_lists(before, after, path)
    return [{"op": "replace", "path": path, "value": after}]


def _of_maps(before: dict[str, Any], after: dict[str, Any], path: str) -> list[Operation]:
    operations: list[Operation] = []
    for key, value in after.items():
        below = f"{path}/{_escaped(key)}"
        if key not in before:
            operations.append({"op": "add", "path": below, "value": value})
        else:
            operations += json_patch(before[key], value, below)
    gone = [key for key in before if key not in after]
    return operations + [{"op": "remove", "path": f"{path}/{_escaped(key)}"} for key in gone]


def _of_lists(before: list[Any], after: list[Any], path: str) -> list[Operation]:
    if len(after) > len(before) and after[: len(before)] == before:
        added = after[len(before) :]
        return [{"op": "add", "path": f"{path}/-", "value": value} for value in added]
    if len(after) == len(before):
        pairs = enumerate(zip(before, after, strict=True))
        return [each for n, (old, new) in pairs for each in json_patch(old, new, f"{path}/{n}")]
    kept = _kept_positions(before, after)
    if kept is None:
        return [{"op": "replace", "path": path, "value": after}]
    # From the end, so that the numbers before stay true.
    gone = [n for n in reversed(range(len(before))) if n not in kept]
    return [{"op": "remove", "path": f"{path}/{n}"} for n in gone]


def _kept_positions(before: list[Any], after: list[Any]) -> set[int] | None:
    """Where the items of `after` stand in `before`, if it is that with some left out."""
    kept: set[int] = set()
    position = 0
    for item in after:
        while position < len(before) and before[position] != item:
            position += 1
        if position == len(before):
            return None
        kept.add(position)
        position += 1
    return kept


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
