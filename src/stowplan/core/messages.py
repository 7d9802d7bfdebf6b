"""What goes into the machine (events) and what comes out of it (effects).

All plain data: a list of events recorded anywhere can be replayed, and gives the same effects.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from stowplan.config import SchedulerConfig
from stowplan.core.extender import CallExtender, ExtenderAnswer
from stowplan.errors import ApiError
from stowplan.objects.api import Request
from stowplan.objects.base import KubeObject
from stowplan.objects.changes import Added, Deleted, Updated
from stowplan.objects.coordination import Lease
from stowplan.objects.pod import Pod
from stowplan.objects.pod_groups import PodGroup


class Answered(Struct, frozen=True):
    """What came of a `Call` or an `AskExtender`."""

    token: int
    answer: KubeObject | ApiError | ExtenderAnswer | None


class Tick(Struct, frozen=True):
    """Time has passed: do what is due."""


class ScheduleNext(Struct, frozen=True):
    """Take the next pods and decide, one after the other, as far as they are ready."""

    count: int = 1


class LongAttempt(Struct, frozen=True):
    """An attempt at a pod took long: its namespace lets the others go first for a while."""

    pod: str
    """Its `namespace/name`."""
    seconds: float


class Stop(Struct, frozen=True):
    """Take no more pods; what is being bound goes on."""


class Reconfigure(Struct, frozen=True):
    """Take a new configuration into use, between two cycles."""

    config: SchedulerConfig
    registry: Mapping[str, type] | None = None
    """Plugins that were loaded again for it, by name; they are no data, and in no recording."""


Event = (
    Added | Updated | Deleted | Answered | Tick | ScheduleNext | LongAttempt | Stop | Reconfigure
)


class Call(Struct, frozen=True, gc=False):
    """Send a request to the API server; its answer comes back as `Answered`."""

    token: int
    request: Request


class AskExtender(Struct, frozen=True):
    token: int
    call: CallExtender


class RecordEvent(Struct, frozen=True, gc=False):
    """Tell the cluster's users what happened: an Event object, written when there is time."""

    regarding: Pod | Lease
    type: str
    reason: str
    action: str
    note: str
    controller: str
    """The profile that speaks."""
    related: Pod | PodGroup | None = None
    """What else has to do with it: the preemptor of a victim."""


Effect = Call | AskExtender | RecordEvent

__all__ = [
    "Added",
    "Answered",
    "AskExtender",
    "Call",
    "Deleted",
    "Effect",
    "Event",
    "LongAttempt",
    "Reconfigure",
    "RecordEvent",
    "ScheduleNext",
    "Stop",
    "Tick",
    "Updated",
]
