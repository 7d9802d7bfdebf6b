"""What a run is offered: the pods of a trace, as they came or in another order, more or fewer.

From a seed: the same seed gives the same pods at the same times, on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stowplan.sim.settings import Settings
from stowplan.sim.trace import Trace

Floats = NDArray[np.float64]
Indices = NDArray[np.int32]

_SHUFFLE, _INFLATE = 1, 2
"""Keep the draws of one purpose apart from those of another."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Pods in the order of their arrival."""

    source: Indices
    """Which pod of the trace each is."""
    copy: Indices
    """0 for the first that is made of a pod of the trace, 1 for the second and so on."""
    template: Indices
    arrival_s: Floats
    run_s: Floats
    """How long it runs once started; inf: for ever."""
    end_s: Floats
    """When it ends, whatever became of it; inf: not by the clock."""

    @property
    def count(self) -> int:
        return len(self.source)

    def name(self, trace: Trace, index: int) -> str:
        name = trace.pod_name(int(self.source[index]))
        copy = int(self.copy[index])
        return f"{name}-copy-{copy}" if copy else name


def make_workload(trace: Trace, settings: Settings) -> Workload:
    source, copy = _drawn(trace.pod_count, settings)
    arrival_s, run_s, end_s = (
        column[source].astype(np.float64)
        for column in (trace.pod_arrival_s, trace.pod_run_s, trace.pod_end_s)
    )
    life_s = np.maximum(end_s - arrival_s, 0.0)
    if settings.arrivals == "shuffle":
        draws = np.random.default_rng([settings.seed, _SHUFFLE])
        arrival_s = arrival_s[draws.permutation(len(source))]
        end_s = arrival_s + life_s
    if settings.ends == "service":
        # What is only known to have ended ran for as long as it was there.
        run_s = np.where(np.isinf(run_s) & np.isfinite(life_s), life_s, run_s)
        end_s = np.full(len(source), np.inf)
    else:
        run_s = np.where(np.isfinite(end_s), np.inf, run_s)
        end_s = np.where(np.isfinite(end_s), end_s, np.inf)
    order = np.argsort(arrival_s, kind="stable")
    kept = order[arrival_s[order] <= settings.until_s]
    template = trace.pod_template[source]
    return Workload(
        source[kept], copy[kept], template[kept], arrival_s[kept], run_s[kept], end_s[kept]
    )


def _drawn(count: int, settings: Settings) -> tuple[Indices, Indices]:
    """Which pods there are: all of them, fewer, or some of them drawn again."""
    wanted = round(count * settings.inflate)
    source = np.arange(count, dtype=np.int32)
    copy = np.zeros(count, np.int32)
    if wanted == count or not count:
        return source, copy
    draws = np.random.default_rng([settings.seed, _INFLATE])
    if wanted < count:
        kept = np.sort(draws.permutation(count)[:wanted])
        return source[kept], copy[kept]
    more = np.sort(draws.integers(0, count, wanted - count)).astype(np.int32)
    first = np.searchsorted(more, more, side="left")
    numbers = (np.arange(len(more)) - first + 1).astype(np.int32)
    return np.concatenate([source, more]), np.concatenate([copy, numbers])
