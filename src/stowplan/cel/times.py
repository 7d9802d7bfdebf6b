"""Timestamps and durations: reading, writing, and their parts."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from stowplan.cel.arithmetic import (
    DURATION_MAX,
    DURATION_MIN,
    TIMESTAMP_MAX,
    TIMESTAMP_MIN,
)
from stowplan.cel.errors import EvaluationError
from stowplan.cel.values import Duration, Timestamp, go_quoted

_NANOS = 10**9
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = {
    "ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": _NANOS,
    "m": 60 * _NANOS, "h": 3600 * _NANOS,
}  # fmt: skip
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)")
_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)


def parse_duration(text: str) -> Duration | None:
    sign = -1 if text[:1] == "-" else 1
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return Duration(0)
    total, position = 0, 0
    while position < len(rest):
        match = _PART.match(rest, position)
        if match is None or not (match[1] or match[2]):
            return None
        unit = _UNITS[match[3]]
        fraction = match[2] or ""
        total += int(match[1] or 0) * unit + int(fraction or 0) * unit // 10 ** len(fraction)
        position = match.end()
    if not rest or not DURATION_MIN <= sign * total <= DURATION_MAX:
        return None
    return Duration(sign * total)


def parse_timestamp(text: str) -> Timestamp | None:
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    fraction, sign, hours, minutes = match.group(7, 8, 9, 10)
    try:
        moment = datetime(*map(int, match.group(1, 2, 3, 4, 5, 6)), tzinfo=UTC)  # type: ignore[misc,arg-type]
    except ValueError:
        return None
    seconds = (moment - _EPOCH) // timedelta(seconds=1)
    if sign:
        if int(hours) > 23 or int(minutes) > 59:
            return None
        offset = int(hours) * 3600 + int(minutes) * 60
        seconds += offset if sign == "-" else -offset
    return of_seconds(seconds, int((fraction or "")[:9].ljust(9, "0")))


def of_seconds(seconds: int, nanos: int = 0) -> Timestamp | None:
    total = seconds * _NANOS + nanos
    return Timestamp(total) if TIMESTAMP_MIN <= total <= TIMESTAMP_MAX else None


def duration_text(value: Duration) -> str:
    seconds = value.nanos / _NANOS
    text = (
        format(seconds, ".9f").rstrip("0").rstrip(".")
        if value.nanos % _NANOS
        else str(abs(value.nanos) // _NANOS * (-1 if value.nanos < 0 else 1))
    )
    return f"{text}s"


def timestamp_text(value: Timestamp) -> str:
    moment = _EPOCH + timedelta(seconds=value.nanos // _NANOS)
    fraction = f".{value.nanos % _NANOS:09}".rstrip("0").rstrip(".")
    return f"{moment:%Y-%m-%dT%H:%M:%S}".rjust(19, "0") + f"{fraction}Z"


def _part(read: Callable[[datetime], int]) -> Callable[..., int]:
    def part(value: Timestamp, zone: str = "") -> int:
        moment = _EPOCH + timedelta(microseconds=value.nanos // 1000)
        if not zone:
            return read(moment)
        try:
            return read(moment.astimezone(_zone(zone)))
        except OverflowError:
            # The first and last hours that Python knows: the calendar repeats after 400 years.
            years = 400 if moment.year < 5000 else -400
            found = read(moment.replace(year=moment.year + years).astimezone(_zone(zone)))
            return found - years if read is _year else found

    return part


def _year(moment: datetime) -> int:
    return moment.year


def _zone(name: str) -> tzinfo:
    hours, colon, minutes = name.partition(":")
    if colon:
        offset = _number(hours) * 60
        offset += -_number(minutes) if hours.startswith("-") else _number(minutes)
        if abs(offset) >= 24 * 60:
            raise EvaluationError(f"time zone {name} is more than a day away")
        return timezone(timedelta(minutes=offset))
    if ".." in name or name[:1] in ("/", "\\"):
        raise EvaluationError("time: invalid location name")
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise EvaluationError(f"unknown time zone {name}") from None


def _number(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]{1,9}", text):
        raise EvaluationError(f"strconv.Atoi: parsing {go_quoted(text)}: invalid syntax")
    return int(text)


def _whole(unit: int) -> Callable[[Duration], int]:
    def whole(value: Duration) -> int:
        return abs(value.nanos) // unit * (-1 if value.nanos < 0 else 1)

    return whole


_PARTS: dict[str, Callable[[datetime], int]] = {
    "timestamp_to_year": _year,
    "timestamp_to_month": lambda moment: moment.month - 1,
    "timestamp_to_day_of_year": lambda moment: moment.timetuple().tm_yday - 1,
    "timestamp_to_day_of_month": lambda moment: moment.day - 1,
    "timestamp_to_day_of_month_1_based": lambda moment: moment.day,
    "timestamp_to_day_of_week": lambda moment: moment.isoweekday() % 7,
    "timestamp_to_hours": lambda moment: moment.hour,
    "timestamp_to_minutes": lambda moment: moment.minute,
    "timestamp_to_seconds": lambda moment: moment.second,
    "timestamp_to_milliseconds": lambda moment: moment.microsecond // 1000,
}
FUNCTIONS: dict[str, Callable[..., int]] = {
    "duration_to_hours": _whole(3600 * _NANOS),
    "duration_to_minutes": _whole(60 * _NANOS),
    "duration_to_seconds": _whole(_NANOS),
    "duration_to_milliseconds": _whole(10**6),
}
for _name, _read in _PARTS.items():
    FUNCTIONS[_name] = _part(_read)
    FUNCTIONS[f"{_name}_with_tz"] = _part(_read)
FUNCTIONS["timestamp_to_seconds_tz"] = FUNCTIONS["timestamp_to_seconds"]
