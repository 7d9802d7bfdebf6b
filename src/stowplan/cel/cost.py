"""The worst case that an expression can cost, as the API server estimates it.

`estimate` goes over the checked tree once.  Sizes of what comes from the device are bounded by the
API; a size that nobody knows is `UNKNOWN`, and so is what depends on it.
`call_estimates.py` has the functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from stowplan.cel.call_estimates import Operand, call_estimate, path_size
from stowplan.cel.estimates import UNKNOWN, Estimate, Path, Range, fixed
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
from stowplan.cel.types import Type

_LIST, _MAP, _MESSAGE = fixed(10), fixed(30), fixed(40)
_NAME = fixed(1)
_SCALARS = {"bool", "double", "duration", "int", "timestamp", "uint"}


@dataclass(frozen=True, slots=True)
class _Shape:
    """How large the keys and values of a list or map may be."""

    is_list: bool
    keys: Range
    values: Range

    def union(self, other: _Shape | None) -> _Shape | None:
        if other is None:
            return None
        return _Shape(self.is_list, self.keys.union(other.keys), self.values.union(other.values))


@dataclass(slots=True)
class _Local:
    path: Path
    size: Range | None
    shape: _Shape | None = None


@dataclass(slots=True)
class _Estimator:
    paths: dict[int, Path] = field(default_factory=dict)
    sizes: dict[int, Range] = field(default_factory=dict)
    shapes: dict[int, _Shape] = field(default_factory=dict)
    locals: dict[str, list[_Local]] = field(default_factory=dict)

    def cost(self, node: Node) -> Range:
        match node:
            case Literal():
                return fixed(0)
            case Ident():
                local = self._local(node)
                self.paths[id(node)] = (node.name,) if local is None else local.path
                return _NAME
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map(node)
            case Comprehension() if node.macro == "bind":
                return self._bind(node)
            case Comprehension():
                return self._comprehension(node)
            case _:
                return _MESSAGE

    def _local(self, node: Node) -> _Local | None:
        found = self.locals.get(node.name) if isinstance(node, Ident) else None
        return found[-1] if found else None

    def _path(self, node: Node) -> Path:
        local = self._local(node)
        return self.paths.get(id(node), ()) if local is None else local.path

    def size(self, node: Node) -> Range | None:
        if id(node) in self.sizes:
            return self.sizes[id(node)]
        found = _literal_size(node)
        if found is not None:
            return found
        found = path_size(self._path(node))
        if found is not None:
            self.sizes[id(node)] = found
            return found
        if _is_scalar(node.type):
            return fixed(1)
        local = self._local(node)
        return None if local is None else local.size

    def _shape(self, node: Node) -> _Shape | None:
        found = self.shapes.get(id(node))
        local = self._local(node)
        return local.shape if found is None and local is not None else found

    def _known_size(self, node: Node) -> Range:
        found = self.size(node)
        return UNKNOWN if found is None else found

    def _select(self, node: Select) -> Range:
        cost = self.cost(node.operand)
        if node.test_only:
            return cost
        self.paths[id(node)] = (*self._path(node.operand), node.name)
        return cost + _NAME if node.operand.type.kind in ("map", "struct", "parameter") else cost

    def _list(self, node: ListLiteral) -> Range:
        cost, values = _LIST, _of_none(node.elements)
        for element in node.elements:
            cost += self.cost(element)
            values = values.union(self._known_size(element))
        self.shapes[id(node)] = _Shape(True, fixed(1), values)
        return cost

    def _map(self, node: MapLiteral) -> Range:
        cost = _MAP
        keys = values = _of_none(node.entries)
        for entry in node.entries:
            cost += self.cost(entry.key) + self.cost(entry.value)
            keys = keys.union(self._known_size(entry.key))
            values = values.union(self._known_size(entry.value))
        self.shapes[id(node)] = _Shape(False, keys, values)
        return cost

    def _bind(self, node: Comprehension) -> Range:
        cost = self.cost(node.range) + self.cost(node.initial)
        self._push(node.accumulator, self._as_local(node.initial))
        cost += self.cost(node.result)
        self._pop(node.accumulator)
        self._keep(node, self.size(node.result), self._shape(node.result))
        return cost

    def _as_local(self, node: Node) -> _Local:
        return _Local(self._path(node), self.size(node), self._shape(node))

    def _keep(self, node: Node, size: Range | None, shape: _Shape | None) -> None:
        if size is not None:
            self.sizes[id(node)] = size
        if shape is not None:
            self.shapes[id(node)] = shape

    def _push(self, name: str, local: _Local) -> None:
        self.locals.setdefault(name, []).append(local)

    def _pop(self, name: str) -> None:
        self.locals[name].pop()

    def _comprehension(self, node: Comprehension) -> Range:
        cost = self.cost(node.range) + self.cost(node.initial)
        self._push(node.accumulator, self._as_local(node.initial))
        for name, local in zip(node.variables, self._variables(node), strict=True):
            self._push(name, local)
        each = self.cost(node.condition) + self.cost(node.step)
        for name in node.variables:
            self._pop(name)
        cost += self.cost(node.result)
        self._pop(node.accumulator)
        count = self._known_size(node.range)
        if isinstance(node.initial, Literal):
            self._keep(node, self.size(node.initial), None)
        elif isinstance(node.initial, ListLiteral | MapLiteral):
            self._keep(node, count, self._shape(node.step))
        return cost + count * each

    def _variables(self, node: Comprehension) -> list[_Local]:
        shape, path = self._shape(node.range), self._path(node.range)
        is_list = node.range.type.kind == "list" if shape is None else shape.is_list
        keys = _Local(
            (*path, "@indices" if is_list else "@keys"), None if shape is None else shape.keys
        )
        values = _Local(
            (*path, "@items" if is_list else "@values"), None if shape is None else shape.values
        )
        if len(node.variables) == 1:
            return [values if is_list else keys]
        if len(path) & (len(path) - 1):
            # Upstream appends both names to one slice, and where it has room, the second wins.
            keys.path = values.path
        return [keys, values]

    def _call(self, node: Call) -> Range:
        if node.function == "dyn":
            cost = self.cost(node.args[0]) + fixed(1)
            self._keep(node, self.size(node.args[0]), self._shape(node.args[0]))
            return cost
        costs = [self.cost(it) for it in node.args]
        operands = [self._operand(it) for it in node.args]
        if not node.overloads:
            return fixed(0)
        base, target = fixed(0), None
        if node.target is not None:
            base = self.cost(node.target)
            target = self._operand(node.target)
        worst, size = Range(UNKNOWN.high, 0), None
        for overload in node.overloads:
            estimate = self._overload(node, overload, target, operands, costs)
            worst = worst.union(estimate.cost)
            if estimate.size is not None:
                size = estimate.size if size is None else size.union(estimate.size)
            if overload in ("index_list", "index_map"):
                shape = self._shape(node.args[0])
                size = None if shape is None else shape.values
                step = "@items" if overload == "index_list" else "@values"
                self.paths[id(node)] = (*self._path(node.args[0]), step)
            if size is None:
                size = self.size(node)
        self._keep(node, size, None)
        return base + worst

    def _operand(self, node: Node) -> Operand:
        path = self._path(node)
        return Operand(node, self.size(node), () if path[:1] == ("@result",) else path)

    def _overload(
        self,
        node: Call,
        overload: str,
        target: Operand | None,
        operands: list[Operand],
        costs: list[Range],
    ) -> Estimate:
        arguments = sum(costs, fixed(0))
        match overload:
            case "logical_or" | "logical_and":
                return Estimate(Range(costs[0].low, arguments.high))
            case "conditional":
                self._keep(node, None, self._joined_shape(node.args[1], node.args[2]))
                size = self._known_size(node.args[1]).union(self._known_size(node.args[2]))
                return Estimate(costs[0] + costs[1].union(costs[2]), size)
            case "add_string" | "add_bytes" | "add_list":
                self._keep(node, None, self._joined_shape(*node.args))
            case _:
                pass
        found = call_estimate(node.function, overload, target, operands)
        return Estimate(found.cost + arguments, found.size)

    def _joined_shape(self, one: Node, other: Node) -> _Shape | None:
        shape = self._shape(one)
        return None if shape is None else shape.union(self._shape(other))


def estimate(root: Node) -> int:
    return _Estimator().cost(root).high


def _of_none(items: Sequence[object]) -> Range:
    """What every union widens; of an empty list, nothing."""
    return Range(UNKNOWN.high, 0) if items else fixed(0)


def _literal_size(node: Node) -> Range | None:
    match node:
        case Literal():
            value = node.value
            return fixed(len(value) if isinstance(value, str | bytes) else 1)
        case ListLiteral():
            return fixed(len(node.elements))
        case MapLiteral():
            return fixed(len(node.entries))
        case _:
            return None


def _is_scalar(of: Type) -> bool:
    if of.name == "optional_type":
        return _is_scalar(of.parameters[0])
    return of.kind in _SCALARS
