"""Where the time goes, and what holds the scheduler up: latencies, throughput, a short report.

`Bottlenecks` listens to the machine (as its recorder and as an observer of its attempts) and
answers at any time: per extension point and plugin how long things took, how long pods waited to
be tried, how many were placed per second, and which phases are slower than they should be.  What
it remembers is the current window and the one before; `rotate` begins the next.  `runtime` does
that at intervals, logs the report and serves it over HTTP.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from typing import Any, TypeVar

from stowplan.core.attempts import AttemptObserver, Bound, Failed
from stowplan.core.decision import Decision
from stowplan.framework.histogram import Histogram, exponential
from stowplan.framework.timing import BUFFER_MAX, WAIT_ON_PERMIT
from stowplan.printable import printable
from stowplan.queue import QueuedPod

SAMPLED_SHARE = 10
"""One cycle in so many has its plugins timed one by one: upstream's 10 %."""

LATENCY_S = exponential(1e-6, 2 ** (1 / 8), 256)
"""From a microsecond to more than an hour: a quantile is right within a tenth."""

QUEUE_WAIT = "queue wait"
CYCLE = "scheduling cycle"

THRESHOLDS_S: Mapping[str, float] = {
    QUEUE_WAIT: 1.0,
    CYCLE: 0.020,
    "PreEnqueue": 0.001,
    "PreFilter": 0.002,
    "Filter": 0.005,
    "PostFilter": 0.050,
    "PreScore": 0.002,
    "Score": 0.005,
    "Reserve": 0.001,
    "Permit": 0.001,
    WAIT_ON_PERMIT: 60.0,
    "PreBind": 0.100,
    "Bind": 0.050,
    "PostBind": 0.001,
}
"""The 95th percentile of a phase should stay below this."""


class Severity(IntEnum):
    LOW = 1
    MEDIUM = 2
    HIGH = 5
    CRITICAL = 10
    """The 95th percentile is at least so many times the threshold."""

    @property
    def label(self) -> str:
        return self.name.capitalize()


def severity_of(p95_s: float, threshold_s: float) -> Severity | None:
    """
    >>> [severity_of(s, 1.0) for s in (0.5, 1.0, 2.0, 7.0)]
    [None, <Severity.LOW: 1>, <Severity.MEDIUM: 2>, <Severity.HIGH: 5>]
    """
    times = p95_s / threshold_s
    return next((level for level in reversed(Severity) if times >= level), None)


@dataclass(frozen=True, slots=True)
class Phase:
    name: str
    count: int
    mean_s: float
    p50_s: float
    p95_s: float
    max_s: float
    threshold_s: float
    severity: str = ""
    """Low, Medium, High or Critical; empty when the phase is as fast as it should be."""
    slowest_plugin: str = ""
    """Of a phase that plugins make up: who took most of the time, in the cycles sampled."""


@dataclass(frozen=True, slots=True)
class Report:
    seconds: float
    """How long the windows it covers lasted."""
    results: dict[str, int]
    """Attempts by outcome: scheduled, unschedulable, error."""
    scheduled_per_s: float
    attempts_per_s: float
    phases: list[Phase]
    plugins: list[dict[str, Any]]
    """Per plugin and point: name, point, count, p95_s, sum_s; the most expensive first."""
    plugin_errors: dict[str, int]

    @property
    def bottlenecks(self) -> list[Phase]:
        """Phases over their threshold, the worst first."""
        slow = [phase for phase in self.phases if phase.severity]
        return sorted(slow, key=lambda phase: -phase.p95_s / phase.threshold_s)

    def to_dict(self) -> dict[str, Any]:
        data = asdict(self)
        data["bottlenecks"] = [phase.name for phase in self.bottlenecks]
        return data

    @property
    def text(self) -> str:
        head = f"{self.scheduled_per_s:.1f} pods scheduled and {self.attempts_per_s:.1f} attempts "
        lines = [f"{head}per second over {self.seconds:.0f} s"]
        for phase in self.bottlenecks:
            blame = f", mostly {phase.slowest_plugin}" if phase.slowest_plugin else ""
            lines.append(
                f"{phase.severity}: {phase.name} p95 {_milliseconds(phase.p95_s)}, "
                f"should stay below {_milliseconds(phase.threshold_s)}{blame}"
            )
        if len(lines) == 1:
            lines.append("no bottleneck")
        lines += [f"{count} errors of plugin {name}" for name, count in self.plugin_errors.items()]
        return "\n".join(map(printable, lines))


def _latencies() -> Histogram:
    return Histogram(LATENCY_S)


@dataclass(slots=True)
class _Window:
    began_s: float
    phases: defaultdict[str, Histogram] = field(default_factory=lambda: defaultdict(_latencies))
    plugins: defaultdict[tuple[str, str], Histogram] = field(
        default_factory=lambda: defaultdict(_latencies)
    )
    results: dict[str, int] = field(default_factory=dict)
    plugin_errors: dict[str, int] = field(default_factory=dict)


class Bottlenecks(AttemptObserver):
    """A `Listener` (framework.timing) and an `AttemptObserver` (core.attempts) in one."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        """Measures durations: a monotonic clock of high resolution."""
        self.sampled = False
        self.catch_up: Callable[[], None] = lambda: None
        self._cycles = 0
        self._waits_s: list[float] = []
        self._cycles_s: list[float] = []
        """Not counted yet: on the way of a pod there is only an append."""
        self._before: _Window | None = None
        self._window = _Window(now())

    # -- Listener ---------------------------------------------------------------------------

    def points(self, point: str, profile: str, status: str, seconds: list[float]) -> None:
        self._window.phases[point].observe_many(seconds)

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        self._window.plugins[plugin, point].observe(seconds)

    # -- AttemptObserver --------------------------------------------------------------------

    def begin(self, queued: QueuedPod, now_s: float) -> None:
        self._cycles += 1
        self.sampled = self._cycles % SAMPLED_SHARE == 0
        if queued.attempts <= 1 and queued.initial_attempt_s is not None:
            # Later attempts waited for their backoff or for an event: that is no delay of ours.
            self._waits_s.append(now_s - queued.initial_attempt_s)
        if len(self._cycles_s) >= BUFFER_MAX:
            self.catch_up()
            self._count_attempts()

    def decided(self, queued: QueuedPod, decision: Decision, now_s: float, seconds: float) -> None:
        self._cycles_s.append(seconds)

    def bound(self, attempts: Sequence[Bound], now_s: float) -> None:
        self._count("scheduled", len(attempts))

    def failed(self, attempt: Failed, now_s: float) -> None:
        self._count("unschedulable" if attempt.status.is_rejected else "error", 1)

    def _count(self, result: str, count: int) -> None:
        results = self._window.results
        results[result] = results.get(result, 0) + count

    def plugin_error(self, plugin: str, point: str, cause: Exception) -> None:
        errors = self._window.plugin_errors
        errors[plugin] = errors.get(plugin, 0) + 1

    # -- the answer -------------------------------------------------------------------------

    def _count_attempts(self) -> None:
        for name, buffer in ((QUEUE_WAIT, self._waits_s), (CYCLE, self._cycles_s)):
            if buffer:
                self._window.phases[name].take(buffer)

    def rotate(self) -> None:
        """Begin a new window; the one that ends is kept, the one before it is forgotten."""
        self.catch_up()
        self._count_attempts()
        self._before, self._window = self._window, _Window(self.now())

    def report(self) -> Report:
        self.catch_up()
        self._count_attempts()
        windows = [window for window in (self._before, self._window) if window is not None]
        seconds = max(self.now() - windows[0].began_s, 1e-9)
        phases = _merged([window.phases for window in windows])
        plugins = _merged([window.plugins for window in windows])
        results = _added([window.results for window in windows])
        return Report(
            seconds,
            results,
            results.get("scheduled", 0) / seconds,
            sum(results.values()) / seconds,
            [self._phase(name, latencies, plugins) for name, latencies in phases.items()],
            _plugin_rows(plugins),
            _added([window.plugin_errors for window in windows]),
        )

    def _phase(
        self, name: str, latencies: Histogram, plugins: Mapping[tuple[str, str], Histogram]
    ) -> Phase:
        p95_s = _p95_s(latencies)
        threshold_s = THRESHOLDS_S.get(name, THRESHOLDS_S[CYCLE])
        severity = severity_of(p95_s, threshold_s)
        spent = {plugin: found.sum for (plugin, point), found in plugins.items() if point == name}
        return Phase(
            name,
            latencies.count,
            latencies.sum / max(1, latencies.count),
            min(latencies.quantile(0.5), latencies.max),
            p95_s,
            latencies.max,
            threshold_s,
            severity.label if severity is not None else "",
            max(spent, key=lambda plugin: spent[plugin], default=""),
        )


Key = TypeVar("Key")


def _merged(windows: Iterable[Mapping[Key, Histogram]]) -> dict[Key, Histogram]:
    merged: defaultdict[Key, Histogram] = defaultdict(_latencies)
    for window in windows:
        for key, latencies in window.items():
            merged[key].merge(latencies)
    return merged


def _p95_s(latencies: Histogram) -> float:
    return min(latencies.quantile(0.95), latencies.max)


def _added(windows: list[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for window in windows:
        total.update(window)
    return dict(total)


def _plugin_rows(plugins: Mapping[tuple[str, str], Histogram]) -> list[dict[str, Any]]:
    rows = [
        {
            "plugin": plugin,
            "point": point,
            "count": found.count,
            "p95_s": _p95_s(found),
            "sum_s": found.sum,
        }
        for (plugin, point), found in plugins.items()
    ]
    return sorted(rows, key=lambda row: -row["sum_s"])


def _milliseconds(seconds: float) -> str:
    """
    >>> _milliseconds(0.0123), _milliseconds(2)
    ('12.3 ms', '2000 ms')
    """
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds * 1000:.0f} ms"
