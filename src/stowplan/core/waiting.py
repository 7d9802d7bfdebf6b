"""Pods that wait at Permit: let go when every plugin allows it, one rejects it, or time is up.

`core.machine` puts them in, `core.binding` waits for the outcome, plugins reach them through
their handle.  Mirrors kube-scheduler's `framework/runtime/waiting_pods_map.go`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from stowplan.core.steps import Stepper
from stowplan.framework.plugin import Wait
from stowplan.framework.status import Code, Status
from stowplan.state.pod_info import PodInfo

Resume = Callable[[Status | None], None]


@dataclass(slots=True)
class PodAtPermit:
    pod: PodInfo
    node: str
    since_s: float
    pending: dict[str, str]
    """Plugins that have not allowed the pod yet -> why they want it to wait."""
    timers: dict[str, int] = field(default_factory=dict)
    _resume: Resume | None = None
    _ended: bool = False
    _outcome: Status | None = None

    def wait(self, resume: Resume) -> None:
        """Be told the outcome, now if it is known already: None when all allowed the pod."""
        if self._ended:
            resume(self._outcome)
        else:
            self._resume = resume

    def end(self, outcome: Status | None) -> None:
        self._ended, self._outcome = True, outcome
        if self._resume is not None:
            self._resume(outcome)


class WaitingPods:
    """By uid."""

    def __init__(self, stepper: Stepper) -> None:
        self._stepper = stepper
        self._pods: dict[str, PodAtPermit] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def uids(self) -> list[str]:
        return list(self._pods)

    def get(self, uid: str) -> PodAtPermit | None:
        return self._pods.get(uid)

    def add(self, pod: PodInfo, node: str, waits: dict[str, Wait], now_s: float) -> PodAtPermit:
        """Timers run from now, although the pod may reach its wait a little later."""
        pending = {plugin: wait.reason for plugin, wait in waits.items()}
        waiting = self._pods[pod.uid] = PodAtPermit(pod, node, now_s, pending)
        for plugin, wait in waits.items():
            waiting.timers[plugin] = self._stepper.at(
                now_s + wait.timeout_s, self._timeout(pod.uid, plugin, wait)
            )
        return waiting

    def _timeout(self, uid: str, plugin: str, wait: Wait) -> Callable[[], None]:
        def fire() -> None:
            text = go_duration(wait.timeout_s)
            message = f"rejected due to timeout after waiting {text} at plugin {plugin}"
            self.reject(uid, plugin, message)

        return fire

    def allow(self, uid: str, plugin: str) -> bool:
        """One plugin need not wait any more.  False if the pod is not waiting."""
        waiting = self._pods.get(uid)
        if waiting is None:
            return False
        if waiting.pending.pop(plugin, None) is not None:
            self._stepper.cancel(waiting.timers.pop(plugin))
        if not waiting.pending:
            self._end(uid, None)
        return True

    def reject(self, uid: str, plugin: str, message: str) -> bool:
        return self._end(uid, Status(Code.UNSCHEDULABLE, (message,), plugin))

    def fail(self, uid: str, message: str) -> bool:
        """End the wait with an error: preemption took the pod's place."""
        return uid in self._pods and self._end(uid, Status(Code.ERROR, (message,)))

    def drop(self, uid: str) -> None:
        """The pod failed elsewhere: nobody waits for it any more."""
        self._end(uid, None)

    def _end(self, uid: str, outcome: Status | None) -> bool:
        waiting = self._pods.pop(uid, None)
        if waiting is None:
            return False
        for timer in waiting.timers.values():
            self._stepper.cancel(timer)
        waiting.end(outcome)
        return True


_UNITS = ((1e-3, "ms", 1e3), (1e-6, "µs", 1e6), (0.0, "ns", 1e9))


def go_duration(seconds: float) -> str:
    """As Go prints a duration.

    >>> go_duration(300), go_duration(1.5), go_duration(3661), go_duration(0.25), go_duration(0)
    ('5m0s', '1.5s', '1h1m1s', '250ms', '0s')
    """
    if 0 < seconds < 1:
        unit, factor = next((u, f) for least, u, f in _UNITS if seconds >= least)
        return f"{seconds * factor:.10g}{unit}"
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    text = f"{rest:.12g}s"
    if hours or minutes:
        text = f"{int(minutes)}m{text}"
    return f"{int(hours)}h{text}" if hours else text
