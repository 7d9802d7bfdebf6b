"""How long a scheduler takes to start on a cluster that is running, and what memory it needs.

Not a workload of scheduler_perf, whose scheduler is there before the pods.  Nodes and running pods
are put into the store, then the scheduler starts, lists everything, and gets one pod to bind; then
a thousand more.  `stowplan bench StartUp` runs it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from random import Random

import msgspec

from stowplan.apiserver.store import Store
from stowplan.bench.catalogue import TEMPLATES
from stowplan.bench.engine import RealTime
from stowplan.bench.measure import AttemptTimes, Collection, Meter, describe
from stowplan.bench.memory_use import peak_rss_mib, reset_peak, rss_mib
from stowplan.bench.results import Result
from stowplan.bench.run import Options, add_yardstick, connect, spent
from stowplan.bench.stage import Stage, Steps
from stowplan.bench.templates import Stencil
from stowplan.bench.yardstick import Yardstick
from stowplan.clock import Clock
from stowplan.config import load_config
from stowplan.errors import InputError
from stowplan.objects.api import Create
from stowplan.objects.base import ObjectMeta
from stowplan.objects.kinds import NODE, POD
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod, PodStatus
from stowplan.runtime.memory import tune_collector

CASE = "StartUp"
SIZES = ("5000Nodes_50000Pods", "5000Nodes_150000Pods", "100000Nodes_1000000Pods")
MEASURED = 1000

_SIZE = re.compile(r"(\d+)Nodes_(\d+)Pods")
_NAMESPACE = "default"


def names() -> list[str]:
    return [f"{CASE}/{size}" for size in SIZES]


def is_start(name: str) -> bool:
    return name.partition("/")[0] == CASE


def parse_size(name: str) -> tuple[int, int]:
    """
    >>> parse_size("StartUp/50Nodes_100Pods")
    (50, 100)
    """
    found = _SIZE.fullmatch(name.partition("/")[2] or SIZES[0])
    if found is None:
        raise InputError(f"no workload {name!r}", hint=f"{CASE} runs as {', '.join(names())}")
    return int(found[1]), int(found[2])


def run_start(
    name: str,
    options: Options,
    *,
    nodes: int | None = None,
    init_pods: int | None = None,
    pods: int | None = None,
) -> Result:
    node_count, pod_count = parse_size(name)
    node_count = nodes or node_count
    pod_count = pod_count if init_pods is None else init_pods
    reset_peak()
    tune_collector()
    engine = RealTime()
    store = Store(engine.clock, seed=options.seed)
    filled = _fill(store, engine.clock, node_count, pod_count)
    before_mib = rss_mib()
    attempts = AttemptTimes()
    scheduler = connect(store, engine, load_config(None), attempts, options.seed)
    stage = Stage(store, engine.clock, engine.call_later, Random(options.seed))
    stage.node_count = node_count
    stage.at_rest = scheduler.at_rest
    meter = Meter(stage, attempts, options.sampler, Yardstick() if options.yardstick else None)
    times: dict[str, float] = {}
    outcome: list[Exception | None] = []

    def note_first(pods: Sequence[Pod]) -> None:
        if "bound" not in times and any(pod.metadata.generate_name for pod in pods):
            times["bound"], times["bound_cpu"] = engine.clock.now(), time.process_time()

    times["started"], times["started_cpu"] = engine.clock.now(), time.process_time()
    scheduler.driver.start()
    stage.tally.on_placed.append(note_first)
    stage.open()
    meter.announce(f"starting with {pod_count:,} pods", 0)
    stage.play(_measure(stage, meter, filled, pods or MEASURED, times), outcome.append)
    engine.run(lambda: bool(outcome))
    if outcome[0] is not None:
        raise outcome[0]
    result: Result = {"workload": f"{CASE}/{node_count}Nodes_{pod_count}Pods"}
    result |= describe(meter.done[-1], attempts)
    result["peak_rss_mib"] = peak_rss_mib()
    result["phases_us"], result["plugins_us"] = spent(options.sampler, meter.done[-1])
    result["first_bind_s"] = round(times["bound"] - times["started"], 3)
    result["first_bind_cpu_s"] = round(times["bound_cpu"] - times["started_cpu"], 3)
    result["store_rss_mib"] = before_mib
    add_yardstick(result, meter.yardstick)
    return result


def _measure(
    stage: Stage, meter: Meter, pod: Pod, count: int, times: dict[str, float]
) -> Steps[None]:
    yield from stage.wait(lambda: "bound" in times, list)
    namespaces = frozenset([_NAMESPACE])
    meter.start(Collection("started", namespaces))
    wanted = stage.tally.placed_count + count
    yield from stage.send([Create(POD, _NAMESPACE, pod)] * count)
    yield from stage.wait(lambda: stage.tally.placed_count >= wanted and stage.at_rest(), list)
    meter.stop()


def _fill(store: Store, clock: Clock, node_count: int, pod_count: int) -> Pod:
    """Nodes with pods running on them, and one pod that waits; answers with more of its sort."""
    node = Stencil(TEMPLATES / "base-node.yaml").struct(0, 1)
    assert isinstance(node, Node)
    # Room for what is there, and for what is measured.
    capacity = {"cpu": 32, "memory": "256Gi", "pods": 256}
    pod = Stencil(TEMPLATES / "base-pod.yaml").struct(0, 1)
    assert isinstance(pod, Pod)
    names = [f"node-{number}" for number in range(node_count)]
    with store.batch():
        for name in names:
            labels = {"kubernetes.io/hostname": name}
            status = msgspec.structs.replace(node.status, capacity=capacity, allocatable=capacity)
            meta = ObjectMeta(name=name, labels=labels)
            store.execute(Create(NODE, "", Node(metadata=meta, status=status)))
    admitted = store.execute(Create(POD, _NAMESPACE, pod))
    assert isinstance(admitted, Pod)
    running = PodStatus(phase="Running")
    with store.batch():
        for number in range(pod_count):
            meta = ObjectMeta(
                name=f"running-{number}",
                namespace=_NAMESPACE,
                uid=f"uid-{number}",
                labels={"app": f"app-{number % 1000}"},
                creation_timestamp=admitted.metadata.creation_timestamp,
            )
            spec = msgspec.structs.replace(admitted.spec, node_name=names[number % node_count])
            store.put(Pod(api_version="v1", kind="Pod", metadata=meta, spec=spec, status=running))
    return pod
