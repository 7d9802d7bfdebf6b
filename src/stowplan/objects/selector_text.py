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
    if not _begins(tokens, 0):
        raise SelectorError(f"found {tokens[0]!r}, expected: !, identifier, or 'end of string'")
    requirements = []
    position = 0
    while True:
        requirement, position = _requirement(tokens, position)
        requirements.append(requirement)
        if position == len(tokens):
            return Selector(requirements)
        if tokens[position] != ",":
            raise SelectorError(f"found {tokens[position]!r}, expected: ',' or 'end of string'")
        position += 1
        if not _begins(tokens, position):
            raise SelectorError(f"found {_at(tokens, position)!r}, expected: identifier after ','")


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


def _begins(tokens: list[str], position: int) -> bool:
    """Whether a requirement may begin here."""
    token = _at(tokens, position)
    return token == "!" or (token != "" and token not in _SYMBOLS)


def _requirement(tokens: list[str], position: int) -> tuple[Requirement, int]:
    if _at(tokens, position) == "!":
        key = _word(tokens, position + 1)
        return make_requirement(key, DOES_NOT_EXIST), position + 2
    key = _word(tokens, position)
    position += 1
    operator = _at(tokens, position)
    if operator in ("", ","):
        return make_requirement(key, EXISTS), position
    if operator in _ONE_VALUE:
        # `a=` asks for the empty value.
        value = _at(tokens, position + 1)
        if value in ("", ","):
            return make_requirement(key, _ONE_VALUE[operator], [""]), position + 1
        value = _word(tokens, position + 1)
        return make_requirement(key, _ONE_VALUE[operator], [value]), position + 2
    if operator in _MANY_VALUES:
        values, position = _values(tokens, position + 1)
        return make_requirement(key, _MANY_VALUES[operator], values), position
    raise _error(f"found {operator!r}, expected: in, notin, =, ==, !=, gt, lt")


def _values(tokens: list[str], position: int) -> tuple[list[str], int]:
    """`(a,b)`.  An empty place between commas is the empty value, as upstream reads it."""
    if _at(tokens, position) != "(":
        raise _error(f"found {_at(tokens, position)!r} expected: '('")
    position += 1
    values = []
    while True:
        token = _at(tokens, position)
        if token in (",", ")"):
            values.append("")
        else:
            values.append(_word(tokens, position))
            position += 1
            token = _at(tokens, position)
        if token == ")":
            return values, position + 1
        if token != ",":
            raise _error(f"found {token!r}, expected: ',' or ')'")
        position += 1


def _at(tokens: list[str], position: int) -> str:
    return tokens[position] if position < len(tokens) else ""


def _word(tokens: list[str], position: int) -> str:
    token = _at(tokens, position)
    if not token or token in _SYMBOLS:
        raise _error(f"found {token!r}, expected: identifier")
    return token


def _error(problem: str) -> SelectorError:
    return SelectorError(f"unable to parse requirement: {problem}")
