"""Lengths of time as people write them: `30d`, `4h`, `90s`, `1h30m`."""

from __future__ import annotations

import math
import re

from stowplan.errors import InputError

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)([smhdw])")


def parse_span(value: object, where: str) -> float:
    """In seconds; a plain number is seconds.

    >>> parse_span("1h30m", "--until"), parse_span("30d", "--until"), parse_span(5, "--until")
    (5400.0, 2592000.0, 5.0)
    """
    if isinstance(value, int | float) and not isinstance(value, bool):
        if math.isfinite(value) and value >= 0:
            return float(value)
    elif isinstance(value, str) and len(value) <= 64:
        text = value.strip()
        if text.isdecimal():
            return float(text)
        parts = _PART.findall(text)
        if parts and "".join(number + unit for number, unit in parts) == text:
            return sum(float(number) * _SECONDS[unit] for number, unit in parts)
    raise InputError(
        f"{value!r} is no length of time", where=where, hint="write `90s`, `4h`, `30d` or `1h30m`"
    )


def show_span(seconds: float) -> str:
    """Short, for people.

    >>> show_span(0.25), show_span(59), show_span(5400), show_span(12_902_960)
    ('0.25 s', '59 s', '1.5 h', '149 d')
    """
    for unit, name in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2 * unit or (name == "h" and seconds >= unit):
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds:.3g} s"
