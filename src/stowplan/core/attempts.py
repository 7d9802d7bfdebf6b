"""What came of recent attempts: kept for whoever asks why, and reported to whoever counts.

`core.machine` tells the `AttemptLog`; it keeps the last decisions and passes everything on to its
observers: the runtime's metrics and log, `core.bottlenecks`.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from stowplan.core.decision import Decision
from stowplan.framework.status import Status
from stowplan.queue import QueuedPod

DECISIONS_MAX = 10_000


class AttemptObserver(Protocol):
    """Hears of every attempt: begin, decided and end come once each, in this order.

    One decision is made at a time; binding goes on beside the next ones, so an `end` may come
    after other attempts began.
    """

    def begin(self, queued: QueuedPod, now_s: float) -> None: ...

    def decided(self, queued: QueuedPod, decision: Decision, now_s: float) -> None:
        """The scheduling cycle is over, with or without a node."""

    def end(
        self, queued: QueuedPod, decision: Decision, status: Status | None, now_s: float
    ) -> None:
        """The pod is bound (status None), or the attempt failed."""

    def plugin_error(self, plugin: str, point: str, cause: Exception) -> None:
        """A plugin raised, or answered with an error; `cause` has its traceback if it raised."""

    def problem(self, text: str) -> None:
        """What the cluster says does not go with what we believe."""


class AttemptLog:
    """The last decision on each of the pods most recently decided."""

    def __init__(self, *observers: AttemptObserver, decisions_max: int = DECISIONS_MAX) -> None:
        self._observers = list(observers)
        self._decisions: OrderedDict[str, Decision] = OrderedDict()
        self._decisions_max = decisions_max

    def observe(self, observer: AttemptObserver) -> None:
        """Tell one more from now on."""
        self._observers.append(observer)

    def begin(self, queued: QueuedPod, now_s: float) -> None:
        for observer in self._observers:
            observer.begin(queued, now_s)

    def decided(self, queued: QueuedPod, decision: Decision, now_s: float) -> None:
        for observer in self._observers:
            observer.decided(queued, decision, now_s)

    def end(
        self, queued: QueuedPod, decision: Decision, status: Status | None, now_s: float
    ) -> None:
        decisions = self._decisions
        decisions[decision.pod] = decision
        decisions.move_to_end(decision.pod)
        if len(decisions) > self._decisions_max:
            decisions.popitem(last=False)
        for observer in self._observers:
            observer.end(queued, decision, status, now_s)

    def plugin_error(self, plugin: str, point: str, cause: Exception) -> None:
        for observer in self._observers:
            observer.plugin_error(plugin, point, cause)

    def problem(self, text: str) -> None:
        for observer in self._observers:
            observer.problem(text)

    def decision_of(self, key: str) -> Decision | None:
        return self._decisions.get(key)

    def decisions(self) -> list[Decision]:
        return list(self._decisions.values())
