"""Constants that cannot be right: durations, timestamps, patterns, formats, and lists or maps whose
elements have different types.  Asked after the types are known.
"""

from __future__ import annotations

from collections.abc import Iterator

from stowplan.cel.errors import Problem
from stowplan.cel.formatting import FormatProblem, check_clause, clauses
from stowplan.cel.regexes import BadPattern, pattern
from stowplan.cel.syntax import Call, ListLiteral, Literal, MapLiteral, Node, children
from stowplan.cel.times import of_seconds, parse_duration, parse_timestamp
from stowplan.cel.types import Type, unwrap_optional


def check_literals(root: Node) -> list[Problem]:
    problems: dict[Problem, None] = {}
    pending: list[tuple[Node, bool]] = [(root, False)]
    while pending:
        node, inside_format = pending.pop()
        match node:
            case Call():
                problems |= dict.fromkeys(_call(node))
                inside_format = inside_format or node.function == "format"
            case ListLiteral() if not inside_format:
                problems |= dict.fromkeys(_list(node))
            case MapLiteral() if not inside_format:
                problems |= dict.fromkeys(_map(node))
        pending += [(child, inside_format) for child in children(node)]
    return list(problems)


def _call(node: Call) -> Iterator[Problem]:
    if node.function == "format" and node.target is not None:
        yield from _format(node)
        return
    # Of `matches(text, pattern)` upstream looks at the text: only methods have it at this place.
    argument = node.args[0] if node.args else None
    if not isinstance(argument, Literal):
        return
    if not _is_valid(node.function, argument.value):
        yield Problem(argument.position, f"invalid {node.function} argument")


def _is_valid(function: str, value: object) -> bool:
    match function, value:
        case "duration", str():
            return parse_duration(value) is not None
        case "duration", int():
            return False
        case "timestamp", str():
            return parse_timestamp(value) is not None
        case "timestamp", int():
            return of_seconds(value) is not None
        case "matches", str():
            try:
                pattern(value)
            except BadPattern:
                return False
        case _:
            pass
    return True


def _list(node: ListLiteral) -> Iterator[Problem]:
    first: Type | None = None
    for index, element in enumerate(node.elements):
        found = unwrap_optional(element.type)[0] if index in node.optional else element.type
        if first is None:
            first = found
        elif first != found:
            yield _mismatch(element, first, found)
            return


def _map(node: MapLiteral) -> Iterator[Problem]:
    first: tuple[Type, Type] | None = None
    for entry in node.entries:
        value = unwrap_optional(entry.value.type)[0] if entry.optional else entry.value.type
        if first is None:
            first = entry.key.type, value
            continue
        if entry.key.type != first[0]:
            yield _mismatch(entry.key, first[0], entry.key.type)
        if value != first[1]:
            yield _mismatch(entry.value, first[1], value)


def _mismatch(node: Node, expected: Type, found: Type) -> Problem:
    message = f"expected type '{expected.shown()}' but found '{found.shown()}'"
    return Problem(node.position, message)


def _format(node: Call) -> Iterator[Problem]:
    text, arguments = node.target, node.args[0]
    if not (isinstance(text, Literal) and isinstance(text.value, str)):
        return
    if not isinstance(arguments, ListLiteral):
        return
    used = 0
    try:
        for _, letter, _ in clauses(text.value, len(arguments.elements)):
            if letter:
                _check(letter, arguments.elements[used], used)
                used += 1
    except FormatProblem as problem:
        where = node if problem.argument < 0 else arguments.elements[problem.argument]
        yield Problem(where.position, str(problem))
        return
    if used < len(arguments.elements):
        counts = f"expected {used}, got {len(arguments.elements)}"
        yield Problem(node.position, f"too many arguments supplied to string.format ({counts})")


def _check(letter: str, node: Node, index: int) -> None:
    if node.type.kind != "dyn":
        check_clause(letter, node.type.name, index)
    if letter == "s" and isinstance(node, ListLiteral | MapLiteral):
        for child in children(node):
            _check(letter, child, index)
