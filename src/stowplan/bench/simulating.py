"""How fast traces run through the whole scheduler in virtual time: what `stowplan simulate` costs.

Not a workload of scheduler_perf, whose pods come as fast as they can.  The trace that is shipped as
it was recorded, ten times over, and a month made up from it; default plugins.  Measuring what came
of a run is not in it, reading and making the trace neither.  `stowplan bench Simulation` runs it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

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

CASE = "Simulation"
GLANCE_EVERY_S = 0.04
"""Of processor time: so often the yardstick is looked at."""


def _month() -> Trace:
    return synthesise(read_trace("openb"), nodes=10_000, pods=1_000_000, days=30, seed=1)


TRACES: dict[str, Callable[[], Trace]] = {
    "149Days": lambda: read_trace("openb"),
    "Tenfold": lambda: scale(read_trace("openb"), 10.0, seed=1),
    "Month": _month,
}


def names() -> list[str]:
    return [f"{CASE}/{name}" for name in TRACES]


def is_simulation(name: str) -> bool:
    return name.partition("/")[0] == CASE


def trace_named(name: str) -> str:
    """
    >>> trace_named("Simulation"), trace_named("Simulation/Month")
    ('149Days', 'Month')
    """
    found = name.partition("/")[2] or next(iter(TRACES))
    if found not in TRACES:
        raise InputError(f"no workload {name!r}", hint=f"{CASE} runs as {', '.join(names())}")
    return found


def run_simulation(name: str, options: Options) -> Result:
    which = trace_named(name)
    trace = TRACES[which]()
    watch = _Watch(Yardstick() if options.yardstick else None)
    setup = make_setup(None, {"seed": options.seed, "detail": False}, lean=True)
    reset_peak()
    with garbage_stays():
        watch.start()
        _, record = run_one(trace, None, Settings(seed=options.seed), setup, watch.told)
        wall_s, cpu_s = watch.stop()
    result: Result = {
        "workload": f"{CASE}/{which}",
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
