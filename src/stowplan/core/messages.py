"""What goes into the machine (events) and what comes out of it (effects).

All plain data: a list of events recorded anywhere can be replayed, and gives the same effects.
"""

from __future__ import annotations

from dataclasses import dataclass

from stowplan.config import SchedulerConfig
from stowplan.core.extender import CallExtender, ExtenderAnswer
from stowplan.errors import ApiError
from stowplan.objects.api import Request
from stowplan.objects.base import KubeObject
from stowplan.objects.pod import Pod


@dataclass(frozen=True, slots=True)
class Added:
    """An informer saw an object for the first time."""

    object: KubeObject


@dataclass(frozen=True, slots=True)
class Updated:
    old: KubeObject
    new: KubeObject


@dataclass(frozen=True, slots=True)
class Deleted:
    """An object is gone.  `object` may be an old state of it, when the watch missed the end."""

    object: KubeObject


@dataclass(frozen=True, slots=True)
class Answered:
    """What came of a `Call` or an `AskExtender`."""

    token: int
    answer: KubeObject | ApiError | ExtenderAnswer | None


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: do what is due."""


@dataclass(frozen=True, slots=True)
class ScheduleNext:
    """Take the next pod and decide."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Take no more pods; what is being bound goes on."""


@dataclass(frozen=True, slots=True)
class Reconfigure:
    """Take a new configuration into use, between two cycles."""

    config: SchedulerConfig


Event = Added | Updated | Deleted | Answered | Tick | ScheduleNext | Stop | Reconfigure


@dataclass(frozen=True, slots=True)
class Call:
    """Send a request to the API server; its answer comes back as `Answered`."""

    token: int
    request: Request


@dataclass(frozen=True, slots=True)
class AskExtender:
    token: int
    call: CallExtender


@dataclass(frozen=True, slots=True)
class RecordEvent:
    """Tell the cluster's users what happened: an Event object, written when there is time."""

    regarding: Pod
    type: str
    reason: str
    action: str
    note: str
    controller: str
    """The profile that speaks."""
    related: Pod | None = None
    """Another pod that has to do with it: the preemptor of a victim."""


Effect = Call | AskExtender | RecordEvent
