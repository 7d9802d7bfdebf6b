"""Every overload's implementation, and which values it takes.

`declarations.py` has the types; the libraries have the code.  `compiler.py` asks `implementation`
for the function that a call comes down to.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from stowplan.cel import (
    arithmetic,
    conversions,
    formats,
    formatting,
    lists,
    network,
    quantities,
    regexes,
    semver,
    strings,
    times,
)
from stowplan.cel.declarations import COMPARISONS, Overload, functions
from stowplan.cel.errors import EvaluationError, no_such_overload
from stowplan.cel.types import Type, is_dyn
from stowplan.cel.values import (
    NONE,
    Implementation,
    Optional,
    UInt,
    Value,
    from_key,
    map_key,
    type_name,
)

_BY_TRAIT: dict[str, Implementation] = {
    "_==_": arithmetic.equal,
    "_!=_": lambda one, other: not arithmetic.equal(one, other),
    "_<_": arithmetic.less,
    "_<=_": arithmetic.less_equals,
    "_>_": arithmetic.greater,
    "_>=_": arithmetic.greater_equals,
    "_+_": arithmetic.add,
    "_-_": arithmetic.subtract,
    "_*_": arithmetic.multiply,
    "_/_": arithmetic.divide,
    "_%_": arithmetic.modulo,
    "-_": arithmetic.negate,
    "!_": arithmetic.logical_not,
    "@in": arithmetic.contains,
}
"""Operators go by what the values can do, whatever overload was found."""
_SHORT_REFUSAL = {"contains", "startsWith", "endsWith", "matches", "find", "findAll"}
_SIZED = (str, bytes, list, dict)


def size(value: Value) -> int:
    if isinstance(value, _SIZED):
        return len(value)
    raise no_such_overload("size")


def _flatten(items: Value, depth: Value = 1) -> Value:
    """Any list will do, whatever is in it."""
    if not isinstance(items, list):
        raise no_such_overload(f"{type_name(items)}.flatten()")
    if type(depth) is not int:
        raise no_such_overload(f"flatten(list, {type_name(depth)})")
    return lists.flatten(items, depth)


def insert_entry(into: dict[Value, Value], key: Value, value: Value) -> Value:
    kept = map_key(key)
    if kept in into:
        raise EvaluationError(f"insert failed: key {key_text(key)} already exists")
    return {**into, kept: value}


def insert_map(into: dict[Value, Value], entries: dict[Value, Value]) -> Value:
    for key, value in entries.items():
        into = insert_entry(into, from_key(key), value)  # type: ignore[assignment]
    return into


def key_text(key: Value) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, UInt):
        return str(int(key))
    return conversions.double_text(key) if isinstance(key, float) else str(key)


def optional_value(value: Optional) -> Value:
    if not value.present:
        raise EvaluationError("optional.none() dereference")
    return value.value


OVERLOADS: dict[str, Implementation] = {
    **conversions.FUNCTIONS,
    **strings.FUNCTIONS,
    **formatting.FUNCTIONS,
    **lists.FUNCTIONS,
    **regexes.FUNCTIONS,
    **times.FUNCTIONS,
    **quantities.FUNCTIONS,
    **semver.FUNCTIONS,
    **network.FUNCTIONS,
    **formats.FUNCTIONS,
    "@mapInsert_map_key_value": insert_entry,
    "@mapInsert_map_map": insert_map,
    "optional_none": lambda: NONE,
    "optional_of": lambda value: Optional(value, True),
    "optional_ofNonZeroValue": lambda value: (
        NONE if lists.is_zero(value) else Optional(value, True)
    ),
    "optional_hasValue": lambda value: value.present,
    "optional_value": optional_value,
}


def implementation(function: str, overloads: list[str], types: list[Type]) -> Implementation:
    """What a call does, whose arguments have these static types."""
    if function in _BY_TRAIT:
        return _BY_TRAIT[function]
    if function == "size":
        return size
    if function == "flatten":
        return _flatten
    chosen = [declared(function, it) for it in overloads]
    if len(chosen) == 1 and not any(map(_is_open, types)) and chosen[0].id in OVERLOADS:
        return OVERLOADS[chosen[0].id]
    return _dispatched(function, chosen)


def _is_open(of: Type) -> bool:
    return is_dyn(of) or of.kind == "parameter" or any(map(_is_open, of.parameters))


def _dispatched(function: str, overloads: list[Overload]) -> Implementation:
    def call(*arguments: Value) -> Value:
        for overload in overloads:
            if all(map(fits, arguments, overload.arguments)):
                found = OVERLOADS.get(overload.id)
                if found is not None:
                    return found(*arguments)
        if function in _SHORT_REFUSAL:
            raise no_such_overload()
        names = ", ".join(map(type_name, arguments))
        raise no_such_overload(f"{function}({names})")

    return call


_PYTHON_TYPES: dict[str, type] = {
    "bool": bool,
    "int": int,
    "uint": UInt,
    "double": float,
    "string": str,
    "bytes": bytes,
}


def fits(value: Value, wanted: Type) -> bool:
    """Of a list or map, the first element decides, as upstream does it."""
    python_type = _PYTHON_TYPES.get(wanted.kind)
    if python_type is not None:
        return type(value) is python_type
    if wanted.kind == "parameter" or is_dyn(wanted):
        return True
    if wanted.kind == "list":
        return isinstance(value, list) and (not value or fits(value[0], wanted.parameters[0]))
    if wanted.kind == "map":
        if not isinstance(value, dict):
            return False
        first = next(iter(value.items()), None)
        return first is None or (
            fits(from_key(first[0]), wanted.parameters[0]) and fits(first[1], wanted.parameters[1])
        )
    if isinstance(value, Optional) and wanted.name == "optional_type":
        return not value.present or fits(value.value, wanted.parameters[0])
    return type_name(value) == wanted.name


@cache
def _declared() -> dict[tuple[str, str], Overload]:
    return {(name, it.id): it for name, found in functions().items() for it in found}


def declared(function: str, overload: str) -> Overload:
    return _declared()[function, overload]


Comparison = Callable[[Value, Value], bool]
ORDERINGS = frozenset(COMPARISONS)
