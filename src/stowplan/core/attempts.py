"""What came of recent attempts: kept for whoever asks why, and reported to whoever counts.

`core.machine` tells the `AttemptLog`; it keeps the last decisions and passes everything on to its
observers: the runtime's metrics and log, `core.bottlenecks`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any

from msgspec import Struct

from stowplan.core.decision import Decision
from stowplan.framework.status import Status
from stowplan.queue import QueuedPod

DECISIONS_MAX = 10_000

_decision = attrgetter("decision")


class Bound(Struct, frozen=True, gc=False):
    """An attempt that went well."""

    queued: QueuedPod
    decision: Decision
    seconds: float
    """How long it took, by the clock of the machine's recorder."""


class Failed(Struct, frozen=True):
    """One that did not, and why."""

    queued: QueuedPod
    decision: Decision
    status: Status
    seconds: float


class GroupEnded(Struct, frozen=True):
    """A try to schedule a group, told besides those at its members."""

    group: str
    """`namespace/name`."""
    profile: str
    result: str
    """`scheduled`, `unschedulable`, `waiting_on_preemption` or `error`."""
    seconds: float
    search_seconds: float
    """Of these, until it was decided."""


class AttemptObserver:
    """Hears of every attempt: begin, decided, and then bound or failed, once each.

    One decision is made at a time; binding goes on beside the next ones, so an attempt may end
    after others began.  `seconds` is the time since it began, by the clock of the machine's
    recorder; `now_s` is the machine's own time.  Observers override what they care for.
    """

    def begin(self, queued: QueuedPod, now_s: float) -> None: ...

    def decided(self, queued: QueuedPod, decision: Decision, now_s: float, seconds: float) -> None:
        """The scheduling cycle is over, with or without a node."""

    def bound(self, attempts: Sequence[Bound], now_s: float) -> None:
        """These pods have their nodes: many at a time, as their bindings are answered."""

    def failed(self, attempt: Failed, now_s: float) -> None: ...

    def group_ended(self, attempt: GroupEnded, now_s: float) -> None: ...

    def plugin_error(self, plugin: str, point: str, cause: Exception) -> None:
        """A plugin raised, or answered with an error; `cause` has its traceback if it raised."""

    def problem(self, text: str) -> None:
        """What the cluster says does not go with what we believe."""


class AttemptLog:
    """The last decision on each of the pods most recently decided."""

    def __init__(self, *observers: AttemptObserver, decisions_max: int = DECISIONS_MAX) -> None:
        self._observers: list[AttemptObserver] = []
        self._begin: list[Callable[[QueuedPod, float], None]] = []
        self._decided: list[Callable[[QueuedPod, Decision, float, float], None]] = []
        """Those of the observers that care for it: it is told of every attempt."""
        for observer in observers:
            self.observe(observer)
        self._decisions: OrderedDict[str, Decision] = OrderedDict()
        self._decisions_max = decisions_max

    def observe(self, observer: AttemptObserver) -> None:
        """Tell one more from now on."""
        self._observers.append(observer)
        kind = type(observer)
        if getattr(kind, "begin", None) is not AttemptObserver.begin:
            self._begin.append(observer.begin)
        if getattr(kind, "decided", None) is not AttemptObserver.decided:
            self._decided.append(observer.decided)

    def ignore(self, observer: AttemptObserver) -> None:
        """Tell it nothing any more."""
        told: list[Any] = [self._observers, self._begin, self._decided]
        for who in told:
            who[:] = [one for one in who if getattr(one, "__self__", one) is not observer]

    def begin(self, queued: QueuedPod, now_s: float) -> None:
        for tell in self._begin:
            tell(queued, now_s)

    def decided(self, queued: QueuedPod, decision: Decision, now_s: float, seconds: float) -> None:
        for tell in self._decided:
            tell(queued, decision, now_s, seconds)

    def bound(self, attempts: Sequence[Bound], now_s: float) -> None:
        self._keep(map(_decision, attempts))
        for observer in self._observers:
            observer.bound(attempts, now_s)

    def failed(self, attempt: Failed, now_s: float) -> None:
        self._keep((attempt.decision,))
        for observer in self._observers:
            observer.failed(attempt, now_s)

    def group_ended(self, attempt: GroupEnded, now_s: float) -> None:
        for observer in self._observers:
            observer.group_ended(attempt, now_s)

    def _keep(self, decisions: Iterable[Decision]) -> None:
        kept = self._decisions
        for decision in decisions:
            pod = decision.pod
            kept[pod] = decision
            kept.move_to_end(pod)
        while len(kept) > self._decisions_max:
            kept.popitem(last=False)

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
