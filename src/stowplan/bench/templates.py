"""Templates of objects: the part of Go's template language that workload files use.

`{{ .Index }}` and `{{ .Count }}`, arithmetic (`{{ AddInt .Index 1 }}`, calls in parentheses, `|`),
comments and `{{- -}}`; anything else is refused.  `Stencil` makes objects of a template: the text
is parsed as YAML once, with numbers nobody else would write in place of what varies, so that ten
thousand pods do not mean ten thousand documents to parse.  `ops` uses it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stowplan.apiserver.stored_kinds import STORED_KIND_BY_NAME, STORED_KINDS
from stowplan.errors import InputError
from stowplan.objects.base import KubeObject
from stowplan.objects.codec import convert
from stowplan.objects.kinds import Kind
from stowplan.objects.manifests import check, describe
from stowplan.objects.yaml_reader import read_yaml

Number = int | float
Result = Number | str
Expression = Callable[[int, int], Result]
"""The value for an index and a count."""

_ACTION = re.compile(r"\{\{(-\s)?(.*?)(\s-)?\}\}", re.DOTALL)
_TOKEN = re.compile(
    r"\s*(?:(?P<number>[-+]?\d+(?:\.\d+)?)|(?P<field>\.[A-Za-z]\w*)|(?P<name>[A-Za-z]\w*)"
    r"|(?P<text>\"[^\"\\]*\")|(?P<mark>[()|]))"
)


def _divide_int(a: int, b: int) -> int:
    """Towards zero, as Go does it."""
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _mod(a: int, b: int) -> int:
    return a - b * _divide_int(a, b)


_INTEGER_FUNCTIONS: dict[str, Callable[[Any, Any], int]] = {
    "AddInt": lambda a, b: a + b,
    "SubtractInt": lambda a, b: a - b,
    "MultiplyInt": lambda a, b: a * b,
    "DivideInt": _divide_int,
    "Mod": _mod,
}
_FLOAT_FUNCTIONS: dict[str, Callable[[Any, Any], float]] = {
    "AddFloat": lambda a, b: a + b,
    "SubtractFloat": lambda a, b: a - b,
    "MultiplyFloat": lambda a, b: a * b,
    "DivideFloat": lambda a, b: a / b,
}


@dataclass(frozen=True, slots=True)
class Action:
    evaluate: Expression
    varies: bool
    """Whether it looks at `.Index`."""


class Template:
    """
    >>> Template("pod-{{ AddInt .Index 1 }} of {{ .Count }}").render(4, 10)
    'pod-5 of 10'
    """

    def __init__(self, text: str, where: str = "template") -> None:
        self._where = where
        self.parts: list[str | Action] = []
        end, trim = 0, False
        for match in _ACTION.finditer(text):
            literal = text[end : match.start()]
            literal = literal.lstrip() if trim else literal
            self.parts.append(literal.rstrip() if match[1] else literal)
            self._add_action(match[2].strip())
            end, trim = match.end(), bool(match[3])
        tail = text[end:]
        if "{{" in tail:
            raise self._error("an action is not closed with }}")
        self.parts.append(tail.lstrip() if trim else tail)

    @property
    def varies(self) -> bool:
        return any(part.varies for part in self.parts if isinstance(part, Action))

    def render(self, index: int, count: int) -> str:
        try:
            return "".join(
                part if isinstance(part, str) else shown(part.evaluate(index, count))
                for part in self.parts
            )
        except (ZeroDivisionError, TypeError, ValueError) as error:
            raise self._error(str(error)) from None

    def _add_action(self, text: str) -> None:
        if text.startswith("/*") and text.endswith("*/"):
            return
        parser = _Parser(text)
        try:
            self.parts.append(parser.parse())
        except ValueError as error:
            raise self._error(f"{error} in {{{{ {text} }}}}") from None

    def _error(self, problem: str) -> InputError:
        return InputError(problem, where=self._where)


def shown(value: Result) -> str:
    """As Go's templates print it.

    >>> shown(2.0), shown(0.25), shown(7)
    ('2', '0.25', '7')
    """
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return str(value)


class _Parser:
    """One action: a pipeline of calls, each handed the result of the one before as last word."""

    def __init__(self, text: str) -> None:
        self._tokens = list(self._split(text))
        self._at = 0
        self._varies = False

    @staticmethod
    def _split(text: str) -> list[tuple[str, str]]:
        tokens, at = [], 0
        while at < len(text.rstrip()):
            match = _TOKEN.match(text, at)
            if match is None:
                raise ValueError(f"{text[at:].strip()[:20]!r} is not understood")
            assert match.lastgroup is not None
            tokens.append((match.lastgroup, match[match.lastgroup]))
            at = match.end()
        return tokens

    def parse(self) -> Action:
        evaluate = self._pipeline()
        if self._at < len(self._tokens):
            raise ValueError(f"unexpected {self._tokens[self._at][1]!r}")
        return Action(evaluate, self._varies)

    def _pipeline(self) -> Expression:
        value = self._call(None)
        while self._peek() == ("mark", "|"):
            self._at += 1
            value = self._call(value)
        return value

    def _call(self, piped: Expression | None) -> Expression:
        kind, text = self._peek()
        if kind != "name":
            if piped is not None:
                raise ValueError("only a function can follow '|'")
            return self._operand()
        self._at += 1
        operands = []
        while self._peek()[0] in ("number", "field", "text") or self._peek() == ("mark", "("):
            operands.append(self._operand())
        if piped is not None:
            operands.append(piped)
        return _function(text, operands)

    def _operand(self) -> Expression:
        kind, text = self._peek()
        self._at += 1
        if kind == "number":
            number: Number = float(text) if "." in text else int(text)
            return lambda index, count: number
        if kind == "text":
            literal = text[1:-1]
            return lambda index, count: literal
        if kind == "field" and text == ".Index":
            self._varies = True
            return lambda index, count: index
        if kind == "field" and text == ".Count":
            return lambda index, count: count
        if (kind, text) == ("mark", "("):
            inner = self._pipeline()
            if self._peek() != ("mark", ")"):
                raise ValueError("a parenthesis is not closed")
            self._at += 1
            return inner
        raise ValueError(f"{text!r} is not known" if text else "something is missing")

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("", "")


def _function(name: str, operands: list[Expression]) -> Expression:
    integer, floating = _INTEGER_FUNCTIONS.get(name), _FLOAT_FUNCTIONS.get(name)
    if integer is None and floating is None:
        known = ", ".join([*_INTEGER_FUNCTIONS, *_FLOAT_FUNCTIONS])
        raise ValueError(f"the function {name!r} is not known ({known} are)")
    if len(operands) != 2:
        raise ValueError(f"{name} takes 2 numbers, not {len(operands)}")
    left, right = operands
    if integer is not None:
        return lambda index, count: integer(
            _whole(name, left(index, count)), _whole(name, right(index, count))
        )
    assert floating is not None
    return lambda index, count: floating(_real(left(index, count)), _real(right(index, count)))


def _whole(name: str, value: Result) -> int:
    if not isinstance(value, int):
        raise ValueError(f"{name} takes whole numbers, not {value!r}")
    return value


def _real(value: Result) -> float:
    if isinstance(value, str):
        raise ValueError(f"{value!r} is no number")
    return float(value)


# -- objects ---------------------------------------------------------------------------------

Maker = Callable[[int, int], Any]
"""A part of an object, for an index and a count."""

_MARK = 7_003_140_900_000_000
"""Numbers from here on stand for what varies, while the text is read as YAML."""


class Stencil:
    """Objects of one template."""

    def __init__(self, path: Path) -> None:
        try:
            text = path.read_text()
        except OSError as error:
            raise InputError(error.strerror or str(error), where=str(path)) from None
        self._where = path.name
        self._template = Template(text, path.name)
        self.varies = self._template.varies
        first = self._parse(0, 1)
        self.kind = self._kind_of(first)
        check(first, self.kind.struct, f"{path.name}: {describe(first)}")
        self._make: Maker | None = self._compile() if self.varies else None
        self._same: tuple[int, dict[str, Any]] | None = None

    def data(self, index: int, count: int) -> dict[str, Any]:
        """The object as JSON data; not to be changed."""
        if self._make is not None:
            made: dict[str, Any] = self._make(index, count)
            return made
        if self.varies:
            return self._parse(index, count)
        if self._same is None or self._same[0] != count:
            self._same = (count, self._parse(index, count))
        return self._same[1]

    def struct(self, index: int, count: int) -> KubeObject:
        made: KubeObject = convert(self.data(index, count), self.kind.struct)
        return made

    def _parse(self, index: int, count: int) -> dict[str, Any]:
        documents = read_yaml(self._template.render(index, count), self._where)
        if len(documents) != 1 or not isinstance(documents[0], dict):
            raise InputError("a template is one object", where=self._where)
        return documents[0]

    def _kind_of(self, data: dict[str, Any]) -> Kind:
        name = (str(data.get("apiVersion")), str(data.get("kind")))
        kind = STORED_KIND_BY_NAME.get(name)
        if kind is None:
            known = ", ".join(sorted(str(kind) for kind in STORED_KINDS))
            raise InputError(
                f"there is no {name[1]} of {name[0]}", where=self._where, hint=f"known: {known}"
            )
        return kind

    def _compile(self) -> Maker | None:
        """A quick way to make the object; None if it does not give the same as the plain way."""
        marks: dict[str, Expression] = {}
        text = ""
        for part in self._template.parts:
            if isinstance(part, Action):
                mark = str(_MARK + len(marks))
                marks[mark] = part.evaluate
                text += mark
            else:
                text += part
        documents = read_yaml(text, self._where)
        make = _maker(documents[0], marks)
        tries = ((0, 1), (1, 3), (12, 100), (99, 100), (4999, 5000))
        if all(make(*numbers) == self._parse(*numbers) for numbers in tries):
            return make
        return None


def _maker(data: Any, marks: dict[str, Expression]) -> Maker:
    if isinstance(data, dict):
        pairs = [(_maker(key, marks), _maker(value, marks)) for key, value in data.items()]
        return lambda index, count: {key(index, count): value(index, count) for key, value in pairs}
    if isinstance(data, list):
        items = [_maker(item, marks) for item in data]
        return lambda index, count: [item(index, count) for item in items]
    text = str(data)
    if not isinstance(data, str | int) or not any(mark in text for mark in marks):
        return lambda index, count: data
    pieces = [marks.get(piece, piece) for piece in _cut(text, list(marks))]

    def written(index: int, count: int) -> str:
        return "".join(
            piece if isinstance(piece, str) else shown(piece(index, count)) for piece in pieces
        )

    # A number without quotes is a number again.
    return written if isinstance(data, str) else lambda index, count: int(written(index, count))


def _cut(text: str, marks: list[str]) -> list[str]:
    return [piece for piece in re.split(f"({'|'.join(marks)})", text) if piece]
