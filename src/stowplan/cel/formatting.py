"""`"%s of %d".format([…])`: clauses, at run time and in the check of constant formats.

Numbers with a fraction are written as upstream's English printer does: `1,234.500000`, `1.5×10⁰³`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from decimal import ROUND_HALF_EVEN, Decimal, localcontext

from stowplan.cel.conversions import FUNCTIONS as CONVERSIONS
from stowplan.cel.conversions import double_text
from stowplan.cel.errors import EvaluationError
from stowplan.cel.values import (
    Duration,
    Timestamp,
    TypeValue,
    UInt,
    Value,
    from_key,
    type_name,
)

_CLAUSE = re.compile(r"%(?:%|(\.)?([0-9]*)([\s\S]?))")
_PRECISION_DEFAULT = 6
_PRECISION_MAX = 1000
_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_RAISED = {"NaN", "Infinity", "-Infinity"}

_ALLOWED = {
    "d": (
        ("int", "uint"),
        "decimal clause can only be used on integers, was given {}",
    ),
    "f": (
        ("double", "string"),
        "fixed-point clause can only be used on doubles, was given {}",
    ),
    "e": (
        ("double", "string"),
        "scientific clause can only be used on doubles, was given {}",
    ),
    "b": (
        ("int", "uint", "bool"),
        "only integers and bools can be formatted as binary, was given {}",
    ),
    "x": (
        ("int", "uint", "string", "bytes"),
        "only integers, byte buffers, and strings can be formatted as hex, was given {}",
    ),
    "o": (
        ("int", "uint"),
        "octal clause can only be used on integers, was given {}",
    ),
    "s": (
        (
            *("list", "map", "int", "uint", "double", "bool", "string", "bytes", "type"),
            *("null_type", "google.protobuf.Timestamp", "google.protobuf.Duration"),
        ),
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, "
        "types, durations, and timestamps, was given {}",
    ),
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
    allowed, message = _ALLOWED[letter.lower()]
    if kind not in allowed:
        raise FormatProblem(f"error during formatting: {message.format(kind)}", argument)


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
            message = _ALLOWED[letter][1].format("string")
            raise EvaluationError(f"error during formatting: {message}")
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
            return f"[{', '.join(_inside(it) for it in value)}]"
        case dict():
            shown = sorted((_inside(from_key(key)), _inside(it)) for key, it in value.items())
            return f"{{{', '.join(f'{key}:{it}' for key, it in shown)}}}"
        case None:
            return "null"
        case TypeValue():
            return value.name
        case UInt():
            return str(int(value))
        case _:
            return str(_TO_STRING[type(value)](value))


def _inside(value: Value) -> str:
    """An element of a list or map."""
    match value:
        case str():
            return _go_quoted(value)
        case bytes():
            return f"b{_go_quoted(to_text(value))}"
        case Timestamp():
            return f"timestamp({_go_quoted(to_text(value))})"
        case Duration():
            return f"duration({_go_quoted(to_text(value))})"
        case float() if math.isfinite(value):
            return f"{value:.6f}"
        case float():
            return _go_quoted(double_text(value))
        case _ if type_name(value) in _ALLOWED["s"][0]:
            return to_text(value)
        case _:
            raise EvaluationError(
                f"error during formatting: no formatting function for {type_name(value)}"
            )


def _go_quoted(text: str) -> str:
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r",
               "\a": "\\a", "\b": "\\b", "\f": "\\f", "\v": "\\v"}  # fmt: skip
    shown = [escapes.get(it) or (it if it.isprintable() else _escaped(it)) for it in text]
    return f'"{"".join(shown)}"'


def _escaped(character: str) -> str:
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_TO_STRING: dict[type, Callable[[Value], Value]] = {
    bool: CONVERSIONS["bool_to_string"],
    int: CONVERSIONS["int64_to_string"],
    float: CONVERSIONS["double_to_string"],
    str: CONVERSIONS["string_to_string"],
    bytes: CONVERSIONS["bytes_to_string"],
    Timestamp: CONVERSIONS["timestamp_to_string"],
    Duration: CONVERSIONS["duration_to_string"],
}

FUNCTIONS = {"string_format": format_text}
