"""Durations as Go writes them: `15s`, `1m30s`, `1.5h`.

`leaderElection`, `extenders[].httpTimeout` and the args of DynamicResources hold durations.  They
are kept in whole nanoseconds, read and written by the very rules of Go's `time.ParseDuration` and
`Duration.String`, so that a file means the same here and there.
"""

from __future__ import annotations

import re

import msgspec

_UNIT_NS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # U+00B5, micro sign
    "μs": 1_000,  # U+03BC, Greek letter mu
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_NS_MAX = 2**63 - 1
_PART = re.compile(r"([0-9]*)(\.([0-9]*))?([^0-9.]*)")


class Duration(msgspec.Struct, frozen=True, order=True):
    """A length of time.

    >>> str(Duration.parse("90s"))
    '1m30s'
    >>> Duration.parse("1.5s").seconds
    1.5
    """

    ns: int = 0

    @property
    def seconds(self) -> float:
        return self.ns / 1e9

    @classmethod
    def of_seconds(cls, seconds: int) -> Duration:
        return cls(seconds * _UNIT_NS["s"])

    @classmethod
    def parse(cls, text: str) -> Duration:
        """Read `text` as Go does; a ValueError carries Go's words."""
        return cls(_parse_ns(text))

    def __str__(self) -> str:
        return _format(self.ns)


def _parse_ns(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0
    if not rest:
        raise ValueError(f"time: invalid duration {_quote(text)}")
    total, at = 0, 0
    while at < len(rest):
        part = _PART.match(rest, at)
        assert part is not None, "every group of the pattern may be empty"
        total += _part_ns(part, text)
        at = part.end()
    # The smallest number is one larger than the largest: "-9223372036854775808ns" is fine.
    if total > _NS_MAX + (sign < 0):
        raise ValueError(f"time: invalid duration {_quote(text)}")
    return sign * total


def _part_ns(part: re.Match[str], text: str) -> int:
    whole, _, fraction, unit = part.groups(default="")
    if not whole and not fraction:
        raise ValueError(f"time: invalid duration {_quote(text)}")
    if not unit:
        raise ValueError(f"time: missing unit in duration {_quote(text)}")
    if unit not in _UNIT_NS:
        raise ValueError(f"time: unknown unit {_quote(unit)} in duration {_quote(text)}")
    ns = int(whole or "0") * _UNIT_NS[unit]
    if fraction:
        # In floats, as Go does it: exact arithmetic could differ in the last nanosecond.
        ns += int(float(int(fraction)) * (_UNIT_NS[unit] / 10.0 ** len(fraction)))
    return ns


def _format(ns: int) -> str:
    if ns == 0:
        return "0s"
    sign, left = ("-", -ns) if ns < 0 else ("", ns)
    for unit in ("ns", "µs", "ms"):
        if left < _UNIT_NS[unit] * 1000:
            return f"{sign}{_decimal(left, _UNIT_NS[unit])}{unit}"
    hours, left = divmod(left, _UNIT_NS["h"])
    minutes, left = divmod(left, _UNIT_NS["m"])
    text = f"{_decimal(left, _UNIT_NS['s'])}s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    if hours:
        text = f"{hours}h{text}"
    return sign + text


def _decimal(amount: int, unit: int) -> str:
    """`amount / unit` without trailing zeros; `unit` is a power of ten."""
    whole, fraction = divmod(amount, unit)
    digits = str(unit + fraction)[1:].rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
