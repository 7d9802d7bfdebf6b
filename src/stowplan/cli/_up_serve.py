"""`stowplan up` at work: open the data, listen, start the cluster, wait for a signal, stop."""

from __future__ import annotations

import asyncio
import os
import resource
import secrets
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from time import perf_counter

from stowplan.apiserver.grouping import GroupedStore
from stowplan.apiserver.http import Api, Authenticator, HttpServer
from stowplan.apiserver.http.auth import User
from stowplan.apiserver.http.documents import health
from stowplan.apiserver.http.stand_in import StandIn
from stowplan.apiserver.journal import SqliteJournal
from stowplan.apiserver.journal_salvage import salvage
from stowplan.apiserver.simulated_nodes import read_nodes
from stowplan.apiserver.store import Store
from stowplan.apiserver.watches import Seen
from stowplan.cli._output import count_of, note, say
from stowplan.cli._ui_serve import show_address
from stowplan.cli._up_kubeconfig import check_replaceable, kubeconfig, write_kubeconfig
from stowplan.cli._up_tls import key_pair, server_context, server_names
from stowplan.clock import LoopTimers, RealClock
from stowplan.cluster.port import ListOptions
from stowplan.config import DEFAULT_GATES, FeatureGates, load_config
from stowplan.core.attempts import AttemptLog
from stowplan.core.bottlenecks import Bottlenecks
from stowplan.core.profiles import check_config
from stowplan.embedded import EmbeddedCluster, Parts, Scheduling
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import (
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    NODE,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    REPLICA_SET,
    STATEFUL_SET,
    Kind,
)
from stowplan.objects.pod import Pod
from stowplan.printable import printable
from stowplan.runtime.decision_log import DecisionLog
from stowplan.runtime.extender_client import HttpExtenderClient
from stowplan.runtime.guard import BEAT_S
from stowplan.runtime.heartbeat import Heartbeat
from stowplan.runtime.log import Bridge, Log
from stowplan.runtime.plugins_path import load_registry
from stowplan.runtime.supervision import Supervision
from stowplan.runtime.upkeep import post_to
from stowplan.web import Guard, Page, Running
from stowplan.world.cluster import Cluster

STOP_MAX_S = 5.0
"""For decisions on their way when the process is asked to stop."""
STOP_LOOK_S = 0.01
PAGE_NOTE = "The cluster of `stowplan up`, as it runs; only forks are changed here."
OPEN_FILES = 10_000


@dataclass(frozen=True, slots=True)
class Settings:
    config: Path | None
    """Of the scheduler."""
    schedules: bool
    workers: bool
    """Whether there are controllers and a kubelet."""
    host: str
    server_names: tuple[str, ...]
    """Under which clients reach it, beside those that it knows by itself."""
    port: int
    nodes: int | None
    """None: some, if there are none and somebody works on them."""
    gates: FeatureGates = DEFAULT_GATES
    gpus: int = 0
    """Simulated, on each of these nodes."""
    nodes_file: Path | None = None
    plugin_paths: tuple[str, ...] = ()
    verbose: bool = False
    """Whether changes are told as they happen, and tracebacks of plugins that fail."""
    data: Path | None = None
    salvage: bool = False
    """Whether to go on with what is intact of data that is damaged."""
    write_kubeconfig: Path | None = None
    opens: bool = False
    """Whether the page is opened in a browser."""
    users_by_token: Mapping[str, User] = field(default_factory=dict, repr=False)


async def serve(settings: Settings) -> None:
    """Returns when a signal asks for it."""
    if settings.write_kubeconfig is not None:
        check_replaceable(settings.write_kubeconfig)
    clock = RealClock()
    log = Log(clock)
    Bridge(log).install()
    _allow_connections()
    seed = secrets.randbits(32)
    extenders = HttpExtenderClient(os.environ)
    scheduling = _scheduling(settings, extenders, log) if settings.schedules else None
    nodes = [] if settings.nodes_file is None else read_nodes(settings.nodes_file)
    if settings.data is not None and settings.salvage:
        salvage(settings.data, seed=seed)
    journal = None if settings.data is None else SqliteJournal(settings.data, seed=seed)
    try:
        loop = asyncio.get_running_loop()
        store = Store(clock, seed=seed, journal=journal, gates=settings.gates.switches())
        grouped = GroupedStore(store, loop.call_soon)
        cluster = EmbeddedCluster(
            grouped.store,
            Parts(scheduling, controllers=settings.workers, kubelet=settings.workers),
            clock=clock,
            timers=LoopTimers(clock, loop.call_later),
            random=Random(seed),
            port=grouped,
        )
        asked_to_stop = asyncio.Event()
        supervision = Supervision(
            machine=lambda: cluster.scheduler.machine if cluster.scheduler is not None else None,
            on_stop=asked_to_stop.set,
            log=log,
            # Whoever asks for health is to be answered within a second.
            ask_every_s=BEAT_S,
            heartbeat=Heartbeat(),
        )
        with supervision:
            _add_nodes(cluster, settings)
            cluster.furnish(nodes)
            if settings.verbose:
                tell_changes(grouped.store, say)
            await _serve(settings, cluster, grouped, clock, supervision, asked_to_stop, log)
    finally:
        await extenders.close()
        if journal is not None:
            journal.close()


def _allow_connections() -> None:
    """Every watch is an open file, and many systems begin with a thousand."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _scheduling(settings: Settings, extenders: HttpExtenderClient, log: Log) -> Scheduling:
    registry = load_registry(settings.plugin_paths)
    config = load_config(settings.config, gates=settings.gates)
    check_config(config, random=Random(0), registry=registry)
    watching = DecisionLog(log, with_traces=settings.verbose)
    times = Bottlenecks(perf_counter)
    return Scheduling(config, registry, extenders, log=AttemptLog(watching), times=times)


async def _serve(
    settings: Settings,
    cluster: EmbeddedCluster,
    grouped: GroupedStore,
    clock: RealClock,
    supervision: Supervision,
    asked_to_stop: asyncio.Event,
    log: Log,
) -> None:
    authenticator = Authenticator(settings.users_by_token, now=clock.now)
    # kubectl sends a token over TLS only, and it is right.
    pair, names = None, list(settings.server_names)
    if settings.users_by_token:
        names = server_names(settings.host, settings.server_names)
        pair = key_pair(settings.host, settings.data, clock.now(), settings.server_names)
    admit = authenticator.authenticate if authenticator.required else None
    guard = Guard(admit=admit, names=names)
    page = _page(cluster, guard, clock, log) if settings.schedules else None
    api = Api(
        grouped,
        clock=clock,
        random=Random(),
        authenticator=authenticator,
        is_ready=lambda: cluster.ready,
        beside={} if page is None else {"ui": page.handle},
    )
    context = None if pair is None else server_context(pair)
    server = HttpServer(api, host=settings.host, port=settings.port, ssl_context=context)
    await server.start()
    stand_in = StandIn(
        server.sockets(),
        partial(health, is_ready=lambda: cluster.ready),
        partial(_hand_over, asyncio.get_running_loop(), server),
        context,
    )
    supervision.on_beat.append(lambda: stand_in.look(supervision.guard.silent_s))
    try:
        cluster.start()
        if settings.write_kubeconfig is not None:
            token = next(iter(settings.users_by_token), "")
            ca = b"" if pair is None else pair.cert
            write_kubeconfig(settings.write_kubeconfig, kubeconfig(server.url, ca=ca, token=token))
        _greet(settings, server.url)
        if page is not None:
            await page.start()
            show_address(f"{server.url}/ui/{page.address_suffix}", opens=settings.opens)
        say("Ctrl-C ends it.")
        await asked_to_stop.wait()
        await _stop(cluster)
    finally:
        if page is not None:
            await page.close()
        cluster.close()
        supervision.on_beat.clear()
        supervision.upkeep.post(stand_in.close)
        await server.stop()


def _page(cluster: EmbeddedCluster, guard: Guard, clock: RealClock, log: Log) -> Page:
    """The page at `/ui/`; made before the cluster starts, so that it hears of every decision."""
    look = Cluster.attached(cluster)
    store = cluster.store
    source = Running(look, "stowplan up", PAGE_NOTE, lambda: int(store.resource_version))
    source.lines = log.keep()
    return Page(source, guard, now=clock.now)


def _add_nodes(cluster: EmbeddedCluster, settings: Settings) -> None:
    wanted = settings.nodes
    none = not settings.workers or settings.nodes_file is not None
    cluster.add_nodes(0 if wanted is None and none else wanted, settings.gpus)
    stored = len(cluster.store.select(NODE, ListOptions())[0])
    if wanted is not None and stored > wanted:
        note(
            f"{settings.data} has {count_of(stored, 'node')}, more than --nodes {wanted}; "
            "they all stay",
            hint="`kubectl delete node NAME` takes one away",
        )


def _hand_over(
    loop: asyncio.AbstractEventLoop, server: HttpServer, connection: socket.socket
) -> None:
    post_to(loop, partial(server.adopt, connection))


async def _stop(cluster: EmbeddedCluster) -> None:
    cluster.stop()
    for _ in range(round(STOP_MAX_S / STOP_LOOK_S)):
        if not cluster.busy:
            break
        await asyncio.sleep(STOP_LOOK_S)


def _greet(settings: Settings, url: str) -> None:
    if not settings.workers:
        what = "the API alone"
    elif not settings.schedules:
        what = "a cluster without a scheduler"
    else:
        what = "a cluster"
    where = f"kept in {settings.data}" if settings.data is not None else "in memory"
    say(f"{what}, {where}, at {url}")
    for line in _directions(settings, url):
        say(f"  {line}")


def _directions(settings: Settings, url: str) -> list[str]:
    if settings.write_kubeconfig is not None:
        return [f"export KUBECONFIG={settings.write_kubeconfig.absolute()}", "kubectl get nodes"]
    if settings.users_by_token:
        return [
            f"kubectl --server {url} --token TOKEN --insecure-skip-tls-verify get nodes",
            "(--write-kubeconfig FILE writes the certificate too, so that it can be verified)",
        ]
    return [f"kubectl --server {url} get nodes"]


# -- a line for each change that people watch for, as it happens (-v) -------------------------


TOLD = (
    NODE, DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET, JOB, PERSISTENT_VOLUME_CLAIM, POD,
)  # fmt: skip


def tell_changes(store: Store, say: Callable[[str], None]) -> None:
    """Say every change from now on; the watches end with the store."""
    for kind in TOLD:
        last: dict[str, str] = {}
        store.follow(
            kind,
            ListOptions(),
            store.resource_version,
            partial(_tell, kind, last, say),
            lambda _: None,
            bookmarks=False,
        )


def _tell(kind: Kind, last: dict[str, str], say: Callable[[str], None], seen: list[Seen]) -> None:
    for event, _ in seen:
        thing = event.object
        key = printable(f"{thing.namespace}/{thing.name}" if thing.namespace else thing.name)
        state = "deleted" if event.type == "DELETED" else _state(thing)
        # Most writes change nothing that anybody looks for.
        if last.get(key) != state or event.type != "MODIFIED":
            say(f"  {kind.name} {key}: {'created' if event.type == 'ADDED' else state}")
        last[key] = state
        if event.type == "DELETED":
            del last[key]


def _state(thing: KubeObject) -> str:
    if thing.metadata.deletion_timestamp is not None:
        return "is being deleted"
    if isinstance(thing, Pod):
        node = f" on {printable(thing.spec.node_name)}" if thing.spec.node_name else ""
        return f"{thing.status.phase}{node}"
    phase = getattr(getattr(thing, "status", None), "phase", "")
    return phase or "changed"
