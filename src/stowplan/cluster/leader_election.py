"""Leader election through a Lease: of several replicas one schedules, the others follow.

A state machine over the port, with time and chance handed in.  The lease's own timestamps are
never compared with our clock: a holder is taken for dead when its record has not changed for as
long as it promised to renew it, measured here.  A leader that could not renew in time stops
leading first, before anybody else may take over.  Mirrors client-go's `tools/leaderelection`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import msgspec

from stowplan.clock import Clock
from stowplan.cluster.port import Answer, Cluster, Create, Get, Update, call_one
from stowplan.errors import ApiError, NotFound
from stowplan.objects.base import KubeObject, ObjectMeta
from stowplan.objects.coordination import Lease, LeaseSpec
from stowplan.objects.kinds import LEASE
from stowplan.objects.times import format_micro_time

JITTER = 0.2
"""By so much of the retry period a replica that waits may ask earlier, so that not all ask at once.
Never later: when the leader gives the lease back, nobody schedules until one asks again."""


@dataclass(frozen=True, slots=True)
class ElectionConfig:
    identity: str
    namespace: str = "kube-system"
    name: str = "kube-scheduler"
    lease_duration_s: float = 15.0
    renew_deadline_s: float = 10.0
    retry_period_s: float = 2.0


class LeaderElector:
    def __init__(
        self,
        cluster: Cluster,
        config: ElectionConfig,
        *,
        clock: Clock,
        call_later: Callable[[float, Callable[[], None]], object],
        random: Random,
        on_started: Callable[[], None],
        on_stopped: Callable[[], None],
        on_new_leader: Callable[[str], None] = lambda identity: None,
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._clock = clock
        self._call_later = call_later
        self._random = random
        self._on_started = on_started
        self._on_stopped = on_stopped
        self._on_new_leader = on_new_leader
        self._observed: LeaseSpec | None = None
        self._observed_at_s = 0.0
        self._lease: Lease | None = None
        self._renewed_at_s = 0.0
        self._sent_at_s = 0.0
        self._turn = 0
        """Counts what was started; answers and timers of an earlier turn are dropped."""
        self._stopped = False
        self.is_leader = False

    @property
    def leader(self) -> str:
        """Who holds the lease, as far as is known."""
        return (self._observed.holder_identity or "") if self._observed is not None else ""

    @property
    def lease(self) -> Lease | None:
        """As last seen or written."""
        return self._lease

    @property
    def overdue_s(self) -> float:
        """How long ago the lease that we still go by has run out."""
        if not self.is_leader:
            return 0.0
        return max(0.0, self._clock.now() - self._renewed_at_s - self._config.lease_duration_s)

    @property
    def holds(self) -> bool:
        """Whether the lease is ours and has not run out; may be asked from another thread."""
        return self.is_leader and self.overdue_s <= 0.0

    # -- life -------------------------------------------------------------------------------

    def start(self) -> None:
        self._try()

    def stop(self, released: Callable[[], None] = lambda: None) -> None:
        """Stop leading or trying to; a held lease is given back, so that others need not wait."""
        self._stopped = True
        self._turn += 1
        if not self.is_leader:
            released()
            return
        self._lose()
        self._get(lambda answer: self._release(answer, released))

    def _release(self, answer: Answer, released: Callable[[], None]) -> None:
        held = isinstance(answer, Lease) and answer.spec.holder_identity == self._config.identity
        if not held:
            released()
            return
        assert isinstance(answer, Lease)
        now = format_micro_time(self._clock.now())
        spec = msgspec.structs.replace(
            answer.spec,
            holder_identity="",
            lease_duration_seconds=1,
            acquire_time=now,
            renew_time=now,
        )
        self._put(answer, spec, lambda _: released())

    # -- trying and renewing ----------------------------------------------------------------

    def _try(self) -> None:
        """One attempt: the fast way while we hold a valid lease, else look first."""
        self._turn += 1
        if self.is_leader and self._lease is not None and self._is_valid():
            spec = self._own_spec(self._lease.spec, renew=True)
            self._put(self._lease, spec, self._current(self._fast_renewed))
        else:
            self._get(self._current(self._looked))

    def _fast_renewed(self, answer: Answer) -> None:
        if isinstance(answer, Lease):
            self._succeeded(answer)
        else:
            self._get(self._current(self._looked))

    def _looked(self, answer: Answer) -> None:
        if isinstance(answer, NotFound):
            spec = self._own_spec(None, renew=False)
            metadata = ObjectMeta(name=self._config.name, namespace=self._config.namespace)
            lease = Lease(
                api_version=LEASE.api_version, kind=LEASE.name, metadata=metadata, spec=spec
            )
            request = Create(LEASE, self._config.namespace, lease)
            self._sent_at_s = self._clock.now()
            call_one(self._cluster, request, self._current(self._written))
            return
        if not isinstance(answer, Lease):
            self._failed()
            return
        self._observe(answer)
        ours = answer.spec.holder_identity == self._config.identity
        if answer.spec.holder_identity and not ours and self._is_valid():
            if self.is_leader:
                # Somebody took it from us.  Upstream keeps trying until its deadline, with two
                # leaders meanwhile.
                self._lose()
            else:
                self._failed()
            return
        self._put(answer, self._own_spec(answer.spec, renew=ours), self._current(self._written))

    def _written(self, answer: Answer) -> None:
        if isinstance(answer, Lease):
            self._succeeded(answer)
        else:
            self._failed()

    def _succeeded(self, lease: Lease) -> None:
        self._observe(lease)
        # From when it was asked for, not answered: others count from when it was written.
        self._renewed_at_s = self._sent_at_s
        if not self.is_leader:
            self.is_leader = True
            self._on_started()
        self._next(self._config.retry_period_s)
        self._watch_deadline()

    def _failed(self) -> None:
        config = self._config
        if self.is_leader:
            if self._clock.now() >= self._renewed_at_s + config.renew_deadline_s:
                self._lose()
                return
            self._next(config.retry_period_s)
            return
        self._next(config.retry_period_s * (1 - JITTER * self._random.random()))

    def _watch_deadline(self) -> None:
        """An answer that never comes must not keep us in office."""
        renewed_at_s = self._renewed_at_s

        def check() -> None:
            if self.is_leader and self._renewed_at_s == renewed_at_s:
                self._lose()

        due_s = renewed_at_s + self._config.renew_deadline_s
        self._call_later(max(0.0, due_s - self._clock.now()), check)

    def _lose(self) -> None:
        self.is_leader = False
        self._turn += 1
        self._on_stopped()

    def _next(self, delay_s: float) -> None:
        turn = self._turn

        def run() -> None:
            if turn == self._turn and not self._stopped:
                self._try()

        self._call_later(delay_s, run)

    # -- the record -------------------------------------------------------------------------

    def _observe(self, lease: Lease) -> None:
        self._lease = lease
        if self._observed != lease.spec:
            before = self.leader
            self._observed, self._observed_at_s = lease.spec, self._clock.now()
            if self.leader != before and self.leader:
                self._on_new_leader(self.leader)

    def _is_valid(self) -> bool:
        """Whether the record we saw last may still be relied on, by our own clock."""
        if self._observed is None:
            return False
        lasts_s = self._observed.lease_duration_seconds or 0
        return self._clock.now() < self._observed_at_s + lasts_s

    def _own_spec(self, before: LeaseSpec | None, *, renew: bool) -> LeaseSpec:
        now = format_micro_time(self._clock.now())
        transitions = (before.lease_transitions or 0) if before is not None else 0
        if before is not None and not renew:
            transitions += 1
        return LeaseSpec(
            holder_identity=self._config.identity,
            lease_duration_seconds=int(self._config.lease_duration_s),
            acquire_time=before.acquire_time if before is not None and renew else now,
            renew_time=now,
            lease_transitions=transitions,
        )

    # -- calls ------------------------------------------------------------------------------

    def _get(self, done: Callable[[Answer], None]) -> None:
        request = Get(LEASE, self._config.namespace, self._config.name)
        call_one(self._cluster, request, done)

    def _put(self, lease: Lease, spec: LeaseSpec, done: Callable[[Answer], None]) -> None:
        self._sent_at_s = self._clock.now()
        body: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(lease, spec=spec))
        request = Update(LEASE, self._config.namespace, self._config.name, body)
        call_one(self._cluster, request, done)

    def _current(self, handle: Callable[[Answer], None]) -> Callable[[Answer], None]:
        turn = self._turn

        def done(answer: Answer | KubeObject | ApiError) -> None:
            if turn == self._turn:
                handle(answer)

        return done
