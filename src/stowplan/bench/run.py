"""Run one workload from its first op to its result.

The whole scheduler works on the embedded cluster, in one thread and without an event loop: pods
are created in the store, seen through informers, queued, scheduled with every node evaluated,
bound, and confirmed by the watch, with decisions, events and metrics on.  `run_workload` is what
the command calls; `cluster_run` does the same on a real cluster.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from stowplan.apiserver.controllers.resource_claims import ResourceClaimController
from stowplan.apiserver.controllers.shared import Shared
from stowplan.apiserver.store import Store
from stowplan.bench import phases
from stowplan.bench.engine import Engine, RealTime
from stowplan.bench.language import Workload
from stowplan.bench.making import Act, Maker
from stowplan.bench.measure import AttemptTimes, Measurement, Meter, describe
from stowplan.bench.memory_use import peak_rss_mib, reset_peak
from stowplan.bench.ops import carry_out
from stowplan.bench.results import Result
from stowplan.bench.sampler import Sampler
from stowplan.bench.stage import Stage, Steps
from stowplan.bench.yardstick import Yardstick
from stowplan.cluster.port import Cluster
from stowplan.config import GATES, FeatureGates, SchedulerConfig, load_config
from stowplan.core.attempts import AttemptLog
from stowplan.core.machine import Machine
from stowplan.embedded import connect_scheduler
from stowplan.errors import InputError, StowplanError
from stowplan.framework.histogram import Histogram
from stowplan.framework.timing import Recorders
from stowplan.objects.kinds import POD, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE
from stowplan.runtime.driver import Driver
from stowplan.runtime.memory import tune_collector
from stowplan.runtime.metrics import Metrics

TIME_S_MAX = 30 * 60.0
PROGRESS_S = 0.1

CLAIMS_GATE = "DynamicResourceAllocation"


@dataclass(slots=True)
class Options:
    seed: int = 1
    yardstick: bool = True
    sampler: Sampler | None = field(default_factory=Sampler)
    tune: bool = True
    """Set the garbage collector as the scheduler does in service."""
    progress: Callable[[str, int, int], None] | None = None
    """Told what is going on: text, pods done, pods in all."""


@dataclass(slots=True)
class Scheduler:
    """The scheduler under measurement."""

    driver: Driver
    metrics: Metrics

    def confirmed(self) -> bool:
        """Every binding has been confirmed by the watch."""
        return not (self.driver.busy or self.driver.machine.cache.assumed_count)

    def at_rest(self) -> bool:
        """The same, and every event is written."""
        return self.confirmed() and not self.driver.recorder.pending


class Performance:
    """A workload being played: the ops one after the other, the scheduler beside them."""

    def __init__(
        self, workload: Workload, stage: Stage, scheduler: Scheduler, meter: Meter
    ) -> None:
        self._workload = workload
        self._stage = stage
        self._driver = scheduler.driver
        self._meter = meter
        self._metrics = scheduler.metrics
        self._pauses = _Pauses()
        self.error: BaseException | None = None
        self.finished = False
        stage.explain = self._explain
        stage.at_rest = scheduler.at_rest
        meter.on_measuring = self._measuring
        scheduler.driver.on_failure = self._done

    def start(self) -> None:
        self._driver.start()
        self._stage.open()
        self._stage.play(self._ops(), self._done)

    @contextmanager
    def watching_pauses(self) -> Iterator[None]:
        gc.callbacks.append(self._pauses)
        try:
            yield
        finally:
            gc.callbacks.remove(self._pauses)

    def _ops(self) -> Steps[None]:
        while not self._driver.synced:
            yield 0.01
        make = Maker(self._stage, self._workload)
        for index, op in enumerate(self._workload.resolve()):
            act = Act(self._stage, self._workload, make, self._meter, index)
            yield from carry_out(act, op)
            if self._stage.failure is not None:
                raise self._stage.failure

    def _done(self, error: BaseException | None) -> None:
        self._stage.ended = True
        self.error = error
        self.finished = True

    def _measuring(self) -> None:
        self._metrics.reset(self._driver.machine)
        self._pauses.seconds = 0.0

    def _explain(self, key: str) -> str:
        decision = self._driver.machine.decision_of(key)
        return decision.full_message if decision is not None else ""

    def _kept(self, pods: int) -> dict[str, float]:
        """How often kept answers could be used since the counts were reset, over all profiles."""
        keepers = [framework.kept for framework in self._driver.machine.frameworks.values()]
        hits = sum(kept.hits for kept in keepers)
        asked = hits + sum(kept.misses for kept in keepers)
        rows = sum(kept.rows_asked for kept in keepers)
        return {
            "hit_rate": round(hits / asked, 4) if asked else 0.0,
            "rows_asked_per_pod": round(rows / pods, 2) if pods else 0.0,
        }

    def result(self, sampler: Sampler | None) -> Result:
        if self.error is not None:
            raise self.error
        if not self._meter.done:
            raise StowplanError("nothing was measured", where=self._workload.full_name)
        found = self._meter.done[-1]
        result: Result = {"workload": self._workload.full_name}
        result |= describe(found, self._meter.attempts)
        result["phases_us"], result["plugins_us"] = spent(sampler, found)
        result["kept"] = self._kept(found.pods)
        result["gc_s"] = round(self._pauses.seconds, 4)
        machine = self._driver.machine
        result["inflight_events"] = sum(machine.queue.metrics.inflight_events.values())
        result["histograms"] = summaries(self._metrics, machine)
        if self._workload.threshold:
            result |= _threshold(self._workload, result)
        return result


def spent(sampler: Sampler | None, found: Measurement) -> tuple[dict[str, float], dict[str, float]]:
    """Microseconds per pod, by phase and by plugin."""
    stacks = sampler.stacks if sampler is not None else {}
    looks = phases.phases(stacks)
    total = sum(looks.values()) - looks[phases.WAITING]
    by_plugin = phases.plugins(stacks)
    return (
        phases.per_pod_us(looks, found.cpu_s, found.pods, total),
        phases.per_pod_us(by_plugin, found.cpu_s, found.pods, total),
    )


class _Pauses:
    """Time spent in the garbage collector while measuring."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._started_s = 0.0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._started_s = time.perf_counter()
        else:
            self.seconds += time.perf_counter() - self._started_s


def connect(
    cluster: Cluster, engine: Engine, config: SchedulerConfig, attempts: AttemptTimes, seed: int
) -> Scheduler:
    """The scheduler as it is in service, with its metrics on, and our own stopwatch beside them."""
    metrics = Metrics(Random(seed))
    driver = connect_scheduler(
        cluster,
        engine.clock,
        engine.call_later,
        config=config,
        seed=seed,
        log=AttemptLog(metrics, attempts),
        recorder=Recorders(metrics),
    )
    driver.on_handled = metrics.handled
    return Scheduler(driver, metrics)


def run_workload(
    workload: Workload,
    options: Options | None = None,
    *,
    engine: Engine | None = None,
    store: Store | None = None,
) -> Result:
    """Play the workload on an embedded cluster, and say how it went."""
    options = options or Options()
    engine = engine or RealTime()
    config, ignored = scheduler_config(workload)
    store = store or Store(engine.clock, seed=options.seed, gates=config.features)
    reset_peak()
    if options.tune:
        tune_collector()
    attempts = AttemptTimes()
    scheduler = connect(store, engine, config, attempts, options.seed)
    if workload.feature_gates.get(CLAIMS_GATE):
        _start_claim_controller(store, engine, options.seed)
    stage = Stage(store, engine.clock, engine.call_later, Random(options.seed))
    stick = Yardstick() if options.yardstick else None
    meter = Meter(stage, attempts, options.sampler, stick, settle=options.tune)
    performance = Performance(workload, stage, scheduler, meter)
    show_progress(engine, meter, performance, options)
    with performance.watching_pauses():
        performance.start()
        engine.run(_finished(performance, engine))
    peak_mib = peak_rss_mib()
    if options.tune:
        gc.unfreeze()
    result = performance.result(options.sampler)
    result["peak_rss_mib"] = peak_mib
    if ignored:
        result["gates_ignored"] = ignored
    add_yardstick(result, stick)
    scheduler.driver.close()
    return result


def _start_claim_controller(store: Store, engine: Engine, seed: int) -> None:
    """As upstream's harness runs it beside the scheduler, for workloads with devices alone."""
    kinds = (RESOURCE_CLAIM_TEMPLATE, POD, RESOURCE_CLAIM)
    clock, call_later = engine.clock, engine.call_later
    shared = Shared(store, kinds, clock=clock, call_later=call_later, random=Random(seed))
    ResourceClaimController(shared)
    shared.start()


def _threshold(workload: Workload, result: Result) -> Result:
    """Upstream's own gate; of a run too short for its rules the rate over all is taken."""
    sampled = result["throughput"]
    value = float(sampled["average"] if sampled else result["pods_per_s"])
    lower = workload.selector.expect_lower
    passed = value < workload.threshold if lower else value > workload.threshold
    return {"threshold": workload.threshold, "threshold_passed": passed}


def add_yardstick(result: Result, stick: Yardstick | None) -> None:
    if stick is None:
        return
    result["yardstick"] = {
        "every_row_per_cpu_s": round(stick.every_row, 1),
        "kept_per_cpu_s": round(stick.kept, 1),
    }
    result["ratio"] = round(result["pods_per_cpu_s"] / stick.kept, 4)


def scheduler_config(
    workload: Workload, profile: dict[str, Any] | None = None
) -> tuple[SchedulerConfig, list[str]]:
    """The configuration, and the gates that cannot be set as the workload wants them."""
    ignored, changed = [], {}
    for name, enabled in workload.feature_gates.items():
        gate = GATES.get(name)
        if gate is None or (gate.locked and gate.enabled != enabled):
            ignored.append(f"{name}={str(enabled).lower()}")
        else:
            changed[name] = enabled
    gates = FeatureGates(changed)
    if workload.scheduler_config:
        if profile is not None:
            raise InputError(
                "schedulerConfigPath cannot be used on a real cluster", where=workload.full_name
            )
        return load_config(workload.path(workload.scheduler_config), gates=gates), ignored
    return load_config(profile, gates=gates), ignored


def show_progress(engine: Engine, meter: Meter, performance: Performance, options: Options) -> None:
    progress = options.progress
    if progress is None:
        return

    def tick() -> None:
        if not performance.finished:
            text, before, count = meter.goal
            progress(text, max(0, meter.placed_count - before), count)
            engine.call_later(PROGRESS_S, tick)

    tick()


def _finished(performance: Performance, engine: Engine) -> Callable[[], bool]:
    deadline_s = engine.clock.now() + TIME_S_MAX

    def finished() -> bool:
        if engine.clock.now() > deadline_s and not performance.finished:
            raise StowplanError(f"not finished after {TIME_S_MAX / 60:.0f} minutes")
        return performance.finished

    return finished


# -- the scheduler's own histograms, summed up as scheduler_perf does -------------------------
# In milliseconds: averages, and percentiles interpolated within buckets.  The metrics are reset
# when measuring starts, so that they are about the measured pods only.


COLLECTED: dict[str, tuple[int, ...]] = {
    "scheduler_framework_extension_point_duration_seconds": (0,),
    "scheduler_scheduling_attempt_duration_seconds": (0,),
    "scheduler_plugin_execution_duration_seconds": (0, 1),
    "scheduler_queueing_hint_execution_duration_seconds": (0, 1),
    "scheduler_event_handling_duration_seconds": (0,),
}
"""Metric -> the labels (by position) that it is divided by."""

PERCENTILES = (50, 90, 95, 99)

Summary = dict[str, float]


def summaries(metrics: Metrics, machine: Machine) -> dict[str, dict[str, Summary]]:
    """Metric -> label values -> average and percentiles."""
    metrics.text(machine)
    found: dict[str, dict[str, Summary]] = {}
    for name, positions in COLLECTED.items():
        merged: dict[str, Histogram] = {}
        for labels, histogram in metrics.families[name].histograms.items():
            key = " ".join(labels[position] for position in positions)
            merged.setdefault(key, Histogram(histogram.bounds)).merge(histogram)
        found[name] = {key: summary(each) for key, each in sorted(merged.items()) if each.count}
    return {name: parts for name, parts in found.items() if parts}


def summary(histogram: Histogram) -> Summary:
    count = histogram.count
    found = {"count": count, "average_ms": round(1000 * histogram.sum / count, 4)}
    for percent in PERCENTILES:
        found[f"p{percent}_ms"] = round(1000 * histogram.quantile(percent / 100), 4)
    return found
