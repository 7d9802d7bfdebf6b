"""Pieces of compiled code: closures over a frame, and the ones that are worth a shape of their own.

A frame is a list: the variable `device`, the meter of the cost (None where it is not counted), then
one slot per variable of loops and bindings.  `compiler.py` puts the pieces together, `loops.py` has
those for macros.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from stowplan.cel.arithmetic import equal, surely_equal
from stowplan.cel.errors import Aborted, EvaluationError, no_such_overload
from stowplan.cel.runtime_cost import CallCost
from stowplan.cel.values import (
    Duration,
    Failure,
    Implementation,
    KubernetesValue,
    Optional,
    Timestamp,
    Value,
    as_int,
    go_name,
    map_key,
)

Frame = list[Any]
Run = Callable[[Frame], Value]

DEVICE, METER, FIRST_SLOT = 0, 1, 2


class Code(NamedTuple):
    run: Run
    constant: bool = False
    value: Value = None
    """Where it is constant."""


def constant(value: Value) -> Code:
    return Code(lambda _frame: value, True, value)


def call(function: Implementation, arguments: list[Run]) -> Run:
    match arguments:
        case []:
            return lambda _frame: function()
        case [one]:
            return lambda frame: function(one(frame))
        case [one, two]:
            return lambda frame: function(one(frame), two(frame))
        case _:
            return lambda frame: function(*[it(frame) for it in arguments])


def counted_call(function: Implementation, arguments: list[Run], cost: CallCost | None) -> Run:
    def run(frame: Frame) -> Value:
        values = [it(frame) for it in arguments]
        result = function(*values)
        frame[METER].add(1 if cost is None else cost(values, result))
        return result

    return run


def careful_call(
    function: Implementation, arguments: list[Run], cost: CallCost | None, *, listed: bool
) -> Run:
    """For expressions with functions whose cost upstream counts even if an argument failed, and
    trips over that: the whole evaluation ends.  Those are `listed`; their last argument has to be
    a list.  All arguments are asked, because a later one may do that too.
    """
    last = len(arguments) - 1

    def run(frame: Frame) -> Value:
        values: list[Value] = []
        for index, argument in enumerate(arguments):
            try:
                values.append(argument(frame))
            except Aborted:
                raise
            except EvaluationError:
                for later in arguments[index + 1 :]:
                    _outcome(later, frame)
                if listed:
                    raise Aborted(_NOT_A_LIST.format("*types.Err", "Add")) from None
                raise
        if listed and not isinstance(values[last], list):
            raise Aborted(_not_a_list(values[last]))
        result = function(*values)
        if frame[METER] is not None:
            frame[METER].add(1 if cost is None else cost(values, result))
        return result

    return run


def _not_a_list(value: Value) -> str:
    is_added = isinstance(value, _ADDED) and not isinstance(value, bool)
    return _NOT_A_LIST.format(go_name(value), "Contains" if is_added else "Add")


_ADDED = (str, int, float, bytes, Duration, Timestamp)
_NOT_A_LIST = "internal error: interface conversion: {} is not traits.Lister: missing method {}"


def counted(run: Run, cost: int) -> Run:
    def counting(frame: Frame) -> Value:
        frame[METER].add(cost)
        return run(frame)

    return counting


def equals_constant(operand: Run, wanted: Value, *, negated: bool) -> Run:
    """Most selectors are made of these."""
    kind = type(wanted)
    if kind not in (str, int):
        return (
            (lambda frame: not surely_equal(operand(frame), wanted))
            if negated
            else (lambda frame: equal(operand(frame), wanted))
        )
    if negated:

        def differs(frame: Frame) -> Value:
            value = operand(frame)
            return value != wanted if type(value) is kind else not surely_equal(value, wanted)

        return differs

    def same(frame: Frame) -> Value:
        value = operand(frame)
        return value == wanted if type(value) is kind else equal(value, wanted)

    return same


def compares_constant(
    operand: Run, wanted: int, quick: Callable[[Any, Any], bool], general: Implementation
) -> Run:
    def run(frame: Frame) -> Value:
        value = operand(frame)
        return quick(value, wanted) if type(value) is int else general(value, wanted)

    return run


def adds(one: Run, other: Run, general: Implementation) -> Run:
    def run(frame: Frame) -> Value:
        left, right = one(frame), other(frame)
        if type(left) is int and type(right) is int:
            return as_int(left + right)
        return general(left, right)

    return run


def in_constant(operand: Run, items: list[Value]) -> Run:
    """Hashed, and True is not 1."""
    wanted = frozenset(map(map_key, items))

    def run(frame: Frame) -> Value:
        value = operand(frame)
        if type(value) is str or type(value) is int:
            return value in wanted
        return map_key(value) in wanted

    return run


def device_value(domains: str, domain: str, name: str) -> Run:
    """`device.attributes["domain"].name` in one step."""

    def run(frame: Frame) -> Value:
        try:
            return frame[0][domains][domain][name]
        except KeyError:
            raise EvaluationError(f"no such key: {name}") from None

    return run


def device_has(domains: str, domain: str, name: str) -> Run:
    return lambda frame: name in frame[0][domains][domain]


def conditional(condition: Run, chosen: Run, other: Run) -> Run:
    def run(frame: Frame) -> Value:
        value = condition(frame)
        if value is True:
            return chosen(frame)
        if value is False:
            return other(frame)
        raise no_such_overload()

    return run


def as_branch(run: Run) -> Run:
    """Upstream cannot take a Kubernetes value out of an optional that a conditional chose."""

    def checked(frame: Frame) -> Value:
        value = run(frame)
        inner = value.value if isinstance(value, Optional) else None
        if isinstance(inner, KubernetesValue):
            problem = f"unsupported conversion to ref.Val: ({inner.go_type}){inner}"
            return Optional(Failure(problem), True)
        if isinstance(inner, Optional):
            return Optional(inner.value, True)
        return value

    return checked


def logical(terms: list[Run], decisive: bool) -> Run:
    """`||` for True, `&&` for False: one decisive term outweighs errors on either side."""
    if len(terms) == 2:
        return _logical_pair(terms[0], terms[1], decisive)

    def run(frame: Frame) -> Value:
        error: EvaluationError | None = None
        for term in terms:
            try:
                value = term(frame)
            except EvaluationError as raised:
                error = first_error(error, raised)
                continue
            if value is decisive:
                return decisive
            if value is not True and value is not False:
                error = first_error(error, no_such_overload())
        if error is not None:
            raise error
        return not decisive

    return run


def _logical_pair(one: Run, other: Run, decisive: bool) -> Run:
    def run(frame: Frame) -> Value:
        try:
            value = one(frame)
            if value is decisive:
                return decisive
            if value is not True and value is not False:
                raise no_such_overload()
        except Aborted:
            raise
        except EvaluationError:
            if _outcome(other, frame) is decisive:
                return decisive
            raise
        value = other(frame)
        if value is True or value is False:
            return value
        raise no_such_overload()

    return run


def _outcome(run: Run, frame: Frame) -> Value:
    try:
        return run(frame)
    except Aborted:
        raise
    except EvaluationError:
        return None


def first_error(error: EvaluationError | None, raised: EvaluationError) -> EvaluationError:
    if isinstance(raised, Aborted):
        raise raised
    return raised if error is None else error
