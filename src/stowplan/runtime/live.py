"""`stowplan run`: a scheduler for a Kubernetes cluster, put together and kept running.

Everything it is made of is elsewhere and knows nothing of asyncio: the machine and its driver, the
election, the life from start to end (`runtime.lifecycle`).  Here they get clients, a clock, loops
and signals.  Two threads: this one schedules; the election, the secure port and the guard, which
must go on whatever a decision takes, are on that of `runtime.supervision`.

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
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from random import Random, SystemRandom
from time import perf_counter
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import uuid4

from stowplan._version import __version__
from stowplan.clock import Clock, SteadyClock
from stowplan.cluster.client import KubernetesClient, OnSent
from stowplan.cluster.kubeconfig import Connection, load_connection
from stowplan.cluster.leader_election import ElectionConfig, LeaderElector
from stowplan.config import SchedulerConfig, to_yaml, without_keys
from stowplan.core.attempts import AttemptLog
from stowplan.core.bottlenecks import Bottlenecks
from stowplan.core.debugger import compare, dump
from stowplan.core.machine import Machine
from stowplan.core.profiles import Registry
from stowplan.framework.timing import Recorders
from stowplan.objects.kinds import NODE, POD
from stowplan.objects.pod_groups import GROUP_VERSIONS, GroupVersion
from stowplan.runtime.auth import Access, ClusterReviews, Reviews, User
from stowplan.runtime.decision_log import DecisionLog
from stowplan.runtime.driver import Driver, watched
from stowplan.runtime.event_recorder import EventRecorder
from stowplan.runtime.extender_client import HttpExtenderClient
from stowplan.runtime.health import PING, Check, Health
from stowplan.runtime.heartbeat import Heartbeat
from stowplan.runtime.lifecycle import Election, Replica
from stowplan.runtime.log import Block, Bridge, Log
from stowplan.runtime.memory import settle_memory
from stowplan.runtime.metrics import Metrics
from stowplan.runtime.preflight import (
    Right,
    check_rights,
    needed_rights,
    reach,
    served_groups,
)
from stowplan.runtime.reload import FileWatch, Reloader
from stowplan.runtime.run_options import RunOptions
from stowplan.runtime.supervision import Supervision, leave
from stowplan.runtime.surface import Surface
from stowplan.runtime.upkeep import answer_of, post_to

if TYPE_CHECKING:
    from stowplan.runtime.page_port import Page
    from stowplan.runtime.server import SecureServer

SERVER_DRAIN_S = 5.0
STEP_DOWN_S = 1.5
"""How long giving the lease back may take when the scheduler's thread is not waited for."""
REPORT_EVERY_S = 60.0


@dataclass(frozen=True, slots=True)
class Looking:
    """What the page at /ui/ is made of; see `runtime.page_port`."""

    driver: Driver
    clock: Clock
    bottlenecks: Bottlenecks
    on_scheduler: Callable[[Callable[[], Any]], Awaitable[Any]]
    """Has something done on the scheduler's thread, and awaits what it returns."""
    server: str
    log: Log


MakePage = Callable[[Looking], "Page"]


def run(options: RunOptions, make_page: MakePage | None = None) -> int:
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
    live = Live(
        options,
        config,
        registry,
        connection,
        clock,
        log,
        heartbeat=Heartbeat(),
        make_page=make_page,
    )
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


def _server_class() -> type[SecureServer]:
    from stowplan.runtime.server import SecureServer

    return SecureServer


class Live:
    def __init__(
        self,
        options: RunOptions,
        config: SchedulerConfig,
        registry: Registry,
        connection: Connection,
        clock: Clock,
        log: Log,
        *,
        heartbeat: Heartbeat | None = None,
        make_page: MakePage | None = None,
    ) -> None:
        self._make_page = make_page
        self._heartbeat = heartbeat
        self._options = options
        self._config = config
        self._connection = connection
        self._clock = clock
        self._log = log
        self._random = Random(SystemRandom().randbytes(16))
        self._metrics = Metrics(Random(self._random.random()), options.metric_choice)
        self._bottlenecks = Bottlenecks(perf_counter)
        self._group_version = GROUP_VERSIONS[-1]
        self._machine = self._made_of(config, registry)

    def _made_of(self, config: SchedulerConfig, registry: Registry) -> Machine:
        return Machine(
            config,
            random=self._random,
            registry=registry,
            recorder=Recorders(self._metrics, self._bottlenecks),
            log=AttemptLog(self._metrics, self._bottlenecks, DecisionLog(self._log)),
            unschedulable_max_s=self._options.unschedulable_max_s,
            group_version=self._group_version,
        )

    async def run(self) -> int:
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = self._loop.create_future()
        self._loop.set_exception_handler(self._on_stray_exception)
        self._on_stop: Callable[[], None] = partial(self._end, 0)
        self._replica: Replica | None = None
        supervision = Supervision(
            machine=lambda: self._machine,
            on_stop=lambda: self._on_stop(),
            log=self._log,
            give_up=self._give_up,
            limit_s=self._options.decision_timeout_s,
            heartbeat=self._heartbeat,
        )
        self._upkeep = supervision.upkeep
        self._upkeep.loop.set_exception_handler(self._on_stray_exception)
        with supervision:
            async with AsyncExitStack() as stack:
                return await self._run(stack)

    async def _run(self, stack: AsyncExitStack) -> int:
        checking = asyncio.create_task(self._check())
        if self._options.serving.port:
            # It takes a quarter of the start to load, and meanwhile the API server answers.
            self._upkeep.post(_server_class)
        self._ended.add_done_callback(lambda _: checking.cancel())
        await asyncio.wait({checking})
        if checking.cancelled():
            return await self._ended
        checking.result()
        replica = self._assemble(stack)
        self._on_signals(replica)
        replica.start()
        await self._serve(stack, replica)
        self._watch_over()
        return await self._ended

    async def _check(self) -> None:
        """Whether the cluster can be reached, and lets us work."""
        client = self._client("preflight", self._connection, limited=False)
        try:
            await reach(client, self._options.startup_timeout_s, clock=self._clock, log=self._log)
            if self._machine.groups is not None:
                self._use_groups(await served_groups(client))
            await check_rights(client, self._rights())
        finally:
            await client.close()

    def _rights(self) -> list[Right]:
        election = self._config.leader_election
        lease = (election.resource_namespace, election.resource_name)
        groups = None if self._machine.groups is None else self._group_version
        kinds = [kind for kind, _ in watched(groups)]
        return needed_rights(kinds, lease if election.leader_elect else None)

    def _use_groups(self, version: GroupVersion) -> None:
        """Work with groups in the version that the cluster has, and with the gates it implies."""
        gates = self._options.gates.with_on(*version.implied_gates)
        self._log.info(
            1,
            "Pod groups are watched",
            version=version.api_version,
            gates=sorted(gates.switches()),
        )
        self._group_version = version
        self._options = replace(self._options, gates=gates)
        self._config, registry = self._options.load_all()
        self._machine = self._made_of(self._config, registry)

    # -- putting it together ----------------------------------------------------------------

    def _assemble(self, stack: AsyncExitStack) -> Replica:
        scheduling = self._client("scheduler", self._connection, may_call=lambda: replica.may_write)
        events = self._client("events", self._connection)
        extenders = HttpExtenderClient(os.environ)
        for closing in (scheduling, events, extenders):
            stack.push_async_callback(closing.close)
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
            is_fair=True,
        )
        self._driver.on_handled = self._metrics.handled
        self._driver.on_caught_up = self._caught_up
        self._replica = replica = Replica(
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
            self._options.load_all, self._driver.reconfigure, self._config, self._log
        )
        self._metrics.before_text.append(lambda: self._count(recorder))
        return replica

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
        leases = self._upkeep_client(
            stack, "leader-election", self._connection, timeout_s=max(1.0, renew_deadline_s / 2)
        )
        config = ElectionConfig(
            identity=f"{socket.gethostname()}_{uuid4()}",
            namespace=election.resource_namespace,
            name=election.resource_name,
            lease_duration_s=election.lease_duration.seconds,
            renew_deadline_s=renew_deadline_s,
            retry_period_s=election.retry_period.seconds,
        )
        return Election(
            config,
            leases,
            delay_cache=self._config.delay_cache_until_active,
            call_later=self._upkeep.call_later,
            there=self._upkeep.post,
            back=partial(post_to, self._loop),
        )

    def _client(
        self,
        role: str,
        connection: Connection,
        *,
        timeout_s: float = 30.0,
        limited: bool = True,
        may_call: Callable[[], bool] = lambda: True,
        upkeep: bool = False,
    ) -> KubernetesClient:
        """One for each role, with a limit of its own: none waits for another's backlog.

        With `upkeep` it is for the other thread; what it tells is counted on this one."""
        settings = self._config.client_connection
        told: OnSent = self._metrics.sender(urlsplit(connection.server).netloc)
        return KubernetesClient(
            connection,
            clock=self._clock,
            random=self._random,
            qps=settings.qps if limited else -1.0,
            burst=settings.burst,
            user_agent=f"stowplan/{__version__} ({sys.platform})/{role}",
            call_timeout_s=timeout_s,
            on_sent=(lambda *sent: post_to(self._loop, partial(told, *sent))) if upkeep else told,
            start_timer=self._upkeep.loop.call_later if upkeep else None,
            may_call=may_call,
        )

    def _upkeep_client(
        self, stack: AsyncExitStack, role: str, connection: Connection, timeout_s: float = 30.0
    ) -> KubernetesClient:
        client = self._client(role, connection, timeout_s=timeout_s, upkeep=True)
        stack.push_async_callback(self._upkeep.run, client.close)
        return client

    async def _serve(self, stack: AsyncExitStack, replica: Replica) -> None:
        options = self._options
        if not options.serving.port:
            return
        on_scheduler = partial(answer_of, self._loop)
        server_name = self._connection.server
        looking = Looking(
            self._driver, self._clock, self._bottlenecks, on_scheduler, server_name, self._log
        )
        surface = Surface(
            clock=self._clock,
            log=self._log,
            machine=self._machine,
            metrics=self._metrics,
            bottlenecks=self._bottlenecks,
            health=self._health(replica),
            on_scheduler=on_scheduler,
            is_leading=lambda: replica.is_leading,
            reviews=self._reviews(stack),
            page=None if self._make_page is None else self._make_page(looking),
            gates=options.gates,
            flags=options.flags,
        )
        server = _server_class()(options.serving, surface)
        await self._upkeep.run(server.start)
        stack.push_async_callback(self._within, SERVER_DRAIN_S, server.stop)

    async def _within(
        self, seconds: float, action: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        try:
            await asyncio.wait_for(self._upkeep.run(action), seconds)
        except TimeoutError:
            self._log.warning("The secure port did not close in time")

    def _reviews(self, stack: AsyncExitStack) -> Reviews:
        """By default the cluster that is scheduled is asked, with the scheduler's own rights."""

        def of(kubeconfig: str) -> Reviews:
            connection = self._connection
            if kubeconfig:
                connection = load_connection(kubeconfig, environment=os.environ)
            return ClusterReviews(self._upkeep_client(stack, "reviews", connection))

        authentication = of(self._options.authentication_kubeconfig)
        if self._options.authorization_kubeconfig == self._options.authentication_kubeconfig:
            return authentication
        return _SplitReviews(authentication, of(self._options.authorization_kubeconfig))

    def _health(self, replica: Replica) -> Health:
        election = Check("leaderElection", partial(_election_problem, replica.elector))
        electing = replica.elector is not None
        shutdown = Check(
            "shutdown", lambda: "process is shutting down" if replica.is_stopping else ""
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

    # -- while it runs ----------------------------------------------------------------------

    def _call_later(self, delay_s: float, action: Callable[[], None]) -> None:
        if delay_s <= 0:
            self._loop.call_soon(action)
        else:
            self._loop.call_later(delay_s, action)

    def _on_signals(self, replica: Replica) -> None:
        self._on_stop = replica.stop
        self._loop.add_signal_handler(signal.SIGHUP, self._reloader.reload)
        self._loop.add_signal_handler(signal.SIGUSR2, self._dump)

    def _watch_over(self) -> None:
        if self._options.watch_config and self._options.config:
            FileWatch(self._options.config, self._reloader.reload, self._call_later)
        self._look_back()

    def _look_back(self) -> None:
        if self._log.enabled(4, "live"):
            self._log.info(4, "Where the time goes", report=Block(self._bottlenecks.report().text))
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
        self._log.info(0, text, problems=Block(found.text))
        self._log.info(
            0, "Dump of cached NodeInfo and scheduling queue", dump=Block(dump(self._machine).text)
        )

    def _on_stray_exception(
        self, loop: asyncio.AbstractEventLoop, context: dict[str, object]
    ) -> None:
        """A mistake of ours somewhere: written down, and the rest goes on."""
        self._log.error(str(context.get("message", "")), context.get("exception"))

    def _end(self, code: int) -> None:
        if not self._ended.done():
            self._ended.set_result(code)

    def _give_up(self, code: int) -> None:
        """On the other thread, and without this one: the lease first, so that others may lead."""
        end = partial(leave, code)
        replica = self._replica
        if replica is None or replica.elector is None:
            end()
            return
        # Should it come back meanwhile, it sends nothing more.
        post_to(self._loop, replica.halt)
        self._upkeep.call_later(STEP_DOWN_S, end)
        replica.elector.stop(end)


def _election_problem(elector: LeaderElector | None) -> str:
    overdue_s = elector.overdue_s if elector is not None else 0.0
    return f"the lease has run out {overdue_s:.0f} s ago" if overdue_s > 0 else ""
