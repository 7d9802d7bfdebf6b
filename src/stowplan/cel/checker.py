"""The static check: gives every node its type and every call its possible overloads.

What kube-scheduler's environment refuses is refused here, with its words.  All problems are
collected, as upstream does.  `literals.py` looks at constants afterwards; then `cost.py` and
`compiler.py` read what was found.
"""

from __future__ import annotations

from stowplan.cel.declarations import Overload, functions
from stowplan.cel.errors import Problem
from stowplan.cel.syntax import (
    Call,
    Comprehension,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Message,
    Node,
    Select,
    qualified_name,
)
from stowplan.cel.types import (
    ANY,
    BOOL,
    BYTES,
    DEVICE,
    DOUBLE,
    DURATION,
    DYN,
    ERROR,
    INT,
    NULL,
    QUANTITY,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    Substitution,
    Type,
    is_dyn,
    list_of,
    map_of,
    more_general,
    optional_of,
    parameter,
    type_of,
    unwrap_optional,
)
from stowplan.cel.values import UInt

DEVICE_FIELDS = {
    "driver": STRING,
    "allowMultipleAllocations": BOOL,
    "attributes": map_of(STRING, map_of(STRING, ANY)),
    "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
}
TYPE_NAMES = {
    **{it.name: type_of(it) for it in (BOOL, INT, UINT, DOUBLE, STRING, BYTES, NULL)},
    **{it.name: type_of(it) for it in (DURATION, TIMESTAMP, TYPE)},
    "list": type_of(list_of(DYN)),
    "map": type_of(map_of(DYN, DYN)),
    "optional_type": type_of(optional_of(DYN)),
}
_LITERALS: dict[type, Type] = {
    bool: BOOL,
    int: INT,
    UInt: UINT,
    float: DOUBLE,
    str: STRING,
    bytes: BYTES,
    type(None): NULL,
}


def check(root: Node) -> list[Problem]:
    checker = _Checker()
    checker.check(root)
    checker.finish()
    return checker.problems


class _Checker:
    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._known = Substitution()
        self._scopes: list[dict[str, Type]] = [{"device": DEVICE, **TYPE_NAMES}]
        self._free = 0
        self._checked: list[Node] = []

    def check(self, node: Node) -> Type:
        node.type = self._type(node)
        self._checked.append(node)
        return node.type

    def _type(self, node: Node) -> Type:
        match node:
            case Literal():
                return _LITERALS[type(node.value)]
            case Ident():
                found = self._variable(node.name.removeprefix("."))
                if found is None:
                    return self._undeclared(node, node.name)
                node.name = node.name.removeprefix(".")
                return found
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map(node)
            case Comprehension():
                return self._comprehension(node)
            case _:
                assert isinstance(node, Message), node
                return self._undeclared(node, node.name)

    def finish(self) -> None:
        """What is still open may be anything."""
        for node in self._checked:
            node.type = self._known.apply(node.type, free_as_dyn=True)

    def _say(self, node: Node, message: str) -> None:
        self.problems.append(Problem(node.position, message))

    def _undeclared(self, node: Node, name: str) -> Type:
        self._say(node, f"undeclared reference to '{name}' (in container '')")
        return ERROR

    def _variable(self, name: str) -> Type | None:
        return next((scope[name] for scope in reversed(self._scopes) if name in scope), None)

    def _select(self, node: Select) -> Type:
        if not node.test_only and (name := qualified_name(node)):
            found = TYPE_NAMES.get(name.removeprefix("."))
            if found is not None:
                return found
        result = self._field(node, node.operand, node.name)
        return BOOL if node.test_only else self._known.apply(result)

    def _field(self, node: Node, operand: Node, name: str) -> Type:
        of, was_optional = unwrap_optional(self._known.apply(self.check(operand)))
        result = DYN
        if of.kind == "map":
            result = of.parameters[1]
        elif of == DEVICE:
            result = DEVICE_FIELDS.get(name, ERROR)
            if result is ERROR:
                self._say(node, f"undefined field '{name}'")
        elif of.kind == "struct":
            result = ERROR
            self._say(node, f"unexpected failed resolution of '{of.name}'")
        elif of.kind == "parameter":
            self._known.assign([DYN], [of])
        elif not is_dyn(of) and of.kind != "error":
            self._say(node, f"type '{of.shown()}' does not support field selection")
        return optional_of(result) if was_optional else result

    def _call(self, node: Call) -> Type:
        if node.function == "_?._":
            name = node.args[1]
            assert isinstance(name, Literal)
            name.type = STRING
            of = self._field(node, node.args[0], str(name.value))
            node.overloads = ["select_optional_field"]
            inner, was_optional = unwrap_optional(of)
            return self._known.apply(optional_of(inner if was_optional else of))
        for argument in node.args:
            self.check(argument)
        declared = functions()
        if node.target is not None:
            prefix = qualified_name(node.target).removeprefix(".")
            if prefix and f"{prefix}.{node.function}" in declared:
                node.function = f"{prefix}.{node.function}"
                node.target = None
            else:
                self.check(node.target)
        if node.function.removeprefix(".") not in declared:
            return self._undeclared(node, node.function)
        node.function = node.function.removeprefix(".")
        if node.function in ("_&&_", "_||_"):
            return self._logical(node)
        return self._resolve(node, declared[node.function])

    def _logical(self, node: Call) -> Type:
        node.overloads = ["logical_and" if node.function == "_&&_" else "logical_or"]
        result = BOOL
        for argument in node.args:
            if not self._known.assign([argument.type], [BOOL]):
                self._mismatch(argument, BOOL, argument.type)
                result = ERROR
        return result

    def _resolve(self, node: Call, overloads: list[Overload]) -> Type:
        arguments = [operand.type for operand in node.operands()]
        node.overloads = []
        result: Type | None = None
        for overload in overloads:
            if overload.is_method != (node.target is not None):
                continue
            types = self._fresh(overload)
            if not self._known.assign(arguments, types[:-1]):
                continue
            node.overloads.append(overload.id)
            returned = self._known.apply(types[-1])
            if result is None:
                result = returned
            elif not is_dyn(result) and result != returned:
                result = DYN
        return result if result is not None else self._no_overload(node, arguments)

    def _no_overload(self, node: Call, arguments: list[Type]) -> Type:
        shown = [self._known.apply(it, free_as_dyn=True).shown() for it in arguments]
        receiver = f"{shown.pop(0)}." if node.target is not None else ""
        applied = f"{receiver}({', '.join(shown)})"
        self._say(node, f"found no matching overload for '{node.function}' applied to '{applied}'")
        return ERROR

    def _fresh(self, overload: Overload) -> list[Type]:
        """The types of arguments and result, with type parameters of their own."""
        types = [*overload.arguments, overload.result]
        if not overload.parameters:
            return types
        fresh = {it: self._new_parameter() for it in overload.parameters}
        return [_replaced(it, fresh) for it in types]

    def _new_parameter(self) -> Type:
        self._free += 1
        return parameter(f"_var{self._free - 1}")

    def _list(self, node: ListLiteral) -> Type:
        joined: Type | None = None
        for index, element in enumerate(node.elements):
            of = self.check(element)
            if index in node.optional:
                of = self._unwrapped(element, of)
            joined = self._join(joined, of)
        return list_of(self._new_parameter() if joined is None else joined)

    def _map(self, node: MapLiteral) -> Type:
        key_type: Type | None = None
        value_type: Type | None = None
        for entry in node.entries:
            key_type = self._join(key_type, self.check(entry.key))
            of = self.check(entry.value)
            if entry.optional:
                of = self._unwrapped(entry.value, of)
            value_type = self._join(value_type, of)
        if key_type is None or value_type is None:
            return map_of(self._new_parameter(), self._new_parameter())
        return map_of(key_type, value_type)

    def _unwrapped(self, node: Node, of: Type) -> Type:
        inner, was_optional = unwrap_optional(of)
        if not was_optional and not is_dyn(inner):
            self._mismatch(node, optional_of(inner), inner)
        return inner

    def _join(self, before: Type | None, now: Type) -> Type:
        if before is None:
            return now
        if self._known.assign([before], [now]):
            return more_general(before, now)
        return DYN

    def _mismatch(self, node: Node, expected: Type, found: Type) -> None:
        self._say(node, f"expected type '{expected.shown()}' but found '{found.shown()}'")

    def _comprehension(self, node: Comprehension) -> Type:
        over = self._known.apply(self.check(node.range))
        accumulated = self.check(node.initial)
        self._scopes.append({node.accumulator: accumulated})
        variables = self._loop_variables(node.range, over, len(node.variables))
        self._scopes.append(dict(zip(node.variables, variables, strict=True)))
        self._expect(node.condition, BOOL)
        self._expect(node.step, accumulated)
        self._scopes.pop()
        self.check(node.result)
        self._scopes.pop()
        return self._known.apply(node.result.type)

    def _loop_variables(self, range_node: Node, over: Type, count: int) -> list[Type]:
        match over.kind:
            case "list":
                return [over.parameters[0]] if count == 1 else [INT, over.parameters[0]]
            case "map":
                return list(over.parameters[:count])
            case "dyn" | "error" | "parameter":
                self._known.assign([DYN], [over])
                return [DYN] * count
            case _:
                self._say(
                    range_node,
                    f"expression of type '{over.shown()}' cannot be range of a comprehension "
                    "(must be list, map, or dynamic)",
                )
                return [ERROR] * count

    def _expect(self, node: Node, wanted: Type) -> None:
        found = self.check(node)
        if not self._known.assign([wanted], [found]):
            self._mismatch(node, wanted, found)


def _replaced(of: Type, by: dict[Type, Type]) -> Type:
    if of in by:
        return by[of]
    if not of.parameters:
        return of
    return Type(of.kind, of.name, tuple(_replaced(it, by) for it in of.parameters))
