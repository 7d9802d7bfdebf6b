"""What runs a cluster: store, scheduler, controllers and kubelet, and the time they share.

Everybody is a client of the store and plans what comes later with the same timers, so the whole
cluster moves when `run` grants turns: from one planned moment to the next, in no time under the
virtual clock.  `cluster` is its only user.
"""

from __future__ import annotations

import time
from random import Random

from stowplan.apiserver.controllers import Controllers, Memory
from stowplan.apiserver.kubelet import Kubelet
from stowplan.apiserver.store import Store
from stowplan.clock import Clock, RealClock, VirtualClock
from stowplan.core.algorithm import Explain
from stowplan.core.attempts import AttemptLog, AttemptObserver
from stowplan.core.explanation import Explainer, score_alone
from stowplan.embedded import Timers, connect_scheduler
from stowplan.errors import PluginError, StowplanError
from stowplan.framework.errors import describe
from stowplan.runtime.driver import Driver
from stowplan.world.garbage import garbage_stays
from stowplan.world.history import History
from stowplan.world.pace import PaceObserver
from stowplan.world.setup import Setup

ACTIONS_MAX = 20_000_000
"""Turns of one run without an end; a day of a busy cluster takes a tenth of that."""

PAUSE_MAX_S = 0.05
"""In real time, how long to wait at most before looking again."""


class Engine:
    def __init__(self, setup: Setup, *, start_s: float = 0.0, is_copy: bool = False) -> None:
        """`is_copy`: filled from another cluster, which may show only a part of itself."""
        self.setup = setup
        self.is_copy = is_copy
        self.clock: Clock = VirtualClock(start_s) if self.is_virtual else RealClock()
        self.timers = Timers(self.clock)
        # Nobody comes back to a watch that broke off: the history is of no use.
        self.store = Store(
            self.clock,
            seed=setup.seed,
            history_max=1,
            create_namespaces=True,
            gates=setup.config.features,
        )
        self.history = History(setup.history_bytes)
        self.failures = _Failures()
        self.pace = PaceObserver()
        self.driver = self._scheduler()
        self.controllers, self.kubelet = _workers(self)

    @property
    def is_virtual(self) -> bool:
        return self.setup.clock == "virtual"

    def _scheduler(self) -> Driver:
        setup = self.setup
        driver = connect_scheduler(
            self.store,
            self.clock,
            self.timers.call_later,
            config=setup.config,
            seed=setup.seed,
            log=AttemptLog(self.history, self.failures, self.pace, decisions_max=0),
            registry=setup.registry,
            tie_break=setup.tie_break,
        )
        driver.machine.algorithm.explain = self._explain()
        return driver

    def _explain(self) -> Explain:
        return Explainer().explain if self.setup.detail else score_alone

    def fork(self) -> Engine:
        """Another one that is as this one is now."""
        with garbage_stays():
            return self._forked()

    def _forked(self) -> Engine:
        fork = Engine.__new__(Engine)
        fork.setup, fork.is_copy = self.setup, self.is_copy
        fork.clock = VirtualClock(self.clock.now()) if self.is_virtual else self.clock
        fork.timers = Timers(fork.clock)
        fork.store = self.store.fork(fork.clock)
        fork.history, fork.failures = self.history.fork(), _Failures()
        fork.pace = PaceObserver()
        version = self.store.resource_version
        twins: dict[int, object] = {}
        fork.driver = self._forked_scheduler(fork, version, twins)
        fork.controllers, fork.kubelet = _workers(fork, self.controllers.remembered())
        twins |= fork.controllers.resume(self.controllers, version)
        fork.kubelet.resume(self.kubelet, version)
        twins[id(self.kubelet)] = fork.kubelet
        fork.timers.take_over(self.timers, twins)
        if fork.driver.machine.has_work:
            # Pods that begin their attempt anew have nobody who asked for a turn.
            fork.driver.wake()
        return fork

    def _forked_scheduler(self, fork: Engine, version: str, twins: dict[int, object]) -> Driver:
        machine = self.driver.machine
        log = AttemptLog(fork.history, fork.failures, fork.pace, decisions_max=0)
        forked = machine.fork(copied(machine.random), log)
        forked.algorithm.explain = self._explain()
        call_later = fork.timers.call_later
        recorder = self.driver.recorder.fork(
            fork.store, fork.clock, call_later=call_later, random=Random(self.setup.seed)
        )
        driver = Driver(
            forked,
            fork.store,
            clock=fork.clock,
            call_later=call_later,
            recorder=recorder,
            random=Random(self.setup.seed),
        )
        driver.resume(self.driver, version)
        twins |= {id(self.driver): driver, id(self.driver.recorder): recorder}
        return driver

    def start(self) -> None:
        self.driver.start()
        self.controllers.start()
        self.kubelet.start()

    def close(self) -> None:
        self.driver.close()
        self.controllers.stop()
        self.kubelet.stop()
        self.store.close()
        self.driver.machine.close()
        self.timers.clear()

    # -- time -------------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        """Whether something is left to do, now or later.

        Pods that stay unschedulable do not count, nor do those whose attempts end in an error
        again and again; neither do pods that run for ever.
        """
        machine = self.driver.machine
        return bool(
            self.driver.busy
            or machine.has_work
            or machine.queue.is_retrying
            or machine.stepper.timer_count
            or self.controllers.busy
            or self.controllers.has_plans
            or self.kubelet.busy
            or self.kubelet.has_plans
        )

    def run(self, seconds: float | None = None) -> None:
        """Until nothing is left to do, or for so long."""
        end_s = None if seconds is None else self.clock.now() + seconds
        actions = 0
        while True:
            actions += self._run_due()
            next_s = self.timers.next_s
            if end_s is None:
                if next_s is None or not self.has_work:
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
        self.driver.active = False
        self._run_due()
        self.driver.active = True

    def _run_due(self) -> int:
        actions, run_due = 0, self.timers.run_due
        while run_due():
            actions += 1
            if self.failures.first is not None and self.setup.strict:
                raise self.failures.first
        return actions

    def _wait(self, until_s: float) -> None:
        clock = self.clock
        if isinstance(clock, VirtualClock):
            clock.now_s = max(clock.now_s, until_s)
        else:
            time.sleep(max(0.0, min(PAUSE_MAX_S, until_s - clock.now())))


def _workers(engine: Engine, memory: Memory | None = None) -> tuple[Controllers, Kubelet]:
    store, clock, call_later = engine.store, engine.clock, engine.timers.call_later
    random, is_copy = Random(engine.setup.seed), engine.is_copy
    return (
        Controllers(
            store,
            clock=clock,
            call_later=call_later,
            random=random,
            memory=memory,
            is_copy=is_copy,
            gates=store.gates,
        ),
        Kubelet(store, clock=clock, call_later=call_later, random=random, is_copy=is_copy),
    )


class _Failures(AttemptObserver):
    """The first plugin that failed."""

    def __init__(self) -> None:
        self.first: PluginError | None = None

    def plugin_error(self, plugin: str, point: str, cause: Exception) -> None:
        if self.first is None:
            self.first = PluginError(f"{plugin} failed in {point}: {describe(cause)}")
            self.first.__cause__ = cause


def copied(random: Random) -> Random:
    """Another one that will say the same."""
    twin = Random()
    twin.setstate(random.getstate())
    return twin


def _endless(now_s: float) -> StowplanError:
    return StowplanError(
        f"there is still something to do after {now_s:g} s and {ACTIONS_MAX:,} turns",
        hint="a pod that ends and is replaced goes on for ever; use `run(seconds=...)`",
    )
