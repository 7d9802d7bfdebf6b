"""PrioritySort: the higher priority first; among equals the one that has waited longer.

Mirrors kube-scheduler's `queuesort/priority_sort.go`.
"""

from __future__ import annotations

from typing import Any

from stowplan.framework.handle import Handle
from stowplan.state.pod_info import PodInfo


class PrioritySort:
    name = "PrioritySort"

    def __init__(self, args: Any, handle: Handle) -> None:
        pass

    def sort_key(self, pod: PodInfo, timestamp_s: float) -> tuple[int, float]:
        return -pod.kind.priority, timestamp_s
