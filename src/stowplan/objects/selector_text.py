"""Selectors as text: `app=web,tier!=cache,env in (a,b),!legacy,owner`, as `kubectl get -l` takes.

The embedded API server reads them from query strings.  Mirrors the parser in apimachinery's
`labels/selector.go`: commas join requirements, all of which must hold; no text means everything.
"""

from __future__ import annotations

import re

from stowplan.objects.selectors import (
    DOES_NOT_EXIST,
    EVERYTHING,
    EXISTS,
    GT,
    IN,
    LT,
    NOT_IN,
    Requirement,
    Selector,
    SelectorError,
    make_requirement,
)

_TOKEN = re.compile(r"\s*(==|!=|[=!(),<>]|[^\s=!(),<>]+)")
_SYMBOLS = frozenset({"==", "!=", "=", "!", "(", ")", ",", "<", ">"})
_ONE_VALUE = {"=": IN, "==": IN, "!=": NOT_IN, ">": GT, "<": LT}
_MANY_VALUES = {"in": IN, "notin": NOT_IN}
_LENGTH_MAX = 64 * 1024


def parse_selector(text: str) -> Selector:
    """
    >>> str(parse_selector("b!=2, a = 1,c in (y,x)"))
    'a=1,b!=2,c in (x,y)'
    """
    if len(text) > _LENGTH_MAX:
        raise SelectorError(f"a selector of {len(text)} characters is too long")
    tokens = _split(text)
    if not tokens:
        return EVERYTHING
    requirements = []
    position = 0
    while True:
        requirement, position = _requirement(text, tokens, position)
        requirements.append(requirement)
        if position == len(tokens):
            return Selector(requirements)
        if tokens[position] != ",":
            raise _error(text, f"found {tokens[position]!r}, expected ',' or the end")
        position += 1


def _split(text: str) -> list[str]:
    tokens = []
    position = 0
    end = len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        assert match is not None, f"no token at {position} of {text!r}"
        tokens.append(match.group(1))
        position = match.end()
    return tokens


def _requirement(text: str, tokens: list[str], position: int) -> tuple[Requirement, int]:
    if _at(tokens, position) == "!":
        key = _word(text, tokens, position + 1, "a label key")
        return make_requirement(key, DOES_NOT_EXIST), position + 2
    key = _word(text, tokens, position, "a label key")
    position += 1
    operator = _at(tokens, position)
    if operator in ("", ","):
        return make_requirement(key, EXISTS), position
    if operator in _ONE_VALUE:
        # `a=` asks for the empty value.
        value = _at(tokens, position + 1)
        if value in ("", ","):
            return make_requirement(key, _ONE_VALUE[operator], [""]), position + 1
        value = _word(text, tokens, position + 1, "a value")
        return make_requirement(key, _ONE_VALUE[operator], [value]), position + 2
    if operator in _MANY_VALUES:
        values, position = _values(text, tokens, position + 1)
        return make_requirement(key, _MANY_VALUES[operator], values), position
    raise _error(text, f"found {operator!r}, expected one of = == != in notin < >")


def _values(text: str, tokens: list[str], position: int) -> tuple[list[str], int]:
    """`(a,b)`.  An empty place between commas is the empty value, as upstream reads it."""
    if _at(tokens, position) != "(":
        raise _error(text, f"found {_at(tokens, position)!r}, expected '('")
    position += 1
    values = []
    while True:
        token = _at(tokens, position)
        if token in (",", ")"):
            values.append("")
        else:
            values.append(_word(text, tokens, position, "a value"))
            position += 1
            token = _at(tokens, position)
        if token == ")":
            return values, position + 1
        if token != ",":
            raise _error(text, f"found {token!r}, expected ',' or ')'")
        position += 1


def _at(tokens: list[str], position: int) -> str:
    return tokens[position] if position < len(tokens) else ""


def _word(text: str, tokens: list[str], position: int, what: str) -> str:
    token = _at(tokens, position)
    if not token or token in _SYMBOLS:
        raise _error(text, f"found {token!r}, expected {what}")
    return token


def _error(text: str, problem: str) -> SelectorError:
    return SelectorError(f"unable to parse the selector {text!r}: {problem}")
