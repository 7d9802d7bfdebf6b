"""An expression, ready to be asked about devices.

`compile_expression` is the way in: parse (`parser.py`), check (`checker.py`, `literals.py`),
estimate (`cost.py`), compile (`compiler.py`).  Expressions are kept by their text, as many as
`KEPT_MAX`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from stowplan.cel.checker import check
from stowplan.cel.code import METER, Run
from stowplan.cel.compiler import Compiler
from stowplan.cel.cost import estimate
from stowplan.cel.device import Device
from stowplan.cel.errors import CompileError, EvaluationError, Problem, SyntaxProblem
from stowplan.cel.literals import check_literals
from stowplan.cel.parser import parse
from stowplan.cel.runtime_cost import Meter
from stowplan.cel.syntax import Call, Node, walk
from stowplan.cel.types import ANY, BOOL
from stowplan.cel.values import Optional, TypeValue, Value, type_name

LENGTH_MAX = 10_240
"""Bytes of an expression that the API accepts."""
COST_MAX = 1_000_000
"""Of the estimate, for the API server, and of the evaluation."""
_COUNTED_FROM = COST_MAX // 4
"""An estimate is an upper bound, but not a proven one: expressions from here on are counted."""
KEPT_MAX = 4096


@dataclass(frozen=True, slots=True)
class Expression:
    text: str
    max_cost: int
    """The API server's estimate of the worst case."""
    _run: Run
    _slots: int
    _counted: bool

    @property
    def too_complex(self) -> bool:
        """Whether the API server refuses it for its cost."""
        return self.max_cost > COST_MAX

    def matches(self, device: Device) -> bool:
        """Raises `EvaluationError` with the words that Kubernetes has for it."""
        frame: list[object] = [None] * self._slots
        frame[0] = device.variable()
        if self._counted:
            frame[METER] = Meter(COST_MAX)
        try:
            found = self._run(frame)
        except RecursionError:
            raise EvaluationError("evaluation nests too deep") from None
        if found is True or found is False:
            return found
        raise EvaluationError(_not_bool(found))


@lru_cache(maxsize=KEPT_MAX)
def compile_expression(text: str) -> Expression:
    """Raises `CompileError`."""
    if len(text.encode(errors="surrogatepass")) > LENGTH_MAX:
        raise CompileError(f"expression is longer than {LENGTH_MAX} bytes")
    try:
        root = checked(text)
        max_cost = estimate(root)
        counted = max_cost >= _COUNTED_FROM or any(map(_outgrows_estimate, walk(root)))
        return assembled(text, root, max_cost, counted=counted)
    except RecursionError:
        raise CompileError("compilation failed: the expression nests too deep") from None


def _outgrows_estimate(node: Node) -> bool:
    """The estimate takes a flattened list to be no longer than it was."""
    return isinstance(node, Call) and node.function == "flatten"


def assembled(text: str, root: Node, max_cost: int, *, counted: bool) -> Expression:
    compiler = Compiler(root, counting=counted)
    run = compiler.build(root).run
    return Expression(text, max_cost, run, compiler.slots, counted)


def checked(text: str) -> Node:
    try:
        root = parse(text)
    except SyntaxProblem as raised:
        raise _refused(text, [raised.problem]) from None
    problems = check(root) or check_literals(root)
    if problems:
        raise _refused(text, problems)
    if root.type not in (BOOL, ANY):
        raise CompileError(f"must evaluate to bool or the unknown type, not {root.type}")
    return root


def _refused(text: str, problems: list[Problem]) -> CompileError:
    shown = [_located(text, it) for it in sorted(dict.fromkeys(problems), key=lambda it: it[0])]
    first = shown[0].partition("\n")[0]
    return CompileError(
        f"compilation failed: {first}", details="compilation failed: " + "\n".join(shown)
    )


def _located(text: str, problem: Problem) -> str:
    if not text:
        return f"ERROR: <input>:1:0: {problem.message}"
    before = text[: problem.position]
    line, column = before.count("\n") + 1, problem.position - before.rfind("\n")
    source = text.split("\n")[line - 1].replace("\t", " ")
    pointer = "".join("." if it.isascii() else "．" for it in source[: column - 1])
    pointer += "^" if source[column - 1 : column].isascii() else "＾"
    return f"ERROR: <input>:{line}:{column}: {problem.message}\n | {source}\n | {pointer}"


def _not_bool(value: Value) -> str:
    name = type_name(value)
    return f"CEL result of type {name} could not be converted to bool: {_conversion(value, name)}"


def _conversion(value: Value, name: str) -> str:
    if isinstance(value, Optional) and value.present:
        return _conversion(value.value, type_name(value.value))
    if isinstance(value, int):
        return f"unsupported type conversion from '{name}' to bool"
    if isinstance(value, str):
        return f"unsupported native conversion from {name} to 'bool'"
    if isinstance(value, TypeValue):
        return "type conversion not supported for 'type'"
    short = name.rpartition(".")[2].removeprefix("Named")
    if isinstance(value, bytes | float):
        short = short.capitalize()
    if not isinstance(value, bytes | float | list | dict):
        short = f"'{short}'"
    return f"type conversion error from {short} to 'bool'"
