"""A checked tree to closures.

Constants are folded as upstream folds them: a conversion of a constant that fails is a reason to
refuse the expression, and a list or map of constants costs nothing to make.  `code.py` and
`loops.py` have the closures.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from stowplan.cel import access, code, loops
from stowplan.cel.checker import TYPE_NAMES
from stowplan.cel.code import DEVICE, FIRST_SLOT, Code, Frame, Run, constant
from stowplan.cel.errors import CompileError, EvaluationError, no_such_overload
from stowplan.cel.functions import implementation, optional_value
from stowplan.cel.regexes import BadPattern, pattern
from stowplan.cel.runtime_cost import LIST, MAP, call_cost
from stowplan.cel.syntax import (
    Call,
    Comprehension,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
    qualified_name,
    walk,
)
from stowplan.cel.types import is_dyn, unwrap_optional
from stowplan.cel.values import Implementation, Optional, TypeValue, Value, go_name, map_key

_FOLDED = {
    *("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"),
}
_PATTERNS = {"matches", "find", "findAll"}
_HASHED = (str, int, float, bool)
_QUICK = {"_<_": operator.lt, "_<=_": operator.le, "_>_": operator.gt, "_>=_": operator.ge}
_UNSET = object()
_LISTED = {"distinct", "sort", "@sortByAssociatedKeys"}
_QUALIFIERS = (str, int, float)


class Compiler:
    def __init__(self, root: Node, *, counting: bool) -> None:
        self._counting = counting
        self._trusted = not any(map(_may_lie, walk(root)))
        self._aborts = any(isinstance(it, Call) and it.function in _LISTED for it in walk(root))
        self._scopes: list[dict[str, Code]] = []
        self.slots = FIRST_SLOT
        """How long a frame has to be."""

    def build(self, node: Node) -> Code:
        match node:
            case Literal():
                return constant(node.value)
            case Ident():
                return self._ident(node)
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map(node)
            case _:
                assert isinstance(node, Comprehension), node
                return self._comprehension(node)

    def _cost(self, run: Run, cost: int) -> Code:
        return Code(code.counted(run, cost) if self._counting else run)

    def _ident(self, node: Ident) -> Code:
        for scope in reversed(self._scopes):
            if node.name in scope:
                return scope[node.name]
        if node.name == "device":
            return self._cost(lambda frame: frame[DEVICE], 1)
        return constant(TypeValue(node.name))

    def _select(self, node: Select) -> Code:
        if not node.test_only and (name := qualified_name(node).removeprefix(".")) in TYPE_NAMES:
            return constant(TypeValue(name))
        name = node.name
        path = _device_path(node.operand) if not self._is_local("device") else None
        if path is not None:
            quick = code.device_has if node.test_only else code.device_value
            return self._cost(quick(*path, name), 3 if node.test_only else 4)
        operand = self.build(node.operand).run
        if node.test_only:
            return Code(lambda frame: access.has(operand(frame), name))
        return self._cost(lambda frame: access.select(operand(frame), name), self._step(node))

    def _is_local(self, name: str) -> bool:
        return any(name in scope for scope in self._scopes)

    def _step(self, node: Select | Call) -> int:
        """One for the step, and one more where it starts from a value instead of a name."""
        operand = node.operand if isinstance(node, Select) else node.args[0]
        is_path = isinstance(operand, Ident | Select) or (
            isinstance(operand, Call) and operand.function in _ACCESS
        )
        return 1 if is_path else 2

    def _call(self, node: Call) -> Code:
        match node.function:
            case "_&&_" | "_||_":
                terms = [self.build(it).run for it in node.args]
                return Code(code.logical(terms, node.function == "_||_"))
            case "_?_:_":
                condition = self.build(node.args[0]).run
                chosen, other = (self._branch(it) for it in node.args[1:])
                return Code(code.conditional(condition, chosen, other))
            case "_[_]" | "_[?_]" | "_?._":
                return self._index(node)
            case "orValue" | "or" if node.target is not None:
                return self._alternative(node)
            case _:
                return self._function(node)

    def _branch(self, node: Node) -> Run:
        run = self.build(node).run
        may_be_optional = node.type.name == "optional_type" or is_dyn(node.type)
        is_value = may_be_optional and not isinstance(node, Ident | Select)
        return code.as_branch(run) if is_value else run

    def _index(self, node: Call) -> Code:
        find = access.index if node.function == "_[_]" else access.optional_index
        operand, key = (self.build(it) for it in node.args)
        if key.constant and not isinstance(key.value, _QUALIFIERS):
            problem = f"invalid qualifier type: {go_name(key.value)}"
            raise CompileError(f"program instantiation failed: {problem}")
        if node.function == "_[_]" and key.constant and isinstance(key.value, str):
            name = key.value
            path = _device_path(node.args[0]) if not self._is_local("device") else None
            if path is not None:
                return self._cost(code.device_value(*path, name), 4)
        return self._cost(code.call(find, [operand.run, key.run]), self._step(node))

    def _alternative(self, node: Call) -> Code:
        """The other one is evaluated only if it is needed."""
        first, other = (self.build(it).run for it in node.operands())
        unwrap = node.function == "orValue"

        def run(frame: Frame) -> Value:
            value = first(frame)
            if not isinstance(value, Optional):
                return value
            if value.present:
                return optional_value(value) if unwrap else value
            return other(frame)

        return Code(run)

    def _function(self, node: Call) -> Code:
        operands = node.operands()
        parts = [self.build(it) for it in operands]
        types = [it.type for it in operands]
        function = implementation(node.function, node.overloads, types, trusted=self._trusted)
        if node.function in _PATTERNS and parts[1].constant:
            _check_pattern(parts[1].value)
            function = _plainly(function)
        if len(parts) == 1 and parts[0].constant and node.function in _FOLDED:
            value = parts[0].value
            return constant(_refused(lambda: function(value)))
        runs = [it.run for it in parts]
        if node.overloads == ["in_list"] and parts[1].constant:
            found = self._in_constant(runs[0], parts[1].value)
            if found is not None:
                return found
        cost = call_cost(node.function, node.overloads)
        if self._aborts:
            listed = node.function in _LISTED and len(node.overloads) == 1
            return Code(code.careful_call(function, runs, cost, listed=listed))
        if self._counting:
            return Code(code.counted_call(function, runs, cost))
        return Code(_quick(node.function, runs, parts) or code.call(function, runs))

    def _in_constant(self, operand: Run, items: Value) -> Code | None:
        if not isinstance(items, list) or not all(type(it) in _HASHED for it in items):
            return None
        return constant(False) if not items else Code(code.in_constant(operand, items))

    def _list(self, node: ListLiteral) -> Code:
        parts = [self.build(it) for it in node.elements]
        if all(it.constant for it in parts) and not node.optional:
            return constant([it.value for it in parts])
        runs = [it.run for it in parts]
        if not node.optional:
            return self._cost(lambda frame: [it(frame) for it in runs], LIST)

        def run(frame: Frame) -> Value:
            found: list[Value] = []
            for index, part in enumerate(runs):
                value = part(frame)
                if index in node.optional:
                    value = _as_optional(value)
                    if value.present:
                        found.append(value.value)
                else:
                    found.append(value)
            return found

        return self._cost(run, LIST)

    def _map(self, node: MapLiteral) -> Code:
        keys = [self.build(it.key) for it in node.entries]
        values = [self.build(it.value) for it in node.entries]
        optional = [it.optional for it in node.entries]
        triples = list(
            zip([it.run for it in keys], [it.run for it in values], optional, strict=True)
        )

        def run(frame: Frame) -> Value:
            found: dict[Value, Value] = {}
            for key, value, is_optional in triples:
                kept, item = map_key(key(frame)), value(frame)
                if is_optional:
                    item = _as_optional(item)
                    if not item.present:
                        continue
                    item = item.value
                found[kept] = item
            return found

        if all(it.constant for it in (*keys, *values)) and not any(optional):
            return constant(_refused(lambda: run([])))
        return self._cost(run, MAP)

    def _comprehension(self, node: Comprehension) -> Code:
        if node.macro == "bind":
            return self._bind(node)
        over = self.build(node.range)
        slots = tuple(self._new_slot() for _ in node.variables)
        scope = {name: self._slot(slot) for name, slot in zip(node.variables, slots, strict=True)}
        self._scopes.append(scope)
        body = [self.build(it) for it in node.body]
        self._scopes.pop()
        each = loops.rounds(over.run, slots)
        last = body[-1]
        predicate = body[0].run if len(body) > 1 else None
        match node.macro:
            case "all" | "exists":
                return Code(loops.quantifier(each, last.run, decisive=node.macro == "exists"))
            case "exists_one":
                return Code(loops.exists_one(each, last.run))
            case "transformMap":
                return Code(loops.transform_map(each, predicate, last.run, slots[0]))
            case "transformMapEntry":
                return Code(loops.transform_map_entry(each, predicate, last.run))
            case _:
                found = loops.collect(each, predicate, last.run, constant=last.constant)
                return Code(found)

    def _bind(self, node: Comprehension) -> Code:
        """The value is worked out when it is first asked for, and perhaps never."""
        value = self.build(node.initial).run
        slot = self._new_slot()

        def ask(frame: Frame) -> Value:
            if frame[slot] is _UNSET:
                try:
                    frame[slot] = value(frame)
                except EvaluationError as error:
                    frame[slot] = error
            found = frame[slot]
            if isinstance(found, EvaluationError):
                raise found
            return found

        self._scopes.append({node.accumulator: self._cost(ask, 1)})
        result = self.build(node.result).run
        self._scopes.pop()

        def run(frame: Frame) -> Value:
            frame[slot] = _UNSET
            return result(frame)

        return Code(run)

    def _new_slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    def _slot(self, slot: int) -> Code:
        return self._cost(lambda frame: frame[slot], 1)


_ACCESS = {"_[_]", "_[?_]", "_?._"}


def _device_path(node: Node) -> tuple[str, str] | None:
    """`device.attributes["domain"]`, of attributes or capacity."""
    if isinstance(node, Call) and node.function == "_[_]":
        outer, key = node.args
        if not isinstance(key, Literal) or not isinstance(key.value, str):
            return None
        domain = key.value
    elif isinstance(node, Select) and not node.test_only:
        outer, domain = node.operand, node.name
    else:
        return None
    name = qualified_name(outer)
    if name not in ("device.attributes", "device.capacity"):
        return None
    return name.removeprefix("device."), domain


def _quick(function: str, runs: list[Run], parts: list[Code]) -> Run | None:
    if len(runs) != 2:
        return None
    if function in ("_==_", "_!=_"):
        if parts[1].constant:
            return code.equals_constant(runs[0], parts[1].value, negated=function == "_!=_")
        return None
    if function in _QUICK and parts[1].constant and type(parts[1].value) is int:
        general = implementation(function, [], [])
        return code.compares_constant(runs[0], parts[1].value, _QUICK[function], general)
    if function == "_+_":
        return code.adds(runs[0], runs[1], implementation(function, [], []))
    return None


def _as_optional(value: Value) -> Optional:
    if isinstance(value, Optional):
        return value
    raise no_such_overload()


def _plainly(function: Implementation) -> Implementation:
    """With a constant pattern, upstream does not say what was called on which types."""

    def call(*arguments: Value) -> Value:
        if isinstance(arguments[0], str):
            return function(*arguments)
        raise no_such_overload()

    return call


def _check_pattern(text: Value) -> None:
    if isinstance(text, str):
        try:
            pattern(text)
        except BadPattern as problem:
            raise CompileError(f"program instantiation failed: {problem}") from None


def _refused(fold: Callable[[], Value]) -> Value:
    """What fails on constants would fail always: upstream does not take it."""
    try:
        return fold()
    except EvaluationError as error:
        raise CompileError(f"program instantiation failed: {error}") from None


def _may_lie(node: Node) -> bool:
    """`any.orValue(1)` is an int to the checker, yet gives whatever `any` is: upstream takes what
    is no optional as it is.  Null passes for a quantity, and is made of an optional in an optional
    (`code.as_branch`).  After that no static type can be relied upon.
    """
    if isinstance(node, Call) and node.function in ("or", "orValue"):
        return node.target is not None and is_dyn(node.target.type)
    inner, was_optional = unwrap_optional(node.type)
    if was_optional and unwrap_optional(inner)[1]:
        return True
    return isinstance(node, Literal) and node.value is None
