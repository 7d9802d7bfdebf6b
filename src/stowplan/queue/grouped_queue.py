"""The scheduling queue where pods may belong to groups: a group is one entry of it.

Members that may be scheduled wait inside the entry of their group (`QueuedGroup`), which is what
stands in the active queue, backs off, and waits for events.  A member that a gate of its own holds
back (scheduling gates, a claim that is not there) waits alone until the gate opens; what holds the
whole group back (its object is unknown, or members are missing: plugins with `gates_groups`) holds
its entry.  `pop` hands out the entry with all members in flight, `give_back` takes back those that
failed.  Pods of their own go through `SchedulingQueue` as ever.  `core` makes this one where
GenericWorkload is on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from stowplan.framework.events import Action, ClusterEvent, Resource
from stowplan.queue.group_hints import GroupHints
from stowplan.queue.heap import Entry
from stowplan.queue.hints import Worth
from stowplan.queue.metrics import (
    ACTIVE,
    BACKOFF,
    GATED,
    SCHEDULE_ATTEMPT_FAILURE,
    UNSCHEDULABLE,
)
from stowplan.queue.pod_changes import pod_update_events
from stowplan.queue.queued_pod import (
    NO_PLUGINS,
    QueuedGroup,
    QueuedPod,
    entry_key,
    member_order,
    stand_in,
    with_priority,
)
from stowplan.queue.scheduling_queue import Place, SchedulingQueue
from stowplan.queue.unschedulable import GroupKey
from stowplan.state.pod_info import PodInfo

_POD_ADD = ClusterEvent(Resource.UNSCHEDULABLE_POD, Action.ADD).label
_GROUP_DELETED = ClusterEvent(Resource.POD_GROUP, Action.DELETE).label


class GroupedQueue(SchedulingQueue):
    __slots__ = (
        "_group_gates",
        "_members",
        "_on_arrival",
        "_on_hold",
        "_priority_of",
        "_waiting_groups",
    )
    _hints: GroupHints
    _make_hints = GroupHints

    def __init__(
        self,
        *args: Any,
        group_gates: frozenset[str] = frozenset(),
        on_arrival: Callable[[Sequence[PodInfo]], None] = lambda pods: None,
        on_hold: Callable[[str, Sequence[QueuedPod]], None] = lambda plugin, members: None,
        priority_of: Callable[[str], int | None] = lambda group: None,
        **kw: Any,
    ) -> None:
        """`group_gates`: the PreEnqueue plugins that hold back whole groups; `on_arrival` is told
        of pods that come, before the gates are asked; `on_hold` of members that a plugin holds
        back; `priority_of` says which priority a group has of its own, in place of its members'."""
        super().__init__(*args, **kw)
        self._on_hold = on_hold
        self._on_arrival = on_arrival
        self._priority_of = priority_of
        self._group_gates = group_gates
        self._waiting_groups: dict[str, QueuedGroup] = {}
        """The entry of each group of which members wait, by the group's `namespace/name`."""
        self._members: dict[str, Entry[QueuedPod]] = {}
        """The members inside entries, by `namespace/name`: here `get` finds them."""
        self._entries = (*self._entries, self._members)

    def take_over(self, other: SchedulingQueue, copied: Callable[[QueuedPod], QueuedPod]) -> None:
        super().take_over(other, copied)
        for queued in super().waiting():
            if isinstance(queued, QueuedGroup):
                self._waiting_groups[queued.group] = queued
                for member in queued.members.values():
                    self._index(member)

    # What waits here.

    def entry_of(self, group: str) -> QueuedGroup | None:
        """The entry of a group, if members of it wait and are not behind gates of their own."""
        return self._waiting_groups.get(group)

    def _promised(self, key: str) -> QueuedPod | None:
        """A member counts with its group's priority: who could be evicted for the group would
        otherwise take the place that others were evicted from."""
        queued = self.get(key)
        if queued is None or not queued.info.kind.is_member:
            return queued
        priority = self._priority_of(queued.info.group_key)
        if priority is None:
            return queued
        return QueuedPod(with_priority(queued.info, priority), queued.timestamp_s)

    def backoff_left_s(self, queued: QueuedPod) -> float:
        """Of a member: its group's, which is what backs off."""
        return super().backoff_left_s(self.entry_of(queued.info.group_key) or queued)

    def waiting(self) -> list[QueuedPod]:
        return [*_flattened(super().waiting())]

    def pending_pods(self) -> tuple[list[PodInfo], str]:
        places = (self._active, self._backoff, self._unschedulable)
        waiting = [[*_flattened(place.values())] for place in places]
        active, backoff, unschedulable = map(len, waiting)
        summary = f"activeQ:{active}; backoffQ:{backoff}; unschedulablePods:{unschedulable}"
        return [queued.info for pods in waiting for queued in pods], summary

    def pending_counts(self) -> dict[str, int]:
        counts = {ACTIVE: 0, BACKOFF: 0, UNSCHEDULABLE: 0, GATED: 0}
        for place, pods in ((ACTIVE, self._active), (BACKOFF, self._backoff)):
            counts[place] = sum(1 for _ in _flattened(pods.values()))
        for queued in self._unschedulable.values():
            place = GATED if queued.is_gated else UNSCHEDULABLE
            counts[place] += sum(1 for _ in _flattened([queued]))
        return counts

    def places(self) -> Iterator[tuple[str, Place]]:
        yield from ((uid, "in flight") for uid in self._in_flight.uids)
        yield from ((queued.info.uid, "active") for queued in _flattened(self._active.values()))
        yield from ((queued.info.uid, "backoff") for queued in _flattened(self._backoff.values()))
        for queued in self._unschedulable.values():
            for member in _flattened([queued]):
                yield member.info.uid, "gated" if queued.is_gated else "unschedulable"

    # Pods come, change and go.

    def add_all(self, pods: Sequence[PodInfo]) -> None:
        alone = [pod for pod in pods if not pod.kind.is_member]
        if alone:
            super().add_all(alone)
        if len(alone) == len(pods):
            return
        self._on_arrival(pods)
        groups: dict[str, list[QueuedPod]] = {}
        now_s = self._now()
        for pod in pods:
            if pod.kind.is_member:
                if (known := self.get(pod.key)) is not None:
                    self._discard(known)
                groups.setdefault(pod.group_key, []).append(QueuedPod(pod, now_s))
        for group, members in groups.items():
            self._join(group, members, Worth.IMMEDIATE, _POD_ADD)
            for queued in members:
                self.nominator.add(queued.info)

    def _add(self, pod: PodInfo, label: str) -> None:
        if pod.kind.is_member:
            self.add_all([pod])
        else:
            super()._add(pod, label)

    def update(self, old: PodInfo, new: PodInfo) -> None:
        entry = self._holding(new) if old.uid == new.uid else None
        if entry is None or new.uid in self._in_flight:
            super().update(old, new)
            return
        queued = entry.members[new.key]
        queued.info = new
        self.nominator.update(old, new)
        if new.kind is not old.kind:
            self._set_leader(entry)
        if self._is_ready(entry):
            return
        for event in pod_update_events(old, new, False):
            if queued.rejectors:
                worth = self._hints.worth(queued, event, old.pod, new.pod)
            else:
                # It found a node, the others did not: only another sort of pod makes a difference.
                worth = Worth.SKIP if new.kind is old.kind else Worth.AFTER_BACKOFF
            if worth is not Worth.SKIP:
                self._requeue(entry, worth, event.label)
                return

    def _discard(self, queued: QueuedPod) -> None:
        entry = self._holding(queued.info)
        if entry is None:
            super()._discard(queued)
            return
        key = queued.info.key
        del entry.members[key], self._members[key]
        self.metrics.lower_unschedulable(queued.rejectors, queued.profile)
        if not entry.members:
            self._drop(entry)
            return
        if not any(other.info.kind is entry.leader for other in entry.members.values()):
            self._set_leader(entry)
        if not entry.is_gated and not self._is_ready(entry):
            # One less to find room for: the others may fit now.
            self._requeue(entry, Worth.AFTER_BACKOFF, _POD_ADD)

    # Attempts begin and end.

    def _take_off(self, queued: QueuedPod) -> bool:
        if not isinstance(queued, QueuedGroup):
            return super()._take_off(queued)
        queued.attempts += 1
        del self._waiting_groups[queued.group]
        for key in [*queued.members]:
            del self._members[key]
            if not super()._take_off(queued.members[key]):
                del queued.members[key]
        return bool(queued.members)

    def give_back(
        self, entry: QueuedGroup, failed: list[QueuedPod], rejectors: frozenset[str]
    ) -> None:
        """Take back the members whose attempt failed; `rejectors` are those of the group itself.

        Each of the members says who rejected it; with nobody at all, it was an error.
        """
        waiting, members = self._waiting_groups.get(entry.group), []
        for queued in failed:
            if not self._present(queued.info.key):
                self._count_failure(queued)
                members.append(queued)
        if members:
            entry.members = {queued.info.key: queued for queued in members}
            self._note_failure(entry, rejectors)
            worth = self._missed_worth_of(entry)
            if waiting is None:
                self._waiting_groups[entry.group] = entry
                for queued in members:
                    self._index(queued)
                self._requeue(entry, worth, SCHEDULE_ATTEMPT_FAILURE)
            else:
                self._join(entry.group, members, worth, SCHEDULE_ATTEMPT_FAILURE)
        for queued in failed:
            self._in_flight.done(queued.info.uid)
            self.nominator.touch(queued.info.uid)

    def _note_failure(self, entry: QueuedGroup, rejectors: frozenset[str]) -> None:
        members = entry.members.values()
        plugins = rejectors.union(*(queued.unschedulable_plugins for queued in members))
        entry.set_rejectors(plugins, NO_PLUGINS.union(*(q.pending_plugins for q in members)))
        if entry.rejectors:
            entry.unschedulable_count += 1
            entry.consecutive_errors_count = 0
        else:
            entry.consecutive_errors_count += 1
        entry.timestamp_s = self._now()
        entry.backoff_expiration_s = None
        entry.was_flushed, entry.flush_s = False, 0.0
        self._set_leader(entry)

    def _missed_worth_of(self, entry: QueuedGroup) -> Worth:
        first = next(iter(entry.members.values()))
        missed = self._in_flight.events_since_start(first.info.uid)
        if missed is None or not entry.rejectors:
            return Worth.AFTER_BACKOFF
        worths = (self._hints.worth(entry, one.event, one.old, one.new) for one in missed)
        return max(worths, default=Worth.SKIP)

    # Entries are given another chance.

    def group_changed(self, group: str, event: ClusterEvent, old: Any, new: Any) -> None:
        """Something happened to the group itself, or to a member that is not in its entry."""
        entry = self._waiting_groups.get(group)
        if entry is None or self._is_ready(entry):
            return
        if self._hints.group_event_helps(entry, event, old, new):
            self._requeue(entry, Worth.AFTER_BACKOFF, event.label)

    def group_deleted(self, group: str) -> None:
        """The group's object is gone: a failed attempt is made once more, and says so."""
        entry = self._waiting_groups.get(group)
        if entry is not None and not entry.is_gated and entry.info.key in self._unschedulable:
            self._place(entry, Worth.AFTER_BACKOFF, _GROUP_DELETED)

    def _activate(self, pod: PodInfo) -> bool:
        entry = self._holding(pod)
        if entry is None:
            return super()._activate(pod)
        if entry.info.key in self._active:
            return False
        return self._requeue(entry, Worth.IMMEDIATE, "ForceActivate")

    def pop_specific(self, pod: PodInfo) -> QueuedPod | None:
        """Never a member: it is decided on with the others."""
        return None if pod.kind.is_member else super().pop_specific(pod)

    def _let_go(self, pods: list[QueuedPod], key: GroupKey, label: str) -> list[QueuedPod]:
        """Entries meet the gates when they are requeued.

        A member whose own gate is open now, while its group is held back, goes to the group's
        entry all the same: what opens the gate of the group is told to entries alone.
        """
        alone = [queued for queued in pods if not isinstance(queued, QueuedGroup)]
        free = super()._let_go(alone, key, label) if alone else []
        for queued in alone:
            if queued.info.kind.is_member and queued.gating_plugin in self._group_gates:
                self.metrics.incoming_pods[UNSCHEDULABLE, label] -= 1
                queued.gating_plugin, queued.gating_status = "", None
                free.append(queued)
        for queued in pods:
            if isinstance(queued, QueuedGroup):
                queued.gating_plugin, queued.gating_status = "", None
                free.append(queued)
        return free

    # Where a pod goes.

    def _requeue(
        self, queued: QueuedPod, worth: Worth, label: str, *, admitted: bool = False
    ) -> bool:
        if isinstance(queued, QueuedGroup):
            return self._admit(queued, label) and self._place(queued, worth, label)
        if queued.info.kind.is_member and not (worth is Worth.SKIP and queued.is_gated):
            return self._join(queued.info.group_key, [queued], worth, label)
        return super()._requeue(queued, worth, label, admitted=admitted)

    def _enter_active(self, queued: QueuedPod, label: str, *, admitted: bool = False) -> bool:
        if isinstance(queued, QueuedGroup):
            if not admitted:
                return self._requeue(queued, Worth.IMMEDIATE, label)
            return self._place(queued, Worth.IMMEDIATE, label)
        if queued.info.kind.is_member:
            return self._join(queued.info.group_key, [queued], Worth.IMMEDIATE, label)
        return super()._enter_active(queued, label, admitted=admitted)

    def _join(self, group: str, members: list[QueuedPod], worth: Worth, label: str) -> bool:
        """Put members into their group's entry, but for those that gates of their own hold back.

        True if the entry is on its way to the next attempt.
        """
        self._gate.admitted(members)
        entry = self._waiting_groups.get(group)
        joined = []
        for queued in members:
            if queued.is_gated and queued.gating_plugin not in self._group_gates:
                self._enter_unschedulable(queued, label)
                continue
            if queued.waiting_turn:
                self._unschedulable.remove(queued.info.key)
            joined.append(queued)
        if not joined:
            # It is one more all the same: perhaps that is what the others waited for.
            return entry is not None and entry.is_gated and self._requeue(entry, worth, label)
        if entry is None:
            entry = self._waiting_groups[group] = _entry_of(
                group, joined[0], self._priority_of(group)
            )
        for queued in joined:
            entry.members[queued.info.key] = queued
            self._index(queued)
        if any(queued.info.kind is not entry.leader for queued in joined):
            self._set_leader(entry)
        if self._is_ready(entry):
            self.metrics.incoming_pods[ACTIVE, label] += len(joined)
            self._note_ready(joined)
            return True
        held = next((queued for queued in joined if queued.is_gated), None)
        if held is not None:
            if entry.info.key in self._unschedulable:
                self.metrics.incoming_pods[UNSCHEDULABLE, label] += len(joined)
            return self._hold(entry, held, label)
        is_new = entry.info.key not in self._unschedulable
        if not is_new and not self._admit(entry, label):
            return False
        return self._place(entry, worth if is_new else Worth.AFTER_BACKOFF, label)

    def _admit(self, entry: QueuedGroup, label: str) -> bool:
        """Ask the gates about all members; False if the entry cannot go on."""
        self._gate.admitted([*entry.members.values()])
        for key, queued in [*entry.members.items()]:
            if queued.is_gated and queued.gating_plugin not in self._group_gates:
                del entry.members[key], self._members[key]
                self._enter_unschedulable(queued, label)
                self._on_hold(queued.gating_plugin, [queued])
        if not entry.members:
            self._drop(entry)
            return False
        self._set_leader(entry)
        held = next((queued for queued in entry.members.values() if queued.is_gated), None)
        if held is not None:
            return self._hold(entry, held, label)
        entry.gating_plugin, entry.gating_status = "", None
        return True

    def _hold(self, entry: QueuedGroup, held: QueuedPod, label: str) -> bool:
        entry.unschedulable_plugins |= {held.gating_plugin}
        entry.gating_plugin, entry.gating_status = held.gating_plugin, held.gating_status
        self._place(entry, Worth.SKIP, label)
        self._on_hold(entry.gating_plugin, [*entry.members.values()])
        return False

    def _place(self, entry: QueuedGroup, worth: Worth, label: str) -> bool:
        """Put an entry where it belongs; True if that is on its way to the next attempt."""
        key, count = entry.info.key, len(entry.members)
        if worth is Worth.SKIP:
            self._active.delete(key) or self._backoff.delete(key)
            if self._unschedulable.put(entry):
                self.metrics.incoming_pods[UNSCHEDULABLE, label] += count
            return False
        if key in self._active:
            return True
        self._unschedulable.remove(key)
        if worth is Worth.AFTER_BACKOFF and self._backoff.is_backing_off(entry, self._now()):
            if key not in self._backoff:
                self._backoff.add_for_long(entry)
                self.metrics.incoming_pods[BACKOFF, label] += count
            return True
        self._backoff.delete(key)
        self._note_ready(entry.members.values())
        self._active.add(key, self._sort_key(entry.info, entry.timestamp_s), entry)
        self.metrics.incoming_pods[ACTIVE, label] += count
        return True

    # The entry itself.

    def _holding(self, pod: PodInfo) -> QueuedGroup | None:
        """The entry that the pod is in."""
        return self._waiting_groups[pod.group_key] if pod.key in self._members else None

    def _is_ready(self, entry: QueuedGroup) -> bool:
        """Whether it is on its way to the next attempt already."""
        return entry.info.key in self._active or entry.info.key in self._backoff

    def _index(self, queued: QueuedPod) -> None:
        self._members[queued.info.key] = (None, 0, queued.info.key, queued)

    def _drop(self, entry: QueuedGroup) -> None:
        key = entry.info.key
        self._active.delete(key) or self._backoff.delete(key) or self._unschedulable.remove(key)
        del self._waiting_groups[entry.group]

    def _note_ready(self, members: Iterable[QueuedPod]) -> None:
        now_s = self._now()
        for queued in members:
            if queued.initial_attempt_s is None:
                queued.initial_attempt_s = now_s

    def _set_leader(self, entry: QueuedGroup) -> None:
        """See that the entry stands where its first member would, or its own priority puts it."""
        leader = min(entry.members.values(), key=member_order).info
        priority = self._priority_of(entry.group)
        wanted = leader.priority if priority is None else priority
        if entry.leader is leader.kind and entry.info.priority == wanted:
            return
        entry.info, entry.leader = stand_in(leader, entry.group, priority), leader.kind
        key = entry.info.key
        if key in self._active:
            self._active.update(key, self._sort_key(entry.info, entry.timestamp_s))


def _entry_of(group: str, first: QueuedPod, priority: int | None) -> QueuedGroup:
    """An entry that goes on where its first member is; `priority` is the group's own."""
    return QueuedGroup(
        stand_in(first.info, group, priority),
        first.timestamp_s,
        unschedulable_count=first.unschedulable_count,
        consecutive_errors_count=first.consecutive_errors_count,
        unschedulable_plugins=first.unschedulable_plugins,
        pending_plugins=first.pending_plugins,
        group=group,
        leader=first.info.kind,
    )


def _flattened(queued: Iterable[QueuedPod]) -> Iterator[QueuedPod]:
    for one in queued:
        if isinstance(one, QueuedGroup):
            yield from one.members.values()
        else:
            yield one


__all__ = ["GroupedQueue", "entry_key"]
