"""What a `Cluster` looks at and moves: an embedded cluster, its time, and what was decided in it.

Everybody in it is a client of the store and plans what comes later with the same timers, so the
whole cluster moves when `run` grants turns: from one planned moment to the next, in no time under
the virtual clock.  A cluster that somebody else runs (`attached`) moves by itself; only its forks
can be moved.  `cluster` is its only user.
"""

from __future__ import annotations

import time
from random import Random
from time import perf_counter

from stowplan.apiserver.store import Store
from stowplan.clock import RealClock, Timers, VirtualClock
from stowplan.core.attempts import AttemptLog
from stowplan.core.bottlenecks import Bottlenecks
from stowplan.core.explanation import Explainer, score_alone
from stowplan.embedded import EmbeddedCluster, Parts, Scheduling
from stowplan.errors import InputError, StowplanError
from stowplan.runtime.driver import Driver
from stowplan.runtime.explanations import Explanations
from stowplan.world.garbage import garbage_stays
from stowplan.world.history import History
from stowplan.world.setup import Setup
from stowplan.world.watching import Watched

ACTIONS_MAX = 20_000_000
"""Turns of one run without an end; a day of a busy cluster takes a tenth of that."""

PAUSE_MAX_S = 0.05
"""In real time, how long to wait at most before looking again."""


class Engine:
    def __init__(
        self,
        setup: Setup,
        cluster: EmbeddedCluster | Watched,
        history: History,
        timers: Timers | None,
    ) -> None:
        """`timers`: those of the cluster; None: somebody else runs it."""
        self.setup = setup
        self._looked_at = cluster
        self.history = history
        self._own_timers = timers
        self.clock = cluster.clock
        self.reads: Store | Watched = cluster if isinstance(cluster, Watched) else cluster.store
        """Has the objects, to `read` and `select`."""

    @property
    def cluster(self) -> EmbeddedCluster:
        """One in this process."""
        if isinstance(self._looked_at, Watched):
            raise InputError(
                "this cluster is only watched", hint="`fork()` gives one that you can change"
            )
        return self._looked_at

    @property
    def store(self) -> Store:
        return self.cluster.store

    @classmethod
    def new(cls, setup: Setup, *, start_s: float = 0.0, is_copy: bool = False) -> Engine:
        """`is_copy`: filled from another cluster, which may show only a part of itself."""
        clock = VirtualClock(start_s) if setup.clock == "virtual" else RealClock()
        history = History(setup.history_bytes)
        # Nobody comes back to a watch that broke off: the history is of no use.
        store = Store(
            clock,
            seed=setup.seed,
            history_max=1,
            create_namespaces=True,
            gates=setup.config.features,
            pods_run_at_once=setup.lean,
        )
        timers = Timers(clock)
        cluster = EmbeddedCluster(
            store,
            Parts(
                _scheduling(setup, history, Bottlenecks(perf_counter) if setup.timed else None),
                controllers=not setup.lean,
                kubelet=not setup.lean,
                detailed=False,
                is_copy=is_copy,
            ),
            clock=clock,
            timers=timers,
            random=Random(setup.seed),
        )
        engine = cls(setup, cluster, history, timers)
        engine.driver.recorder.silent = setup.lean
        return engine

    @classmethod
    def attached(cls, cluster: EmbeddedCluster, setup: Setup) -> Engine:
        """One that somebody else runs: to be looked at, and forked as `setup` says.

        Its decisions are heard of from now on, and explained as far as that costs next to nothing.
        """
        history = History(setup.history_bytes)
        cluster.observe(history, Explanations().note)
        return cls(setup, cluster, history, timers=None)

    @classmethod
    def watching(cls, watched: Watched, setup: Setup) -> Engine:
        """A live cluster, through the scheduler that follows it."""
        history = History(setup.history_bytes, shares=True)
        machine = watched.scheduler.machine
        now_s = watched.clock.now()
        for decision in machine.log.decisions():
            queued = machine.queue.get(decision.pod)
            history.take_earlier(decision, now_s, 1 if queued is None else queued.attempts)
        watched.observe(history)
        return cls(setup, watched, history, timers=None)

    @property
    def watched(self) -> Watched | None:
        return self._looked_at if isinstance(self._looked_at, Watched) else None

    @property
    def times(self) -> Bottlenecks | None:
        """Where the scheduler's time goes, if somebody measures that."""
        return self._looked_at.times

    def fork(self) -> Engine:
        """Another one that is as this one is now."""
        with garbage_stays():
            now_s = self.clock.now()
            clock = VirtualClock(now_s) if self.setup.clock == "virtual" else self.clock
            history = self.history.fork()
            timers = Timers(clock)
            cluster = self.cluster.fork(clock, timers, _scheduling(self.setup, history))
            return Engine(self.setup, cluster, history, timers)

    @property
    def driver(self) -> Driver:
        driver = self._looked_at.scheduler
        if driver is None:
            raise InputError("nobody schedules in this cluster")
        return driver

    @property
    def timers(self) -> Timers:
        """Those of a cluster that is ours to run."""
        if self._own_timers is None:
            raise InputError(
                "this cluster is run by somebody else",
                hint="`fork()` gives one that you can run",
            )
        return self._own_timers

    def own(self) -> Engine:
        """This one, if it is ours to run."""
        assert self.timers is not None
        return self

    def start(self) -> None:
        self.cluster.start_scheduler()
        self.cluster.start_workers()

    def close(self) -> None:
        if self._own_timers is None:
            self._looked_at.ignore(self.history)
            return
        self.cluster.close()
        self.store.close()
        self.driver.machine.close()
        self._own_timers.clear()

    # -- time -------------------------------------------------------------------------------

    def run(self, seconds: float | None = None) -> None:
        """Until nothing is left to do, or for so long."""
        end_s = None if seconds is None else self.clock.now() + seconds
        actions, timers = 0, self.timers
        while True:
            actions += self._run_due()
            next_s = timers.next_s
            if end_s is None:
                if next_s is None or not self.cluster.has_work:
                    return
                if actions > ACTIONS_MAX:
                    raise _endless(self.clock.now())
                self._wait(next_s)
            elif self.clock.now() >= end_s:
                return
            else:
                self._wait(end_s if next_s is None else min(next_s, end_s))

    def take_in(self) -> None:
        """Let everybody hear what there is, before anything is decided."""
        driver = self.own().driver
        driver.active = False
        self._run_due()
        driver.active = True

    def step(self, until_s: float) -> None:
        """Do what is due, and go on to the next planned moment, but not beyond that one."""
        self._run_due()
        next_s = self.timers.next_s
        self._wait(until_s if next_s is None else min(next_s, until_s))

    def _run_due(self) -> int:
        actions, run_due = 0, self.timers.run_due
        while run_due():
            actions += 1
            if self.history.failure is not None and self.setup.strict:
                raise self.history.failure
        return actions

    def _wait(self, until_s: float) -> None:
        clock = self.clock
        if isinstance(clock, VirtualClock):
            clock.now_s = max(clock.now_s, until_s)
        else:
            time.sleep(max(0.0, min(PAUSE_MAX_S, until_s - clock.now())))


def _scheduling(setup: Setup, history: History, times: Bottlenecks | None = None) -> Scheduling:
    return Scheduling(
        setup.config,
        setup.registry,
        log=AttemptLog(history, decisions_max=0),
        seed=setup.seed,
        tie_break=setup.tie_break,
        explain=Explainer().explain if setup.detail else score_alone,
        times=times,
    )


def _endless(now_s: float) -> StowplanError:
    return StowplanError(
        f"there is still something to do after {now_s:g} s and {ACTIONS_MAX:,} turns",
        hint="a pod that ends and is replaced goes on for ever; use `run(seconds=...)`",
    )
