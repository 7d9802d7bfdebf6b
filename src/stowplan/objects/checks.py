"""Does everything in an object parse?  Quantities, selectors, taints, times, and the like.

The structs only check types.  This walks a decoded object once and finds the first value that a
plugin could not read, with the path to it, so that no decision is made on half a cluster.
`objects.manifests` calls it for what a user hands in; objects from an API server were checked
there.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from typing import Any, Union, get_args, get_origin

import msgspec

from stowplan.objects.base import LabelSelector, Quantity, Struct
from stowplan.objects.labels import SelectorError, compile_selector
from stowplan.objects.names import label_key_problem, label_value_problem
from stowplan.objects.node import Taint
from stowplan.objects.node_selector import compile_term
from stowplan.objects.pod import (
    NodeSelectorTerm,
    PodAffinityTerm,
    Toleration,
    TopologySpreadConstraint,
)
from stowplan.objects.quantity import QuantityError, parse_quantity
from stowplan.objects.taints import (
    NO_EXECUTE,
    NO_SCHEDULE,
    PREFER_NO_SCHEDULE,
    parse_canonical_integer,
)
from stowplan.objects.times import TimeError, parse_time

Problem = tuple[str, str]
"""The path below the object (`spec.tolerations[0].operator`), and what is wrong there."""

_EFFECTS = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)


def first_problem(obj: Struct) -> Problem | None:
    # Most objects are fine, and then nobody asks for paths.
    return None if _is_fine(obj) else next(_problems(obj, ""), None)


def _is_fine(obj: Struct) -> bool:
    """Whether there is no problem: the same walk, without paths."""
    check, looks = _looks(type(obj))
    if check is not None and next(check(obj), None) is not None:
        return False
    for name, look in looks:
        value = getattr(obj, name)
        if value and not look(value):
            return False
    return True


_Look = Callable[[Any], bool]
_Check = Callable[[Any], Iterator["Problem"]]


@cache
def _looks(struct_type: type[Struct]) -> tuple[_Check | None, tuple[tuple[str, _Look], ...]]:
    """What to look into: only what has something to check somewhere below."""
    looks = []
    for field in msgspec.structs.fields(struct_type):
        walk = _walk_for(field.name, field.type)
        if walk is None or not _has_checks(field.type, frozenset()):
            continue
        looks.append((field.name, _LOOKS[walk]))
    return _CHECKS.get(struct_type), tuple(looks)


def _has_checks(annotation: Any, above: frozenset[type]) -> bool:
    plain = _without_none(annotation)
    inner = get_args(plain)[0] if get_origin(plain) is list else plain
    if not _is_struct(inner):
        return True
    if inner in above:
        return False
    return inner in _CHECKS or any(
        _walk_for(field.name, field.type) is not None and _has_checks(field.type, above | {inner})
        for field in msgspec.structs.fields(inner)
    )


def _list_is_fine(items: list[Struct]) -> bool:
    return all(map(_is_fine, items))


def _quantities_are_fine(quantities: dict[str, Quantity]) -> bool:
    return all(map(_quantity_is_fine, quantities.values()))


@lru_cache(maxsize=4096)
def _quantity_is_fine(quantity: Quantity) -> bool:
    return next(_quantity(quantity, ""), None) is None


@lru_cache(maxsize=4096)
def _time_is_fine(text: str) -> bool:
    return next(_time(text, ""), None) is None


def _problems(obj: Struct, path: str) -> Iterator[Problem]:
    check = _CHECKS.get(type(obj))
    if check is not None:
        yield from ((join_path(path, field), problem) for field, problem in check(obj))
    for name, encoded, walk in _walks(type(obj)):
        value = getattr(obj, name)
        if value is not None:
            yield from walk(value, join_path(path, encoded))


def join_path(path: str, field: str) -> str:
    if not path or not field:
        return path or field
    return f"{path}{field}" if field.startswith("[") else f"{path}.{field}"


# How to walk into the fields of a struct, found once per type from its annotations.

_Walk = Callable[[Any, str], Iterator[Problem]]


@cache
def _walks(struct_type: type[Struct]) -> tuple[tuple[str, str, _Walk], ...]:
    return tuple(
        (field.name, field.encode_name, walk)
        for field in msgspec.structs.fields(struct_type)
        if (walk := _walk_for(field.name, field.type)) is not None
    )


def _walk_for(name: str, annotation: Any) -> _Walk | None:
    plain = _without_none(annotation)
    if isinstance(plain, type) and issubclass(plain, Struct):
        return _problems
    if plain == Quantity:
        return _quantity
    if get_origin(plain) is dict and get_args(plain)[1] == Quantity:
        return _quantities
    if get_origin(plain) is list and _is_struct(get_args(plain)[0]):
        return _list
    if plain is str and (name.endswith(("_time", "_timestamp")) or name == "time_added"):
        return _time
    return None


def _without_none(annotation: Any) -> Any:
    if get_origin(annotation) not in (types.UnionType, Union):
        return annotation
    members = tuple(member for member in get_args(annotation) if member is not types.NoneType)
    return members[0] if len(members) == 1 else Union[members]  # noqa: UP007 - built at run time


def _is_struct(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Struct)


def _list(items: list[Struct], path: str) -> Iterator[Problem]:
    for index, item in enumerate(items):
        yield from _problems(item, f"{path}[{index}]")


def _quantities(quantities: dict[str, Quantity], path: str) -> Iterator[Problem]:
    for name, quantity in quantities.items():
        yield from _quantity(quantity, f"{path}.{name}")


def _quantity(quantity: Quantity, path: str) -> Iterator[Problem]:
    try:
        parse_quantity(quantity)
    except QuantityError as error:
        yield path, str(error)


def _time(text: str, path: str) -> Iterator[Problem]:
    if not text:
        return
    try:
        parse_time(text)
    except TimeError as error:
        yield path, str(error)


# What the types that plugins parse must look like.


def _label_selector(selector: Any) -> Iterator[Problem]:
    try:
        compile_selector(selector)
    except SelectorError as error:
        yield "", str(error)


def _node_selector_term(term: Any) -> Iterator[Problem]:
    if problem := compile_term(term).problem:
        yield "", problem


def _taint(taint: Any) -> Iterator[Problem]:
    if problem := label_key_problem(taint.key):
        yield "key", f"{taint.key!r} is not a taint key: {problem}"
    if problem := label_value_problem(taint.value):
        yield "value", f"{taint.value!r} is not a taint value: {problem}"
    if taint.effect not in _EFFECTS:
        yield "effect", _not_one_of(taint.effect, _EFFECTS)


def _toleration(toleration: Any) -> Iterator[Problem]:
    key, operator, value = toleration.key, toleration.operator, toleration.value
    operators = ("Exists", "Equal", "Lt", "Gt")
    if key and (problem := label_key_problem(key)):
        yield "key", f"{key!r} is not a taint key: {problem}"
    if operator and operator not in operators:
        yield "operator", _not_one_of(operator, operators)
    if not key and operator != "Exists":
        yield "operator", f"{operator!r} needs a key; without one the operator must be Exists"
    if operator == "Exists" and value:
        yield "value", f"{value!r} must be empty when the operator is Exists"
    if operator in ("Lt", "Gt") and parse_canonical_integer(value) is None:
        yield "value", f"{value!r} must be an integer when the operator is {operator}"
    if toleration.effect and toleration.effect not in _EFFECTS:
        yield "effect", _not_one_of(toleration.effect, _EFFECTS)


def _spread_constraint(constraint: Any) -> Iterator[Problem]:
    actions = ("DoNotSchedule", "ScheduleAnyway")
    if constraint.max_skew <= 0:
        yield "maxSkew", f"{constraint.max_skew} must be greater than zero"
    if problem := label_key_problem(constraint.topology_key):
        yield "topologyKey", f"{constraint.topology_key!r} is not a label key: {problem}"
    if constraint.when_unsatisfiable not in actions:
        yield "whenUnsatisfiable", _not_one_of(constraint.when_unsatisfiable, actions)
    if constraint.min_domains is not None and constraint.min_domains <= 0:
        yield "minDomains", f"{constraint.min_domains} must be greater than zero"
    for field, policy in (
        ("nodeAffinityPolicy", constraint.node_affinity_policy),
        ("nodeTaintsPolicy", constraint.node_taints_policy),
    ):
        if policy is not None and policy not in ("Honor", "Ignore"):
            yield field, _not_one_of(policy, ("Honor", "Ignore"))


def _pod_affinity_term(term: Any) -> Iterator[Problem]:
    if problem := label_key_problem(term.topology_key):
        yield "topologyKey", f"{term.topology_key!r} is not a label key: {problem}"


def _not_one_of(value: str, allowed: tuple[str, ...]) -> str:
    return f"{value!r} is not one of {', '.join(allowed)}"


_CHECKS: dict[type[Struct], Callable[[Any], Iterator[Problem]]] = {
    LabelSelector: _label_selector,
    NodeSelectorTerm: _node_selector_term,
    PodAffinityTerm: _pod_affinity_term,
    Taint: _taint,
    Toleration: _toleration,
    TopologySpreadConstraint: _spread_constraint,
}

_LOOKS: dict[_Walk, _Look] = {
    _problems: _is_fine,
    _list: _list_is_fine,
    _quantity: _quantity_is_fine,
    _quantities: _quantities_are_fine,
    _time: _time_is_fine,
}
