"""Every overload's implementation, and which values it takes.

`declarations.py` has the types; the libraries have the code.  `compiler.py` asks `implementation`
for the function that a call comes down to.
"""

from __future__ import annotations

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
from stowplan.cel.declarations import Overload, functions
from stowplan.cel.device import Domains
from stowplan.cel.errors import Aborted, EvaluationError, no_such_overload
from stowplan.cel.types import Type, is_dyn
from stowplan.cel.values import (
    NONE,
    Failure,
    Implementation,
    Optional,
    UInt,
    Value,
    from_key,
    go_name,
    type_name,
)

_BY_TRAIT: dict[str, Implementation] = {
    "_==_": arithmetic.equal,
    "_!=_": lambda one, other: not arithmetic.surely_equal(one, other),
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
_SHORT_REFUSAL = {"contains", "startsWith", "endsWith"}
_SIZED = (str, bytes, list, dict)


def size(value: Value) -> int:
    if isinstance(value, _SIZED):
        return len(value)
    raise arithmetic.lacking(value, "size")


def _flatten(items: Value, *depths: Value) -> Value:
    """Any list will do, whatever is in it."""
    given = bool(depths)
    depth = depths[0] if given else 1
    if not isinstance(items, list):
        raise no_such_overload(f"{type_name(items)}.flatten({type_name(depth) if given else ''})")
    if type(depth) is not int:
        problem = f"ref.Val is {go_name(depth)}, not types.Int"
        raise Aborted(f"internal error: interface conversion: {problem}")
    return lists.flatten(items, depth)


def insert_entries(into: dict[Value, Value], entries: Value) -> None:
    """What `transformMapEntry` does for each element."""
    if not isinstance(entries, dict):
        raise no_such_overload("cel.@mapInsert")
    for key, value in entries.items():
        if key in into:
            raise EvaluationError(f"insert failed: key {key_text(from_key(key))} already exists")
        into[key] = value


def key_text(key: Value) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, UInt):
        return str(int(key))
    return conversions.double_text(key) if isinstance(key, float) else str(key)


def optional_value(value: Optional) -> Value:
    if not value.present:
        raise EvaluationError("optional.none() dereference")
    if isinstance(value.value, Failure):
        raise EvaluationError(value.value.message)
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
    "optional_none": lambda: NONE,
    "optional_of": lambda value: Optional(value, True),
    "optional_ofNonZeroValue": lambda value: (
        NONE if lists.is_zero(value) else Optional(value, True)
    ),
    "optional_hasValue": lambda value: value.present,
    "optional_value": optional_value,
}


def implementation(
    function: str, overloads: list[str], types: list[Type], *, trusted: bool = True
) -> Implementation:
    """What a call does, whose arguments have these static types, if those can be trusted."""
    if function in _BY_TRAIT:
        return _BY_TRAIT[function]
    if function == "size":
        return size
    if function in _UNGUARDED:
        return _UNGUARDED[function]
    chosen = [declared(function, it) for it in overloads]
    if trusted and len(chosen) == 1 and not any(map(_is_open, types)):
        found = OVERLOADS.get(chosen[0].id)
        if found is not None:
            return found
    return _dispatched(function, chosen)


_UNGUARDED: dict[str, Implementation] = {
    "flatten": _flatten,
    "sort": lists.sort,
    "@sortByAssociatedKeys": lists.sort_by,
}


def _is_open(of: Type) -> bool:
    return is_dyn(of) or of.kind == "parameter" or any(map(_is_open, of.parameters))


_BY_CONTENT = {list, dict, Domains, Optional}
"""Types of which the elements decide as well."""


def _dispatched(function: str, overloads: list[Overload]) -> Implementation:
    known: dict[tuple[type, ...], Implementation] = {}

    def call(*arguments: Value) -> Value:
        kinds = tuple(map(type, arguments))
        found = known.get(kinds)
        if found is not None:
            return found(*arguments)
        for overload in overloads:
            if all(map(fits, arguments, overload.arguments)):
                found = OVERLOADS.get(overload.id)
                if found is not None:
                    if not any(kind in _BY_CONTENT for kind in kinds):
                        known[kinds] = found
                    return found(*arguments)
        if function in _SHORT_REFUSAL:
            raise no_such_overload()
        if function == "matches":
            raise no_such_overload("" if isinstance(arguments[0], str) else function)
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
