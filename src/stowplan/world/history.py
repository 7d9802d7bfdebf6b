"""What was decided, kept within bounds: every pod's last decisions, and details of the latest.

The machine tells it of every attempt (`AttemptObserver`).  Of each pod the first decision and the
last ones are kept, of all pods those decided most recently; what every plugin said about every node
takes far more room, and is kept for as many of the latest decisions as fit into a budget.
"""

from __future__ import annotations

import traceback
from collections import ChainMap, OrderedDict, deque
from collections.abc import Sequence

from msgspec import Struct

from stowplan.core.attempts import AttemptObserver, Bound, Failed
from stowplan.core.decision import Decision
from stowplan.core.explanation import Explanation
from stowplan.errors import PluginError
from stowplan.framework.errors import describe
from stowplan.queue import QueuedPod
from stowplan.world.pace import PaceObserver

PODS_MAX = 100_000
"""Pods whose decisions are kept; half of them are forgotten at once, those decided first."""

PER_POD_MAX = 10
"""Decisions kept per pod: the first one and the last nine."""

GENERATIONS_MAX = 8
"""Dicts that a look-up may have to go through."""

LATEST_MAX = 1000
TRACES_MAX = 20


class Entry(Struct, frozen=True, eq=False, gc=False):
    """One decision and when it was made."""

    decision: Decision
    time_s: float
    attempt: int
    """Counted from 1."""


Entries = dict[str, tuple[Entry, ...]]
"""By pod."""


class History(AttemptObserver):
    def __init__(self, bytes_max: float, *, shares: bool = False) -> None:
        """`bytes_max`: for what every plugin said about every node, of all decisions together.
        `shares`: that is somebody else's too, and left with the decisions."""
        self._shares = shares
        self._bytes_max = bytes_max
        self._latest: Entries = {}
        self._earlier: tuple[Entries, ...] = ()
        """Never changed any more, and so shared with forks; what is in an earlier one counts
        where the later ones say nothing."""
        self._explained: OrderedDict[int, tuple[Entry, Explanation]] = OrderedDict()
        """By the `id` of the entry, which it holds."""
        self._byte_count = 0
        self.latest: deque[Entry] = deque(maxlen=LATEST_MAX)
        """In the order they were made."""
        self.pace = PaceObserver()
        self.count = 0
        """Decisions made so far, those forgotten included."""
        self.traces: dict[str, None] = {}
        """What plugins raised, as tracebacks; some of the first, each once."""
        self.failure: PluginError | None = None
        """The first plugin that failed."""

    def of(self, key: str) -> tuple[Entry, ...]:
        """The decisions on a pod that are still known, the latest last."""
        for entries in (self._latest, *self._earlier):
            if key in entries:
                return entries[key]
        return ()

    def pods(self) -> list[str]:
        """The pods that have decisions."""
        return list(ChainMap(self._latest, *self._earlier))

    def explanation_of(self, entry: Entry) -> Explanation | None:
        found = self._explained.get(id(entry))
        return None if found is None else found[1]

    def fork(self) -> History:
        """Another one that goes on from here; decisions are shared, they never change."""
        self._begin_anew()
        fork = History(self._bytes_max)
        fork._earlier = self._earlier
        fork.latest.extend(self.latest)
        fork._explained = self._explained.copy()
        fork._byte_count, fork.count = self._byte_count, self.count
        return fork

    def plugin_error(self, plugin: str, point: str, cause: Exception) -> None:
        if self.failure is None:
            self.failure = PluginError(f"{plugin} failed in {point}: {describe(cause)}")
            self.failure.__cause__ = cause
        if len(self.traces) < TRACES_MAX:
            self.traces.setdefault("".join(traceback.format_exception(cause)))

    def _add(self, queued: QueuedPod, decision: Decision, now_s: float) -> None:
        self._enter(Entry(decision, now_s, queued.attempts))

    def take_earlier(self, decision: Decision, time_s: float, attempt: int) -> None:
        """One that was made before we listened; `time_s` is when we began to."""
        self._enter(Entry(decision, time_s, attempt))

    def _enter(self, entry: Entry) -> None:
        decision = entry.decision
        explanation = decision.explanation
        if not self._shares:
            decision.explanation = None
        self.count += 1
        self.latest.append(entry)
        known = self.of(decision.pod)
        if len(known) >= PER_POD_MAX:
            known = (known[0], *known[2 - PER_POD_MAX :])
        self._latest[decision.pod] = (*known, entry)
        if len(self._latest) >= PODS_MAX // 2:
            self._begin_anew()
        if explanation is not None:
            self._keep(entry, explanation)

    def _begin_anew(self) -> None:
        """Let the entries so far stand; of too many, the earliest go."""
        if not self._latest:
            return
        self._earlier, self._latest = (self._latest, *self._earlier), {}
        if len(self._earlier) > GENERATIONS_MAX:
            merged: Entries = {}
            for entries in reversed(self._earlier):
                merged |= entries
            self._earlier = (merged,)
        while sum(map(len, self._earlier)) > PODS_MAX and len(self._earlier) > 1:
            self._earlier = self._earlier[:-1]

    def _keep(self, entry: Entry, explanation: Explanation) -> None:
        self._explained[id(entry)] = (entry, explanation)
        self._byte_count += explanation.byte_count
        while self._byte_count > self._bytes_max and len(self._explained) > 1:
            _, (_, oldest) = self._explained.popitem(last=False)
            self._byte_count -= oldest.byte_count

    # -- told by the machine ----------------------------------------------------------------

    def begin(self, queued: QueuedPod, now_s: float) -> None:
        self.pace.begin(queued, now_s)

    def decided(self, queued: QueuedPod, decision: Decision, now_s: float, seconds: float) -> None:
        self._add(queued, decision, now_s)
        self.pace.decided(queued, decision, now_s, seconds)

    def bound(self, attempts: Sequence[Bound], now_s: float) -> None:
        self.pace.bound(attempts, now_s)

    def failed(self, attempt: Failed, now_s: float) -> None:
        decision = attempt.decision
        known = self.of(decision.pod)
        if not known or known[-1].decision is not decision:
            # It had a node, and something went wrong on the way there.
            self._add(attempt.queued, decision, now_s)
