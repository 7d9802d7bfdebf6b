"""The queue written as plainly as can be: lists that are searched, a log that is never pruned.

What `SchedulingQueue` must do, from core.md §2, with no thought for speed.  The state machine in
`test_machine` drives both and compares.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import floor
from typing import Any

from stowplan.framework.events import ClusterEvent, EventRegistration, Hint
from stowplan.framework.plugin import Nominate
from stowplan.queue import pod_update_events
from stowplan.state.pod_info import PodInfo
from tests.queue.builders import GatePlugin

SKIP, AFTER_BACKOFF, IMMEDIATE = 0, 1, 2


@dataclass(eq=False)
class Waiting:
    info: PodInfo
    timestamp_s: float
    attempts: int = 0
    errors: int = 0
    rejections: int = 0
    unschedulable: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    gate: str = ""
    ready_s: float | None = None
    was_flushed: bool = False
    flush_s: float = 0.0

    @property
    def rejectors(self) -> frozenset[str]:
        return self.unschedulable | self.pending

    @property
    def since_s(self) -> float:
        return max(self.timestamp_s, self.flush_s)

    def sort_key(self) -> tuple[int, float]:
        return -self.info.priority, self.timestamp_s

    def history(self) -> dict[str, Any]:
        """As `QueuedPod` has it."""
        return {
            "info": self.info,
            "timestamp_s": self.timestamp_s,
            "attempts": self.attempts,
            "initial_attempt_s": self.ready_s,
            "unschedulable_count": self.rejections,
            "consecutive_errors_count": self.errors,
            "unschedulable_plugins": self.unschedulable,
            "pending_plugins": self.pending,
            "gating_plugin": self.gate,
            "was_flushed": self.was_flushed,
            "flush_s": self.flush_s,
        }

    def expiration_s(self) -> float:
        count = self.errors or self.rejections
        if count == 0:
            return -1.0
        return floor(self.timestamp_s + min(2.0 ** (count - 1), 10.0))


def covers(registered: ClusterEvent, event: ClusterEvent) -> bool:
    if registered.resource != event.resource and not (
        registered.resource == "Pod" and event.resource in ("AssignedPod", "UnschedulablePod")
    ):
        return False
    return (int(registered.action) & int(event.action)) != 0 and event.action <= registered.action


@dataclass
class Model:
    now: Callable[[], float]
    gates: Sequence[GatePlugin]
    registrations: dict[str, list[EventRegistration]]
    live_pod: Callable[[str], PodInfo | None]
    active: list[Waiting] = field(default_factory=list)
    backoff: list[Waiting] = field(default_factory=list)
    unschedulable: list[Waiting] = field(default_factory=list)
    flying: dict[str, int] = field(default_factory=dict)
    """Uid -> how long the log was when it left."""
    log: list[tuple[ClusterEvent, Any, Any]] = field(default_factory=list)
    nominated: dict[str, str] = field(default_factory=dict)
    debts: dict[str, float] = field(default_factory=dict)
    """Namespace -> until when it lets others go first."""
    incoming: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(Queue, what happened) -> how many pods came."""
    start_s: float = 0.0
    check_count: int = 0

    def __post_init__(self) -> None:
        self.start_s = self.now()

    def places(self) -> list[tuple[str, str]]:
        found = [(uid, "in flight") for uid in self.flying]
        found += [(w.info.uid, "active") for w in self.active]
        found += [(w.info.uid, "backoff") for w in self.backoff]
        found += [(w.info.uid, "gated" if w.gate else "unschedulable") for w in self.unschedulable]
        return sorted(found)

    def kept_events(self) -> list[ClusterEvent]:
        start = min(self.flying.values(), default=len(self.log))
        return [event for event, _, _ in self.log[start:]]

    def find(self, key: str) -> Waiting | None:
        everybody = self.active + self.backoff + self.unschedulable
        return next((w for w in everybody if w.info.key == key), None)

    def remove(self, waiting: Waiting) -> None:
        for pods in (self.active, self.backoff, self.unschedulable):
            if waiting in pods:
                pods.remove(waiting)

    # Pods come, change and go.

    def add(self, info: PodInfo, label: str = "UnschedulablePodAdd") -> None:
        known = self.find(info.key)
        if known:
            self.remove(known)
        self.enter_active(Waiting(info, self.now()), label)

    def update(self, old: PodInfo, new: PodInfo) -> None:
        events = pod_update_events(old, new, assigned=False)
        if new.uid in self.flying:
            self.log += [(event, old.pod, new.pod) for event in events]
            return
        if old.uid != new.uid:
            self.delete(old)
        waiting = self.find(new.key)
        if waiting is None:
            self.add(new, "UnschedulablePodUpdate")
            return
        waiting.info = new
        unsaid = not old.pod.status.nominated_node_name and not new.pod.status.nominated_node_name
        kept = self.nominated.get(old.uid)
        self.nominate(new, Nominate(kept) if unsaid and kept else None)
        if waiting in self.unschedulable:
            for event in events:
                if self.requeue(waiting, self.worth(waiting, event, old.pod, new.pod), event.label):
                    break

    def delete(self, info: PodInfo) -> None:
        self.nominated.pop(info.uid, None)
        waiting = self.find(info.key)
        if waiting and waiting.info.uid == info.uid:
            self.remove(waiting)

    def nominate(self, info: PodInfo, nominate: Nominate | None) -> None:
        self.nominated.pop(info.uid, None)
        node = info.pod.status.nominated_node_name if nominate is None else nominate.node
        if node and self.live_pod(info.key) is not None:
            self.nominated[info.uid] = node

    # Attempts begin and end.

    def pop(self) -> Waiting | None:
        while True:
            rejected = [w for w in self.backoff if w.rejectors]
            if self.active:
                waiting = self.first_active()
            elif rejected:
                waiting = min(rejected, key=lambda w: (w.expiration_s(), w.sort_key()))
                self.incoming["active", "PopFromBackoffQ"] += 1
            else:
                return None
            if self.take_off(waiting):
                return waiting

    def first_active(self) -> Waiting:
        """Of those that owe nothing the first; else the first of whoever is free first."""

        def debt_s(waiting: Waiting) -> float:
            until_s = self.debts.get(waiting.info.pod.metadata.namespace, 0.0)
            return until_s if until_s > self.now() else 0.0

        return min(self.active, key=lambda w: (debt_s(w), w.sort_key()))

    def owe(self, namespace: str, seconds: float) -> None:
        until_s = self.now() + 9 * seconds
        self.debts[namespace] = max(until_s, self.debts.get(namespace, 0.0))

    def take_off(self, waiting: Waiting) -> bool:
        self.remove(waiting)
        waiting.attempts += 1
        if waiting.info.uid in self.flying:
            return False
        self.flying[waiting.info.uid] = len(self.log)
        return True

    def pop_specific(self, info: PodInfo) -> Waiting | None:
        self.activate(info)
        waiting = self.find(info.key)
        if waiting is None or waiting not in self.active:
            return None
        return waiting if self.take_off(waiting) else None

    def done(self, uid: str) -> None:
        self.flying.pop(uid, None)

    def fail(
        self, waiting: Waiting, unschedulable: frozenset[str], pending: frozenset[str]
    ) -> None:
        if self.find(waiting.info.key):
            self.done(waiting.info.uid)
            return
        waiting.unschedulable, waiting.pending, waiting.gate = unschedulable, pending, ""
        if waiting.rejectors:
            waiting.rejections += 1
            waiting.errors = 0
        else:
            waiting.errors += 1
        waiting.timestamp_s, waiting.flush_s = self.now(), 0.0
        waiting.was_flushed = False
        worth = AFTER_BACKOFF
        if waiting.rejectors and waiting.info.uid in self.flying:
            missed = self.log[self.flying[waiting.info.uid] :]
            worth = max([SKIP] + [self.worth(waiting, *logged) for logged in missed])
        self.requeue(waiting, worth, "ScheduleAttemptFailure")
        self.done(waiting.info.uid)

    # Pods are given another chance.

    def activate(self, info: PodInfo) -> bool:
        waiting = self.find(info.key)
        if waiting is None or waiting in self.active:
            return False
        return self.enter_active(waiting, "ForceActivate")

    def activate_or_log(self, info: PodInfo, event: ClusterEvent) -> None:
        if not self.activate(info) and info.uid in self.flying:
            self.log.append((event, None, info.pod))

    def move_all(
        self, event: ClusterEvent, new: Any, pre_check: Callable[[PodInfo], bool] | None
    ) -> None:
        everything = [entry for entries in self.registrations.values() for entry in entries]
        if not event.is_wildcard and not any(covers(entry.event, event) for entry in everything):
            return
        for waiting in list(self.unschedulable):
            opens = event.is_wildcard or any(
                covers(entry.event, event) for entry in self.registrations.get(waiting.gate, ())
            )
            if (pre_check is None or pre_check(waiting.info)) and (opens or not waiting.gate):
                self.move(waiting, event, new)
        if self.flying:
            self.log.append((event, None, new))

    def move(self, waiting: Waiting, event: ClusterEvent, new: Any) -> None:
        worth = self.worth(waiting, event, None, new)
        if worth != SKIP:
            self.unschedulable.remove(waiting)
            self.requeue(waiting, worth, event.label)

    def worth(self, waiting: Waiting, event: ClusterEvent, old: Any, new: Any) -> int:
        if not waiting.rejectors:
            return AFTER_BACKOFF
        if event.is_wildcard:
            mine = new is None or new.metadata.uid == waiting.info.uid
            return AFTER_BACKOFF if mine else SKIP
        best = SKIP
        for plugin in waiting.rejectors:
            for entry in self.registrations.get(plugin, ()):
                if covers(entry.event, event) and says_queue(entry, waiting, old, new):
                    best = max(best, IMMEDIATE if plugin in waiting.pending else AFTER_BACKOFF)
        return best

    # Time passes.

    def flush(self, event: ClusterEvent) -> None:
        self.flush_backoff()
        if self.now() >= self.start_s + 30 * (self.check_count + 1):
            self.flush_unschedulable(event)

    def next_wakeup_s(self) -> float | None:
        moments = [w.expiration_s() + 1 for w in self.backoff]
        for waiting in self.unschedulable:
            check = self.check_count + 1
            while not self.start_s + 30 * check - waiting.since_s > 300:
                check += 1
            moments.append(self.start_s + 30 * check)
        return min(moments, default=None)

    def flush_backoff(self) -> None:
        over = [w for w in self.backoff if w.expiration_s() < floor(self.now())]
        rejected = [w for w in over if w.rejectors]
        rejected.sort(key=lambda w: (w.expiration_s(), w.sort_key()))
        errors = sorted((w for w in over if not w.rejectors), key=Waiting.expiration_s)
        for waiting in rejected + errors:
            self.enter_active(waiting, "BackoffComplete")

    def flush_unschedulable(self, event: ClusterEvent) -> None:
        while self.now() >= self.start_s + 30 * (self.check_count + 1):
            self.check_count += 1
        due = [w for w in self.unschedulable if self.now() - w.since_s > 300]
        due.sort(key=lambda w: w.since_s)
        for waiting in due:
            self.unschedulable.remove(waiting)
            waiting.flush_s = self.now()
        for waiting in due:
            waiting.was_flushed = self.requeue(waiting, AFTER_BACKOFF, event.label)
        if due and self.flying:
            self.log.append((event, None, None))

    # Where a pod goes.

    def requeue(self, waiting: Waiting, worth: int, label: str) -> bool:
        if worth == SKIP:
            self.enter_unschedulable(waiting, None, label)
            return False
        backs_off = waiting.expiration_s() >= floor(self.now())
        if worth == AFTER_BACKOFF and backs_off:
            if self.is_gated(waiting, label):
                return False
            self.remove(waiting)
            self.backoff.append(waiting)
            self.incoming["backoff", label] += 1
            return True
        return self.enter_active(waiting, label)

    def enter_active(self, waiting: Waiting, label: str) -> bool:
        if waiting not in self.backoff and self.is_gated(waiting, label):
            return False
        if waiting.ready_s is None:
            waiting.ready_s = self.now()
        self.remove(waiting)
        self.active.append(waiting)
        self.incoming["active", label] += 1
        if label in ("UnschedulablePodAdd", "UnschedulablePodUpdate"):
            self.nominate(waiting.info, None)
        return True

    def is_gated(self, waiting: Waiting, label: str) -> bool:
        before = (waiting.rejectors, waiting.gate)
        ordered = sorted(self.gates, key=lambda gate: gate.name != waiting.gate)
        for gate in ordered:
            if waiting.info.uid in gate.closed_to:
                waiting.unschedulable |= {gate.name}
                waiting.gate = gate.name
                waiting.was_flushed = False
                self.enter_unschedulable(waiting, before, label)
                return True
        waiting.gate = ""
        return False

    def enter_unschedulable(self, waiting: Waiting, before: Any, label: str) -> None:
        """A pod that is there stays where it stands, unless who holds it back has changed."""
        if waiting in self.unschedulable:
            if before is None or before == (waiting.rejectors, waiting.gate):
                return
            self.unschedulable.remove(waiting)
        else:
            self.incoming["unschedulable", label] += 1
        self.unschedulable.append(waiting)


def says_queue(entry: EventRegistration, waiting: Waiting, old: Any, new: Any) -> bool:
    if entry.hint is None:
        return True
    try:
        return entry.hint(waiting.info.pod, old, new) == Hint.QUEUE
    except Exception:
        return True
