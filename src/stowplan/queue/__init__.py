"""The queue: pods that wait to be scheduled.

`SchedulingQueue` is the whole of it; start reading there.  `core` drives it.
"""

from stowplan.queue.active import Debt, namespace_of
from stowplan.queue.hints import (
    EXTENDER,
    HintMap,
    PluginHint,
    ProfileQueueing,
    Worth,
    build_hint_map,
)
from stowplan.queue.metrics import HINT_BUCKETS_S, Histogram, QueueMetrics
from stowplan.queue.nominator import Nominator
from stowplan.queue.pod_changes import pod_update_events
from stowplan.queue.queued_pod import QueuedPod
from stowplan.queue.scheduling_queue import Place, SchedulingQueue

__all__ = [
    "EXTENDER",
    "HINT_BUCKETS_S",
    "Debt",
    "HintMap",
    "Histogram",
    "Nominator",
    "Place",
    "PluginHint",
    "ProfileQueueing",
    "QueueMetrics",
    "QueuedPod",
    "SchedulingQueue",
    "Worth",
    "build_hint_map",
    "namespace_of",
    "pod_update_events",
]
