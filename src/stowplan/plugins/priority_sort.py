"""PrioritySort: the higher priority first; among equals the one that has waited longer.

Mirrors kube-scheduler's `queuesort/priority_sort.go`.
"""

from __future__ import annotations

from stowplan.state.pod_info import PodInfo


class PrioritySort:
    name = "PrioritySort"

    def sort_key(self, pod: PodInfo, timestamp_s: float) -> tuple[int, float]:
        return -pod.kind.priority, timestamp_s
