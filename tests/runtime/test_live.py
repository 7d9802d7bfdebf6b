"""`stowplan run` put together: against the REST API of a cluster in this process, over loopback."""

from __future__ import annotations

import asyncio
import io
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import yaml

from stowplan.apiserver.grouping import GroupedStore
from stowplan.apiserver.http import Api, HttpServer
from stowplan.apiserver.store import Store
from stowplan.clock import RealClock
from stowplan.cluster.kubeconfig import Connection
from stowplan.cluster.port import ListOptions, WatchHandlers
from stowplan.config import Duration
from stowplan.errors import Unavailable
from stowplan.objects.coordination import Event, Lease
from stowplan.objects.kinds import EVENT, LEASE, POD
from stowplan.objects.pod import Pod
from stowplan.plugins import IN_TREE
from stowplan.runtime import server
from stowplan.runtime.lifecycle import Replica
from stowplan.runtime.live import Live
from stowplan.runtime.log import Log, Verbosity
from stowplan.runtime.metric_choice import read_choice
from stowplan.runtime.run_options import RunOptions
from stowplan.runtime.surface import ServingOptions, Surface
from tests.builders import node, pod
from tests.cluster.loopback import answers, loopback
from tests.config.builders import configuration
from tests.runtime.prometheus import parse

NO_SERVER = ServingOptions(port=0)


class Served:
    """A cluster behind HTTP, and schedulers that run on it."""

    def __init__(self, store: Store, url: str) -> None:
        self.store = store
        self.url = url
        self.out = io.StringIO()
        self._changed = asyncio.Event()
        handlers = WatchHandlers(lambda events: self._changed.set(), lambda error: None)
        for kind in (POD, LEASE, EVENT):
            version = store.select(kind, ListOptions())[1]
            store.watch(kind, ListOptions(), str(version), handlers)

    def start(self, **options: Any) -> asyncio.Task[int]:
        clock = RealClock()
        run = RunOptions(**{"serving": NO_SERVER, "startup_timeout_s": 5.0, **options})
        log = Log(clock, verbosity=Verbosity(2), stream=self.out)
        made = Live(run, run.load(), IN_TREE, Connection(server=self.url), clock, log)
        return asyncio.create_task(made.run())

    async def until(self, condition: Callable[[], object]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    def bound(self) -> dict[str, str]:
        pods = [thing for thing, _ in self.store.select(POD, ListOptions())[0]]
        return {
            thing.metadata.name: thing.spec.node_name
            for thing in pods
            if isinstance(thing, Pod) and thing.spec.node_name
        }

    def lease_holder(self) -> str | None:
        lease = self.store.read(LEASE, "kube-system", "kube-scheduler")[0]
        assert isinstance(lease, Lease)
        return lease.spec.holder_identity


@asynccontextmanager
async def served(*objects: Any) -> AsyncIterator[Served]:
    loop = asyncio.get_running_loop()
    clock = RealClock()
    store = Store(clock, create_namespaces=True)
    for thing in objects:
        store.put(thing)
    api = Api(GroupedStore(store, loop.call_soon), clock=clock, random=Random(0))
    server = HttpServer(api, host="127.0.0.1", port=0)
    await server.start()
    try:
        yield Served(store, server.url)
    finally:
        await server.stop()


async def test_pods_are_bound_and_sigterm_ends_it_in_good_order() -> None:
    async with served(node("n"), *(pod(f"p{i}") for i in range(20))) as cluster:
        running = cluster.start()
        await cluster.until(lambda: len(cluster.bound()) == 20)
        cluster.store.put(pod("late"))
        await cluster.until(lambda: "late" in cluster.bound())

        signal.raise_signal(signal.SIGTERM)

        assert await running == 0
        assert cluster.lease_holder() == ""
        events = [thing for thing, _ in cluster.store.select(EVENT, ListOptions())[0]]
        scheduled = [e for e in events if isinstance(e, Event) and e.reason == "Scheduled"]
        assert len(scheduled) == 21
    assert '"Successfully bound pod to node" pod="default/late" node="n"' in cluster.out.getvalue()


async def test_sighup_reads_the_configuration_again_and_sigusr2_writes_down_what_is(
    tmp_path: Path,
) -> None:
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    config = tmp_path / "scheduler.yaml"
    config.write_text(head)
    async with served(node("n")) as cluster:
        running = cluster.start(config=str(config))
        cluster.store.put(pod("other", spec={"schedulerName": "mine"}))
        cluster.store.put(pod("p"))
        await cluster.until(lambda: "p" in cluster.bound())
        assert "other" not in cluster.bound()

        config.write_text(f"{head}profiles: [{{schedulerName: mine}}]\n")
        signal.raise_signal(signal.SIGHUP)
        await cluster.until(lambda: "other" in cluster.bound())

        config.write_text(f"{head}nonsense: 1\n")
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGUSR2)
        cluster.store.put(pod("more", spec={"schedulerName": "mine"}))
        await cluster.until(lambda: "more" in cluster.bound())
        signal.raise_signal(signal.SIGTERM)
        assert await running == 0
    text = cluster.out.getvalue()
    assert '"Configuration reloaded"' in text
    assert "The new configuration is refused; the old one goes on" in text
    assert "Dump of cached NodeInfo" in text
    assert "The cache agrees with the cluster" in text


async def test_a_second_signal_ends_it_at_once() -> None:
    async with served(node("n"), pod("p")) as cluster:
        running = cluster.start()
        await cluster.until(lambda: "p" in cluster.bound())
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)

        assert await running == 1


async def test_a_lease_that_is_taken_away_ends_it_with_1() -> None:
    async with served(node("n"), pod("p")) as cluster:
        periods = {"lease_duration": "3s", "renew_deadline": "2s", "retry_period": "100ms"}
        election = {name: Duration.parse(text) for name, text in periods.items()}
        running = cluster.start(leader_election=election)
        await cluster.until(lambda: "p" in cluster.bound())
        lease = cluster.store.read(LEASE, "kube-system", "kube-scheduler")[0]
        assert isinstance(lease, Lease)
        stolen = msgspec.structs.replace(lease.spec, holder_identity="somebody else")
        cluster.store.put(msgspec.structs.replace(lease, spec=stolen))

        assert await running == 1
    assert "Leaderelection lost" in cluster.out.getvalue()


async def test_before_each_write_it_is_asked_whether_the_lease_still_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Replica] = []

    def may_write(replica: Replica) -> bool:
        asked.append(replica)
        return True

    monkeypatch.setattr(Replica, "may_write", property(may_write))
    async with served(node("n"), *(pod(f"p{i}") for i in range(5))) as cluster:
        running = cluster.start()
        await cluster.until(lambda: len(cluster.bound()) == 5)
        signal.raise_signal(signal.SIGTERM)
        assert await running == 0
    assert len(asked) >= 5


async def test_without_election_there_is_no_lease() -> None:
    async with served(node("n"), pod("p")) as cluster:
        running = cluster.start(leader_election={"leader_elect": False})
        await cluster.until(lambda: "p" in cluster.bound())
        assert not cluster.store.select(LEASE, ListOptions())[0]
        signal.raise_signal(signal.SIGTERM)

        assert await running == 0


class NoPort:
    """In place of the secure port: what it would show, without a socket."""

    shown: Surface

    def __init__(self, options: ServingOptions, surface: Surface) -> None:
        NoPort.shown = surface

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


async def test_flags_about_metrics_reach_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SecureServer", NoPort)
    names = ["scheduler_goroutines", "kubernetes_healthcheck"]
    async with served(node("n"), pod("p")) as cluster:
        running = cluster.start(serving=ServingOptions(), metric_choice=read_choice(disabled=names))
        await cluster.until(lambda: "p" in cluster.bound())
        surface = NoPort.shown
        surface.health.answer("/livez", verbose=False, exclude=())
        metrics = parse(surface.metrics.text(surface.machine))
        checks = parse(surface.health.slis())
        signal.raise_signal(signal.SIGTERM)
        assert await running == 0

    assert metrics["disabled_metrics_total"].value() == 2
    assert "scheduler_goroutines" not in metrics
    assert checks.keys() == {"kubernetes_healthchecks_total"}


async def test_extenders_are_asked_through_the_proxy_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster is on this machine, and so reached without one."""
    extender = {"urlPrefix": "http://extender.example.com", "filterVerb": "filter"}
    config = tmp_path / "scheduler.yaml"
    fields = {"extenders": [{**extender, "nodeCacheCapable": True}]}
    config.write_text(yaml.safe_dump(configuration(**fields)))
    async with loopback(answers({"NodeNames": ["n"]})) as proxy, served(node("n")) as cluster:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        running = cluster.start(config=str(config))
        cluster.store.put(pod("p"))
        await cluster.until(lambda: "p" in cluster.bound())
        signal.raise_signal(signal.SIGTERM)
        assert await running == 0

    assert {seen.target for seen in proxy.seen} == {"http://extender.example.com/filter"}


async def test_a_server_that_is_not_there_is_one_line() -> None:
    async with served() as cluster:
        pass
    running = cluster.start(startup_timeout_s=0.0)

    with pytest.raises(Unavailable, match=f"{cluster.url} cannot be reached"):
        await running


async def test_sigterm_ends_the_waiting_for_a_server() -> None:
    async with served() as cluster:
        pass
    running = cluster.start(startup_timeout_s=3600.0)
    # Handlers are there from the first turn on.
    await asyncio.sleep(0)
    signal.raise_signal(signal.SIGTERM)

    assert await running == 0
