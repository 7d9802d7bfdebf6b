"""What was decided, kept within bounds: every pod's last decisions, and details of the latest.

The machine tells it of every attempt (`AttemptObserver`).  Of each pod the first decision and the
last ones are kept, of all pods those decided most recently; what every plugin said about every node
takes far more room, and is kept for as many of the latest decisions as fit into a budget.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from msgspec import Struct

from stowplan.core.attempts import Bound
from stowplan.core.decision import Decision, Detail
from stowplan.framework.status import Status
from stowplan.queue import QueuedPod

PODS_MAX = 100_000
"""Pods whose decisions are kept; those decided longest ago go first."""

PER_POD_MAX = 10
"""Decisions kept per pod: the first one and the last nine."""

DETAIL_CELLS_MAX = 16 * 2**20
"""Cells of all details that are kept: about 64 MiB of scores."""

_CELLS_PER_REJECTION = 4
"""A node that was turned down takes about as much room as so many scores."""


class Entry(Struct, frozen=True, eq=False, gc=False):
    """One decision and when it was made."""

    decision: Decision
    time_s: float
    attempt: int
    """Counted from 1."""


class History:
    def __init__(self) -> None:
        self._entries: OrderedDict[str, tuple[Entry, ...]] = OrderedDict()
        self._details: OrderedDict[int, tuple[Entry, Detail, int]] = OrderedDict()
        self._cells = 0
        self.count = 0
        """Decisions made so far, those forgotten included."""

    def of(self, key: str) -> tuple[Entry, ...]:
        """The decisions on a pod that are still known, the latest last."""
        return self._entries.get(key, ())

    def pods(self) -> list[str]:
        """The pods that have decisions, those decided last at the end."""
        return list(self._entries)

    def detail_of(self, entry: Entry) -> Detail | None:
        found = self._details.get(id(entry))
        return None if found is None else found[1]

    def fork(self) -> History:
        """Another one that goes on from here; decisions are shared, they never change."""
        fork = History()
        fork._entries = self._entries.copy()
        fork._details = self._details.copy()
        fork._cells, fork.count = self._cells, self.count
        return fork

    def _add(self, queued: QueuedPod, decision: Decision, now_s: float) -> None:
        detail, decision.detail = decision.detail, None
        entry = Entry(decision, now_s, queued.attempts)
        self.count += 1
        known = self._entries.get(decision.pod, ())
        if len(known) >= PER_POD_MAX:
            known = (known[0], *known[2 - PER_POD_MAX :]) if PER_POD_MAX > 2 else known[:1]
        self._entries[decision.pod] = (*known, entry)
        self._entries.move_to_end(decision.pod)
        if len(self._entries) > PODS_MAX:
            self._entries.popitem(last=False)
        if detail is not None:
            self._keep_detail(entry, detail)

    def _keep_detail(self, entry: Entry, detail: Detail) -> None:
        columns = len(detail.scores.columns) + 1
        cells = len(detail.scores) * columns + _CELLS_PER_REJECTION * len(detail.rejected)
        self._details[id(entry)] = (entry, detail, cells)
        self._cells += cells
        while self._cells > DETAIL_CELLS_MAX and len(self._details) > 1:
            _, (_, _, freed) = self._details.popitem(last=False)
            self._cells -= freed

    # -- told by the machine ----------------------------------------------------------------

    def begin(self, queued: QueuedPod, now_s: float) -> None: ...

    def decided(self, queued: QueuedPod, decision: Decision, now_s: float, seconds: float) -> None:
        self._add(queued, decision, now_s)

    def bound(self, attempts: Sequence[Bound], now_s: float) -> None: ...

    def failed(
        self,
        queued: QueuedPod,
        decision: Decision,
        status: Status,
        now_s: float,
        seconds: float,
    ) -> None:
        known = self.of(decision.pod)
        if not known or known[-1].decision is not decision:
            # It had a node, and something went wrong on the way there.
            self._add(queued, decision, now_s)

    def plugin_error(self, plugin: str, point: str, cause: Exception) -> None: ...

    def problem(self, text: str) -> None: ...
