"""Tables of what must hold of an object's fields, and how they are applied.

A table names the fields of a message in upstream's order, with a check for each; `""` is the
message itself.  `device_rules` and `group_rules` have the tables, `device_checks` the checks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from stowplan.apiserver.answers import Problem, duplicate, required, too_many
from stowplan.apiserver.device_checks import KEY_NAMES, Check, Scope

Data = dict[str, Any]
Rules = tuple[tuple[str, Check], ...]


def apply(rules: Rules, where: str, value: Data, scope: Scope) -> Iterator[Problem]:
    for field, check in rules:
        if field:
            yield from check(f"{where}.{field}", value.get(field), scope)
        else:
            yield from check(where, value, scope)


def inside(rules: Rules) -> Check:
    def check(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
        if value is not None:
            yield from apply(rules, where, value, scope)

    return check


def inside_needed(rules: Rules) -> Check:
    def check(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
        yield from (required(where),) if value is None else apply(rules, where, value, scope)

    return check


def each(check: Check, most: int = 0, key: Callable[[Any], Any] | None = None) -> Check:
    """A list of at most so many, that differ in `key`."""

    def all_(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
        items = value or ()
        if most and len(items) > most:
            yield too_many(where, len(items), most)
            return
        for n, item in enumerate(items):
            yield from check(f"{where}[{n}]", item, scope)
        seen = set()
        for n, item in enumerate(items) if key is not None else ():
            assert key is not None
            if (found := key(item)) in seen:
                is_key = isinstance(found, tuple)
                shown = dict(zip(KEY_NAMES, found, strict=True)) if is_key else found
                yield duplicate(f"{where}[{n}]", shown)
            seen.add(found)

    return all_


def mapping(check: Check, name: Callable[[str, str], Iterator[Problem]], most: int = 0) -> Check:
    def all_(where: str, value: Any, scope: Scope) -> Iterator[Problem]:
        items = value or {}
        if most and len(items) > most:
            yield too_many(where, len(items), most)
            return
        for key, item in items.items():
            yield from name(where, key)
            yield from check(f"{where}[{key}]", item or {}, scope)

    return all_
