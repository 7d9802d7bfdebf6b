"""Unschedulable pods: tried and turned down, or held back by a gate; they wait for an event.

Mirrors kube-scheduler's `backend/queue/unschedulable_pods.go`, with two orders upstream does not
keep.  Pods that the same plugins rejected stand together, so an event that concerns none of
those plugins passes a hundred thousand of them by in one step; and those that an event may concern
by name are found by it.  And the pod that has waited longest is known, so nobody goes through all
of them to see whose time is up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from stowplan.framework.events import ANYTHING
from stowplan.queue.heap import Entry, KeyedHeap
from stowplan.queue.queued_pod import QueuedPod


class GroupKey(NamedTuple):
    """What decides which events a pod hears of, and what comes of it."""

    profile: str
    rejectors: frozenset[str]
    pending_plugins: frozenset[str]
    gating_plugin: str


NamesOf = Callable[[QueuedPod, GroupKey], Collection[str]]
"""(pod, its description) -> the names by which an event may concern it."""


class UnschedulablePods:
    __slots__ = ("_by_name", "_joined", "_names", "_names_of", "_pods", "_turns", "groups")

    def __init__(self, names_of: NamesOf) -> None:
        self._names_of = names_of
        self._names: dict[str, Collection[str]] = {}
        self._by_name: dict[str, dict[str, QueuedPod]] = {}
        self._pods: KeyedHeap[QueuedPod] = KeyedHeap()
        """By `waiting_since_s`."""
        self.groups: dict[GroupKey, dict[str, QueuedPod]] = {}
        """The pods of each description, in the order they came.  To be read only."""
        self._joined: dict[str, GroupKey] = {}
        self._turns = 0

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, key: str) -> bool:
        return key in self._pods

    def take_over(self, other: UnschedulablePods, copied: Callable[[QueuedPod], QueuedPod]) -> None:
        self._pods.take_over(other._pods, copied)
        entries = self._pods.entries
        self.groups.update(
            (group, {key: entries[key][3] for key in pods}) for group, pods in other.groups.items()
        )
        self._joined.update(other._joined)
        for key, group_key in self._joined.items():
            queued = self.groups[group_key][key]
            if names := self._names_of(queued, group_key):
                self._join_names(key, queued, names)
        self._turns = other._turns

    @property
    def entries(self) -> dict[str, Entry[QueuedPod]]:
        return self._pods.entries

    @property
    def gated_count(self) -> int:
        return sum(len(pods) for key, pods in self.groups.items() if key.gating_plugin)

    def get(self, key: str) -> QueuedPod | None:
        return self._pods.get(key)

    def group_of(self, key: str) -> GroupKey:
        return self._joined[key]

    def of(self, group_key: GroupKey, names: Iterable[str] | None) -> list[QueuedPod]:
        """The pods of a description that have one of these names; None: all of them."""
        if names is None:
            return list(self.groups[group_key].values())
        found = {
            key: queued
            for name in (ANYTHING, *names)
            for key, queued in self._by_name.get(name, {}).items()
            if self._joined[key] == group_key
        }
        return list(found.values())

    def values(self) -> list[QueuedPod]:
        return self._pods.values()

    def put(self, queued: QueuedPod) -> bool:
        """Take a pod in, or see to it that one that is here stands where it now belongs.

        True if it is new here.
        """
        key = queued.info.key
        group_key = GroupKey(
            queued.profile, queued.rejectors, queued.pending_plugins, queued.gating_plugin
        )
        joined = self._joined.get(key)
        if joined == group_key:
            return False
        if joined is not None:
            self._leave_group(key)
        self._turns = queued.waiting_turn = self._turns + 1
        self._pods.add(key, queued.waiting_since_s, queued)
        self._joined[key] = group_key
        self.groups.setdefault(group_key, {})[key] = queued
        if names := self._names_of(queued, group_key):
            self._join_names(key, queued, names)
        return joined is None

    def remove(self, key: str) -> QueuedPod | None:
        queued = self._pods.delete(key)
        if queued is not None:
            self._leave_group(key)
        return queued

    def pop_due(self, now_s: float, waiting_max_s: float) -> list[QueuedPod]:
        """Take out the pods that have waited for longer than that."""
        due = []
        while (queued := self._pods.peek()) and now_s - queued.waiting_since_s > waiting_max_s:
            self.remove(queued.info.key)
            due.append(queued)
        return due

    def oldest_s(self) -> float | None:
        """Since when the pod that has waited longest has waited."""
        queued = self._pods.peek()
        return None if queued is None else queued.waiting_since_s

    def _leave_names(self, key: str) -> None:
        for name in self._names.pop(key, ()):
            named = self._by_name[name]
            del named[key]
            if not named:
                del self._by_name[name]

    def _join_names(self, key: str, queued: QueuedPod, names: Collection[str]) -> None:
        self._names[key] = names
        for name in names:
            self._by_name.setdefault(name, {})[key] = queued

    def _leave_group(self, key: str) -> None:
        group_key = self._joined.pop(key)
        pods = self.groups[group_key]
        pods.pop(key).waiting_turn = 0
        if self._names:
            self._leave_names(key)
        if not pods:
            del self.groups[group_key]
        if not self._joined:
            self._joined.clear()  # Gives its table back.
