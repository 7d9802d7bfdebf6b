"""Keys of objects to look at: each waits once, and one that failed comes back later.

Mirrors client-go's `util/workqueue`, without threads: whoever grants turns through `call_later`
decides when work is done, so the same controllers run live and under the virtual clock.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from stowplan.clock import Clock
from stowplan.cluster.reflector import CallLater
from stowplan.printable import logger

log = logger(__name__)

KEYS_PER_TURN = 16
RETRY_MIN_S = 0.1
RETRY_MAX_S = 30.0
FUTILE_TRIES = 9
"""So often without success, and the next try is as far away as it gets."""


class WorkQueue:
    def __init__(
        self,
        name: str,
        sync: Callable[[str], None],
        *,
        clock: Clock,
        call_later: CallLater,
        ready: Callable[[], bool],
    ) -> None:
        self._name = name
        self._sync = sync
        self._clock = clock
        self._call_later = call_later
        self._ready = ready
        """Whether everything is known; until then keys only gather."""
        self._due_s: dict[str, float] = {}
        self._idle: set[str] = set()
        """Keys that wait only to report that nothing happened."""
        self._keys: dict[str, None] = {}
        self._failures: dict[str, int] = {}
        self._turn_asked = False
        self._stopped = False

    @property
    def busy(self) -> bool:
        return bool(self._keys)

    @property
    def has_plans(self) -> bool:
        """Whether something is left to be done later; not so if it was tried in vain for long."""
        return any(
            key not in self._idle and self._failures.get(key, 0) < FUTILE_TRIES
            for key in self._due_s
        )

    def add(self, key: str) -> None:
        self._keys[key] = None
        self.wake()

    def add_after(self, key: str, delay_s: float, *, idle: bool = False) -> None:
        """Add it later; a key waits for one moment only, the earliest."""
        due_s = self._clock.now() + max(0.0, delay_s)
        if self._due_s.get(key, math.inf) <= due_s:
            return
        self._due_s[key] = due_s
        if idle:
            self._idle.add(key)
        else:
            self._idle.discard(key)
        self._call_later(max(0.0, delay_s), partial(self._fire, key, due_s))

    def _fire(self, key: str, due_s: float) -> None:
        if self._due_s.get(key) == due_s:
            del self._due_s[key]
            self._idle.discard(key)
            self.add(key)

    def retry(self, key: str) -> None:
        """Look at it again, after a while that grows with every failure in a row."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.add_after(key, min(RETRY_MAX_S, RETRY_MIN_S * 2.0 ** min(failures, 16)))

    def is_failing(self, key: str) -> bool:
        return key in self._failures

    def forget(self, key: str) -> None:
        """It went well."""
        self._failures.pop(key, None)

    def resume(self, other: WorkQueue) -> None:
        """Go on where another one is; whoever forks the timers plans its turns."""
        self._due_s, self._idle = other._due_s.copy(), other._idle.copy()
        self._keys, self._failures = other._keys.copy(), other._failures.copy()
        self._turn_asked = other._turn_asked

    def stop(self) -> None:
        self._stopped = True
        self.clear()

    def clear(self) -> None:
        """Forget what was to be looked at."""
        self._keys.clear()
        self._due_s.clear()
        self._idle.clear()

    def wake(self) -> None:
        if self._keys and not self._turn_asked and not self._stopped and self._ready():
            self._turn_asked = True
            self._call_later(0.0, self._turn)

    def _turn(self) -> None:
        self._turn_asked = False
        for key in list(self._keys)[:KEYS_PER_TURN]:
            self._keys.pop(key, None)
            try:
                self._sync(key)
            except Exception:
                log.exception("%s: %s failed", self._name, key)
                self.retry(key)
        self.wake()
