"""Where the time of an attempt goes: per extension point always, per plugin in a sample of cycles.

The framework and the core hand durations to a `Recorder`; `core.bottlenecks` and the runtime's
metrics are some, `NoRecorder` is the one for everybody else.  The clock for durations is the
recorder's too, so nothing here reads one.  Points are named as upstream's metrics name them:
PreFilter, Filter, PostFilter, PreScore, Score, Reserve, Unreserve, Permit, PreBind, Bind, PostBind.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

SUCCESS = "Success"
ERROR = "Error"

BUFFER_MAX = 512
"""Durations that are kept back to be told together."""

WAIT_ON_PERMIT = "WaitOnPermit"
"""A point only in name: how long a pod waited to be let go, by the scheduler's own clock."""


class Times(Protocol):
    """Where the durations of one point go that went well."""

    def append(self, seconds: float, /) -> None: ...


class Recorder(Protocol):
    @property
    def sampled(self) -> bool:
        """Whether plugins are timed one by one in the cycle that runs now."""

    def now(self) -> float: ...

    def point(self, point: str, profile: str, status: str, seconds: float, count: int = 1) -> None:
        """`count` times it took so long."""

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None: ...

    def successes(self, point: str, profile: str) -> Times:
        """For points on every pod's way: appending to it is `point` with "Success".

        Whoever listens calls `catch_up` once there are `BUFFER_MAX` of them.
        """


class NoRecorder:
    sampled = False

    def now(self) -> float:
        return 0.0

    def point(self, point: str, profile: str, status: str, seconds: float, count: int = 1) -> None:
        return None

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        return None

    def successes(self, point: str, profile: str) -> Times:
        return deque(maxlen=0)


class Listener(Protocol):
    """A recorder that is told of many durations at once, through `Recorders`."""

    catch_up: Callable[[], None]
    """To be called before reading, and every `BUFFER_MAX` pods: hands over what was not told."""

    @property
    def sampled(self) -> bool: ...

    def now(self) -> float: ...

    def points(self, point: str, profile: str, status: str, seconds: list[float]) -> None: ...

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None: ...


class Recorders:
    """Several listeners as one recorder; the first has the clock and decides on sampling.

    There are some ten durations for every pod, so one costs an append here.
    """

    __slots__ = ("_all", "_buffers", "now")

    def __init__(self, *listeners: Listener) -> None:
        self._all = listeners
        self._buffers: dict[tuple[str, str, str], list[float]] = {}
        self.now = listeners[0].now
        for listener in listeners:
            listener.catch_up = self.catch_up

    @property
    def sampled(self) -> bool:
        return self._all[0].sampled

    def successes(self, point: str, profile: str) -> Times:
        return self._buffers.setdefault((point, profile, SUCCESS), [])

    def point(self, point: str, profile: str, status: str, seconds: float, count: int = 1) -> None:
        try:
            buffer = self._buffers[point, profile, status]
        except KeyError:
            buffer = self._buffers[point, profile, status] = []
        buffer += [seconds] * count
        if len(buffer) >= BUFFER_MAX:
            self._tell((point, profile, status), buffer)

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        for listener in self._all:
            listener.plugin(plugin, point, status, seconds)

    def catch_up(self) -> None:
        for key, buffer in self._buffers.items():
            if buffer:
                self._tell(key, buffer)

    def _tell(self, key: tuple[str, str, str], buffer: list[float]) -> None:
        for listener in self._all:
            listener.points(*key, buffer)
        buffer.clear()
