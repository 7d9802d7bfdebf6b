"""`"%s of %d".format([…])`: clauses, at run time and in the check of constant formats.

Numbers with a fraction are written as upstream's English printer does: `1,234.500000`, `1.5×10⁰³`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from decimal import ROUND_HALF_EVEN, Decimal, localcontext

from stowplan.cel.conversions import FUNCTIONS as CONVERSIONS
from stowplan.cel.conversions import double_text
from stowplan.cel.errors import EvaluationError
from stowplan.cel.values import (
    TEXT_MAX,
    Duration,
    Implementation,
    Timestamp,
    TypeValue,
    UInt,
    Value,
    bounded,
    from_key,
    go_quoted,
    type_name,
)

_CLAUSE = re.compile(r"%(?:%|(\.)?([0-9]*)([\s\S]?))")
_PRECISION_DEFAULT = 6
_PRECISION_MAX = 1000
_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_RAISED = {"NaN", "Infinity", "-Infinity"}

_NUMBERS = ("int", "uint")
_PRINTED = (
    *("list", "map", "int", "uint", "double", "bool", "string", "bytes", "type", "null_type"),
    *("google.protobuf.Timestamp", "google.protobuf.Duration"),
)
_PRINTED_RULE = (
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, "
    "durations, and timestamps"
)
_HEX_RULE = "only integers, byte buffers, and strings can be formatted as hex"
_ALLOWED: dict[str, tuple[tuple[str, ...], str]] = {
    "d": (_NUMBERS, "decimal clause can only be used on integers"),
    "f": (("double", "string"), "fixed-point clause can only be used on doubles"),
    "e": (("double", "string"), "scientific clause can only be used on doubles"),
    "b": ((*_NUMBERS, "bool"), "only integers and bools can be formatted as binary"),
    "x": ((*_NUMBERS, "string", "bytes"), _HEX_RULE),
    "o": (_NUMBERS, "octal clause can only be used on integers"),
    "s": (_PRINTED, _PRINTED_RULE),
}


class FormatProblem(Exception):
    """What is wrong with a format, and with which argument; -1 for the format itself."""

    def __init__(self, message: str, argument: int = -1) -> None:
        super().__init__(message)
        self.argument = argument


def clauses(text: str, count: int) -> Iterator[tuple[str, str, int]]:
    """Text between clauses, the clause's letter (empty at the end) and its precision."""
    position, used = 0, 0
    pending = ""
    for match in _CLAUSE.finditer(text):
        if match.start() < position:
            continue
        pending += text[position : match.start()]
        position = match.end()
        if match[0] == "%%":
            pending += "%"
            continue
        if match[0] == "%" and count > used:
            raise FormatProblem("unexpected end of string")
        if used >= count:
            raise FormatProblem(f"index {used} out of range")
        letter, precision = _clause(match)
        yield pending, letter, precision
        pending = ""
        used += 1
    yield pending + text[position:], "", 0


def _clause(match: re.Match[str]) -> tuple[str, int]:
    problem = "could not parse formatting clause"
    dot, digits, letter = match.groups()
    if not dot and digits:
        raise FormatProblem(f'{problem}: unrecognized formatting clause "{digits[0]}"')
    if dot:
        if not letter:
            raise FormatProblem(
                f"{problem}: error while parsing precision: "
                "could not find end of precision specifier"
            )
        if not digits or len(digits) > 18:
            raise FormatProblem(
                f"{problem}: error while parsing precision: error while converting precision to "
                f'integer: strconv.Atoi: parsing "{digits}": invalid syntax'
            )
    if letter.lower() not in _ALLOWED or (letter.isupper() and letter != "X"):
        raise FormatProblem(f'{problem}: unrecognized formatting clause "{letter}"')
    return letter, min(int(digits), _PRECISION_MAX) if dot else _PRECISION_DEFAULT


def check_clause(letter: str, kind: str, argument: int) -> None:
    allowed, rule = _ALLOWED[letter.lower()]
    if kind not in allowed:
        raise FormatProblem(f"error during formatting: {rule}, was given {kind}", argument)


def format_text(text: str, arguments: list[Value]) -> str:
    parts = []
    try:
        for index, (before, letter, precision) in enumerate(clauses(text, len(arguments))):
            parts.append(before)
            if letter:
                value = arguments[index]
                check_clause(letter, type_name(value), index)
                parts.append(_formatted(letter, precision, value))
    except FormatProblem as problem:
        raise EvaluationError(str(problem)) from None
    return "".join(parts)


def _formatted(letter: str, precision: int, value: Value) -> str:
    match letter:
        case "s":
            return to_text(value)
        case "d":
            return str(int(value))  # type: ignore[call-overload]
        case "b" | "o":
            return format(int(value), letter)  # type: ignore[call-overload]
        case "x" | "X":
            return _hex(value, letter)
        case _:
            number = _number(value, letter)
            return _fixed(number, precision) if letter == "f" else _scientific(number, precision)


def _hex(value: Value, letter: str) -> str:
    if isinstance(value, int):
        return format(int(value), letter)
    encoded = value.encode() if isinstance(value, str) else value
    assert isinstance(encoded, bytes)
    return encoded.hex().upper() if letter == "X" else encoded.hex()


def _number(value: Value, letter: str) -> float:
    if isinstance(value, str):
        if value not in _RAISED:
            rule = _ALLOWED[letter][1]
            raise EvaluationError(f"error during formatting: {rule}, was given string")
        return float(value.replace("Infinity", "inf"))
    assert isinstance(value, float)
    return value


def _fixed(value: float, precision: int) -> str:
    if not math.isfinite(value):
        return _not_finite(value)
    with localcontext() as context:
        context.prec = 2000
        exact = Decimal(value).quantize(Decimal(1).scaleb(-precision), ROUND_HALF_EVEN)
    return f"{exact:,.{precision}f}"


def _scientific(value: float, width: int) -> str:
    if not math.isfinite(value):
        return _not_finite(value).rjust(width)
    mantissa, exponent = f"{value:.6e}".split("e")
    shown = f"{'-' if exponent[0] == '-' else ''}{exponent[1:]}"
    return f"{mantissa}×10{shown.translate(_SUPERSCRIPTS)}".rjust(width)


def _not_finite(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "∞" if value > 0 else "-∞"


def to_text(value: Value) -> str:
    match value:
        case list():
            return f"[{', '.join(_parts(map(_inside, value)))}]"
        case dict():
            shown = sorted(f"{_inside(from_key(key))}:{_inside(it)}" for key, it in value.items())
            return f"{{{', '.join(_parts(shown))}}}"
        case None:
            return "null"
        case TypeValue():
            return value.name
        case UInt():
            return str(int(value))
        case _:
            return str(_TO_STRING[type(value)](value))


def _parts(texts: Iterable[str]) -> list[str]:
    """Collections may share parts, and be longer as a text than they are in memory."""
    found, length = [], 0
    for text in texts:
        found.append(text)
        length += len(text) + 2
        bounded(length, TEXT_MAX)
    return found


def _inside(value: Value) -> str:
    """An element of a list or map."""
    match value:
        case str():
            return go_quoted(value)
        case bytes():
            return f"b{go_quoted(to_text(value))}"
        case Timestamp():
            return f"timestamp({go_quoted(to_text(value))})"
        case Duration():
            return f"duration({go_quoted(to_text(value))})"
        case float() if math.isfinite(value):
            return f"{value:.6f}"
        case float():
            return go_quoted(double_text(value))
        case _ if type_name(value) in _PRINTED:
            return to_text(value)
        case _:
            raise EvaluationError(
                f"error during formatting: no formatting function for {type_name(value)}"
            )


_TO_STRING: dict[type, Callable[[Value], Value]] = {
    bool: CONVERSIONS["bool_to_string"],
    int: CONVERSIONS["int64_to_string"],
    float: CONVERSIONS["double_to_string"],
    str: CONVERSIONS["string_to_string"],
    bytes: CONVERSIONS["bytes_to_string"],
    Timestamp: CONVERSIONS["timestamp_to_string"],
    Duration: CONVERSIONS["duration_to_string"],
}

FUNCTIONS: dict[str, Implementation] = {"string_format": format_text}
