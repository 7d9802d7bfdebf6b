"""Telling how it went: a table, details of a single run, and a comparison with another.

Pure text out of results, which are plain data (see `results`); `cli.bench` prints it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stowplan.bench.goals import TIMES_EQUAL_MAX, goal_of, limit_named, share_of_goal
from stowplan.bench.yardstick import REFERENCE_KEPT

Result = Mapping[str, Any]

BLOCKS = " ▁▂▃▄▅▆▇█"
PLOT_WIDTH = 64
PLOT_HEIGHT = 6
SHOWN_MAX = 14
"""Phases and plugins listed; the rest is summed up."""

TITLES = (
    "WORKLOAD",
    "NODES",
    "INIT",
    "PODS",
    "PODS/S",
    "PODS/CPU-S",
    "OF KERNEL",
    "GOAL",
    "OF GOAL",
    "KUBE-SCHEDULER",
    "KEPT",
    "P50 MS",
    "P99 MS",
    "MIB",
)

DISPENSABLE = ("KUBE-SCHEDULER", "KEPT", "PODS/CPU-S", "MIB", "INIT", "P50 MS", "GOAL", "NODES")
"""Columns to do without where a terminal is too narrow, the least important first."""

LEGEND = (
    "PODS/S: from the first pod created to the last binding confirmed, by the clock on the wall.",
    "PODS/CPU-S: the same by the processor's clock, which does not see who else is working.",
    "OF KERNEL: PODS/CPU-S as a share of bare NumPy's rate, taken in the same seconds.",
    f"OF GOAL: that share against the goal's, which is GOAL of {REFERENCE_KEPT:,.0f}.",
    "KUBE-SCHEDULER: pods/s of its decisions alone, where the goals were set.",
    "KEPT: decisions that could use kept answers.  P50 and P99 are of single attempts.",
)


def row(result: Result) -> list[str]:
    """One line of the table, under TITLES."""
    if "error" in result:
        return [str(result["workload"]), *["-"] * (len(TITLES) - 1)]
    goal = goal_of(result)
    return [
        str(result["workload"]),
        f"{result['nodes']:,}",
        f"{result['init_pods']:,}",
        f"{result['pods']:,}",
        f"{result['pods_per_s']:,.0f}",
        f"{result['pods_per_cpu_s']:,.0f}",
        _percent(result.get("ratio")),
        f"{goal.pods_per_s:,.0f}" if goal else "-",
        _percent(share_of_goal(result)),
        f"{goal.kube_scheduler:,.0f}" if goal and goal.kube_scheduler else "-",
        _percent(result["kept"]["hit_rate"] if "kept" in result else None),
        _milliseconds(result["attempt_p50_ms"]),
        _milliseconds(result["attempt_p99_ms"]),
        f"{result['peak_rss_mib']:,.0f}",
    ]


def _milliseconds(found: float | None) -> str:
    """None: single attempts were not timed."""
    return "-" if found is None else f"{found:.3f}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.{0 if share >= 0.2 else 1}f} %"


START_TITLES = ("START", "FIRST BIND S", "CPU S", "AT MOST", "MIB", "AT MOST")


def start_row(result: Result) -> list[str]:
    """One line about a start on a filled cluster, under START_TITLES."""
    limit = limit_named(result["workload"])
    return [
        str(result["workload"]),
        f"{result['first_bind_s']:.2f}",
        f"{result['first_bind_cpu_s']:.2f}",
        f"{limit.first_bind_s:g}" if limit and limit.first_bind_s else "-",
        f"{result['peak_rss_mib']:,.0f}",
        f"{limit.mib:,.0f}" if limit and limit.mib else "-",
    ]


def details(result: Result) -> Iterator[str]:
    """What the table has no room for."""
    if "error" in result:
        return
    throughput = result.get("throughput")
    if throughput:
        rates = ", ".join(f"{name} {rate:,.0f}" for name, rate in throughput.items())
        yield f"Pods per second, sampled every second as scheduler_perf does: {rates}."
    elif throughput is not None:
        yield "Too short for scheduler_perf's samples of a second."
    attempts = ", ".join(f"{count:,} {name}" for name, count in result["attempts"].items())
    yield f"Attempts: {attempts}."
    if "times_equal" in result:
        yield (
            f"A pod costs {result['times_equal']:.2f} times what one of equal pods on equal nodes "
            f"does; the goal is {TIMES_EQUAL_MAX:g} times at most."
        )
    kept = result.get("kept")
    if kept:
        yield (
            f"Kept answers served {100 * kept['hit_rate']:.1f} % of the cycles; "
            f"{kept['rows_asked_per_pod']:g} nodes were asked about anew per pod."
        )
    if result.get("gates_ignored"):
        yield f"Feature gates that cannot be set: {', '.join(result['gates_ignored'])}."


def breakdown(result: Result) -> list[tuple[str, str, str, str]]:
    """Phases and plugins side by side: name, microseconds per pod, name, microseconds."""
    phases, plugins = (_top(result.get(name, {})) for name in ("phases_us", "plugins_us"))
    length = max(len(phases), len(plugins))
    blank = [("", "")] * length
    pairs = zip((phases + blank)[:length], (plugins + blank)[:length], strict=True)
    return [(*phase, *plugin) for phase, plugin in pairs]


def _top(times: Mapping[str, float]) -> list[tuple[str, str]]:
    items = list(times.items())
    shown = [(name, f"{us:.1f}") for name, us in items[:SHOWN_MAX]]
    rest = sum(us for _, us in items[SHOWN_MAX:])
    if rest:
        shown.append((f"{len(items) - SHOWN_MAX} more", f"{rest:.1f}"))
    return shown


def plot(rates: Sequence[float], interval_s: float) -> Iterator[str]:
    """Pods per second over time, in blocks.

    >>> for line in plot([0, 50, 100, 100], 0.1):
    ...     print(line.rstrip())
    100 ┤  ██
        │  ██
        │  ██
        │ ███
        │ ███
      0 ┤ ███
         0.4 s
    """
    values = _squeezed(rates)
    top = max(values, default=0.0)
    if top <= 0:
        return
    width = len(f"{top:,.0f}")
    for line in range(PLOT_HEIGHT, 0, -1):
        text = "".join(_block(value / top * PLOT_HEIGHT - line + 1) for value in values)
        label = f"{top:,.0f}" if line == PLOT_HEIGHT else "0" if line == 1 else ""
        yield f"{label:>{width}} {'┤' if label else '│'}{text}"
    end = f"{len(rates) * interval_s:.1f} s"
    yield " " * (width + 2) + end.rjust(max(len(values), 0))


def _squeezed(rates: Sequence[float]) -> list[float]:
    if len(rates) <= PLOT_WIDTH:
        return list(rates)
    step = len(rates) / PLOT_WIDTH
    pieces = [rates[int(n * step) : max(int((n + 1) * step), int(n * step) + 1)] for n in range(64)]
    return [sum(piece) / len(piece) for piece in pieces]


def _block(height: float) -> str:
    return BLOCKS[max(0, min(8, round(height * 8)))]


COMPARED = (
    "WORKLOAD",
    "PODS/S",
    "BEFORE",
    "RATIO",
    "BY CPU",
    "BY KERNEL",
    "P99",
    "MEMORY",
)


def compare(results: Sequence[Result], before: Mapping[str, Result]) -> list[list[str]]:
    """Now against then; above 1 is better in every column.

    `BY KERNEL` is the honest one between machines and hours: each rate as a share of the bare
    kernel's in its own run.
    """
    pairs = [
        (result, before[result["workload"]])
        for result in results
        if "error" not in result and result["workload"] in before
    ]
    return [
        [
            str(new["workload"]),
            f"{new['pods_per_s']:,.0f}",
            f"{old['pods_per_s']:,.0f}",
            _ratio(new["pods_per_s"], old["pods_per_s"]),
            _ratio(new.get("pods_per_cpu_s"), old.get("pods_per_cpu_s")),
            _ratio(new.get("ratio"), old.get("ratio")),
            _ratio(old["attempt_p99_ms"], new["attempt_p99_ms"]),
            _ratio(old["peak_rss_mib"], new["peak_rss_mib"]),
        ]
        for new, old in pairs
    ]


def _ratio(new: float | None, old: float | None) -> str:
    return f"{new / old:.2f}" if new and old else "-"
