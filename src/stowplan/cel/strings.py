"""Functions on strings: the standard ones and version 2 of cel-go's string extension.

Positions count characters, not bytes.  `formatting.py` has `format`, `regexes.py` what matches.
"""

from __future__ import annotations

from stowplan.cel.errors import EvaluationError
from stowplan.cel.values import TEXT_MAX, Implementation, Value, bounded

_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680"
    + "".join(map(chr, range(0x2000, 0x200B)))
    + ("\u2028\u2029\u202f\u205f\u3000")
)
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_QUOTED = str.maketrans(
    {
        "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t",
        "\v": "\\v", "\\": "\\\\", '"': '\\"',
    }
)  # fmt: skip


def char_at(text: str, index: int) -> str:
    _check_range(text, index)
    return text[index : index + 1]


def index_of(text: str, part: str, start: int = 0) -> int:
    if not part:
        return start
    if start < 0:
        raise _out_of_range(start)
    return text.find(part, start) if start < len(text) else -1


def last_index_of(text: str, part: str) -> int:
    return text.rfind(part)


def last_index_of_from(text: str, part: str, start: int) -> int:
    if not part:
        return start
    if start < 0:
        raise _out_of_range(start)
    return text.rfind(part, 0, start + len(part)) if start < len(text) else -1


def substring(text: str, start: int) -> str:
    _check_range(text, start)
    return text[start:]


def substring_between(text: str, start: int, end: int) -> str:
    if start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    _check_range(text, start)
    _check_range(text, end)
    return text[start:end]


def replace(text: str, old: str, new: str, count: int = -1) -> str:
    bounded((text.count(old) + 1) * len(new) + len(text), TEXT_MAX)
    return text.replace(old, new, max(count, -1))


def split(text: str, separator: str, count: int = -1) -> list[Value]:
    if count == 0:
        return []
    if separator:
        return list(text.split(separator, count - 1 if count > 0 else -1))
    if count < 0 or count >= len(text):
        return list(text)
    return [*text[: count - 1], text[count - 1 :]]


def join(parts: list[Value], separator: str = "") -> str:
    for part in parts:
        if not isinstance(part, str):
            raise EvaluationError(f"join: invalid input: {part}")
    texts = [str(part) for part in parts]
    bounded(sum(map(len, texts)) + len(separator) * len(texts), TEXT_MAX)
    return separator.join(texts)


def quote(text: str) -> str:
    return f'"{text.translate(_QUOTED)}"'


def _check_range(text: str, index: int) -> None:
    if not 0 <= index <= len(text):
        raise _out_of_range(index)


def _out_of_range(index: int) -> EvaluationError:
    return EvaluationError(f"index out of range: {index}")


FUNCTIONS: dict[str, Implementation] = {
    "contains_string": lambda text, part: part in text,
    "starts_with_string": str.startswith,
    "ends_with_string": str.endswith,
    "string_char_at_int": char_at,
    "string_index_of_string": index_of,
    "string_index_of_string_int": index_of,
    "string_last_index_of_string": last_index_of,
    "string_last_index_of_string_int": last_index_of_from,
    "string_lower_ascii": lambda text: text.translate(_LOWER),
    "string_upper_ascii": lambda text: text.translate(_UPPER),
    "string_replace_string_string": replace,
    "string_replace_string_string_int": replace,
    "string_split_string": split,
    "string_split_string_int": split,
    "string_substring_int": substring,
    "string_substring_int_int": substring_between,
    "string_trim": lambda text: text.strip(_SPACE),
    "list_join": join,
    "list_join_string": join,
    "strings_quote": quote,
}
