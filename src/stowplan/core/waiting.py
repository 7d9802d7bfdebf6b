"""Pods that wait at Permit, and pods in PreBind that preemption may call off.

Mirrors kube-scheduler's `waiting_pods_map.go`.
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
class WaitingPod:
    pod: PodInfo
    node: str
    since_s: float
    pending: dict[str, float]
    """Plugin -> when its patience ends."""
    resume: Resume | None = None
    reasons: dict[str, str] = field(default_factory=dict)


class WaitingPods:
    """By uid.  Each is let go when every plugin allows it, or one rejects it, or time is up."""

    def __init__(self, stepper: Stepper) -> None:
        self._stepper = stepper
        self._pods: dict[str, WaitingPod] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def uids(self) -> list[str]:
        return list(self._pods)

    def get(self, uid: str) -> WaitingPod | None:
        return self._pods.get(uid)

    def add(self, pod: PodInfo, node: str, waits: dict[str, Wait], now_s: float) -> WaitingPod:
        """Timers run from now, although the pod may reach its wait a little later."""
        waiting = WaitingPod(
            pod,
            node,
            now_s,
            {plugin: now_s + wait.timeout_s for plugin, wait in waits.items()},
            reasons={plugin: wait.reason for plugin, wait in waits.items()},
        )
        self._pods[pod.uid] = waiting
        for plugin, wait in waits.items():
            self._stepper.at(now_s + wait.timeout_s, self._timeout(pod.uid, plugin, wait))
        return waiting

    def _timeout(self, uid: str, plugin: str, wait: Wait) -> Callable[[], None]:
        def fire() -> None:
            waiting = self._pods.get(uid)
            if waiting is not None and plugin in waiting.pending:
                text = go_duration(wait.timeout_s)
                message = f"rejected due to timeout after waiting {text} at plugin {plugin}"
                self._end(uid, Status(Code.UNSCHEDULABLE, (message,), plugin))

        return fire

    def allow(self, uid: str, plugin: str) -> bool:
        waiting = self._pods.get(uid)
        if waiting is None:
            return False
        waiting.pending.pop(plugin, None)
        if not waiting.pending:
            self._end(uid, None)
        return True

    def allow_all(self, uid: str) -> None:
        """Nobody need wait for this pod any more."""
        self._pods.pop(uid, None)

    def reject(self, uid: str, plugin: str, message: str) -> bool:
        return self._end(uid, Status(Code.UNSCHEDULABLE, (message,), plugin))

    def fail(self, uid: str, message: str) -> bool:
        """End the wait with an error: preemption took the pod's place."""
        return self._end(uid, Status(Code.ERROR, (message,)))

    def _end(self, uid: str, status: Status | None) -> bool:
        waiting = self._pods.pop(uid, None)
        if waiting is None:
            return False
        assert waiting.resume is not None, f"{waiting.pod.key} is not waiting yet"
        waiting.resume(status)
        return True


def go_duration(seconds: float) -> str:
    """
    >>> go_duration(300), go_duration(1.5), go_duration(3661)
    ('5m0s', '1.5s', '1h1m1s')
    """
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    text = f"{rest:g}s"
    if hours or minutes:
        text = f"{int(minutes)}m{text}"
    return f"{int(hours)}h{text}" if hours else text
