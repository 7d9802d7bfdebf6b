"""What the queue counts: plain numbers, which the runtime exports under upstream's names.

`scheduler_pending_pods` is not here: `SchedulingQueue.pending_counts` tells it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sized
from functools import partial

from stowplan.framework.histogram import Histogram, exponential

ACTIVE = "active"
BACKOFF = "backoff"
UNSCHEDULABLE = "unschedulable"
GATED = "gated"

SCHEDULE_ATTEMPT_FAILURE = "ScheduleAttemptFailure"
BACKOFF_COMPLETE = "BackoffComplete"
POP_FROM_BACKOFF = "PopFromBackoffQ"
POD_POPPED = "PodPopped"
"""The label under which `inflight_events` counts the pods in flight themselves."""

HINT_QUEUE = "Queue"
HINT_SKIP = "QueueSkip"
HINT_ERROR = "Error"

HINT_BUCKETS_S = exponential(0.00001, 1.5, 20)

NAMES_MAX = 100
"""Namespaces that a metric tells apart."""
OTHER_NAMES = "(others)"
"""No namespace can be called so."""

HintKey = tuple[str, str, str]
"""(plugin, event, hint)"""


class FewNames(dict[str, float]):
    """Amounts by name; once there are `NAMES_MAX`, new names are added up under one."""

    def __missing__(self, name: str) -> float:
        return 0.0

    def __setitem__(self, name: str, amount: float) -> None:
        if name not in self and len(self) >= NAMES_MAX:
            name, amount = OTHER_NAMES, self[OTHER_NAMES] + amount
        super().__setitem__(name, amount)


class QueueMetrics:
    __slots__ = (
        "held_back_s",
        "hint_durations",
        "incoming_pods",
        "kept_events",
        "popped",
        "unschedulable_pods",
    )

    def __init__(self) -> None:
        self.incoming_pods: defaultdict[tuple[str, str], int] = defaultdict(int)
        """(queue, event) -> pods that ever entered: `queue_incoming_pods_total`."""
        self.unschedulable_pods: defaultdict[tuple[str, str], int] = defaultdict(int)
        """(plugin, profile) -> pods it rejected that wait now: `unschedulable_pods`."""
        self.kept_events: defaultdict[str, int] = defaultdict(int)
        """Event -> how many are kept now for pods in flight."""
        self.popped: Sized = ()
        """The pods in flight themselves."""
        self.hint_durations: defaultdict[HintKey, Histogram] = defaultdict(
            partial(Histogram, HINT_BUCKETS_S)
        )
        """`queueing_hint_execution_duration_seconds`; without a recorder it takes no time."""
        self.held_back_s = FewNames()
        """Namespace -> how long its pods were passed over for what it owed."""

    @property
    def inflight_events(self) -> dict[str, int]:
        """The values of `inflight_events`."""
        return {POD_POPPED: len(self.popped), **self.kept_events}

    def go_on_from(self, old: QueueMetrics) -> None:
        """Count on where another queue stopped; what waits now is counted anew."""
        for labels, count in old.incoming_pods.items():
            self.incoming_pods[labels] += count
        for namespace, seconds in old.held_back_s.items():
            self.held_back_s[namespace] += seconds
        for hint, durations in old.hint_durations.items():
            self.hint_durations[hint].merge(durations)

    def raise_unschedulable(self, plugins: frozenset[str], profile: str) -> None:
        for plugin in plugins:
            self.unschedulable_pods[plugin, profile] += 1

    def lower_unschedulable(self, plugins: frozenset[str], profile: str) -> None:
        for plugin in plugins:
            self.unschedulable_pods[plugin, profile] -= 1
