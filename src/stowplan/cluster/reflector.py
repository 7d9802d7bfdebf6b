"""Follow one kind of object in a cluster: list once, then watch, and never lose the thread.

A state machine over the port, without a loop of its own: `cluster` answers through callbacks, and
what must wait goes through `call_later`.  It hands full lists and what changes to its sink:

- a watch that ends is resumed from the last version seen (bookmarks move it on);
- 410 Gone means the history is lost: list again;
- anything that fails, or ends at once without a word, is tried again after a growing, jittered
  delay, so that a thousand clients of a restarted server do not come back together.

Mirrors client-go's `tools/cache/reflector.go`.  `cluster.informer` is the sink.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol

from stowplan.clock import Clock
from stowplan.cluster.port import Cluster, ListOptions, ListResult, Watch, WatchEvent, WatchHandlers
from stowplan.errors import ApiError, Gone
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import Kind

DELAY_MIN_S = 0.8
DELAY_MAX_S = 30.0
SHORT_WATCH_S = 1.0
"""A watch that ended sooner, without an event, counts as failed."""

CallLater = Callable[[float, Callable[[], None]], object]

# Come back with the same watch: nothing says that its version is the problem.
_PASSING_CODES = frozenset({401, 403, 408, 429})


class Sink(Protocol):
    def replace(self, items: list[KubeObject], resource_version: str) -> None:
        """Take `items` as all there is."""
        ...

    def apply(self, events: Sequence[WatchEvent]) -> None:
        """Take these changes, one after the other; bookmarks may be among them.

        Those before one at which it failed may come again, and that one too.
        """
        ...


class Backoff:
    """How long to wait: 0.8 s at first, twice as long each time, up to 30 s, with jitter."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._base_s = DELAY_MIN_S

    def reset(self) -> None:
        self._base_s = DELAY_MIN_S

    def next(self) -> float:
        delay_s = min(DELAY_MAX_S, self._base_s * (1.0 + self._random.random()))
        self._base_s = min(DELAY_MAX_S, self._base_s * 2.0)
        return delay_s


class Reflector:
    def __init__(
        self,
        cluster: Cluster,
        kind: Kind,
        sink: Sink,
        *,
        options: ListOptions | None = None,
        clock: Clock,
        call_later: CallLater,
        random: Random,
    ) -> None:
        self.kind = kind
        self.resource_version = ""
        """Everything up to here is in the sink; "" before the first list."""
        self.problem = ""
        """Why nothing is heard of the cluster now; empty while all is well."""
        self._cluster = cluster
        self._sink = sink
        self._options = options or ListOptions()
        self._clock = clock
        self._call_later = call_later
        self._backoff = Backoff(random)
        self._turn = 0
        """Counts what was started; an answer to an earlier turn comes too late and is dropped."""
        self._watch: Watch | None = None
        self._watch_started_s = 0.0
        self._watch_heard = False
        self._relisted = False
        """A list was made and no watch has worked since."""

    def start(self) -> None:
        assert self._turn == 0, f"the reflector of {self.kind} was started before"
        self._begin_list()

    def resume(self, resource_version: str) -> None:
        """Watch from here on, for a sink that knows everything up to this version."""
        self.resource_version = resource_version
        self._begin_watch()

    def stop(self) -> None:
        self._turn += 1
        if self._watch is not None:
            watch, self._watch = self._watch, None
            watch.stop()

    def _begin_list(self) -> None:
        self._turn += 1
        turn = self._turn

        def done(answer: ListResult | ApiError) -> None:
            if turn == self._turn:
                self._listed(answer)

        self._cluster.list(self.kind, self._options, done)

    def _listed(self, answer: ListResult | ApiError) -> None:
        if isinstance(answer, ApiError):
            self.problem = str(answer)
            self._later(answer.retry_after_s or self._backoff.next(), self._begin_list)
            return
        self.resource_version = answer.resource_version
        self._relisted = True
        self._sink.replace(answer.items, answer.resource_version)
        self._begin_watch()

    def _begin_watch(self) -> None:
        self._turn += 1
        self.problem = ""
        turn = self._turn

        def on_events(events: Sequence[WatchEvent]) -> None:
            if turn != self._turn:
                return
            self._watch_heard = True
            self._sink.apply(events)
            if turn == self._turn:
                self.resource_version = events[-1].resource_version

        def on_end(error: ApiError | None) -> None:
            if turn == self._turn:
                self._ended(error)

        self._watch_started_s = self._clock.now()
        self._watch_heard = False
        handlers = WatchHandlers(on_events, on_end)
        watch = self._cluster.watch(self.kind, self._options, self.resource_version, handlers)
        # The watch may have ended before it was returned.
        if turn == self._turn:
            self._watch = watch

    def _ended(self, error: ApiError | None) -> None:
        self._watch = None
        lasted_s = self._clock.now() - self._watch_started_s
        worked = self._watch_heard or lasted_s >= SHORT_WATCH_S
        if worked:
            self._relisted = False
            self._backoff.reset()
        if isinstance(error, Gone):
            # At once, unless the version that is gone comes from a list made just now.
            self._later(self._backoff.next() if self._relisted else 0.0, self._begin_list)
        elif error is not None:
            self.problem = str(error)
            delay_s = error.retry_after_s or self._backoff.next()
            self._later(delay_s, self._begin_watch if _may_resume(error) else self._begin_list)
        else:
            self._later(0.0 if worked else self._backoff.next(), self._begin_watch)

    def _later(self, delay_s: float, action: Callable[[], None]) -> None:
        self._turn += 1
        turn = self._turn

        def run() -> None:
            if turn == self._turn:
                action()

        self._call_later(delay_s, run)


def _may_resume(error: ApiError) -> bool:
    """Whether the same watch can work later.

    Not from a version that the server has not reached: it knows less than we have seen, and only
    a new list can tell what is.
    """
    if "Too large resource version" in error.message:
        return False
    return error.code >= 500 or error.code in _PASSING_CODES
