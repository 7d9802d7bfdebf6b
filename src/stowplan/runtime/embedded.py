"""A whole cluster in this process: the store, and a scheduler that follows it.

Time is handed in.  With a `VirtualClock` everything runs in `run()` and takes no real time; with
real time the same turns are granted one after the other by `run_until_idle`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from random import Random

from stowplan.clock import Clock
from stowplan.cluster.port import Cluster
from stowplan.config import SchedulerConfig, load_config
from stowplan.core.attempts import AttemptLog
from stowplan.core.machine import Machine
from stowplan.core.profiles import Registry
from stowplan.plugins import IN_TREE
from stowplan.runtime.driver import Driver, ExtenderClient
from stowplan.runtime.event_recorder import EventRecorder


class Timers:
    """`call_later` for a process without an event loop: things to do, in order of time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._plan: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    def call_later(self, delay_s: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._plan, (self._clock.now() + delay_s, next(self._order), action))

    def run_due(self) -> bool:
        """Do one thing that is due; False when nothing is."""
        if not self._plan or self._plan[0][0] > self._clock.now():
            return False
        heapq.heappop(self._plan)[2]()
        return True

    @property
    def next_s(self) -> float | None:
        return self._plan[0][0] if self._plan else None


def connect_scheduler(
    cluster: Cluster,
    clock: Clock,
    call_later: Callable[[float, Callable[[], None]], object],
    *,
    config: SchedulerConfig | None = None,
    seed: int = 0,
    log: AttemptLog | None = None,
    registry: Registry = IN_TREE,
    extender_client: ExtenderClient | None = None,
) -> Driver:
    """A scheduler for this cluster, not started yet."""
    machine = Machine(config or load_config(None), random=Random(seed), log=log, registry=registry)
    return Driver(
        machine,
        cluster,
        clock=clock,
        call_later=call_later,
        recorder=EventRecorder(cluster, clock, call_later=call_later, random=Random(seed)),
        random=Random(seed),
        extender_client=extender_client,
    )
