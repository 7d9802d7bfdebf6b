"""Requests of a controller, and when it may look again.

A controller that decides before it has seen its own last writes makes things twice.  So the object
a request is about is left alone until every answer is in and the informers have caught up with
what was answered.  (client-go's controllers count expected events for the same purpose.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from stowplan.apiserver.controllers.shared import Shared
from stowplan.apiserver.controllers.work_queue import WorkQueue
from stowplan.cluster.port import Answer, Done, call_one
from stowplan.errors import ApiError, Conflict, NotFound
from stowplan.objects.api import Bind, Request
from stowplan.objects.kinds import Kind
from stowplan.printable import logger

log = logger(__name__)

WAIT_MAX_S = 30.0
"""For a write to come back; then the watch is taken to have lost it."""


@dataclass(slots=True)
class _Waiting:
    calls: int
    versions: dict[Kind, int]
    until_s: float
    failed: bool = False


class Calls:
    def __init__(self, shared: Shared, queue: WorkQueue) -> None:
        self._shared = shared
        self._queue = queue
        self._waiting: dict[str, _Waiting] = {}

    def resume(self, other: Calls) -> None:
        """Go on where another one is, of whose requests all are answered."""
        assert not other.busy, "requests are under way"
        self._waiting = {
            key: replace(waiting, versions=waiting.versions.copy())
            for key, waiting in other._waiting.items()
        }

    @property
    def busy(self) -> bool:
        return any(waiting.calls for waiting in self._waiting.values())

    def settled(self, key: str) -> bool:
        """Whether everything done for `key` is known to the informers."""
        waiting = self._waiting.get(key)
        if waiting is None:
            return True
        if waiting.calls:
            return False
        seen = all(self._shared.has_seen(*item) for item in waiting.versions.items())
        if seen or self._shared.clock.now() >= waiting.until_s:
            del self._waiting[key]
            return True
        # Whatever comes next through the watch will not be about `key` if the write was lost.
        self._queue.add_after(key, WAIT_MAX_S)
        return False

    def send(self, key: str, request: Request, tell: Done | None = None) -> None:
        """Carry out a request for the object `key`, and tell what came of it."""
        assert not isinstance(request, Bind), "controllers do not bind"
        kind = request.kind
        until_s = self._shared.clock.now() + WAIT_MAX_S
        waiting = self._waiting.setdefault(key, _Waiting(0, {}, until_s))
        waiting.calls += 1
        waiting.until_s = until_s

        def done(answer: Answer) -> None:
            waiting.calls -= 1
            if isinstance(answer, ApiError):
                waiting.failed = True
                self._failed(key, request, answer)
            elif answer is not None and answer.metadata.resource_version.isdecimal():
                version = int(answer.metadata.resource_version)
                waiting.versions[kind] = max(version, waiting.versions.get(kind, 0))
            if tell is not None:
                tell(answer)
            # After a failure it is looked at again, but later.
            if not waiting.calls and not waiting.failed:
                self._queue.add(key)

        call_one(self._shared.cluster, request, done)

    def _failed(self, key: str, request: Request, error: ApiError) -> None:
        # Somebody was faster, or it is gone already: the watch will tell.
        if not isinstance(error, NotFound | Conflict):
            log.info("%s for %s failed: %s", type(request).__name__, key, error.message)
        self._queue.retry(key)
