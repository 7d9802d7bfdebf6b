"""The life of one replica: follow the cluster, schedule while leading, end in good order.

Without a loop of its own, like the driver below it: live, asyncio grants the turns; in tests and
simulations the virtual clock does.  Who leads is decided by `cluster.leader_election`; without
election this replica always does.

It ends in one of these ways, and tells `on_end`:

- asked to stop: no more pods are taken, bindings that run come to their end (within a grace
  period), events are sent, the lease is given back: exit code 0;
- asked again: at once, code 1;
- the lease was lost: at once, code 1, since another replica may lead already;
- the machine broke: at once, code 70, and the lease is given back.

A fifth needs another thread, since this one is in a call that does not return: see `runtime.guard`.
The election may live on another thread too (`Election.there`, `Election.back`).  That the lease was
lost is then heard of here a little later, which is why `may_write` asks the elector itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from random import Random

from stowplan.clock import Clock
from stowplan.cluster.leader_election import ElectionConfig, LeaderElector
from stowplan.cluster.port import Cluster
from stowplan.cluster.reflector import CallLater
from stowplan.core.messages import RecordEvent
from stowplan.errors import InternalError
from stowplan.runtime.driver import Driver
from stowplan.runtime.event_recorder import EventRecorder
from stowplan.runtime.log import Log

RELEASE_S = 3.0
"""How long giving the lease back may take; it runs out by itself otherwise."""

STOPPED = 0
GIVEN_UP = 1
BROKEN = InternalError.exit_code
TOO_LONG = 124
"""A decision did not end; as `timeout` has it."""


def _at_once(action: Callable[[], None]) -> None:
    action()


@dataclass(frozen=True, slots=True)
class Election:
    """How to take part in one."""

    config: ElectionConfig
    leases: Cluster
    """Apart from the port for scheduling: a backlog of bindings must not cost us the lease."""
    delay_cache: bool = False
    """Follow the cluster only once the lease is held."""
    call_later: CallLater | None = None
    """Timers of the election; None: the replica's."""
    there: Callable[[Callable[[], None]], None] = _at_once
    """Has something done where the election lives."""
    back: Callable[[Callable[[], None]], None] = _at_once
    """Has something done where the replica lives."""


class _Phase(Enum):
    FOLLOWING = auto()
    """Not started, or waiting for the lease."""
    LEADING = auto()
    DRAINING = auto()
    """Bindings that run come to their end."""
    REPORTING = auto()
    """The last events are sent."""
    RELEASING = auto()
    ENDED = auto()


class Replica:
    def __init__(
        self,
        driver: Driver,
        recorder: EventRecorder,
        *,
        clock: Clock,
        call_later: CallLater,
        random: Random,
        log: Log,
        on_end: Callable[[int], None],
        election: Election | None = None,
        grace_s: float = 20.0,
        abandon: Callable[[], None] = lambda: None,
    ) -> None:
        """`abandon` cuts off the calls of the scheduling port that are still under way."""
        self._driver = driver
        self._recorder = recorder
        self._call_later = call_later
        self._log = log
        self._on_end = on_end
        self._grace_s = grace_s
        self._abandon = abandon
        self._election = election
        self._delay_cache = election is not None and election.delay_cache
        self._phase = _Phase.FOLLOWING
        self.elector: LeaderElector | None = None
        if election is not None:
            self.elector = LeaderElector(
                election.leases,
                election.config,
                clock=clock,
                call_later=election.call_later or call_later,
                random=random,
                on_started=lambda: election.back(self._lead),
                on_stopped=lambda: election.back(self._lost),
                on_new_leader=lambda identity: log.info(1, "New leader elected", identity=identity),
            )
        driver.active = False
        driver.on_failure = self._broke

    @property
    def is_leading(self) -> bool:
        return self._phase in (_Phase.LEADING, _Phase.DRAINING, _Phase.REPORTING)

    @property
    def may_write(self) -> bool:
        """Whether nobody else can lead by now.

        Asked before each write: a process that stood still for a while finds its lease run out
        before its timers tell it so, and one whose election lives on another thread has lost it
        before it is told.
        """
        return self.is_leading and (self.elector is None or self.elector.holds)

    @property
    def is_stopping(self) -> bool:
        return self._phase not in (_Phase.FOLLOWING, _Phase.LEADING)

    def start(self) -> None:
        if not self._delay_cache:
            self._driver.start()
        if self.elector is None or self._election is None:
            self._lead()
        else:
            self._log.info(1, "Attempting to acquire leader lease")
            self._election.there(self.elector.start)

    def stop(self) -> None:
        """Asked to end; asked twice, end at once."""
        if self.is_stopping:
            self._end(GIVEN_UP)
        elif self._phase is _Phase.FOLLOWING:
            self._release(STOPPED)
        else:
            self._drain()

    # -- leading ----------------------------------------------------------------------------

    def halt(self) -> None:
        """Send nothing from now on; somebody else ends the process."""
        self._phase = _Phase.RELEASING
        self._halt()

    def _lead(self) -> None:
        if self._phase is not _Phase.FOLLOWING:
            return  # Asked to stop before it was known here that the lease is ours.
        self._phase = _Phase.LEADING
        if self.elector is not None:
            self._log.info(1, "Successfully acquired lease")
            self._tell("Acquire", "became leader")
        if self._delay_cache:
            self._driver.start()
        self._driver.active = True

    def _tell(self, action: str, what: str) -> None:
        """An event on the lease, where there is one."""
        lease = self.elector.lease if self.elector is not None else None
        if lease is None:
            return
        note = f"{lease.spec.holder_identity} {what}"
        profile = self._driver.machine.config.profiles[0].scheduler_name
        event = RecordEvent(lease, "Normal", "LeaderElection", action, note, profile)
        self._recorder.record([event])

    def _lost(self) -> None:
        if self._phase is _Phase.RELEASING:
            return  # Given back, not lost.
        self._log.error("Leaderelection lost")
        self._end(GIVEN_UP)

    def _broke(self, failure: BaseException) -> None:
        self._log.error("The scheduler failed and must start anew", failure)
        self._release(BROKEN)

    # -- the end ----------------------------------------------------------------------------

    def _drain(self) -> None:
        self._phase = _Phase.DRAINING
        self._log.info(1, "Stopping: pods that are being bound come to their end")
        self._call_later(self._grace_s, self._out_of_time)
        self._driver.on_idle = self._drained
        self._driver.stop()

    def _drained(self) -> None:
        self._driver.on_idle = None
        if self._phase is not _Phase.DRAINING:
            return
        self._phase = _Phase.REPORTING
        self._tell("Release", "stopped leading")
        self._recorder.on_empty = self._reported
        self._recorder.flush(pressed=False)
        if not self._recorder.pending:
            self._reported()

    def _reported(self) -> None:
        self._recorder.on_empty = None
        if self._phase is _Phase.REPORTING:
            self._release(STOPPED)

    def _out_of_time(self) -> None:
        if self._phase is _Phase.DRAINING:
            count = self._driver.machine.binding_count
            self._log.warning("Stopping: some calls did not end in time", calls=count)
        if self._phase in (_Phase.DRAINING, _Phase.REPORTING):
            self._release(STOPPED)

    def _release(self, code: int) -> None:
        """Nothing more is sent by the scheduler, and then the lease is free for others."""
        self.halt()
        elector, election = self.elector, self._election
        if elector is None or election is None:
            self._end(code)
            return
        self._call_later(RELEASE_S, lambda: self._end(code))
        released = partial(election.back, partial(self._end, code))
        election.there(lambda: elector.stop(released))

    def _halt(self) -> None:
        self._driver.active = False
        self._driver.close()
        self._abandon()

    def _end(self, code: int) -> None:
        if self._phase is _Phase.ENDED:
            return
        self._phase = _Phase.ENDED
        self._halt()
        self._on_end(code)
