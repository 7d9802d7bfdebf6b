"""The scheduling queue: every pod that waits for a node, and what each of them waits for.

Mirrors kube-scheduler's `backend/queue/scheduling_queue.go`.  A new pod goes to the active queue
(or behind a gate, `gating`); `pop` takes it in flight (`in_flight`); if its attempt fails it comes
back and waits among the unschedulable pods (`unschedulable`) until an event makes another try
worth it (`hints`), then perhaps a while longer in backoff (`backoff`).

A plain state machine: time is what `now` says.  `core` sets a timer for `next_wakeup_s`: `flush`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import floor
from operator import attrgetter
from typing import Any, Literal

from stowplan.framework.events import (
    FORCE_ACTIVATE,
    UNSCHEDULABLE_TIMEOUT,
    Action,
    ClusterEvent,
    Resource,
)
from stowplan.framework.timing import Recorder
from stowplan.queue.active import ActiveQueue, Debt, OnHeldBack, namespace_of
from stowplan.queue.backoff import BackoffQueue, SortKey
from stowplan.queue.gating import PodGate
from stowplan.queue.hints import Hints, Matched, OnPluginError, ProfileQueueing, Worth
from stowplan.queue.in_flight import InFlight
from stowplan.queue.metrics import (
    ACTIVE,
    BACKOFF,
    BACKOFF_COMPLETE,
    GATED,
    POP_FROM_BACKOFF,
    SCHEDULE_ATTEMPT_FAILURE,
    UNSCHEDULABLE,
    FewNames,
    QueueMetrics,
)
from stowplan.queue.nominator import LivePod, Nominator
from stowplan.queue.pod_changes import pod_update_events
from stowplan.queue.queued_pod import QueuedPod
from stowplan.queue.unschedulable import GroupKey, UnschedulablePods
from stowplan.state.pod_info import PodInfo

INITIAL_BACKOFF_S = 1.0
MAX_BACKOFF_S = 10.0
UNSCHEDULABLE_MAX_S = 300.0
UNSCHEDULABLE_CHECK_S = 30.0


_POD_ADD = ClusterEvent(Resource.UNSCHEDULABLE_POD, Action.ADD).label
_POD_UPDATE = ClusterEvent(Resource.UNSCHEDULABLE_POD, Action.UPDATE).label
_NOMINATING_LABELS = frozenset({_POD_ADD, _POD_UPDATE})
_FORCE_ACTIVATE = FORCE_ACTIVATE.label

_key, _nominated_node = attrgetter("key"), attrgetter("pod.status.nominated_node_name")

_Concerned = tuple[GroupKey, Matched, list[QueuedPod]]
"""Pods of one description that hear of an event, and what to ask about it."""

Place = Literal["active", "backoff", "unschedulable", "gated", "in flight"]


class SchedulingQueue:
    __slots__ = (
        "_active",
        "_backoff",
        "_check_count",
        "_debts",
        "_entries",
        "_gate",
        "_hints",
        "_in_flight",
        "_now",
        "_sort_key",
        "_start_s",
        "_unschedulable",
        "_unschedulable_max_s",
        "closed",
        "cycle",
        "done",
        "metrics",
        "nominator",
    )
    _make_hints = Hints

    def __init__(
        self,
        sort_key: SortKey,
        now: Callable[[], float],
        profiles: Mapping[str, ProfileQueueing],
        *,
        initial_backoff_s: float = INITIAL_BACKOFF_S,
        max_backoff_s: float = MAX_BACKOFF_S,
        unschedulable_max_s: float = UNSCHEDULABLE_MAX_S,
        live_pod: LivePod | None = None,
        recorder: Recorder | None = None,
        on_plugin_error: OnPluginError | None = None,
        on_held_back: OnHeldBack | None = None,
    ) -> None:
        """`profiles` by schedulerName; a pod of another name meets no gate and no hint.

        Hints and PreEnqueue are timed only if there is a `recorder`.
        """
        self._sort_key = sort_key
        self._now = now
        self._unschedulable_max_s = unschedulable_max_s
        self.metrics = metrics = QueueMetrics()
        gates = {name: profile.pre_enqueue for name, profile in profiles.items()}
        maps = {name: profile.hints for name, profile in profiles.items()}
        self._gate = PodGate(gates, metrics, recorder=recorder, on_error=on_plugin_error)
        self._hints = self._make_hints(maps, metrics, recorder=recorder, on_error=on_plugin_error)
        self._active = ActiveQueue(metrics.held_back_s, on_held_back)
        self._debts = self._active.debts
        self._backoff = BackoffQueue(sort_key, initial_backoff_s, max_backoff_s)
        self._unschedulable = UnschedulablePods(self._hints.names_of)
        self._entries = (
            self._active.entries,
            self._unschedulable.entries,
            *self._backoff.entries,
        )
        self._in_flight = InFlight(metrics)
        self.done = self._in_flight.done
        """The attempt is over, or past the point where cluster events matter to it."""
        self.nominator = Nominator(self._promised, live_pod)
        self.cycle = 0
        """How many pods have been popped."""
        self.closed = False
        self._start_s = now()
        self._check_count = 0
        """How many 30 s after the start the unschedulable pods were last looked through."""

    def take_over(self, other: SchedulingQueue, copied: Callable[[QueuedPod], QueuedPod]) -> None:
        """Go on where another queue of the same configuration is: a copy of each pod waits where
        the pod waits.  Those in flight are left out."""
        self._active.take_over(other._active, copied)
        self._active.take_debts(other._active)
        self._backoff.take_over(other._backoff, copied)
        self._unschedulable.take_over(other._unschedulable, copied)
        self.nominator.take_over(other.nominator)
        self.cycle, self._start_s = other.cycle, other._start_s
        self._check_count = other._check_count

    # What waits here.

    @property
    def has_next(self) -> bool:
        """Whether `pop` would find a pod."""
        return bool(self._active) or self._backoff.rejected_count > 0

    @property
    def is_retrying(self) -> bool:
        """Whether a pod backs off and is not yet where its waits have stopped to grow."""
        return self._backoff.is_growing

    def get(self, key: str) -> QueuedPod | None:
        """The waiting pod of that `namespace/name`; pods in flight are not here."""
        for entries in self._entries:
            if key in entries:
                return entries[key][3]
        return None

    _promised = get
    """The same for a pod that is nominated, as others have to reckon with it."""

    def pending_pods(self) -> tuple[list[PodInfo], str]:
        """Every waiting pod, and how many wait where, in upstream's words."""
        waiting = (self._active.values(), self._backoff.values(), self._unschedulable.values())
        summary = "activeQ:{}; backoffQ:{}; unschedulablePods:{}".format(*map(len, waiting))
        return [queued.info for pods in waiting for queued in pods], summary

    def waiting(self) -> list[QueuedPod]:
        """Every waiting pod with its history, those that are ready first."""
        return [*self._active.values(), *self._backoff.values(), *self._unschedulable.values()]

    def in_order(self, pods: Iterable[QueuedPod]) -> list[QueuedPod]:
        """These pods as the queue would take them, wherever they wait now."""
        return sorted(pods, key=lambda queued: self._sort_key(queued.info, queued.timestamp_s))

    def backoff_left_s(self, queued: QueuedPod) -> float:
        return self._backoff.left_s(queued, self._now())

    def pending_counts(self) -> dict[str, int]:
        """The values of `scheduler_pending_pods`."""
        gated = self._unschedulable.gated_count
        return {
            ACTIVE: len(self._active),
            BACKOFF: len(self._backoff),
            UNSCHEDULABLE: len(self._unschedulable) - gated,
            GATED: gated,
        }

    def owing(self) -> dict[str, Debt]:
        """The namespaces whose pods are passed over while others are ready."""
        return self._active.owing(self._now())

    def held_back_count(self) -> int:
        """How many pods are ready, but for what their namespace owes."""
        owing = self.owing()
        return sum(namespace_of(key) in owing for key in self._active.entries) if owing else 0

    def held_back_seconds(self) -> FewNames:
        """How long the pods of each namespace have been passed over, until now."""
        return self._active.held_back_until(self._now())

    def places(self) -> Iterator[tuple[str, Place]]:
        """The uid of every pod the queue knows and where it is; for checks."""
        yield from ((uid, "in flight") for uid in self._in_flight.uids)
        yield from ((queued.info.uid, "active") for queued in self._active.values())
        yield from ((queued.info.uid, "backoff") for queued in self._backoff.values())
        for queued in self._unschedulable.values():
            yield queued.info.uid, "gated" if queued.is_gated else "unschedulable"

    def place_of(self, uid: str) -> Place | None:
        """Where a pod is; goes through all of them, so ask `places` for many."""
        return next((place for known, place in self.places() if known == uid), None)

    # Pods come, change and go.

    def add(self, pod: PodInfo) -> None:
        self._add(pod, _POD_ADD)

    def add_all(self, pods: Sequence[PodInfo]) -> None:
        """As `add` for each of them, in this order: pods that have come together."""
        keys = list(map(_key, pods))
        if len({*keys}) < len(keys) or not all(
            entries.keys().isdisjoint(keys) for entries in self._entries
        ):
            for pod in pods:
                self._add(pod, _POD_ADD)
            return
        now_s = self._now()
        arrived = [QueuedPod(pod, now_s) for pod in pods]
        ready = self._gate.admitted(arrived)
        if len(ready) < len(arrived):
            for queued in arrived:
                if queued.gating_plugin:
                    self._enter_unschedulable(queued, _POD_ADD)
            pods = [queued.info for queued in ready]
            keys = list(map(_key, pods))
        if ready:
            self._begin_active(pods, keys, ready, now_s)

    def _begin_active(
        self, pods: Sequence[PodInfo], keys: list[str], ready: list[QueuedPod], now_s: float
    ) -> None:
        """What `_enter_active` does for each, for new pods that the gate let pass."""
        sort_key = self._sort_key
        for queued in ready:
            queued.initial_attempt_s = now_s
        self._active.add_new(keys, [sort_key(pod, now_s) for pod in pods], ready)
        self.metrics.incoming_pods[ACTIVE, _POD_ADD] += len(ready)
        if self.nominator.node_of or any(map(_nominated_node, pods)):
            for pod in pods:
                self.nominator.add(pod)

    def adopt(self, queued: QueuedPod) -> None:
        """Take over a pod from another queue: its history counts, what rejected it does not.

        Unless a gate holds it here too: then its rejectors still know which events can help.
        """
        queued.waiting_turn = 0
        self.metrics.raise_unschedulable(queued.rejectors, queued.profile)
        if self._enter_active(queued, _POD_ADD):
            self.metrics.lower_unschedulable(queued.rejectors, queued.profile)
            queued.set_rejectors()

    def update(self, old: PodInfo, new: PodInfo) -> None:
        if new.uid in self._in_flight:
            # It comes back as the cluster then has it; only what the change means is noted.
            for event in pod_update_events(old, new, bool(new.node_name)):
                self._in_flight.log(event, old.pod, new.pod)
            return
        if old.uid != new.uid:
            self.delete(old)
        queued = self.get(new.key)
        if queued is None:
            self._add(new, _POD_UPDATE)
            return
        queued.info = new
        self.nominator.update(old, new)
        if new.key in self._active:
            self._active.update(new.key, self._sort_key(new, queued.timestamp_s))
        elif new.key in self._backoff:
            self._backoff.update(queued)
        else:
            self._update_unschedulable(queued, old)

    def delete(self, pod: PodInfo) -> None:
        """Forget a waiting pod.  One in flight stays so until `done`."""
        self.nominator.delete(pod.uid)
        queued = self.get(pod.key)
        # A younger pod of the same name is another pod.
        if queued is not None and queued.info.uid == pod.uid:
            self._discard(queued)

    def _add(self, pod: PodInfo, label: str) -> None:
        known = self.get(pod.key)
        if known is not None:
            self._discard(known)
        self._enter_active(QueuedPod(pod, self._now()), label)

    def _update_unschedulable(self, queued: QueuedPod, old: PodInfo) -> None:
        new = queued.info
        for event in pod_update_events(old, new, bool(new.node_name)):
            worth = self._hints.worth(queued, event, old.pod, new.pod)
            if worth is not Worth.SKIP and self._requeue(queued, worth, event.label):
                return

    def _discard(self, queued: QueuedPod) -> None:
        key = queued.info.key
        self._active.delete(key) or self._backoff.delete(key) or self._unschedulable.remove(key)
        self.metrics.lower_unschedulable(queued.rejectors, queued.profile)

    # Attempts begin and end.

    def pop(self) -> QueuedPod | None:
        """The next pod to schedule, now in flight; None when none is ready.

        With nothing else to do, a rejected pod is taken before its backoff is over.
        """
        while True:
            if self._debts:
                queued = self._active.pop_fairly(self._now())
            else:
                queued = self._active.pop()
            if queued is None:
                queued = self._backoff.pop_early()
                if queued is None:
                    return None
                self.metrics.incoming_pods[ACTIVE, POP_FROM_BACKOFF] += 1
            if self._take_off(queued):
                return queued

    def pop_specific(self, pod: PodInfo) -> QueuedPod | None:
        """As `pop`, but this pod, wherever it waits; None if it does not, or a gate holds it."""
        if pod.key not in self._active and not self._activate(pod):
            return None
        queued = self._active.delete(pod.key)
        return queued if queued is not None and self._take_off(queued) else None

    def add_unschedulable_if_not_present(self, queued: QueuedPod) -> str:
        """Take back a pod whose attempt failed; says what is wrong if it is here already.

        The caller has filled in the rejectors (`set_rejectors`) and the pod as it is now.
        """
        try:
            if problem := self._present(queued.info.key):
                return problem
            self._count_failure(queued)
            self._requeue(queued, self._missed_worth(queued), SCHEDULE_ATTEMPT_FAILURE)
            self.nominator.touch(queued.info.uid)
            return ""
        finally:
            self._in_flight.done(queued.info.uid)

    def owe(self, key: str, seconds: float) -> None:
        """An attempt at this pod took so long: its namespace lets the others go first."""
        self._active.owe(key, seconds, self._now())

    def take_debts(self, old: SchedulingQueue) -> None:
        self._active.take_debts(old._active)

    def close(self) -> None:
        """No attempt that is still under way will come back."""
        for uid in self._in_flight.uids:
            self._in_flight.done(uid)
        self.closed = True

    def _take_off(self, queued: QueuedPod) -> bool:
        queued.attempts += 1
        info = queued.info
        if queued.unschedulable_plugins or queued.pending_plugins:
            self.metrics.lower_unschedulable(queued.rejectors, queued.profile)
        if not self._in_flight.start(info.uid):
            return False
        self.cycle += 1
        if info.uid in self.nominator.node_of:
            self.nominator.touch(info.uid)
        return True

    def _present(self, key: str) -> str:
        for pods, queue in (
            (self._unschedulable, "unschedulable queue"),
            (self._active, "the active queue"),
            (self._backoff, "the backoff queue"),
        ):
            if key in pods:
                return f"Pod {key} is already present in {queue}"
        return ""

    def _count_failure(self, queued: QueuedPod) -> None:
        rejectors = queued.rejectors
        if rejectors:
            queued.unschedulable_count += 1
            queued.consecutive_errors_count = 0
            self.metrics.raise_unschedulable(rejectors, queued.profile)
        else:
            queued.consecutive_errors_count += 1
        queued.timestamp_s = self._now()
        queued.backoff_expiration_s = None
        queued.was_flushed = False
        queued.flush_s = 0.0

    def _missed_worth(self, queued: QueuedPod) -> Worth:
        """The best that can be said of the events that came while the pod was in flight."""
        missed = self._in_flight.events_since_start(queued.info.uid)
        if missed is None or not queued.rejectors:
            return Worth.AFTER_BACKOFF
        # Only a pending plugin can ask for more than AFTER_BACKOFF.
        enough = Worth.IMMEDIATE if queued.pending_plugins else Worth.AFTER_BACKOFF
        best = Worth.SKIP
        for logged in missed:
            best = max(best, self._hints.worth(queued, logged.event, logged.old, logged.new))
            if best >= enough:
                break
        return best

    # Pods are given another chance.

    def activate(self, pods: Iterable[PodInfo]) -> None:
        """Have these pods tried again, backing off or not; those in flight when they come back."""
        for pod in pods:
            if not self._activate(pod) and pod.uid in self._in_flight:
                self._in_flight.log(FORCE_ACTIVATE, None, pod.pod)

    def move_all(
        self,
        event: ClusterEvent,
        old: Any,
        new: Any,
        pre_check: Callable[[PodInfo], bool] | None = None,
    ) -> None:
        """An event happened: requeue the unschedulable pods for which it makes a difference.

        `pre_check` limits who is looked at, but not for whom the event is kept: pods in flight
        see it all.
        """
        if not (self._unschedulable.groups or self._in_flight.pods):
            return  # Nobody is there to hear of it.
        if not self._hints.interested(event):
            return
        concerned: list[_Concerned] = []
        for key, group in self._unschedulable.groups.items():
            heard = self._hints.heard(key, event)
            if heard is not None:
                if heard.by_name is None:
                    pods = list(group.values())
                else:
                    pods = self._unschedulable.of(key, heard.names(key.gating_plugin, old, new))
                    self._hints.skipped(heard, event, len(group) - len(pods))
                if pre_check is not None:
                    pods = [queued for queued in pods if pre_check(queued.info)]
                concerned.append((key, heard, pods))
        if concerned:
            self._move(concerned, event, old, new)
        self._in_flight.log(event, old, new)

    def move_one(self, pod: PodInfo, event: ClusterEvent, old: Any, new: Any) -> None:
        """`move_all` with a `pre_check` that only this pod passes, without asking the others."""
        if not self._hints.interested(event):
            return
        queued = self._unschedulable.get(pod.key)
        if queued is not None and queued.info.uid == pod.uid:
            key = self._unschedulable.group_of(pod.key)
            heard = self._hints.heard(key, event)
            if heard is not None:
                self._move([(key, heard, [queued])], event, old, new)
        self._in_flight.log(event, old, new)

    def _activate(self, pod: PodInfo) -> bool:
        queued = self._unschedulable.get(pod.key)
        if queued is not None:
            return self._enter_active(queued, _FORCE_ACTIVATE)
        queued = self._backoff.delete(pod.key)
        if queued is None:
            return False
        return self._leave_backoff(queued, _FORCE_ACTIVATE)

    def _move(self, concerned: list[_Concerned], event: ClusterEvent, old: Any, new: Any) -> None:
        # The gate stands before both queues a pod may go to.
        label = event.label
        moves: list[tuple[int, QueuedPod, Worth]] = []
        for key, heard, pods in concerned:
            for worth, worthy in self._hints.moves(pods, heard, event, old, new):
                worthy = self._let_go(worthy, key, label)
                if worthy:
                    moves += [(queued.waiting_turn, queued, worth) for queued in worthy]
        moves.sort()
        for _, queued, worth in moves:
            self._unschedulable.remove(queued.info.key)
            if queued.gating_plugin:
                self._enter_unschedulable(queued, label)
            else:
                self._requeue(queued, worth, label, admitted=True)

    def _let_go(self, pods: list[QueuedPod], key: GroupKey, label: str) -> list[QueuedPod]:
        """Those of the pods that move: all but the ones that still wait behind a gate."""
        gating_plugin = key.gating_plugin
        free, held_anew = self._gate.sort_out(pods, key.profile, gating_plugin)
        if not gating_plugin:
            return pods
        for queued in held_anew:
            self._unschedulable.put(queued)
        if held_count := len(pods) - len(free):
            self.metrics.incoming_pods[UNSCHEDULABLE, label] += held_count
        return free

    # Time passes.

    def flush(self) -> None:
        """Do what is due now."""
        self.flush_backoff()
        if self._checks_until(self._now()) > self._check_count:
            self.flush_unschedulable()

    def flush_backoff(self) -> None:
        """Pods whose backoff is over become active."""
        for queued in self._backoff.pop_completed(self._now()):
            self._leave_backoff(queued, BACKOFF_COMPLETE)

    def flush_unschedulable(self) -> None:
        """Pods left unschedulable for minutes get another try without any event."""
        now_s = self._now()
        self._check_count = self._checks_until(now_s)
        due = self._unschedulable.pop_due(now_s, self._unschedulable_max_s)
        for queued in due:
            queued.flush_s = now_s
            # Not if a gate holds it.
            queued.was_flushed = self._requeue(
                queued, Worth.AFTER_BACKOFF, UNSCHEDULABLE_TIMEOUT.label
            )
        if due:
            self._in_flight.log(UNSCHEDULABLE_TIMEOUT, None, None)

    def next_wakeup_s(self) -> float | None:
        """When `flush` will next have something to do: a whole second, or one of the 30 s checks.

        None while it has nothing to wait for.
        """
        backoff_s = self._backoff.next_completion_s()
        oldest_s = self._unschedulable.oldest_s()
        if oldest_s is None:
            return backoff_s
        check = self._checks_until(oldest_s + self._unschedulable_max_s) + 1
        # Never a check that was made already, however the division was rounded.
        check_s = self._start_s + UNSCHEDULABLE_CHECK_S * max(check, self._check_count + 1)
        return check_s if backoff_s is None else min(backoff_s, check_s)

    def _checks_until(self, time_s: float) -> int:
        return floor((time_s - self._start_s) / UNSCHEDULABLE_CHECK_S)

    # Where a pod goes.

    def _requeue(
        self, queued: QueuedPod, worth: Worth, label: str, *, admitted: bool = False
    ) -> bool:
        """True if the pod left for the active or the backoff queue."""
        if worth is Worth.SKIP:
            self._enter_unschedulable(queued, label)
            return False
        if worth is Worth.AFTER_BACKOFF and self._backoff.is_backing_off(queued, self._now()):
            return self._enter_backoff(queued, label, admitted=admitted)
        return self._enter_active(queued, label, admitted=admitted)

    def _enter_active(self, queued: QueuedPod, label: str, *, admitted: bool = False) -> bool:
        """`admitted`: the gate let the pod pass already."""
        if not admitted and not self._gate.admits(queued):
            self._enter_unschedulable(queued, label)
            return False
        info = queued.info
        if queued.initial_attempt_s is None:
            queued.initial_attempt_s = self._now()
        if queued.waiting_turn:
            self._unschedulable.remove(info.key)
        self._active.add(info.key, self._sort_key(info, queued.timestamp_s), queued)
        self.metrics.incoming_pods[ACTIVE, label] += 1
        if label in _NOMINATING_LABELS:
            self.nominator.add(info)
        return True

    def _leave_backoff(self, queued: QueuedPod, label: str) -> bool:
        # The gate stands before the backoff queue.
        return self._enter_active(queued, label, admitted=True)

    def _enter_backoff(self, queued: QueuedPod, label: str, *, admitted: bool = False) -> bool:
        if not admitted and not self._gate.admits(queued):
            self._enter_unschedulable(queued, label)
            return False
        self._unschedulable.remove(queued.info.key)
        self._backoff.add(queued)
        self.metrics.incoming_pods[BACKOFF, label] += 1
        return True

    def _enter_unschedulable(self, queued: QueuedPod, label: str) -> None:
        if self._unschedulable.put(queued):
            self.metrics.incoming_pods[UNSCHEDULABLE, label] += 1
