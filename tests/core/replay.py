"""Recording what goes into the machine, and playing it back: the same effects, byte for byte.

A recording is a list of (time, event).  As bytes it is one JSON object per line, so that a run
that went wrong anywhere can be kept in a file and looked at here, event by event.  The machine
must be made as the first one was: same configuration, same seed, same plugins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from stowplan.config import load_config, to_dict
from stowplan.core.extender import ExtenderAnswer
from stowplan.core.machine import Machine
from stowplan.core.messages import (
    Added,
    Answered,
    AskExtender,
    Call,
    Deleted,
    Effect,
    Event,
    LongAttempt,
    Reconfigure,
    RecordEvent,
    ScheduleNext,
    Stop,
    Tick,
    Updated,
)
from stowplan.errors import ApiError, api_error
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import KIND_BY_STRUCT, Kind

Recorded = tuple[float, Event]

_encode = msgspec.json.Encoder(order="deterministic").encode
_BARE: dict[str, Event] = {"Tick": Tick(), "Stop": Stop()}
_KINDS: dict[str, Kind] = {struct.__name__: kind for struct, kind in KIND_BY_STRUCT.items()}


class Recording:
    """Remembers what goes into a machine and what comes out of it, from now on."""

    def __init__(self, machine: Machine) -> None:
        self.events: list[Recorded] = []
        self.effects: list[Effect] = []
        machine.tap = self._note

    def _note(self, events: Sequence[Event], now_s: float, effects: list[Effect]) -> None:
        # Whether they came together makes no difference to what they lead to.
        self.events += [(now_s, event) for event in events]
        self.effects += effects


def replay(events: Iterable[Recorded], machine: Machine) -> list[Effect]:
    """Everything the machine wants done about these events."""
    return [effect for now_s, event in events for effect in machine.handle(event, now_s)]


# -- as bytes -------------------------------------------------------------------------------


def encode_effects(effects: Iterable[Effect]) -> bytes:
    """One line per effect: what it asks for, in full."""
    return b"".join(_encode(_effect(effect)) + b"\n" for effect in effects)


def _effect(effect: Effect) -> dict[str, Any]:
    if isinstance(effect, Call):
        request = effect.request
        fields = {name: _plain(getattr(request, name)) for name in request.__struct_fields__}
        return {"call": type(request).__name__, "token": effect.token, **fields}
    if isinstance(effect, AskExtender):
        return {"ask": effect.call.url, "token": effect.token, "body": effect.call.body}
    assert isinstance(effect, RecordEvent)
    fields = {name: _plain(getattr(effect, name)) for name in effect.__struct_fields__}
    return {"event": fields.pop("reason"), **fields}


def _plain(value: Any) -> Any:
    return value.plural if isinstance(value, Kind) else value


def encode_events(events: Iterable[Recorded]) -> bytes:
    return b"".join(_encode({"at": at_s, **_event(event)}) + b"\n" for at_s, event in events)


def _event(event: Event) -> dict[str, Any]:
    name = type(event).__name__
    if isinstance(event, Added | Deleted):
        return {"event": name, "object": _object(event.object)}
    if isinstance(event, Updated):
        return {"event": name, "old": _object(event.old), "new": _object(event.new)}
    if isinstance(event, Answered):
        return {"event": name, "token": event.token, **_answer(event.answer)}
    if isinstance(event, ScheduleNext):
        return {"event": name, "count": event.count}
    if isinstance(event, LongAttempt):
        return {"event": name, "pod": event.pod, "seconds": event.seconds}
    if isinstance(event, Reconfigure):
        return {"event": name, "config": to_dict(event.config)}
    return {"event": name}


def _object(thing: KubeObject) -> dict[str, Any]:
    return {"struct": type(thing).__name__, "data": msgspec.to_builtins(thing)}


def _answer(answer: Any) -> dict[str, Any]:
    if isinstance(answer, ApiError):
        return {"code": answer.code, "reason": answer.reason, "message": answer.message}
    if isinstance(answer, ExtenderAnswer):
        return {"body": answer.body, "failure": answer.error}
    return {"object": None if answer is None else _object(answer)}


def decode_events(data: bytes) -> Iterator[Recorded]:
    for line in data.splitlines():
        entry = msgspec.json.decode(line)
        yield entry["at"], _read(entry)


def _read(entry: dict[str, Any]) -> Event:
    match entry["event"]:
        case "Added":
            return Added(_read_object(entry["object"]))
        case "Deleted":
            return Deleted(_read_object(entry["object"]))
        case "Updated":
            return Updated(_read_object(entry["old"]), _read_object(entry["new"]))
        case "Answered":
            return Answered(entry["token"], _read_answer(entry))
        case "ScheduleNext":
            return ScheduleNext(entry["count"])
        case "LongAttempt":
            return LongAttempt(entry["pod"], entry["seconds"])
        case "Reconfigure":
            return Reconfigure(load_config(entry["config"]))
        case name:
            return _BARE[name]


def _read_object(data: dict[str, Any]) -> KubeObject:
    thing: KubeObject = msgspec.convert(data["data"], _KINDS[data["struct"]].struct)
    return thing


def _read_answer(entry: dict[str, Any]) -> KubeObject | ApiError | ExtenderAnswer | None:
    if "code" in entry:
        return api_error(entry["code"], entry["reason"], entry["message"])
    if "failure" in entry:
        return ExtenderAnswer(entry["body"], entry["failure"])
    return None if entry["object"] is None else _read_object(entry["object"])
