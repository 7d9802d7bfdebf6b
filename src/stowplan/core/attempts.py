"""What came of recent attempts: kept for whoever asks why, and reported to whoever counts."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from stowplan.core.decision import Decision
from stowplan.framework.status import Status
from stowplan.queue import QueuedPod

DECISIONS_MAX = 10_000


class AttemptObserver(Protocol):
    """The runtime's metrics and logs."""

    def begin(self, profile: str) -> None: ...

    def end(
        self, queued: QueuedPod, decision: Decision, status: Status | None, now_s: float
    ) -> None: ...

    def plugin_error(self, plugin: str, point: str, cause: Exception) -> None: ...


class AttemptLog:
    """The last decision on each of the pods most recently decided."""

    def __init__(
        self, observer: AttemptObserver | None = None, decisions_max: int = DECISIONS_MAX
    ) -> None:
        self._observer = observer
        self._decisions: OrderedDict[str, Decision] = OrderedDict()
        self._decisions_max = decisions_max

    def begin(self, profile: str) -> None:
        if self._observer is not None:
            self._observer.begin(profile)

    def end(
        self, queued: QueuedPod, decision: Decision, status: Status | None, now_s: float
    ) -> None:
        decisions = self._decisions
        decisions[decision.pod] = decision
        decisions.move_to_end(decision.pod)
        if len(decisions) > self._decisions_max:
            decisions.popitem(last=False)
        if self._observer is not None:
            self._observer.end(queued, decision, status, now_s)

    def plugin_error(self, plugin: str, point: str, cause: Exception) -> None:
        if self._observer is not None:
            self._observer.plugin_error(plugin, point, cause)

    def decision_of(self, key: str) -> Decision | None:
        return self._decisions.get(key)

    def decisions(self) -> list[Decision]:
        return list(self._decisions.values())
