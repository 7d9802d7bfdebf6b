"""Who belongs together: the members of every group, and which of them have a node.

A group is known here while a pod that belongs to it is known, whether or not anybody has seen its
object.  `core.cluster_changes` tells of pods without a node, `GroupedCache` of those that get one:
it is the cache, and keeps the count besides.  Both exist only where GenericWorkload is on.
Mirrors the pod group state of kube-scheduler's `backend/cache`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from stowplan.objects.pod import Pod
from stowplan.state.cache import Cache
from stowplan.state.pod_info import PodInfo


class GroupState:
    """The members of one group, by uid."""

    __slots__ = ("assigned", "assumed", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[str, PodInfo] = {}
        """Without a node, as far as the cluster has said: in the queue, behind a gate, or on
        their way."""
        self.assumed: dict[str, PodInfo] = {}
        """Those on their way."""
        self.assigned: dict[str, PodInfo] = {}
        """Shown on a node by the cluster; whoever sent them there."""

    @property
    def count(self) -> int:
        """Every member."""
        return len(self.waiting) + len(self.assigned)

    @property
    def scheduled_count(self) -> int:
        return len(self.assumed) + len(self.assigned)

    def scheduled(self) -> list[PodInfo]:
        return [*self.assigned.values(), *self.assumed.values()]

    def unscheduled(self) -> list[PodInfo]:
        return [pod for uid, pod in self.waiting.items() if uid not in self.assumed]

    def fork(self) -> GroupState:
        copy = GroupState()
        copy.waiting, copy.assumed = self.waiting.copy(), self.assumed.copy()
        copy.assigned = self.assigned.copy()
        return copy


_NOBODY = GroupState()


class Groups:
    """By `namespace/name` of the group."""

    __slots__ = ("_states",)

    def __init__(self) -> None:
        self._states: dict[str, GroupState] = {}

    def __len__(self) -> int:
        return len(self._states)

    def of(self, key: str) -> GroupState:
        """To be read only."""
        return self._states.get(key, _NOBODY)

    def fork(self) -> Groups:
        copy = Groups()
        copy._states.update((key, state.fork()) for key, state in self._states.items())
        return copy

    def waits(self, pods: Iterable[PodInfo]) -> None:
        """These pods are there, without a node; those of no group do not matter here."""
        for pod in pods:
            if pod.kind.is_member:
                self._states.setdefault(pod.group_key, GroupState()).waiting[pod.uid] = pod

    def gone(self, pod: PodInfo) -> None:
        """A pod without a node is there no more."""
        if pod.kind.is_member:
            with self._changing(pod) as state:
                state.waiting.pop(pod.uid, None)

    def assume(self, pod: PodInfo) -> None:
        with self._changing(pod) as state:
            state.assumed[pod.uid] = pod

    def assign(self, pod: PodInfo) -> None:
        with self._changing(pod) as state:
            state.waiting.pop(pod.uid, None)
            state.assumed.pop(pod.uid, None)
            state.assigned[pod.uid] = pod

    def take_off(self, pod: PodInfo) -> None:
        """It is on no node any more."""
        with self._changing(pod) as state:
            state.assumed.pop(pod.uid, None)
            state.assigned.pop(pod.uid, None)

    @contextmanager
    def _changing(self, pod: PodInfo) -> Iterator[GroupState]:
        """The state of the pod's group, which goes with its last member."""
        key = pod.group_key
        state = self._states.setdefault(key, GroupState())
        yield state
        if not (state.waiting or state.assumed or state.assigned):
            del self._states[key]


class GroupedCache(Cache):
    """A cache that knows which of its pods belong together."""

    def __init__(self, *, assumed_ttl_s: float = 0) -> None:
        super().__init__(assumed_ttl_s=assumed_ttl_s)
        self.groups = Groups()

    def fork(self) -> GroupedCache:
        assert not self.changes, "the node table is behind"
        fork = GroupedCache(assumed_ttl_s=self.assumed_ttl_s)
        fork._take_over(self)
        fork.groups = self.groups.fork()
        self._holder = object()
        return fork

    def assume_pod(self, info: PodInfo) -> None:
        super().assume_pod(info)
        if info.kind.is_member:
            self.groups.assume(info)

    def add_pod(self, pod: Pod) -> PodInfo:
        info = super().add_pod(pod)
        if info.kind.is_member:
            self.groups.assign(info)
        return info

    def update_pod(self, pod: Pod) -> PodInfo:
        info = super().update_pod(pod)
        if info.kind.is_member:
            self.groups.assign(info)
        return info

    def _drop(self, uid: str, known: PodInfo) -> None:
        super()._drop(uid, known)
        if known.kind.is_member:
            self.groups.take_off(known)
