"""Where the time of an attempt goes: per extension point always, per plugin in a sample of cycles.

The framework and the core hand durations to a `Recorder`; `core.bottlenecks` and the runtime's
metrics are some, `NoRecorder` is the one for everybody else.  The clock for durations is the
recorder's too, so nothing here reads one.  Points are named as upstream's metrics name them:
PreFilter, Filter, PostFilter, PreScore, Score, Reserve, Unreserve, Permit, PreBind, Bind, PostBind.
"""

from __future__ import annotations

from typing import Protocol

SUCCESS = "Success"
ERROR = "Error"

WAIT_ON_PERMIT = "WaitOnPermit"
"""A point only in name: how long a pod waited to be let go, by the scheduler's own clock."""


class Recorder(Protocol):
    sampled: bool
    """Whether plugins are timed one by one in the cycle that runs now."""

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


class Recorders:
    """Several recorders as one; the first has the clock and decides on sampling."""

    __slots__ = ("_all", "now")

    def __init__(self, *recorders: Recorder) -> None:
        self._all = recorders
        self.now = recorders[0].now

    @property
    def sampled(self) -> bool:
        return self._all[0].sampled

    def point(self, point: str, profile: str, status: str, seconds: float) -> None:
        for recorder in self._all:
            recorder.point(point, profile, status, seconds)

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        for recorder in self._all:
            recorder.plugin(plugin, point, status, seconds)
