"""A whole cluster in this process: the store, and a scheduler that follows it.

Time is handed in.  With a `VirtualClock` everything runs in `run()` and takes no real time; with
real time the same turns are granted one after the other by `run_until_idle`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from random import Random

from stowplan.clock import Clock
from stowplan.cluster.port import Cluster
from stowplan.config import SchedulerConfig, load_config
from stowplan.core.algorithm import TieBreak
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

    def clear(self) -> None:
        """Plan nothing any more."""
        self._plan.clear()

    def run_due(self) -> bool:
        """Do one thing that is due; False when nothing is."""
        if not self._plan or self._plan[0][0] > self._clock.now():
            return False
        heapq.heappop(self._plan)[2]()
        return True

    def take_over(self, other: Timers, twins: Mapping[int, object]) -> None:
        """Plan what the other has planned, at the same times and in the same order.

        Plans are methods of objects, perhaps with arguments; `twins` says for each of these
        objects, by its `id`, which one takes its place here.
        """
        self._plan = [(due_s, turn, _rebound(do, twins)) for due_s, turn, do in other._plan]
        self._order = count(max((turn for _, turn, _ in other._plan), default=-1) + 1)

    @property
    def next_s(self) -> float | None:
        return self._plan[0][0] if self._plan else None


def _rebound(action: Callable[..., None], twins: Mapping[int, object]) -> Callable[..., None]:
    if isinstance(action, partial):
        return partial(_rebound(action.func, twins), *action.args, **action.keywords)
    owner = twins.get(id(getattr(action, "__self__", None)))
    assert owner is not None, f"{action!r} is planned, and nobody in the fork can do it"
    method: Callable[..., None] = getattr(owner, action.__name__)
    return method


def connect_scheduler(
    cluster: Cluster,
    clock: Clock,
    call_later: Callable[[float, Callable[[], None]], object],
    *,
    config: SchedulerConfig | None = None,
    seed: int = 0,
    log: AttemptLog | None = None,
    registry: Registry = IN_TREE,
    tie_break: TieBreak = "random",
    extender_client: ExtenderClient | None = None,
) -> Driver:
    """A scheduler for this cluster, not started yet."""
    machine = Machine(
        config or load_config(None),
        random=Random(seed),
        log=log,
        registry=registry,
        tie_break=tie_break,
    )
    return Driver(
        machine,
        cluster,
        clock=clock,
        call_later=call_later,
        recorder=EventRecorder(cluster, clock, call_later=call_later, random=Random(seed)),
        random=Random(seed),
        extender_client=extender_client,
    )
