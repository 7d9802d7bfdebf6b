"""Regular expressions: RE2, whose time is linear in the text, as upstream's is.

The package is imported when the first expression with a pattern is compiled: few have one.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from stowplan.cel.errors import EvaluationError
from stowplan.cel.values import Implementation, Value

_GO_WORDS = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "invalid named capture group": "invalid named capture",
}
_ANY_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")


class BadPattern(Exception):
    """The pattern is no regular expression; says why as upstream does."""


@lru_cache(maxsize=512)
def pattern(text: str) -> Any:
    import re2  # type: ignore[import-untyped]

    if _ANY_BYTE.search(text):
        raise BadPattern("error parsing regexp: invalid escape sequence: `\\C`")
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options=options)
    except re2.error as error:
        raise BadPattern(_reason(error)) from None


def _reason(error: Exception) -> str:
    said = error.args[0]
    words = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    if words.startswith("trailing \\"):
        return "error parsing regexp: trailing backslash at end of expression: ``"
    what, colon, where = words.partition(": ")
    what = _GO_WORDS.get(what, what)
    return f"error parsing regexp: {what}: `{where}`" if colon else f"error parsing regexp: {what}"


def matches(text: str, expression: str) -> bool:
    return _compiled(expression).search(text) is not None


def find(text: str, expression: str) -> str:
    found = _compiled(expression, "Illegal regex: ").search(text)
    return found[0] if found else ""


def find_all(text: str, expression: str, limit: int = -1) -> list[Value]:
    found: list[Value] = []
    for match in _compiled(expression, "Illegal regex: ").finditer(text):
        if len(found) == limit:
            break
        found.append(match[0])
    return found


def _compiled(expression: str, prefix: str = "") -> Any:
    try:
        return pattern(expression)
    except BadPattern as problem:
        raise EvaluationError(f"{prefix}{problem}") from None


FUNCTIONS: dict[str, Implementation] = {
    "matches": matches,
    "matches_string": matches,
    "string_find_string": find,
    "string_find_all_string": find_all,
    "string_find_all_string_int": find_all,
}
