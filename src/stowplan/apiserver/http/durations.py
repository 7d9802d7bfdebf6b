"""How long ago, in as few letters as kubectl uses.

Mirrors apimachinery's `util/duration`.
"""

from __future__ import annotations

from typing import Any

from stowplan.objects.times import TimeError, parse_time

UNKNOWN = "<unknown>"


def age(timestamp: Any, now_s: float) -> str:
    if not isinstance(timestamp, str) or not timestamp:
        return UNKNOWN
    try:
        return human_duration(now_s - parse_time(timestamp))
    except TimeError:
        return UNKNOWN


def human_duration(seconds: float) -> str:
    """
    >>> [human_duration(s) for s in (5, 119, 200, 3600, 12_000, 86_400 * 3, 86_400 * 400)]
    ['5s', '119s', '3m20s', '60m', '3h20m', '3d', '400d']
    """
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 120:
        return f"{max(whole, 0)}s"
    minutes = whole // 60
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    hours = whole // 3600
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if hours < 192:
        return _two(days, "d", hours % 24, "h")
    if days < 365 * 2:
        return f"{days}d"
    years = days // 365
    if years < 8:
        return _two(years, "y", days % 365, "d")
    return f"{years}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"
