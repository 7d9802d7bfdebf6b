"""The queue: pods that wait to be scheduled.

`SchedulingQueue` is the whole of it; start reading there.  `core` drives it.
"""

from __future__ import annotations

from stowplan.queue.active import Debt, namespace_of
from stowplan.queue.grouped_queue import GroupedQueue
from stowplan.queue.hints import EXTENDER, ProfileQueueing, build_hint_map
from stowplan.queue.pod_changes import pod_update_events
from stowplan.queue.queued_pod import QueuedGroup, QueuedPod
from stowplan.queue.scheduling_queue import SchedulingQueue

__all__ = [
    "EXTENDER",
    "Debt",
    "GroupedQueue",
    "ProfileQueueing",
    "QueuedGroup",
    "QueuedPod",
    "SchedulingQueue",
    "build_hint_map",
    "namespace_of",
    "pod_update_events",
]
