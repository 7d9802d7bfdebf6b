"""How fast traces run through the whole scheduler in virtual time: what `stowplan simulate` costs.

Not a workload of scheduler_perf, whose pods come as fast as they can.  The trace that is shipped as
it was recorded, ten times over, a month made up from it, and its pods arriving until more is asked
for than there is; default plugins.  Measuring what came of a run is not in it, reading and making
the trace neither.  `stowplan bench Simulation` runs it.

`stowplan bench Uneven` holds pods and nodes of real sizes against as many of one size.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stowplan.bench.memory_use import peak_rss_mib, reset_peak
from stowplan.bench.results import Result
from stowplan.bench.run import Options, add_yardstick
from stowplan.bench.yardstick import Yardstick
from stowplan.errors import InputError
from stowplan.sim.files import read_trace
from stowplan.sim.run import run_one
from stowplan.sim.settings import Settings
from stowplan.sim.synthesise import synthesise
from stowplan.sim.trace import Trace
from stowplan.sim.transform import scale
from stowplan.world.garbage import garbage_stays
from stowplan.world.setup import make_setup
from stowplan.world.stream import offers_of

CASE, UNEVEN = "Simulation", "Uneven"
ARRIVALS = 10_866
"""As many as come with the paper's first seed (examples/fgd)."""
PODS_PER_SECOND = 64
ROUNDS = 3
GPU = "example.com/gpu-milli"
EQUAL_NODE = {"cpu": "96", "memory": "384Gi", GPU: "8000", "pods": "1000"}
EQUAL_POD = {"cpu": "6", "memory": "20Gi", GPU: "500"}
GLANCE_EVERY_S = 0.04
"""Of processor time: so often the yardstick is looked at."""


def _month() -> Trace:
    return synthesise(read_trace("openb"), nodes=10_000, pods=1_000_000, days=30, seed=1)


def coming(trace: Trace, pods: NDArray[np.int64], nodes: NDArray[np.int64]) -> Trace:
    """These pods of a trace on these of its nodes: some come every second, and none goes."""
    return replace(
        trace,
        pod_template=trace.pod_template[pods],
        pod_names=None,
        pod_arrival_s=(np.arange(len(pods)) // PODS_PER_SECOND).astype(np.float64),
        pod_run_s=np.full(len(pods), np.inf),
        pod_end_s=np.full(len(pods), np.nan),
        pod_outcome=np.zeros(len(pods), np.uint8),
        pod_node=None,
        node_template=trace.node_template[nodes],
        node_names=tuple(trace.node_names[n] for n in nodes.tolist()),
        node_joins_s=np.zeros(len(nodes)),
        node_leaves_s=np.full(len(nodes), np.inf),
    )


def _arrivals() -> Trace:
    """All pods in an order by chance, then some of them again, on the nodes with GPUs."""
    trace, draws = read_trace("openb"), np.random.default_rng(1)
    count = trace.pod_count
    again = draws.integers(count, size=ARRIVALS - count)
    has_gpus = np.array([GPU in offers_of(one) for one in trace.node_templates])
    nodes = has_gpus[trace.node_template].nonzero()[0]
    return coming(trace, np.concatenate((draws.permutation(count), again)), nodes)


def of_one_size(trace: Trace) -> Trace:
    """As many pods and nodes, each like the others."""
    resources = {"requests": EQUAL_POD, "limits": EQUAL_POD}
    containers = [{"name": "main", "image": "app", "resources": resources}]
    pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": containers}}
    status = {"capacity": EQUAL_NODE, "allocatable": EQUAL_NODE}
    node: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "status": status}
    return replace(
        trace,
        pod_templates=(pod,),
        pod_template=np.zeros(trace.pod_count, np.int32),
        node_templates=(node,),
        node_template=np.zeros(trace.node_count, np.int32),
    )


TRACES: dict[str, Callable[[], Trace]] = {
    "149Days": lambda: read_trace("openb"),
    "Tenfold": lambda: scale(read_trace("openb"), 10.0, seed=1),
    "Month": _month,
    "Arrivals": _arrivals,
}


def names() -> list[str]:
    return [*(f"{CASE}/{name}" for name in TRACES), UNEVEN]


def is_simulation(name: str) -> bool:
    return name.partition("/")[0] == CASE or name == UNEVEN


def trace_named(name: str) -> str:
    """
    >>> trace_named("Simulation"), trace_named("Simulation/Month")
    ('149Days', 'Month')
    """
    found = name if name == UNEVEN else name.partition("/")[2] or next(iter(TRACES))
    if found not in TRACES and found != UNEVEN:
        raise InputError(f"no workload {name!r}", hint=f"{CASE} runs as {', '.join(names())}")
    return found


def run_simulation(name: str, options: Options) -> Result:
    which = trace_named(name)
    if which == UNEVEN:
        trace = read_trace("openb")
        return compare_sizes(
            coming(trace, np.arange(trace.pod_count), np.arange(trace.node_count)), options
        )
    return _run(f"{CASE}/{which}", TRACES[which](), options)


def compare_sizes(trace: Trace, options: Options) -> Result:
    """A trace against as many pods and nodes of one size: the cheapest of rounds taking turns."""
    found: dict[str, list[Result]] = {"real": [], "equal": []}
    traces = {"real": trace, "equal": of_one_size(trace)}
    for _ in range(ROUNDS):
        for which, results in found.items():
            results.append(_run(UNEVEN, traces[which], options))
    real, equal = (min(results, key=itemgetter("cpu_s")) for results in found.values())
    return {**real, "times_equal": round(real["cpu_s"] / equal["cpu_s"], 3)}


def _run(name: str, trace: Trace, options: Options) -> Result:
    watch = _Watch(Yardstick() if options.yardstick else None)
    setup = make_setup(None, {"seed": options.seed, "detail": False}, lean=True)
    reset_peak()
    with garbage_stays():
        watch.start()
        _, record = run_one(trace, None, Settings(seed=options.seed), setup, watch.told)
        wall_s, cpu_s = watch.stop()
    result: Result = {
        "workload": name,
        "nodes": trace.node_count,
        "init_pods": 0,
        "pods": trace.pod_count,
        "pods_per_s": round(trace.pod_count / wall_s, 1),
        "pods_per_cpu_s": round(trace.pod_count / cpu_s, 1),
        "duration_s": round(wall_s, 4),
        "cpu_s": round(cpu_s, 4),
        "attempts": {"made": record.decisions},
        "attempt_p50_ms": None,
        "attempt_p99_ms": None,
        "peak_rss_mib": peak_rss_mib(),
        "phases_us": {},
        "plugins_us": {},
    }
    add_yardstick(result, watch.stick)
    return result


class _Watch:
    """Time on the wall and of the processor, without the yardstick's."""

    def __init__(self, stick: Yardstick | None) -> None:
        self.stick = stick
        self._wall_s = self._cpu_s = self._next_s = 0.0

    def start(self) -> None:
        if self.stick is not None:
            self.stick.look()
        self._wall_s, self._cpu_s = time.perf_counter(), time.process_time()
        self._next_s = self._cpu_s + GLANCE_EVERY_S

    def told(self, arrived: int, count: int) -> None:
        if self.stick is None or time.process_time() < self._next_s:
            return
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        self.stick.glance()
        self._wall_s += time.perf_counter() - wall_s
        now_s = time.process_time()
        self._cpu_s += now_s - cpu_s
        self._next_s = now_s + GLANCE_EVERY_S

    def stop(self) -> tuple[float, float]:
        wall_s, cpu_s = time.perf_counter() - self._wall_s, time.process_time() - self._cpu_s
        if self.stick is not None:
            self.stick.look()
        return max(wall_s, 1e-9), max(cpu_s, 1e-9)
