"""Stand-ins in the expressions that select devices.

An expression that compares whole texts means the same with stand-ins.  One that looks into them
(`startsWith`, `matches`, a length) does not: then the words of expressions and what they may be
compared with stay as they are, and whoever anonymises is told.  Used by `anonymise`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_TOKEN = re.compile(
    r"""(?P<space>\s+)|(?P<text>"[^"\\\n]*"|'[^'\\\n]*')|(?P<word>[A-Za-z_][A-Za-z0-9_]*)"""
    r"""|(?P<number>[0-9]+(?:\.[0-9]+)?)|(?P<sign>==|!=|<=|>=|&&|\|\||[<>!()\[\].,?:%*+-])"""
)
_NAMES = frozenset({"device", "has", "quantity", "semver", "true", "false", "in"})
_MEMBERS = frozenset(
    {"driver", "attributes", "capacity", "allowMultipleAllocations", "compareTo", "isGreaterThan",
     "isLessThan", "major", "minor", "patch", "asInteger", "asApproximateFloat", "isInteger"}
)  # fmt: skip
_AMOUNTS = ("quantity", "semver")


def parts(expression: str) -> list[tuple[str, str]] | None:
    """Kind and text of each token; None for one that looks into texts, or that we cannot read."""
    found: list[tuple[str, str]] = []
    position = 0
    while position < len(expression):
        match = _TOKEN.match(expression, position)
        if match is None:
            return None
        kind, text = str(match.lastgroup), match[0]
        before = [it for it in found[-2:] if it[0] != "space"]
        is_member = bool(before) and before[-1][1] == "."
        if kind == "word" and not is_member and text not in _NAMES:
            return None
        if kind == "word" and is_member:
            called = expression[match.end() :].lstrip().startswith("(")
            if called and text not in _MEMBERS:
                return None
            kind = "known" if text in _MEMBERS else "member"
        if kind == "text" and len(found) > 1 and found[-2][1] in _AMOUNTS:
            kind = "amount"
        if kind == "sign" and text == "+":
            # It may put texts together.
            return None
        found.append((kind, text))
        position = match.end()
    return found


def replaced(expression: str, name: Callable[[str], str]) -> str:
    """The expression with stand-ins; as it is, if it looks into texts."""
    found = parts(expression)
    if found is None:
        return expression
    made = []
    for kind, text in found:
        if kind == "member":
            text = name(text)
        elif kind == "text":
            text = f"{text[0]}{name(text[1:-1])}{text[-1]}"
        made.append(text)
    return "".join(made)
