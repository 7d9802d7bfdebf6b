"""The port to a cluster: what the scheduler asks of an API server, and how answers come back.

Requests are plain data, built by pure code and sent elsewhere.  Answers come through callbacks
instead of awaitables, so that the embedded store (which answers at once), the Kubernetes client
(which answers from asyncio) and the simulator (which answers when its seed says so) are driven
by the very same code.  A callback may run before the call that started it returns: callers only
append to an inbox in it.

Requests go out in lists; a single one is a list of one (`call_one`).  A cluster in this process
carries out a whole list at one go, others send one after the other.

Two sides implement it: `apiserver.store` in this process, `cluster.client` over HTTP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from msgspec import Struct

from stowplan.errors import ApiError
from stowplan.objects.api import Bind, Create, Delete, Get, Patch, Request, Update
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import Kind

Answer = KubeObject | None | ApiError
"""The object as it is now (None where the API answers with a bare Status), or why not."""

Done = Callable[[Answer], None]

AllDone = Callable[[int, Sequence[Answer]], None]
"""Told of answers that come together: those to the requests from this position of the list on.
It may be called for one part of the list after the other; every request is answered once."""


class WatchEvent(Struct, frozen=True):
    """`type` is ADDED, MODIFIED, DELETED or BOOKMARK (then only the resource version counts)."""

    type: str
    object: KubeObject
    resource_version: str


@dataclass(frozen=True, slots=True)
class ListResult:
    items: list[KubeObject]
    resource_version: str


@dataclass(frozen=True, slots=True)
class ListOptions:
    namespace: str = ""
    field_selector: str = ""
    label_selector: str = ""


@dataclass(frozen=True, slots=True)
class WatchHandlers:
    on_events: Callable[[Sequence[WatchEvent]], None]
    """One or more, in order."""
    on_end: Callable[[ApiError | None], None]
    """The watch is over: None when the server closed it, `Gone` when the version is too old."""


Stop = Callable[[], None]


def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Watch:
    """A running watch; `stop` ends it, after which no handler is called any more."""

    stop: Stop = field(default=_nothing)


class Cluster(Protocol):
    def call(self, requests: Sequence[Request], done: AllDone) -> None:
        """Carry them out in their order, or at least send them so."""
        ...

    def list(
        self, kind: Kind, options: ListOptions, done: Callable[[ListResult | ApiError], None]
    ) -> None: ...

    def watch(
        self, kind: Kind, options: ListOptions, resource_version: str, handlers: WatchHandlers
    ) -> Watch: ...


def call_one(cluster: Cluster, request: Request, done: Done) -> None:
    cluster.call([request], lambda _, answers: done(answers[0]))


def separately(requests: Sequence[Request], done: AllDone) -> Iterator[tuple[Request, Done]]:
    """The requests of a call, and whom to tell of each: for a side that answers one by one."""

    def tell(number: int, answer: Answer) -> None:
        done(number, [answer])

    for number, request in enumerate(requests):
        yield request, partial(tell, number)


def ignore_all(first: int, answers: Sequence[Answer]) -> None:
    """For who has nothing to do about it, whatever comes of the requests."""


__all__ = [
    "AllDone",
    "Answer",
    "Bind",
    "Cluster",
    "Create",
    "Delete",
    "Done",
    "Get",
    "ListOptions",
    "ListResult",
    "Patch",
    "Request",
    "Stop",
    "Update",
    "Watch",
    "WatchEvent",
    "WatchHandlers",
    "call_one",
    "ignore_all",
    "separately",
]
