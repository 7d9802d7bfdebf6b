"""Measuring: throughput by scheduler_perf's rules, and what we want to know beyond them.

A `Collection` says which pods count.  While one is open, the `Meter` counts pods as the watch
shows them with a node, samples the rate every second as upstream does, and every tenth of a
second for the picture; it times each attempt, and lets `sampler` find where the time goes.
Upstream loses runs of under two seconds; so the rate over all is taken as well, by the clock on the
wall and by the processor's: from before the first pod is created until the watch has confirmed the
last binding to the scheduler and its events are written.  Making the objects beforehand, and the
glances at the `yardstick`, are not counted.
"""

from __future__ import annotations

import time
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil
from operator import attrgetter
from typing import Any

from stowplan.bench.sampler import Sampler
from stowplan.bench.stage import Stage
from stowplan.bench.yardstick import Yardstick
from stowplan.core.attempts import AttemptObserver, Bound, Failed
from stowplan.objects.pod import Pod
from stowplan.objects.selectors import Selector
from stowplan.runtime.memory import settle_memory

SAMPLE_S = 1.0
"""How often upstream looks."""
PICTURE_S = 0.1
GLANCE_S = 0.04
"""Between two glances at the yardstick; each takes two thousandths of a second."""
PICTURE_POINTS_MAX = 600
PERCENTILES = (50, 90, 95, 99)

_seconds, _namespace = attrgetter("seconds"), attrgetter("metadata.namespace")


@dataclass(frozen=True, slots=True)
class Collection:
    """Which pods are measured, and under what name."""

    name: str
    namespaces: frozenset[str]
    selector: Selector | None = None
    """None: every pod of these namespaces."""

    def count(self, pods: Sequence[Pod]) -> int:
        """How many of these pods are measured."""
        if self.selector is not None:
            matches = self.selector.matches
            pods = [pod for pod in pods if matches(pod.metadata.labels or {})]
        return sum(map(self.namespaces.__contains__, map(_namespace, pods)))


class Throughput:
    """Rates at regular ticks, by upstream's rules.

    Nothing before the first pod; the first tick that sees one is only where counting starts; a
    tick without progress is left out, and the next rate is recorded once more for each of these.
    """

    def __init__(self) -> None:
        self.rates: list[float] = []
        self._last: tuple[float, int] | None = None
        self._skipped = 0

    def tick(self, now_s: float, count: int) -> None:
        if self._last is None:
            if count:
                self._last = (now_s, count)
            return
        last_s, last_count = self._last
        if count == last_count:
            self._skipped += 1
            return
        rate = (count - last_count) / max(1e-9, now_s - last_s)
        self.rates += [rate] * (self._skipped + 1)
        self._skipped = 0
        self._last = (now_s, count)

    def summary(self) -> dict[str, float] | None:
        """None when the run was too short for upstream to see anything."""
        if not self.rates:
            return None
        ordered = sorted(self.rates)
        found = {"average": sum(ordered) / len(ordered)}
        found |= {f"p{p}": percentile(ordered, p) for p in PERCENTILES}
        return {name: round(rate, 1) for name, rate in found.items()}


def percentile(ordered: Sequence[float], percent: int) -> float:
    """
    >>> percentile([1, 2, 3, 4], 50), percentile([1, 2, 3, 4], 99), percentile([], 50)
    (2, 4, 0.0)
    """
    if not ordered:
        return 0.0
    return ordered[max(0, ceil(len(ordered) * percent / 100) - 1)]


class AttemptTimes(AttemptObserver):
    """How long each attempt took, from its start to the pod being bound or turned down."""

    def __init__(self) -> None:
        self.seconds = array("d")
        self.outcomes: Counter[str] = Counter()
        self.recording = False

    def start(self) -> None:
        self.seconds, self.outcomes = array("d"), Counter()
        self.recording = True

    def bound(self, attempts: Sequence[Bound], now_s: float) -> None:
        if self.recording:
            self.seconds.extend(map(_seconds, attempts))
            self.outcomes["scheduled"] += len(attempts)

    def failed(self, attempt: Failed, now_s: float) -> None:
        if self.recording:
            self.seconds.append(attempt.seconds)
            self.outcomes["unschedulable" if attempt.status.is_rejected else "error"] += 1

    def plugin_error(self, plugin: str, point: str, cause: Exception) -> None:
        self.outcomes[f"error in {plugin}"] += 1

    def problem(self, text: str) -> None:
        self.outcomes["problem"] += 1

    def percentile_ms(self, percent: int) -> float:
        return round(1000 * percentile(sorted(self.seconds), percent), 4)


@dataclass(slots=True)
class Measurement:
    """What came of one collection."""

    name: str
    nodes: int
    init_pods: int
    pods: int = 0
    duration_s: float = 0.0
    cpu_s: float = 0.0
    throughput: dict[str, float] | None = None
    picture: list[float] = field(default_factory=list)
    """Pods per second, for each tenth of a second (or more, in long runs)."""
    picture_s: float = PICTURE_S


class Meter:
    """Told by the ops when to look; asked for the measurements at the end."""

    def __init__(
        self,
        stage: Stage,
        attempts: AttemptTimes,
        sampler: Sampler | None = None,
        yardstick: Yardstick | None = None,
        *,
        settle: bool = True,
    ) -> None:
        self._stage = stage
        self.attempts = attempts
        self._sampler = sampler
        self.yardstick = yardstick
        self._settle = settle
        self.done: list[Measurement] = []
        self.goal: tuple[str, int, int] = ("", 0, 0)
        """What is going on, how many pods had a node before it, and how many it is about."""
        self.on_measuring: Callable[[], None] = lambda: None
        self._collection: Collection | None = None
        self._found = Measurement("", 0, 0)
        self._count = 0
        self._throughput = Throughput()
        self._started_s = self._cpu_started_s = 0.0
        self._aside_s = self._aside_cpu_s = 0.0
        """Spent on the yardstick meanwhile."""
        self._picture: list[int] = []
        stage.tally.on_placed.append(self._placed)

    @property
    def placed_count(self) -> int:
        """Pods with a node, measured or not."""
        return self._stage.tally.placed_count

    def announce(self, text: str, count: int) -> None:
        self.goal = (text, self._stage.tally.placed_count, count)

    def start(self, collection: Collection) -> None:
        assert self._collection is None, "measuring already"
        if self._settle:
            settle_memory()
        if self.yardstick is not None:
            self.yardstick.look()
        stage = self._stage
        self._collection = collection
        self._found = Measurement(collection.name, stage.node_count, stage.tally.placed_count)
        self._count = 0
        self._throughput = Throughput()
        self._picture = []
        self.attempts.start()
        self.on_measuring()
        if self._sampler is not None:
            self._sampler.start()
        self._aside_s = self._aside_cpu_s = 0.0
        self._cpu_started_s = time.process_time()
        self._started_s = stage.clock.now()
        stage.call_later(SAMPLE_S, self._sample(collection))
        stage.call_later(PICTURE_S, self._draw(collection))
        if self.yardstick is not None:
            stage.call_later(GLANCE_S, self._glance_at(self.yardstick, collection))

    def stop(self) -> None:
        found = self._found
        found.cpu_s = time.process_time() - self._cpu_started_s - self._aside_cpu_s
        duration_s = self._stage.clock.now() - self._started_s - self._aside_s
        if self._sampler is not None:
            self._sampler.stop()
        if self.yardstick is not None:
            self.yardstick.look()
        self._collection = None
        self.attempts.recording = False
        # Where none of them is meant to fit, trying them is what is measured.
        found.pods = self._count or self.attempts.outcomes["unschedulable"]
        found.duration_s = max(1e-9, duration_s)
        found.throughput = self._throughput.summary()
        found.picture, found.picture_s = self._drawn()
        self.done.append(found)

    def _placed(self, pods: Sequence[Pod]) -> None:
        if self._collection is not None:
            self._count += self._collection.count(pods)

    def _sample(self, collection: Collection) -> Callable[[], None]:
        def tick() -> None:
            if self._collection is collection:
                self._throughput.tick(self._stage.clock.now(), self._count)
                self._stage.call_later(SAMPLE_S, tick)

        return tick

    def _draw(self, collection: Collection) -> Callable[[], None]:
        def tick() -> None:
            if self._collection is collection:
                at = int((self._stage.clock.now() - self._started_s) / PICTURE_S)
                # A turn may have lasted longer than a tick: the gap is filled evenly.
                before = len(self._picture)
                known = self._picture[-1] if self._picture else 0
                for step in range(before, at):
                    share = (step + 1 - before) / (at - before)
                    self._picture.append(known + round((self._count - known) * share))
                self._stage.call_later(PICTURE_S, tick)

        return tick

    def _glance_at(self, yardstick: Yardstick, collection: Collection) -> Callable[[], None]:
        def tick() -> None:
            if self._collection is collection:
                started_s, cpu_started_s = self._stage.clock.now(), time.process_time()
                yardstick.glance()
                self._aside_s += self._stage.clock.now() - started_s
                self._aside_cpu_s += time.process_time() - cpu_started_s
                self._stage.call_later(GLANCE_S, tick)

        return tick

    def _drawn(self) -> tuple[list[float], float]:
        totals, step = [0, *self._picture], ceil(len(self._picture) / PICTURE_POINTS_MAX) or 1
        totals = totals[::step]
        span_s = PICTURE_S * step
        return [round((after - before) / span_s, 1) for before, after in pairwise(totals)], span_s


def describe(found: Measurement, attempts: AttemptTimes) -> dict[str, Any]:
    """The measurement as JSON data."""
    return {
        "nodes": found.nodes,
        "init_pods": found.init_pods,
        "pods": found.pods,
        "pods_per_s": round(found.pods / found.duration_s, 1) if found.pods else 0.0,
        "pods_per_cpu_s": round(found.pods / max(1e-9, found.cpu_s), 1) if found.pods else 0.0,
        "duration_s": round(found.duration_s, 4),
        "cpu_s": round(found.cpu_s, 4),
        "throughput": found.throughput,
        "attempts": dict(attempts.outcomes),
        "attempt_p50_ms": attempts.percentile_ms(50),
        "attempt_p99_ms": attempts.percentile_ms(99),
        "picture": {"interval_s": found.picture_s, "pods_per_s": found.picture},
    }
