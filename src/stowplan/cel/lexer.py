"""Text to tokens.  `parser.py` reads them.

Literals are decoded here: a token's `value` is what it stands for.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from stowplan.cel.errors import SyntaxProblem
from stowplan.cel.values import INT_MAX, UINT_MAX, UInt, go_quoted

_ESCAPE = (
    r"""\\(?:[abfnrtv"'`?\\]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"""
)
_TOKEN = re.compile(
    rf"""
    (?P<space>(?:[\t\ \r\n\f]+|//[^\n]*)+)
  | (?P<text>[bB]?[rR](?:\"{{3}}[\s\S]*?\"{{3}}|'{{3}}[\s\S]*?'{{3}}|\"[^\"\n\r]*\"|'[^'\n\r]*')
      | [bB]?(?:\"{{3}}(?:{_ESCAPE}|[^\\])*?\"{{3}}|'{{3}}(?:{_ESCAPE}|[^\\])*?'{{3}}
      | \"(?:{_ESCAPE}|[^\\\"\n\r])*\"|'(?:{_ESCAPE}|[^\\'\n\r])*'))
  | (?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+
      | \.[0-9]+(?:[eE][+-]?[0-9]+)?)
  | (?P<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])
  | (?P<int>0x[0-9a-fA-F]+|[0-9]+)
  | (?P<name>[_a-zA-Z][_a-zA-Z0-9]*)
  | (?P<quoted>`[a-zA-Z0-9_.\-/\ ]+`)
  | (?P<operator>&&|\|\||==|!=|<=|>=|[-+*/%!<>?:.,()\[\]{{}}])
    """,
    re.VERBOSE,
)
_KEYWORDS = {"true": True, "false": False, "null": None}
_ESCAPED = re.compile(_ESCAPE)
_SIMPLE_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
}  # fmt: skip
_LINE_ENDS = re.compile(r"\r\n?")


class Token(NamedTuple):
    kind: str
    """`literal`, `int`, `float`, `name`, `quoted`, `end`, or the operator itself."""
    text: str
    position: int
    value: object = None


def tokens_of(text: str) -> list[Token]:
    found: list[Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            unknown = go_quoted(text[position : position + 20])[1:-1]
            raise SyntaxProblem(position, f"Syntax error: token recognition error at: '{unknown}'")
        if match.lastgroup != "space":
            found.append(_token(match.lastgroup or "", match[0], position))
        position = match.end()
    found.append(Token("end", "<EOF>", len(text)))
    return found


def _token(group: str, text: str, position: int) -> Token:
    match group:
        case "text":
            return Token("literal", text, position, _string(text, position))
        case "float":
            return Token("float", text, position, float(text))
        case "int":
            return Token("int", text, position, _integer(text))
        case "uint":
            number = _integer(text[:-1])
            if number > UINT_MAX:
                raise SyntaxProblem(position, "invalid uint literal")
            return Token("literal", text, position, UInt(number))
        case "name" if text in _KEYWORDS:
            return Token("literal", text, position, _KEYWORDS[text])
        case "name" | "quoted":
            return Token("in" if text == "in" else group, text, position)
        case _:
            return Token(text, text, position)


def _integer(text: str) -> int:
    if len(text) > 40:
        return INT_MAX * 4
    return int(text, 16) if text.startswith("0x") else int(text)


def _string(text: str, position: int) -> str | bytes:
    quote = min(it for it in (text.find('"'), text.find("'")) if it >= 0)
    prefix = text[:quote].lower()
    body = text[quote:]
    width = 3 if len(body) >= 6 and body[:3] in ('"""', "'''") else 1
    body = _LINE_ENDS.sub("\n", body[width:-width])
    if "b" in prefix:
        return body.encode() if "r" in prefix else _bytes(body, position)
    if "r" in prefix or "\\" not in body:
        return body
    return _ESCAPED.sub(lambda found: _character(found[0], position), body)


def _character(escape: str, position: int) -> str:
    code = _code(escape)
    if code is None:
        return _SIMPLE_ESCAPES.get(escape[1], escape[1])
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise SyntaxProblem(position, "unable to unescape string")
    return chr(code)


def _bytes(body: str, position: int) -> bytes:
    found, start = b"", 0
    for match in _ESCAPED.finditer(body):
        if match[0][1] in "uU":
            raise SyntaxProblem(position, "unable to unescape string")
        code = _code(match[0])
        plain = _SIMPLE_ESCAPES.get(match[0][1], match[0][1])
        found += body[start : match.start()].encode()
        found += plain.encode() if code is None else bytes([code])
        start = match.end()
    return found + body[start:].encode()


def _code(escape: str) -> int | None:
    digits = escape[2:]
    if escape[1] in "xXuU":
        return int(digits, 16)
    return int(escape[1:], 8) if escape[1].isdigit() else None
