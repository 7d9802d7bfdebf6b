"""Group commit: what is written in one turn of the event loop becomes durable together.

A journal waits for the disk at every commit, so one commit must carry many writes.  Everybody in
the process writes through here: the scheduler, the controllers and the kubelet by the port
(`call`), HTTP requests by `submit`.  A write waits until the loop comes round, the group is
committed as one batch of the store, and only then is anybody answered.  Requests of one type that
follow each other, such as the bindings of a scheduler, are carried out together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from stowplan.apiserver.store import Store
from stowplan.cluster.port import (
    AllDone,
    Answer,
    ListOptions,
    ListResult,
    Watch,
    WatchHandlers,
    separately,
)
from stowplan.errors import ApiError, Unavailable
from stowplan.objects.api import Request
from stowplan.objects.kinds import Kind
from stowplan.printable import logger

log = logger(__name__)

Act = Callable[[], Any]
"""Writes to the store and returns the answer, or raises `ApiError`.

It must not read from the store: that would commit what the group has so far."""

Tell = Callable[[Any], None]
"""Gets what the act returned, or the error, once it is durable."""

GROUP_MAX = 1024
"""Writes in one commit; more wait for the next turn, so that readers get theirs."""


class GroupedStore:
    """A `cluster.port.Cluster` whose writes are committed turn by turn."""

    def __init__(self, store: Store, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self.store = store
        self._call_soon = call_soon
        self._waiting: list[tuple[Act | Request, Tell]] = []
        self._turn_asked = False

    def call(self, requests: Sequence[Request], done: AllDone) -> None:
        self._wait(separately(requests, done))

    def list(
        self, kind: Kind, options: ListOptions, done: Callable[[ListResult | ApiError], None]
    ) -> None:
        self.store.list(kind, options, done)

    def watch(
        self, kind: Kind, options: ListOptions, resource_version: str, handlers: WatchHandlers
    ) -> Watch:
        return self.store.watch(kind, options, resource_version, handlers)

    def submit(self, act: Act, tell: Tell) -> None:
        self._wait([(act, tell)])

    def _wait(self, writes: Iterable[tuple[Act | Request, Tell]]) -> None:
        self._waiting.extend(writes)
        if not self._turn_asked:
            self._turn_asked = True
            self._call_soon(self.commit)

    def commit(self) -> None:
        """Carry out what waits, in order, and answer."""
        group, self._waiting = self._waiting[:GROUP_MAX], self._waiting[GROUP_MAX:]
        self._turn_asked = bool(self._waiting)
        if self._turn_asked:
            self._call_soon(self.commit)
        try:
            with self.store.batch():
                for _, alike in groupby(group, _type):
                    self._carry_out([*alike])
        except Unavailable:
            log.debug("nothing of the group is on the disk, as everybody was told")

    def commit_all(self) -> None:
        """Let nothing wait any more."""
        while self._waiting:
            self.commit()

    def _carry_out(self, run: Sequence[tuple[Any, Tell]]) -> None:
        """Requests of one type, or acts."""
        if not isinstance(run[0][0], Request):
            for act, tell in run:
                answer = _outcome(act)
                self.store.answer_later(partial(_tell, tell, answer))
            return
        try:
            self.store.call([request for request, _ in run], partial(_tell_each, run))
        except Exception as error:
            _tell_each(run, 0, [_broken(error)] * len(run))


def _type(write: tuple[Act | Request, Tell]) -> type:
    return type(write[0])


def _outcome(act: Act) -> Any:
    try:
        return act()
    except ApiError as error:
        return error
    except Exception as error:
        return _broken(error)


def _tell_each(run: Sequence[tuple[Any, Tell]], first: int, answers: Sequence[Answer]) -> None:
    for (_, tell), answer in zip(run[first:], answers, strict=True):
        try:
            tell(answer)
        except Exception:
            log.exception("the receiver of an answer failed")


def _tell(tell: Tell, answer: Any, error: ApiError | None) -> None:
    tell(answer if error is None else error)


def _broken(error: Exception) -> ApiError:
    """What is broken must not take the rest of its group with it."""
    log.error("a write failed", exc_info=error)
    return ApiError(f"Internal error occurred: {type(error).__name__}: {error}")
