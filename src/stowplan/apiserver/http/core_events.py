"""Events in their two shapes: stored as events.k8s.io/v1, served as core/v1 too.

`kubectl describe` reads the old shape, schedulers write the new one.  Pure functions on JSON data;
mirrors `pkg/apis/events/v1/conversion.go`.
"""

from __future__ import annotations

from typing import Any

from stowplan.errors import ApiError
from stowplan.objects.kinds import EVENT

Data = dict[str, Any]

_NEW_TO_OLD = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_OLD_TO_NEW = {old: new for new, old in _NEW_TO_OLD.items()}


def to_core(data: Data) -> Data:
    """An events.k8s.io/v1 event as core/v1 has it.

    >>> to_core({"apiVersion": "events.k8s.io/v1", "kind": "Event", "note": "Hello"})["message"]
    'Hello'
    """
    renamed = {_NEW_TO_OLD.get(key, key): value for key, value in data.items()}
    # Every core event has these, be they empty: clients read them without looking.
    empty: Data = {
        "involvedObject": {},
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
    }
    empty |= {"eventTime": None, "reportingComponent": "", "reportingInstance": ""}
    return {**empty, **renamed, "apiVersion": "v1"}


def as_core_error(error: ApiError) -> ApiError:
    """The refusal of an event, which is stored in another group than it was asked for in."""
    if error.details.get("group") == EVENT.group:
        del error.details["group"]
        suffix = f".{EVENT.group}"
        error.problem = error.problem.replace(f"events{suffix}", "events", 1)
        error.problem = error.problem.replace(f"Event{suffix}", "Event", 1)
    return error


def from_core(data: Any) -> Any:
    """A core/v1 event as events.k8s.io/v1 has it; what is no object is left to the checks."""
    if not isinstance(data, dict) or data.get("apiVersion", "v1") != "v1":
        return data
    renamed = {
        _OLD_TO_NEW.get(key, key): value for key, value in data.items() if value not in (None, "")
    }
    return {**renamed, "apiVersion": "events.k8s.io/v1"}
