"""Group commit: what is written in one turn of the event loop becomes durable together.

A journal waits for the disk at every commit, so one commit must carry many writes.  Everybody in
the process writes through here: the scheduler, the controllers and the kubelet by the port
(`call`), HTTP requests by `submit`.  A write waits until the loop comes round, the group is
committed as one batch of the store, and only then is anybody answered.  Requests of one type that
follow each other, such as a scheduler's bindings, are carried out together.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

from stowplan.apiserver.store import Store
from stowplan.cluster.port import Answer, Done, ListOptions, ListResult, Watch, WatchHandlers
from stowplan.errors import ApiError, Unavailable
from stowplan.objects.api import Request
from stowplan.objects.kinds import Kind

log = logging.getLogger(__name__)

Act = Callable[[], Any]
"""Writes to the store and returns the answer, or raises `ApiError`.

It must not read from the store: that would commit what the group has so far."""

Tell = Callable[[Any], None]
"""Gets what the act returned, or the error, once it is durable."""

_first: Callable[[tuple[Act | Request, Tell]], Act | Request] = itemgetter(0)

GROUP_MAX = 1024
"""Writes in one commit; more wait for the next turn, so that readers get theirs."""


class GroupedStore:
    """A `cluster.port.Cluster` whose writes are committed turn by turn."""

    def __init__(self, store: Store, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self.store = store
        self._call_soon = call_soon
        self._waiting: list[tuple[Act | Request, Tell]] = []
        self._turn_asked = False

    def call(self, request: Request, done: Done) -> None:
        self._wait(request, done)

    def list(
        self, kind: Kind, options: ListOptions, done: Callable[[ListResult | ApiError], None]
    ) -> None:
        self.store.list(kind, options, done)

    def watch(
        self, kind: Kind, options: ListOptions, resource_version: str, handlers: WatchHandlers
    ) -> Watch:
        return self.store.watch(kind, options, resource_version, handlers)

    def submit(self, act: Act, tell: Tell) -> None:
        self._wait(act, tell)

    def _wait(self, what: Act | Request, tell: Tell) -> None:
        self._waiting.append((what, tell))
        if not self._turn_asked:
            self._turn_asked = True
            self._call_soon(self.commit)

    def commit(self) -> None:
        """Carry out what waits, in order, and answer."""
        group, self._waiting = self._waiting[:GROUP_MAX], self._waiting[GROUP_MAX:]
        self._turn_asked = bool(self._waiting)
        if self._turn_asked:
            self._call_soon(self.commit)
        answers: list[Any] = []
        try:
            with self.store.batch():
                for _, alike in groupby(map(_first, group), type):
                    answers += self._carry_out([*alike])
        except Unavailable as error:
            # Nothing of the group is on the disk, so nothing of it may be acknowledged.
            answers = [error] * len(group)
        for (_, tell), answer in zip(group, answers, strict=True):
            _tell(tell, answer)

    def _carry_out(self, run: Sequence[Any]) -> Sequence[Any]:
        """The answers to requests of one type, or to acts."""
        if not isinstance(run[0], Request):
            return [_outcome(act) for act in run]
        answers = _outcome(partial(self.store.execute_all, run))
        return [answers] * len(run) if isinstance(answers, ApiError) else answers


def _outcome(act: Act) -> Any:
    try:
        return act()
    except ApiError as error:
        return error
    except Exception as error:
        # What is broken must not take the rest of its group with it.
        log.exception("a write failed")
        return ApiError(f"Internal error occurred: {type(error).__name__}: {error}")


def _tell(tell: Tell, answer: Answer) -> None:
    try:
        tell(answer)
    except Exception:
        log.exception("the receiver of an answer failed")
