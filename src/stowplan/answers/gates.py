"""Conditions such as `pending > base`: what `stowplan compare --fail-if` takes.

A measure, an operator, and a value made of numbers, `base` (the same measure of the base),
`+ - * /` and parentheses; `5%` is 0.05.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from difflib import get_close_matches

from stowplan.errors import InputError

LENGTH_MAX = 200
BASE = "base"

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d*)?%?)|(base)\b|([-+*/()]))")
_GATE = re.compile(r"\s*([a-z][a-z_.]*)\s*(>=|<=|==|!=|>|<)(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Gate:
    text: str
    measure: str
    holds: Callable[[float, float], bool]
    """Given the measure, and the same one of the base."""


def read_gate(text: str, measures: Collection[str]) -> Gate:
    """
    >>> read_gate("pending > base + 1", ["pending"]).holds(3, 1)
    True
    """
    found = _GATE.fullmatch(text)
    if found is None or len(text) > LENGTH_MAX:
        hint = "write MEASURE OPERATOR VALUE, such as `pending > base` or `fill.cpu < base * 0.95`"
        raise InputError(f"{text[:LENGTH_MAX]!r} is no condition", where="--fail-if", hint=hint)
    measure, sign, rest = found.groups()
    if measure not in measures:
        near = get_close_matches(measure, measures, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(measures)}"
        raise InputError(f"there is no measure {measure!r}", where="--fail-if", hint=hint)
    tokens = _tokens(rest, text)
    _Value(tokens, 1.0, text).whole()
    compare = _OPERATORS[sign]
    return Gate(
        text.strip(),
        measure,
        lambda now, base: compare(now, _Value(tokens, base, text).whole()),
    )


def _tokens(rest: str, text: str) -> list[str]:
    tokens, position = [], 0
    while rest[position:].strip():
        found = _TOKEN.match(rest, position)
        if found is None:
            raise _wrong(text, rest[position:].strip())
        tokens.append(found[0].strip())
        position = found.end()
    return tokens


def _wrong(text: str, at: str) -> InputError:
    shown = at or "the end"
    hint = "a value is made of numbers, `base`, + - * / and parentheses"
    return InputError(f"{text!r} cannot be read at {shown!r}", where="--fail-if", hint=hint)


class _Value:
    """One reading of the tokens, for one value of `base`."""

    def __init__(self, tokens: list[str], base: float, text: str) -> None:
        self._tokens = tokens
        self._base = base
        self._text = text
        self._at = 0

    def whole(self) -> float:
        value = self._sum()
        if self._at < len(self._tokens):
            raise _wrong(self._text, self._tokens[self._at])
        return value

    def _next(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _sum(self) -> float:
        value = self._product()
        while self._next() in ("+", "-"):
            sign = self._take()
            other = self._product()
            value = value + other if sign == "+" else value - other
        return value

    def _product(self) -> float:
        value = self._atom()
        while self._next() in ("*", "/"):
            sign = self._take()
            other = self._atom()
            if sign == "/" and other == 0:
                raise InputError(f"{self._text!r} divides by zero", where="--fail-if")
            value = value * other if sign == "*" else value / other
        return value

    def _atom(self) -> float:
        token = self._take()
        if token == BASE:
            return self._base
        if token == "-":
            return -self._atom()
        if token == "(":
            value = self._sum()
            if self._take() != ")":
                raise _wrong(self._text, "a parenthesis that is not closed")
            return value
        if not token or not token[0].isdecimal():
            raise _wrong(self._text, token)
        return float(token[:-1]) / 100 if token.endswith("%") else float(token)

    def _take(self) -> str:
        token = self._next()
        self._at += 1
        return token
