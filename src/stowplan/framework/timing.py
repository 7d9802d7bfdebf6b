"""Where the time of an attempt goes: per extension point always, per plugin in a sample of cycles.

The framework hands durations to a `Recorder`; the runtime's metrics are one, `NoRecorder` the
other.  The clock for durations is handed in too, so nothing here reads one.
"""

from __future__ import annotations

from typing import Protocol


class Recorder(Protocol):
    sampled: bool
    """Whether plugins are timed one by one in this cycle."""

    def now(self) -> float: ...

    def point(self, point: str, profile: str, status: str, seconds: float) -> None: ...

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None: ...


class NoRecorder:
    sampled = False

    def now(self) -> float:
        return 0.0

    def point(self, point: str, profile: str, status: str, seconds: float) -> None:
        return None

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        return None
