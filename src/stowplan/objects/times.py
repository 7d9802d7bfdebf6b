"""Timestamps as Kubernetes writes them (RFC 3339), to and from seconds since 1970.

Only text and numbers: no clock is read here, and no time zone but UTC is written.
"""

from __future__ import annotations

import re
from functools import lru_cache

_RFC3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(\.[0-9]+)?"
    r"(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)
_DAY_S = 86400
_MONTH_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class TimeError(ValueError):
    """The text is no timestamp; says which text, and what one looks like."""


@lru_cache(maxsize=8192)
def parse_time(text: str) -> float:
    """
    >>> parse_time("1970-01-02T00:00:00.5Z"), parse_time("1970-01-01T01:00:00+01:00")
    (86400.5, 0.0)
    """
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise _error(text)
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction, sign, zone_hour, zone_minute = match.groups()[6:]
    if not 1 <= month <= 12 or not 1 <= day <= _days_in_month(year, month):
        raise _error(text)
    if hour > 23 or minute > 59 or second > 59:
        raise _error(text)
    seconds = _days_since_1970(year, month, day) * _DAY_S + hour * 3600 + minute * 60 + second
    if sign is not None:
        offset_s = int(zone_hour) * 3600 + int(zone_minute) * 60
        seconds += offset_s if sign == "-" else -offset_s
    return seconds + float(fraction) if fraction else float(seconds)


def format_time(seconds: float) -> str:
    """
    >>> format_time(86400.9)
    '1970-01-02T00:00:00Z'
    """
    return f"{_format(int(seconds // 1))}Z"


def format_micro_time(seconds: float) -> str:
    """
    >>> format_micro_time(0.25)
    '1970-01-01T00:00:00.250000Z'
    """
    whole, micros = divmod(round(seconds * 1_000_000), 1_000_000)
    return f"{_format(whole)}.{micros:06d}Z"


@lru_cache(maxsize=64)  # Many things happen within a second.
def _format(seconds: int) -> str:
    days, rest = divmod(seconds, _DAY_S)
    year, month, day = _civil(days)
    hour, rest = divmod(rest, 3600)
    minute, second = divmod(rest, 60)
    return f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}"


def _days_in_month(year: int, month: int) -> int:
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 29 if leap and month == 2 else _MONTH_DAYS[month - 1]


def _days_since_1970(year: int, month: int, day: int) -> int:
    """Proleptic Gregorian.  Years start in March here, so that the leap day is the last one."""
    if month <= 2:
        year -= 1
        month += 12
    return (
        365 * year
        + year // 4
        - year // 100
        + year // 400
        + (153 * month - 457) // 5
        + (day - 719469)
    )


def _civil(days: int) -> tuple[int, int, int]:
    """The inverse of `_days_since_1970`."""
    era, day_of_era = divmod(days + 719468, 146097)
    year_of_era = (
        day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted_month + 2) // 5 + 1
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    return year_of_era + era * 400 + (month <= 2), month, day


def _error(text: str) -> TimeError:
    return TimeError(f"{text!r} is not a time; write one like 2026-01-31T12:00:00Z")
