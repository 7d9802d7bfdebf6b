"""The same workloads on a real cluster: any API server that a kubeconfig leads to.

Our scheduler runs in this process, under a name of its own so that the cluster's scheduler leaves
the pods alone, and talks to the API server over HTTP.  Nodes and pods are real objects there, for
machines that do not exist: take a test cluster (an API server and etcd are enough).  What was
created is removed in the end, also when the run fails or is interrupted.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from stowplan.bench.alone import chosen_workload
from stowplan.bench.engine import LoopTime
from stowplan.bench.language import Workload
from stowplan.bench.measure import AttemptTimes, Meter
from stowplan.bench.memory_use import peak_rss_mib, reset_peak
from stowplan.bench.results import Result
from stowplan.bench.run import Options, Performance, Scheduler, connect, scheduler_config
from stowplan.bench.run import show_progress as show
from stowplan.bench.simulating import is_simulation
from stowplan.bench.stage import POLL_S, WORKERS_MAX, Stage, Steps
from stowplan.bench.start import is_start
from stowplan.cluster.client import KubernetesClient
from stowplan.cluster.kubeconfig import Connection, load_connection
from stowplan.cluster.port import Answer
from stowplan.config import API_VERSION, KIND
from stowplan.errors import ApiError, InputError
from stowplan.objects.api import Delete, Request, Update
from stowplan.objects.kinds import NAMESPACE, NODE, POD
from stowplan.printable import logger
from stowplan.runtime.memory import tune_collector

SCHEDULER = "stowplan-bench"
QPS = 5000.0
"""As upstream's harness has it, for scheduler and creators alike."""
BURST = 5000

PROFILE: dict[str, Any] = {
    "apiVersion": API_VERSION,
    "kind": KIND,
    "profiles": [{"schedulerName": SCHEDULER}],
}


def perform_on_cluster(request: dict[str, Any], options: Options) -> Result:
    if is_start(request["workload"]) or is_simulation(request["workload"]):
        raise InputError(f"{request['workload']} runs on the embedded cluster only")
    workload = chosen_workload(request)
    connection = load_connection(environment=os.environ)
    return asyncio.run(_perform(workload, connection, options))


async def _perform(workload: Workload, connection: Connection, options: Options) -> Result:
    config, ignored = scheduler_config(workload, PROFILE)
    engine = LoopTime()
    reset_peak()
    tune_collector()
    random = Random(options.seed)
    clients = [
        KubernetesClient(connection, clock=engine.clock, random=random, qps=QPS, burst=BURST)
        for _ in range(2)
    ]
    attempts = AttemptTimes()
    scheduler = connect(clients[0], engine, config, attempts, options.seed)
    stage = Stage(clients[1], engine.clock, engine.call_later, random, whole_objects=True)
    stage.scheduler_name = SCHEDULER
    meter = Meter(stage, attempts, options.sampler)
    performance = Performance(workload, stage, scheduler, meter)
    # Events come after bindings, and take an API server's time long after the last one.
    stage.at_rest = scheduler.confirmed
    show(engine, meter, performance, options)
    try:
        try:
            with performance.watching_pauses():
                performance.start()
                await engine.go_on(lambda: performance.finished)
        finally:
            await _clean_up(stage, scheduler, engine, options)
    finally:
        for client in clients:
            await client.close()
    result = performance.result(options.sampler)
    result["peak_rss_mib"] = peak_rss_mib()
    if ignored:
        result["gates_ignored"] = ignored
    return result


async def _clean_up(stage: Stage, scheduler: Scheduler, engine: LoopTime, options: Options) -> None:
    """Nobody else does anything by then, nor is anything under way that could fail for it."""
    stage.abandoned = True
    scheduler.driver.close()
    scheduler.driver.recorder.forget_pending()
    await engine.go_on(lambda: not scheduler.driver.recorder.pending)
    outcome: list[Exception | None] = []
    cleaner = replace(stage, abandoned=False)
    cleaner.play(Clearing(cleaner, options.progress).steps(), outcome.append)
    await engine.go_on(lambda: bool(outcome))


# -- clearing up ------------------------------------------------------------------------------
# What a workload created is taken away from a real cluster, as far as the cluster lets it.


_NOT_FOUND = 404

log = logger(__name__)

Progress = Callable[[str, int, int], None]


class Clearing:
    def __init__(self, stage: Stage, progress: Progress | None) -> None:
        self._stage = stage
        self._progress = progress
        self._problems: list[ApiError] = []

    def steps(self) -> Steps[None]:
        """Namespaces, each with its pods; then the rest, nodes last, when nothing is on them.

        A namespace that is going takes no more pods, should some be on their way.  Its pods are
        removed one by one: without a kubelet bound ones would stay.
        """
        created = self._stage.created
        for name in [name for kind, name in created if kind is NAMESPACE]:
            yield from self._send([Delete(NAMESPACE, "", name)])
            pods = yield from self._pods_of(name)
            yield from self._send([Delete(POD, name, pod, grace_period_seconds=0) for pod in pods])
            yield from self._send([_finalized(name)])
        rest = [(kind, name) for kind, name in created if kind is not NAMESPACE]
        rest.sort(key=lambda thing: thing[0] is NODE)
        yield from self._send([Delete(kind, "", name) for kind, name in rest])
        if self._problems:
            log.warning(
                "%d things that the workload created could not be removed; of the first: %s",
                len(self._problems),
                self._problems[0],
            )

    def _pods_of(self, namespace: str) -> Steps[list[str]]:
        try:
            pods = yield from self._stage.list_pods(namespace, {})
        except ApiError as problem:
            self._problems.append(problem)
            return []
        return [pod.name for pod in pods]

    def _send(self, requests: Sequence[Request]) -> Steps[None]:
        """Some at a time; whoever is refused does not keep the others."""
        for start in range(0, len(requests), WORKERS_MAX):
            if self._progress is not None:
                self._progress(f"removing what was created, {len(requests) - start:,} left", 0, 0)
            answers: list[Answer] = []
            some = requests[start : start + WORKERS_MAX]
            self._stage.cluster.call(some, partial(_note, answers))
            while len(answers) < len(some):
                yield POLL_S
            self._problems += [
                answer
                for answer in answers
                if isinstance(answer, ApiError) and answer.code != _NOT_FOUND
            ]


def _note(answers: list[Answer], first: int, told: Sequence[Answer]) -> None:
    answers += told


def _finalized(namespace: str) -> Update:
    """It is empty; where no controller runs nobody else would let it go."""
    body = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": namespace},
        "spec": {"finalizers": []},
    }
    return Update(NAMESPACE, "", namespace, body, "finalize")
