"""Every small bug that can be planted in a module, as a change of its text.

A mutant replaces one stretch of the source by another; the rest of the file stays as it is, so
that a survivor can be read in its place.  What no test should notice is left alone: annotations,
decorators, class headers, log lines, `__repr__`, `__slots__`, asserts and `strict=True` of `zip`
(which is one), what is there for the type checker (names of types too, which would only fail to be
imported), and f-strings (before Python 3.12 their parts do not know where they are).
`sampling.py` draws from these.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
SWAPPED_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}
LOG_METHODS = {"debug", "info", "warning", "error", "exception", "critical", "log", "problem"}
TYPES = {"Callable", "Literal", "dict", "frozenset", "list", "set", "tuple", "type"}
COUNTERS = re.compile(r"(?:.*_)?(?:version|turn|serial|generation)s?")
"""Numbers that are only compared with each other: any other number will do, but it must change."""
UNTOUCHED_FUNCTIONS = {"__repr__"}
UNTOUCHED_NAMES = {"__slots__", "__all__", "__match_args__"}
SMALL_MAX = 100
"""Up to here a constant is changed by one.  A limit of a million is doubled."""


@dataclass(frozen=True, slots=True)
class Mutant:
    path: Path
    line: int
    last_line: int
    start: int
    end: int
    before: str
    after: str
    in_function: bool

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.after.encode() + source[self.end :]

    def compiles(self) -> bool:
        try:
            ast.parse(self.apply(self.path.read_bytes()))
        except SyntaxError:
            return False
        return True


def mutants_of(path: Path) -> list[Mutant]:
    source = path.read_bytes()
    finder = _Finder(path, source)
    finder.visit(ast.parse(source))
    return finder.found


class _Finder(ast.NodeVisitor):
    def __init__(self, path: Path, source: bytes) -> None:
        self.found: list[Mutant] = []
        self._path = path
        self._source = source
        self._line_starts = [0]
        for line in source.splitlines(keepends=True):
            self._line_starts.append(self._line_starts[-1] + len(line))
        self._scope: list[str] = []
        self._function_depth = 0

    def visit(self, node: ast.AST) -> None:
        if _is_untouched(node):
            return
        if isinstance(node, ast.expr):
            for changed in _changed_expressions(node):
                self._add(node, f"({ast.unparse(changed)})")
        elif isinstance(node, ast.stmt):
            for text in _changed_statements(node, self._scope[-1:] == ["__init__"]):
                self._add(node, text)
        super().visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        # Defaults belong to the function; its decorators and annotations are left alone.
        self._scope.append(node.name)
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        self._function_depth += 1
        for child in node.body:
            self.visit(child)
        self._function_depth -= 1
        self._scope.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - the name that ast calls

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._scope.append(node.name)
        for child in node.body:
            self.visit(child)
        self._scope.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        match node:
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant()) if (
                COUNTERS.fullmatch(name)
            ):
                return
            case ast.AnnAssign(value=ast.expr() as value):
                self.visit(value)

    def visit_If(self, node: ast.If) -> None:
        self._force(node.test, "True", "False")
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._force(node.test, "True", "False")
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._force(node.test, "False")
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for condition in node.ifs:
            self._force(condition, "True")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        self.visit(node.func)
        for part in (*node.args, *node.keywords):
            if not (isinstance(part, ast.keyword) and _is_assertion(node, part)):
                self.visit(part)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if not _is_counter(node):
            self.generic_visit(node)

    def visit_Slice(self, node: ast.Slice) -> None:
        for bound in (node.lower, node.upper):
            if bound is not None:
                self._add(bound, "")
        self.generic_visit(node)

    def _force(self, condition: ast.expr, *values: str) -> None:
        for value in values:
            if ast.unparse(condition) != value:
                self._add(condition, value)

    def _add(self, node: ast.expr | ast.stmt, after: str) -> None:
        end_line, end_col = node.end_lineno or node.lineno, node.end_col_offset or 0
        start = self._line_starts[node.lineno - 1] + node.col_offset
        end = self._line_starts[end_line - 1] + end_col
        before = self._source[start:end].decode()
        self.found.append(
            Mutant(
                path=self._path,
                line=node.lineno,
                last_line=end_line,
                start=start,
                end=end,
                before=before,
                after=after,
                in_function=self._function_depth > 0,
            )
        )


def _is_untouched(node: ast.AST) -> bool:
    match node:
        case ast.Assert() | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True
        case ast.FunctionDef(name=name):
            return name in UNTOUCHED_FUNCTIONS
        case ast.If(test=test):
            return ast.unparse(test).endswith("TYPE_CHECKING")
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return name in UNTOUCHED_NAMES or _is_type(value)
        case ast.Assign(targets=[ast.Attribute(attr=name)], value=ast.Constant()):
            return bool(COUNTERS.fullmatch(name))
        case ast.Call(func=ast.Attribute(value=owner, attr=attr)):
            return attr in LOG_METHODS and "log" in ast.unparse(owner).lower()
        case ast.Expr(value=value):
            return _is_untouched(value)
        case ast.Call(func=ast.Name(id="cast" | "TypeVar" | "NewType" | "ParamSpec")):
            return True
    return False


def _is_counter(node: ast.AugAssign) -> bool:
    match node:
        case ast.AugAssign(target=ast.Attribute(attr=name), value=ast.Constant()):
            return bool(COUNTERS.fullmatch(name))
    return False


def _is_type(node: ast.expr) -> bool:
    """`A | None`, `dict[str, int]` and the like: a name for a type."""
    match node:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _is_type(left) or _is_type(right)
        case ast.Subscript(value=ast.Name(id=name)):
            return name in TYPES
        case ast.Constant(value=None):
            return True
    return False


def _changed_statements(node: ast.stmt, in_init: bool) -> Iterator[str]:
    match node:
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.Raise():
            yield "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) if not in_init:
            yield "pass"
        case ast.AugAssign(target=target, op=op):
            if isinstance(target, ast.Attribute | ast.Subscript):
                yield "pass"
            if _is_counter(node):
                return
            if other := OPERATORS.get(type(op)):
                changed = copy.copy(node)
                changed.op = other()
                yield ast.unparse(changed)
        case ast.Return(value=value) if value is not None and not _is_nothing(value):
            yield "return None"
        case ast.Continue():
            yield "break"
        case ast.Break():
            yield "continue"


def _changed_expressions(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Compare(ops=ops):
            for place, op in enumerate(ops):
                changed = copy.copy(node)
                changed.ops = [*ops[:place], COMPARISONS[type(op)](), *ops[place + 1 :]]
                yield changed
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.BinOp(left=left, op=op, right=right):
            if type(op) in OPERATORS and not (_is_text(left) or _is_text(right)):
                yield ast.BinOp(left, OPERATORS[type(op)](), right)
        case ast.Constant(value=value):
            yield from (ast.Constant(other) for other in _other_constants(value))
        case ast.Call():
            yield from _changed_calls(node)


def _changed_calls(node: ast.Call) -> Iterator[ast.expr]:
    match node.func:
        case ast.Name(id=name) if name in SWAPPED_CALLS:
            yield ast.Call(ast.Name(SWAPPED_CALLS[name]), node.args, node.keywords)
        case ast.Attribute(attr="get" | "pop") if len(node.args) == 2 and not _is_nothing(
            node.args[1]
        ):
            yield ast.Call(node.func, node.args[:1], node.keywords)
    for place, keyword in enumerate(node.keywords):
        if keyword.arg is not None and not _is_assertion(node, keyword):
            others = node.keywords[:place] + node.keywords[place + 1 :]
            yield ast.Call(node.func, node.args, others)


def _is_assertion(call: ast.Call, keyword: ast.keyword) -> bool:
    return keyword.arg == "strict" and ast.unparse(call.func) == "zip"


def _other_constants(value: object) -> list[object]:
    match value:
        case bool():
            return [not value]
        case int() | float() if abs(value) > SMALL_MAX:
            return [value * 2]
        case int() | float():
            return [value + 1, value - 1]
    return []


def _is_nothing(node: ast.expr) -> bool:
    """False, an empty text and the like: whoever asks cannot tell them from None."""
    return ast.unparse(node) in ("None", "False", "''", "b''", "()", "[]", "{}")


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )
