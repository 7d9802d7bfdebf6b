"""The syntax tree.  Made by `parser.py` and `macros.py`; read by `checker.py`, `cost.py` and
`compiler.py`, each of which goes over it once.

Every node knows its position in the text (what messages point at) and gets its type and overloads
from the checker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from stowplan.cel.types import ERROR, Type

LiteralValue = object
"""None, bool, int, UInt, float, str or bytes."""


@dataclass(slots=True, eq=False)
class Node:
    position: int
    type: Type = field(default=ERROR, init=False)


@dataclass(slots=True, eq=False)
class Literal(Node):
    value: LiteralValue


@dataclass(slots=True, eq=False)
class Ident(Node):
    name: str


@dataclass(slots=True, eq=False)
class Select(Node):
    operand: Node
    name: str
    test_only: bool = False
    """`has(operand.name)`."""


@dataclass(slots=True, eq=False)
class Call(Node):
    function: str
    args: list[Node]
    target: Node | None = None
    overloads: list[str] = field(default_factory=list)
    """Those that the argument types allow; one, where the types are known."""

    def operands(self) -> list[Node]:
        return self.args if self.target is None else [self.target, *self.args]


@dataclass(slots=True, eq=False)
class ListLiteral(Node):
    elements: list[Node]
    optional: frozenset[int] = frozenset()
    """Which elements are written `?element`."""


@dataclass(slots=True, eq=False)
class MapEntry:
    key: Node
    value: Node
    optional: bool = False


@dataclass(slots=True, eq=False)
class MapLiteral(Node):
    entries: list[MapEntry]


@dataclass(slots=True, eq=False)
class Message(Node):
    """`name{field: value}`: there is none to make in this environment."""

    name: str


@dataclass(slots=True, eq=False)
class Comprehension(Node):
    """A loop that a macro wrote.

    `macro` says which, for the compiler; the parts are what the checker and the cost estimate see.
    """

    macro: str
    variables: tuple[str, ...]
    """One or two; none for a binding, whose name is `accumulator`."""
    range: Node
    accumulator: str
    initial: Node
    condition: Node
    step: Node
    result: Node
    body: tuple[Node, ...] = ()
    """What the user wrote: predicate, transformation, or both."""


def qualified_name(node: Node) -> str:
    """`a.b.c` of a chain of plain selections; empty if it is anything else."""
    names = []
    while isinstance(node, Select) and not node.test_only:
        names.append(node.name)
        node = node.operand
    if not isinstance(node, Ident):
        return ""
    names.append(node.name)
    return ".".join(reversed(names))


def children(node: Node) -> list[Node]:
    match node:
        case Select():
            return [node.operand]
        case Call():
            return node.operands()
        case ListLiteral():
            return node.elements
        case MapLiteral():
            return [part for entry in node.entries for part in (entry.key, entry.value)]
        case Comprehension():
            return [node.range, node.initial, node.condition, node.step, node.result]
        case _:
            return []


def walk(root: Node) -> Iterator[Node]:
    """Every node, in no order to rely upon."""
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        pending += children(node)
