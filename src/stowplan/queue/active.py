"""The active queue: the first pod goes first, but for namespaces that took too much time.

A pod whose attempt was long has made everybody wait.  Its namespace then owes the others nine
times as long: until that has passed, its pods are passed over while pods of other namespaces are
ready.  So no namespace has more than a tenth of the scheduler's time while others wait, and none
waits for ever.  Among namespaces that owe, the one that is free first goes first.

Without debts this is a plain heap.  With some, `pop_fairly` puts the pods of the namespaces
concerned aside, each once, in a heap for each namespace; `entries` knows them all the same.
`SchedulingQueue` asks; `core.machine` says who owes (`LongAttempt`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from stowplan.queue.heap import GARBAGE_MIN, Entry, KeyedHeap
from stowplan.queue.metrics import FewNames
from stowplan.queue.queued_pod import QueuedPod

OTHERS_SHARE = 9
"""How many times as long as an attempt took the others may go first: they get nine tenths."""


@dataclass(slots=True)
class Debt:
    """What a namespace owes for its longest attempt; it is paid by time that passes."""

    pod: str
    """The `namespace/name` whose attempt was long."""
    seconds: float
    """How long that attempt took."""
    until_s: float
    held_since_s: float | None = None
    """When a pod of the namespace was first passed over, and none has gone since."""
    was_told: bool = False
    aside: list[Entry[QueuedPod]] = field(default_factory=list)
    """A heap of the namespace's pods, and garbage as `KeyedHeap` leaves it."""

    def held_s(self, now_s: float) -> float:
        since_s = now_s if self.held_since_s is None else self.held_since_s
        # The clock may have been set back.
        return max(0.0, min(now_s, self.until_s) - since_s)


OnHeldBack = Callable[[QueuedPod, Debt], None]
"""Told once per debt, of the first pod that is passed over."""


class ActiveQueue(KeyedHeap[QueuedPod]):
    __slots__ = ("_on_held_back", "debts", "held_back_s")

    def __init__(self, held_back_s: FewNames, on_held_back: OnHeldBack | None) -> None:
        """`held_back_s`: for how long each namespace was held back; it is written here."""
        super().__init__()
        self.debts: dict[str, Debt] = {}
        """By namespace.  Those that are over stay while pods lie aside: `pop_fairly` has them."""
        self.held_back_s = held_back_s
        self._on_held_back = on_held_back

    def owe(self, key: str, seconds: float, now_s: float) -> None:
        """An attempt at this pod took so long, and is over."""
        namespace, until_s = namespace_of(key), now_s + OTHERS_SHARE * seconds
        debt = self.debts.setdefault(namespace, Debt(key, seconds, until_s))
        if until_s > debt.until_s:
            self._end_hold(namespace, debt, now_s)
            debt.pod, debt.seconds, debt.until_s, debt.was_told = key, seconds, until_s, False

    def take_debts(self, other: ActiveQueue) -> None:
        """Remember what is owed to another queue, whose pods come here one by one."""
        for namespace, debt in other.debts.items():
            self.debts[namespace] = Debt(
                debt.pod, debt.seconds, debt.until_s, debt.held_since_s, debt.was_told
            )

    def owing(self, now_s: float) -> dict[str, Debt]:
        return {name: debt for name, debt in self.debts.items() if debt.until_s > now_s}

    def held_back_until(self, now_s: float) -> FewNames:
        """`held_back_s`, with what goes on now."""
        found = FewNames(self.held_back_s)
        for namespace, debt in self.debts.items():
            if held_s := debt.held_s(now_s):
                found[namespace] += held_s
        return found

    def pop_fairly(self, now_s: float) -> QueuedPod | None:
        """As `pop`, when there are debts."""
        self._forget_paid(now_s)
        ready = [] if (top := self._put_aside()) is None else [top]
        owing: list[tuple[float, Entry[QueuedPod], str]] = []
        for namespace, debt in self.debts.items():
            if (top := self._top(debt.aside)) is not None:
                if debt.until_s > now_s:
                    owing.append((debt.until_s, top, namespace))
                else:
                    ready.append(top)
        if not ready and not owing:
            return None
        entry = min(ready) if ready else min(owing)[1]
        for _, top, namespace in owing:
            if top < entry:
                self._pass_over(top[3], self.debts[namespace], now_s)
        self._take(entry, now_s)
        return entry[3]

    def _put_aside(self) -> Entry[QueuedPod] | None:
        """The first pod whose namespace has no debt; those before it are put aside."""
        heap, debts = self._heap, self.debts
        while (top := self._top(heap)) is not None:
            debt = debts.get(namespace_of(top[2]))
            if debt is None:
                return top
            heappush(debt.aside, heappop(heap))
        return None

    def _top(self, heap: list[Entry[QueuedPod]]) -> Entry[QueuedPod] | None:
        while heap:
            if self.entries.get(heap[0][2]) is heap[0]:
                return heap[0]
            heappop(heap)
        return None

    def _take(self, entry: Entry[QueuedPod], now_s: float) -> None:
        """It lies on top of its heap, which steps over it once `entries` does not know it."""
        namespace = namespace_of(entry[2])
        if (debt := self.debts.get(namespace)) is not None:
            self._end_hold(namespace, debt, now_s)
        del self.entries[entry[2]]
        if not self.entries:
            self._empty()

    def _pass_over(self, queued: QueuedPod, debt: Debt, now_s: float) -> None:
        if debt.held_since_s is None:
            debt.held_since_s = now_s
        if not debt.was_told:
            debt.was_told = True
            if self._on_held_back is not None:
                self._on_held_back(queued, debt)

    def _end_hold(self, namespace: str, debt: Debt, now_s: float) -> None:
        if held_s := debt.held_s(now_s):
            self.held_back_s[namespace] += held_s
        debt.held_since_s = None

    def _forget_paid(self, now_s: float) -> None:
        for namespace, debt in [*self.debts.items()]:
            if debt.until_s > now_s:
                # Nobody owes more than that, even if the clock was set back.
                debt.until_s = min(debt.until_s, now_s + OTHERS_SHARE * debt.seconds)
                continue
            self._end_hold(namespace, debt, now_s)
            if self._top(debt.aside) is None:
                del self.debts[namespace]

    def _tidy(self) -> None:
        if not self.debts:
            super()._tidy()
            return
        alive_count = len(self.entries)
        total = len(self._heap) + sum(len(debt.aside) for debt in self.debts.values())
        if total - alive_count > max(alive_count, GARBAGE_MIN) or not alive_count:
            self._empty_asides()
            self._heap = list(self.entries.values())
            heapify(self._heap)

    def _empty(self) -> None:
        super()._empty()
        self._empty_asides()

    def _empty_asides(self) -> None:
        for debt in self.debts.values():
            debt.aside.clear()


def namespace_of(key: str) -> str:
    """
    >>> namespace_of("shop/web-1")
    'shop'
    """
    return key.partition("/")[0]
