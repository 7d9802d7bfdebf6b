"""Macros: what the parser writes out before anything is checked.

`has`, the loops of the standard library (`all`, `exists`, `exists_one`, `filter`, `map`), those
with two variables, `cel.bind`, `optMap`, `optFlatMap` and `sortBy`.  A loop becomes a
`Comprehension` with the parts that upstream gives it, because types and costs are worked out from
those parts.
"""

from __future__ import annotations

from collections.abc import Callable

from stowplan.cel.errors import SyntaxProblem
from stowplan.cel.syntax import (
    Call,
    Comprehension,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
)

ACCUMULATOR = "@result"
_UNUSED = "#unused"
_SORTED = "@__sortBy_input__"


def expand(call: Call) -> Node:
    """The call itself, if it is no macro."""
    key = (call.function, len(call.args), call.target is not None)
    macro = _MACROS.get(key)
    return call if macro is None else macro(call)


def _has(call: Call) -> Node:
    argument = call.args[0]
    if not isinstance(argument, Select) or argument.test_only:
        raise SyntaxProblem(argument.position, "invalid argument to has() macro")
    return Select(call.position, argument.operand, argument.name, test_only=True)


def _all(call: Call) -> Node:
    at = call.position
    return _loop(
        call,
        "all",
        initial=Literal(at, True),
        condition=Call(at, "@not_strictly_false", [_accumulator(at)]),
        step=Call(at, "_&&_", [_accumulator(at), call.args[-1]]),
        result=_accumulator(at),
        body=(call.args[-1],),
    )


def _exists(call: Call) -> Node:
    at = call.position
    inverted = Call(at, "!_", [_accumulator(at)])
    return _loop(
        call,
        "exists",
        initial=Literal(at, False),
        condition=Call(at, "@not_strictly_false", [inverted]),
        step=Call(at, "_||_", [_accumulator(at), call.args[-1]]),
        result=_accumulator(at),
        body=(call.args[-1],),
    )


def _exists_one(call: Call) -> Node:
    at = call.position
    counted = Call(at, "_+_", [_accumulator(at), Literal(at, 1)])
    return _loop(
        call,
        "exists_one",
        initial=Literal(at, 0),
        condition=Literal(at, True),
        step=Call(at, "_?_:_", [call.args[-1], counted, _accumulator(at)]),
        result=Call(at, "_==_", [_accumulator(at), Literal(at, 1)]),
        body=(call.args[-1],),
    )


def _filter(call: Call) -> Node:
    variable, predicate = call.args
    _name_of(variable, "argument is not an identifier")
    return _collect(call, "filter", [predicate], variable)


def _map(call: Call) -> Node:
    _name_of(call.args[0], "argument is not an identifier")
    return _collect(call, "map", call.args[1:-1], call.args[-1])


def _transform_list(call: Call) -> Node:
    return _collect(call, "map", call.args[2:-1], call.args[-1])


def _collect(call: Call, macro: str, predicate: list[Node], element: Node) -> Node:
    at = call.position
    added = Call(at, "_+_", [_accumulator(at), ListLiteral(at, [element])])
    return _loop(
        call,
        macro,
        initial=ListLiteral(at, []),
        condition=Literal(at, True),
        step=_where(at, predicate, added),
        result=_accumulator(at),
        body=(*predicate, element),
    )


def _transform_map(call: Call) -> Node:
    at = call.position
    key = Ident(at, _name_of(call.args[0]))
    inserted = Call(at, "cel.@mapInsert", [_accumulator(at), key, call.args[-1]])
    return _insert(call, "transformMap", inserted)


def _transform_map_entry(call: Call) -> Node:
    inserted = Call(call.position, "cel.@mapInsert", [_accumulator(call.position), call.args[-1]])
    return _insert(call, "transformMapEntry", inserted)


def _insert(call: Call, macro: str, inserted: Node) -> Node:
    at = call.position
    return _loop(
        call,
        macro,
        initial=MapLiteral(at, []),
        condition=Literal(at, True),
        step=_where(at, call.args[2:-1], inserted),
        result=_accumulator(at),
        body=tuple(call.args[2:]),
    )


def _where(at: int, predicate: list[Node], step: Node) -> Node:
    return Call(at, "_?_:_", [predicate[0], step, _accumulator(at)]) if predicate else step


def _bind(call: Call) -> Node:
    if not (isinstance(call.target, Ident) and call.target.name == "cel"):
        return call
    variable, value, result = call.args
    name = _name_of(variable, "cel.bind() variable names must be simple identifiers")
    return binding(call.position, name, value, result)


def _opt_map(call: Call) -> Node:
    found = _opt(call, "optMap")
    return Call(call.position, "_?_:_", [found[0], _optional_of(call, found[1]), found[2]])


def _opt_flat_map(call: Call) -> Node:
    return Call(call.position, "_?_:_", _opt(call, "optFlatMap"))


def _opt(call: Call, macro: str) -> list[Node]:
    at, target = call.position, call.target
    name = _name_of(call.args[0], f"{macro}() variable name must be a simple identifier")
    value = Call(at, "value", [], target)
    none = Call(at, "none", [], Ident(at, "optional"))
    return [Call(at, "hasValue", [], target), binding(at, name, value, call.args[1]), none]


def _optional_of(call: Call, value: Node) -> Node:
    return Call(call.position, "of", [value], Ident(call.position, "optional"))


def _sort_by(call: Call) -> Node:
    at, target = call.position, call.target
    if target is None or isinstance(target, Literal | MapLiteral):
        problem = "sortBy can only be applied to a list, identifier, comprehension, call or select"
        raise SyntaxProblem(at if target is None else target.position, f"{problem} expression")
    keys = _map(Call(at, "map", call.args, Ident(at, _SORTED)))
    ordered = Call(at, "@sortByAssociatedKeys", [keys], Ident(at, _SORTED))
    return binding(at, _SORTED, target, ordered)


def binding(at: int, name: str, value: Node, result: Node) -> Comprehension:
    """`name` stands for `value` in `result`: a loop over nothing."""
    return Comprehension(
        position=at,
        macro="bind",
        variables=(_UNUSED,),
        range=ListLiteral(at, []),
        accumulator=name,
        initial=value,
        condition=Literal(at, False),
        step=Ident(at, name),
        result=result,
    )


_Parts = Callable[[Call], Node]


def _loop(
    call: Call,
    macro: str,
    *,
    initial: Node,
    condition: Node,
    step: Node,
    result: Node,
    body: tuple[Node, ...],
) -> Comprehension:
    assert call.target is not None
    return Comprehension(
        position=call.position,
        macro=macro,
        variables=_variables(call),
        range=call.target,
        accumulator=ACCUMULATOR,
        initial=initial,
        condition=condition,
        step=step,
        result=result,
        body=body,
    )


def _variables(call: Call) -> tuple[str, ...]:
    names = [_name_of(call.args[0])]
    if (call.function, len(call.args)) in _TWO_VARIABLES:
        names.append(_name_of(call.args[1]))
        if names[0] == names[1]:
            problem = f"duplicate variable name: {names[0]}"
            raise SyntaxProblem(call.args[1].position, problem)
    for name, argument in zip(names, call.args, strict=False):
        if name == "__result__":
            problem = "iteration variable overwrites accumulator variable"
            raise SyntaxProblem(argument.position, problem)
    return tuple(names)


def _name_of(node: Node, problem: str = "argument must be a simple name") -> str:
    if isinstance(node, Ident):
        return node.name
    raise SyntaxProblem(node.position, problem)


def _accumulator(at: int) -> Ident:
    return Ident(at, ACCUMULATOR)


_MACROS: dict[tuple[str, int, bool], _Parts] = {
    ("has", 1, False): _has,
    ("all", 2, True): _all,
    ("all", 3, True): _all,
    ("exists", 2, True): _exists,
    ("exists", 3, True): _exists,
    ("exists_one", 2, True): _exists_one,
    ("exists_one", 3, True): _exists_one,
    ("existsOne", 3, True): _exists_one,
    ("filter", 2, True): _filter,
    ("map", 2, True): _map,
    ("map", 3, True): _map,
    ("transformList", 3, True): _transform_list,
    ("transformList", 4, True): _transform_list,
    ("transformMap", 3, True): _transform_map,
    ("transformMap", 4, True): _transform_map,
    ("transformMapEntry", 3, True): _transform_map_entry,
    ("transformMapEntry", 4, True): _transform_map_entry,
    ("optMap", 2, True): _opt_map,
    ("optFlatMap", 2, True): _opt_flat_map,
    ("sortBy", 2, True): _sort_by,
    ("bind", 3, True): _bind,
}
_TWO_VARIABLES = {
    (name, count)
    for name, count, _ in _MACROS
    if name.startswith("transform") or (count == 3 and name not in ("map", "bind"))
}
