"""What the scheduler is doing right now, seen from another thread: which pod, which plugin, where.

Nothing is noted while pods are scheduled, so this costs them nothing.  The stack of the scheduler's
thread tells it all: of the calls on it, the innermost one of a plugin's method names plugin and
extension point.  `runtime.guard` asks, once the scheduler has not been heard of for a while.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from types import FrameType

from stowplan.core.machine import Machine
from stowplan.framework.plugin import POINTS

_POINT_OF = {
    method: point[0].upper() + point[1:]
    for point, protocols in POINTS.items()
    for protocol in protocols
    for method, value in vars(protocol).items()
    if callable(value) and not method.startswith("_")
}
"""Of each method of a plugin: its extension point, as metrics name it."""


@dataclass(frozen=True, slots=True)
class Doing:
    mark: object
    """Equal marks: still the same decision, the same call of a plugin, or the same batch of events.
    None: none of these."""
    pod: str = ""
    plugin: str = ""
    point: str = ""
    where: str = ""
    """File and line."""

    @property
    def fields(self) -> dict[str, str]:
        """For the log: what is known of it."""
        known = {"pod": self.pod, "plugin": self.plugin, "point": self.point, "at": self.where}
        return {name: text for name, text in known.items() if text}


def look(machine: Machine, thread_id: int) -> Doing:
    """What `machine` does in this thread; to be called from another one."""
    frame = sys._current_frames().get(thread_id)  # noqa: SLF001 - the documented way
    if frame is None:
        return Doing(None)
    plugins = {
        id(plugin): name
        for framework in [*machine.frameworks.values()]
        for name, plugin in framework.plugins.instances.items()
    }
    where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    call, plugin, point = _plugin_call(frame, plugins)
    queued = machine.deciding
    if queued is None:
        return Doing(call or _batch(frame), "", plugin, point, where)
    return Doing((queued.info.uid, queued.attempts), queued.info.key, plugin, point, where)


def _plugin_call(
    frame: FrameType | None, plugins: Mapping[int, str]
) -> tuple[FrameType | None, str, str]:
    """The innermost call of a plugin, where the framework made it; its name, and the point."""
    innermost: tuple[FrameType | None, str, str] = (None, "", "")
    while frame is not None:
        plugin, method = plugins.get(id(_receiver(frame)), ""), frame.f_code.co_name
        if plugin:
            if innermost[0] is None:
                innermost = (frame, plugin, method)
            if plugin != innermost[1]:
                break
            if method in _POINT_OF:
                return frame, plugin, _POINT_OF[method]
        frame = frame.f_back
    return innermost


def _batch(frame: FrameType | None) -> FrameType | None:
    """The call that takes in a number of events."""
    while frame is not None and frame.f_code is not Machine.handle_all.__code__:
        frame = frame.f_back
    return frame


def _receiver(frame: FrameType) -> object:
    code = frame.f_code
    return frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
