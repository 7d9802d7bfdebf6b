"""`stowplan run`: a scheduler for a Kubernetes cluster, put together and kept running.

Everything it is made of is elsewhere and knows nothing of asyncio: the machine and its driver, the
election, the life from start to end (`runtime.lifecycle`).  Here they get clients, a clock, a loop
and signals:

    SIGTERM, SIGINT   stop in good order; a second one: at once
    SIGHUP            read the configuration again (`runtime.reload`)
    SIGUSR2           compare cache and cluster, and write both to the log

Where to read on: `runtime.driver` for how it works, `runtime.lifecycle` for how it starts and ends.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from random import Random, SystemRandom
from time import perf_counter
from urllib.parse import urlsplit
from uuid import uuid4

from stowplan._version import __version__
from stowplan.clock import Clock, SteadyClock
from stowplan.cluster.client import KubernetesClient
from stowplan.cluster.kubeconfig import Connection, load_connection
from stowplan.cluster.leader_election import ElectionConfig
from stowplan.config import SchedulerConfig, to_yaml, without_keys
from stowplan.core.attempts import AttemptLog
from stowplan.core.bottlenecks import Bottlenecks
from stowplan.core.debugger import compare, dump
from stowplan.core.machine import Machine
from stowplan.core.profiles import Registry
from stowplan.framework.timing import Recorders
from stowplan.objects.kinds import NODE, POD
from stowplan.runtime.auth import Access, ClusterReviews, Reviews, User
from stowplan.runtime.decision_log import DecisionLog
from stowplan.runtime.driver import WATCHED, Driver
from stowplan.runtime.event_recorder import EventRecorder
from stowplan.runtime.extender_client import HttpExtenderClient
from stowplan.runtime.health import PING, Check, Health
from stowplan.runtime.lifecycle import Election, Replica
from stowplan.runtime.log import Bridge, Log
from stowplan.runtime.memory import settle_memory, tune_collector
from stowplan.runtime.metrics import Metrics
from stowplan.runtime.preflight import check_cluster, needed_rights
from stowplan.runtime.reload import FileWatch, Reloader
from stowplan.runtime.run_options import RunOptions
from stowplan.runtime.server import SecureServer
from stowplan.runtime.surface import Surface

SERVER_DRAIN_S = 5.0
REPORT_EVERY_S = 60.0


def run(options: RunOptions) -> int:
    """Schedule until told to stop; the exit code of the process."""
    clock = SteadyClock()
    log = Log(clock, verbosity=options.verbosity, format_=options.logging_format)
    Bridge(log).install()
    if options.without_effect:
        log.warning("Some flags have no effect here", flags=list(options.without_effect))
    config, registry = options.load_all()
    connection = load_connection(
        config.client_connection.kubeconfig, master=options.master, environment=os.environ
    )
    log.info(1, "Starting Stowplan", version=__version__, server=connection.server)
    log.info(2, "Using component config", config=to_yaml(without_keys(config)))
    tune_collector()
    live = Live(options, config, registry, connection, clock, log)
    return asyncio.run(live.run())


@dataclass(frozen=True, slots=True)
class _SplitReviews:
    """Who asks and what they may, of two clusters."""

    authentication: Reviews
    authorization: Reviews

    async def user_of(self, token: str) -> User | None:
        return await self.authentication.user_of(token)

    async def may(self, user: User, verb: str, path: str) -> Access:
        return await self.authorization.may(user, verb, path)


class Live:
    def __init__(
        self,
        options: RunOptions,
        config: SchedulerConfig,
        registry: Registry,
        connection: Connection,
        clock: Clock,
        log: Log,
    ) -> None:
        self._options = options
        self._config = config
        self._connection = connection
        self._clock = clock
        self._log = log
        self._random = Random(SystemRandom().randbytes(16))
        self._metrics = Metrics(Random(self._random.random()), options.metric_choice)
        self._bottlenecks = Bottlenecks(perf_counter)
        self._machine = Machine(
            config,
            random=self._random,
            registry=registry,
            recorder=Recorders(self._metrics, self._bottlenecks),
            log=AttemptLog(self._metrics, self._bottlenecks, DecisionLog(log)),
            unschedulable_max_s=options.unschedulable_max_s,
        )

    async def run(self) -> int:
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = self._loop.create_future()
        self._loop.set_exception_handler(self._on_stray_exception)
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._end, 0)
        async with AsyncExitStack() as stack:
            checking = asyncio.create_task(self._check())
            self._ended.add_done_callback(lambda _: checking.cancel())
            await asyncio.wait({checking})
            if checking.cancelled():
                return await self._ended
            checking.result()
            self._assemble(stack)
            await self._serve(stack)
            self._on_signals()
            self._replica.start()
            self._watch_over()
            return await self._ended

    async def _check(self) -> None:
        """Whether the cluster can be reached, and lets us work."""
        election = self._config.leader_election
        lease = (election.resource_namespace, election.resource_name)
        rights = needed_rights(
            (kind for kind, _ in WATCHED), lease if election.leader_elect else None
        )
        client = self._client("preflight", self._connection, limited=False)
        try:
            await check_cluster(
                client,
                rights,
                timeout_s=self._options.startup_timeout_s,
                clock=self._clock,
                log=self._log,
            )
        finally:
            await client.close()

    # -- putting it together ----------------------------------------------------------------

    def _assemble(self, stack: AsyncExitStack) -> None:
        scheduling = self._client(
            "scheduler", self._connection, may_call=lambda: self._replica.may_write
        )
        events = self._client("events", self._connection)
        extenders = HttpExtenderClient(os.environ)
        for closing in (scheduling, events, extenders):
            stack.push_async_callback(closing.close)
        self._scheduling = scheduling
        recorder = EventRecorder(
            events,
            self._clock,
            call_later=self._call_later,
            random=self._random,
            instance=socket.gethostname(),
        )
        self._driver = Driver(
            self._machine,
            scheduling,
            clock=self._clock,
            call_later=self._call_later,
            recorder=recorder,
            random=self._random,
            extender_client=extenders,
        )
        self._driver.on_handled = self._metrics.handled
        self._driver.on_caught_up = self._caught_up
        self._replica = Replica(
            self._driver,
            recorder,
            clock=self._clock,
            call_later=self._call_later,
            random=self._random,
            log=self._log,
            on_end=self._end,
            election=self._election(stack),
            grace_s=self._options.shutdown_grace_s,
            abandon=scheduling.abort,
        )
        self._reloader = Reloader(
            self._options.load, self._driver.reconfigure, self._config, self._log
        )
        self._metrics.before_text.append(lambda: self._count(recorder))

    def _count(self, recorder: EventRecorder) -> None:
        families = self._metrics.families
        families["stowplan_events_dropped_total"].set(value=recorder.dropped)
        for result, count in self._reloader.counts.items():
            families["stowplan_config_reloads_total"].set(result, value=count)

    def _election(self, stack: AsyncExitStack) -> Election | None:
        election = self._config.leader_election
        if not election.leader_elect:
            return None
        renew_deadline_s = election.renew_deadline.seconds
        leases = self._client(
            "leader-election", self._connection, timeout_s=max(1.0, renew_deadline_s / 2)
        )
        stack.push_async_callback(leases.close)
        config = ElectionConfig(
            identity=f"{socket.gethostname()}_{uuid4()}",
            namespace=election.resource_namespace,
            name=election.resource_name,
            lease_duration_s=election.lease_duration.seconds,
            renew_deadline_s=renew_deadline_s,
            retry_period_s=election.retry_period.seconds,
        )
        return Election(config, leases, delay_cache=self._config.delay_cache_until_active)

    def _client(
        self,
        role: str,
        connection: Connection,
        *,
        timeout_s: float = 30.0,
        limited: bool = True,
        may_call: Callable[[], bool] = lambda: True,
    ) -> KubernetesClient:
        """One for each role, with a limit of its own: none waits for another's backlog."""
        settings = self._config.client_connection
        return KubernetesClient(
            connection,
            clock=self._clock,
            random=self._random,
            qps=settings.qps if limited else -1.0,
            burst=settings.burst,
            user_agent=f"stowplan/{__version__} ({sys.platform})/{role}",
            call_timeout_s=timeout_s,
            on_sent=self._metrics.sender(urlsplit(connection.server).netloc),
            may_call=may_call,
        )

    async def _serve(self, stack: AsyncExitStack) -> None:
        options = self._options
        if not options.serving.port:
            return
        surface = Surface(
            clock=self._clock,
            log=self._log,
            machine=self._machine,
            metrics=self._metrics,
            bottlenecks=self._bottlenecks,
            health=self._health(),
            is_leading=lambda: self._replica.is_leading,
            reviews=self._reviews(stack),
            gates=options.gates,
            flags=options.flags,
        )
        server = SecureServer(options.serving, surface)
        await server.start()
        stack.push_async_callback(self._within, SERVER_DRAIN_S, server.stop)

    async def _within(self, seconds: float, action: Callable[[], Awaitable[None]]) -> None:
        try:
            await asyncio.wait_for(action(), seconds)
        except TimeoutError:
            self._log.warning("The secure port did not close in time")

    def _reviews(self, stack: AsyncExitStack) -> Reviews:
        """By default the cluster that is scheduled is asked, with the scheduler's own rights."""

        def of(kubeconfig: str) -> Reviews:
            connection = self._connection
            if kubeconfig:
                connection = load_connection(kubeconfig, environment=os.environ)
            client = self._client("reviews", connection)
            stack.push_async_callback(client.close)
            return ClusterReviews(client)

        authentication = of(self._options.authentication_kubeconfig)
        if self._options.authorization_kubeconfig == self._options.authentication_kubeconfig:
            return authentication
        return _SplitReviews(authentication, of(self._options.authorization_kubeconfig))

    def _health(self) -> Health:
        election = Check("leaderElection", self._election_problem)
        electing = self._replica.elector is not None
        shutdown = Check(
            "shutdown", lambda: "process is shutting down" if self._replica.is_stopping else ""
        )
        synced = Check(
            "sched-handler-sync",
            lambda: "" if self._driver.caught_up else "handlers are not fully synchronized",
        )
        ready = (shutdown, synced)
        checks: dict[str, tuple[Check, ...]] = {
            "healthz": (election,) if electing else (PING,),
            "livez": (PING,),
            "readyz": (election, *ready) if electing else ready,
        }
        return Health(checks, self._log, self._options.metric_choice)

    def _election_problem(self) -> str:
        elector = self._replica.elector
        overdue_s = elector.overdue_s if elector is not None else 0.0
        return f"the lease has run out {overdue_s:.0f} s ago" if overdue_s > 0 else ""

    # -- while it runs ----------------------------------------------------------------------

    def _call_later(self, delay_s: float, action: Callable[[], None]) -> None:
        if delay_s <= 0:
            self._loop.call_soon(action)
        else:
            self._loop.call_later(delay_s, action)

    def _on_signals(self) -> None:
        for number, action in (
            (signal.SIGTERM, self._replica.stop),
            (signal.SIGINT, self._replica.stop),
            (signal.SIGHUP, self._reloader.reload),
            (signal.SIGUSR2, self._dump),
        ):
            self._loop.add_signal_handler(number, action)

    def _watch_over(self) -> None:
        if self._options.watch_config and self._options.config:
            FileWatch(self._options.config, self._reloader.reload, self._call_later)
        self._look_back()

    def _look_back(self) -> None:
        if self._log.enabled(4, "live"):
            self._log.info(4, "Where the time goes", report=self._bottlenecks.report().text)
        self._bottlenecks.rotate()
        self._call_later(REPORT_EVERY_S, self._look_back)

    def _caught_up(self) -> None:
        settle_memory()
        self._log.info(
            1,
            "Caches are synced",
            nodes=len(self._driver.informers[NODE]),
            pods=len(self._driver.informers[POD]),
        )

    def _dump(self) -> None:
        # What the informers have, the machine must have been told.
        self._driver.turn()
        informers = self._driver.informers
        found = compare(
            self._machine,
            (node.metadata.name for node in informers[NODE].list()),
            (pod.metadata.uid for pod in informers[POD].list()),
        )
        text = "The cache agrees with the cluster" if found.agrees else "Cache mismatch"
        self._log.info(0, text, problems=found.text)
        self._log.info(
            0, "Dump of cached NodeInfo and scheduling queue", dump=dump(self._machine).text
        )

    def _on_stray_exception(
        self, loop: asyncio.AbstractEventLoop, context: dict[str, object]
    ) -> None:
        """A mistake of ours somewhere: written down, and the rest goes on."""
        self._log.error(str(context.get("message", "")), context.get("exception"))

    def _end(self, code: int) -> None:
        if not self._ended.done():
            self._ended.set_result(code)
