"""The backoff queue: pods that would be tried again, but failed too recently.

Mirrors kube-scheduler's `backend/queue/backoff_queue.go`.  Pods that a plugin rejected and pods
that failed with an error wait in separate heaps: the scheduler takes from the first one early
when it has nothing else to do, never from the second, where something is broken.

Times are cut to whole seconds, so that pods of one second are taken in QueueSort order, and a
pod whose second has come still waits for it to pass: a backoff of 1 s lasts 1 to 2 s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import floor, inf
from typing import Any

from stowplan.queue.heap import Entry, KeyedHeap
from stowplan.queue.queued_pod import QueuedPod
from stowplan.state.pod_info import PodInfo

SortKey = Callable[[PodInfo, float], Any]
"""(pod, timestamp) -> a value that orders pods: QueueSort's."""

DOUBLINGS_MAX = 62


class BackoffQueue:
    __slots__ = ("_errors", "_initial_s", "_max_s", "_pods", "_sort_key")

    def __init__(self, sort_key: SortKey, initial_s: float, max_s: float) -> None:
        self._sort_key = sort_key
        self._initial_s = initial_s
        self._max_s = max_s
        self._pods: KeyedHeap[QueuedPod] = KeyedHeap()
        self._errors: KeyedHeap[QueuedPod] = KeyedHeap()

    def __len__(self) -> int:
        return len(self._pods) + len(self._errors)

    def __contains__(self, key: str) -> bool:
        return key in self._pods or key in self._errors

    def take_over(self, other: BackoffQueue, copied: Callable[[QueuedPod], QueuedPod]) -> None:
        self._pods.take_over(other._pods, copied)
        self._errors.take_over(other._errors, copied)

    @property
    def entries(self) -> list[dict[str, Entry[QueuedPod]]]:
        return [self._pods.entries, self._errors.entries]

    @property
    def rejected_count(self) -> int:
        """How many could be taken early: all but those that failed with an error."""
        return len(self._pods)

    @property
    def is_growing(self) -> bool:
        """Whether some pod would back off for longer after its next failure."""
        return any(self.duration_s(queued) < self._max_s for queued in self.values())

    def get(self, key: str) -> QueuedPod | None:
        return self._pods.get(key) or self._errors.get(key)

    def values(self) -> list[QueuedPod]:
        return self._pods.values() + self._errors.values()

    def duration_s(self, queued: QueuedPod) -> float:
        count = queued.consecutive_errors_count or queued.unschedulable_count
        if count == 0:
            return 0.0
        return min(self._initial_s * 2.0 ** min(count - 1, DOUBLINGS_MAX), self._max_s)

    def expiration_s(self, queued: QueuedPod) -> float:
        """Through when the pod backs off; long past for one that need not."""
        if self._max_s == 0 or not (queued.consecutive_errors_count or queued.unschedulable_count):
            return -inf
        if queued.backoff_expiration_s is None:
            end_s = queued.timestamp_s + self.duration_s(queued)
            queued.backoff_expiration_s = floor(end_s)
        return queued.backoff_expiration_s

    def left_s(self, queued: QueuedPod, now_s: float) -> float:
        """How long it would still back off if something woke it now."""
        return max(0.0, self.expiration_s(queued) - now_s)

    def is_backing_off(self, queued: QueuedPod, now_s: float) -> bool:
        return self.expiration_s(queued) >= floor(now_s)

    def add(self, queued: QueuedPod) -> None:
        key = queued.info.key
        if queued.unschedulable_plugins or queued.pending_plugins:
            self._pods.add(key, self._order(queued), queued)
        else:
            self._errors.add(key, self.expiration_s(queued), queued)

    def add_for_long(self, queued: QueuedPod) -> None:
        """It is not to be taken early, whatever it failed with."""
        self._errors.add(queued.info.key, self.expiration_s(queued), queued)

    def update(self, queued: QueuedPod) -> None:
        """Put a pod of which something changed where it now belongs in the order."""
        key = queued.info.key
        if key in self._pods:
            self._pods.update(key, self._order(queued))
        else:
            self._errors.update(key, self.expiration_s(queued))

    def delete(self, key: str) -> QueuedPod | None:
        return self._pods.delete(key) or self._errors.delete(key)

    def pop_early(self) -> QueuedPod | None:
        """The rejected pod that would be next, whether its time has come or not."""
        return self._pods.pop()

    def pop_completed(self, now_s: float) -> Iterator[QueuedPod]:
        for heap in (self._pods, self._errors):
            while (queued := heap.peek()) and not self.is_backing_off(queued, now_s):
                heap.pop()
                yield queued

    def next_completion_s(self) -> float | None:
        """The first whole second at which `pop_completed` would find a pod."""
        heads = [queued for heap in (self._pods, self._errors) if (queued := heap.peek())]
        if not heads:
            return None
        first_s = min(self.expiration_s(queued) for queued in heads)
        return float(floor(first_s) + 1)

    def _order(self, queued: QueuedPod) -> Any:
        return self.expiration_s(queued), self._sort_key(queued.info, queued.timestamp_s)
