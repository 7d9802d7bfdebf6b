"""Telling how it went: JSON, a table, details of a single run, and a comparison with another.

Pure text out of results, which are plain data; `cli.bench` prints it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from stowplan.bench.goals import goal_of, share_of_goal
from stowplan.errors import InputError

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
    "OF GOAL",
    "P50 MS",
    "P99 MS",
    "MIB",
)


def to_json(results: Sequence[Result]) -> str:
    return json.dumps({"results": list(results)}, indent=2)


def read_results(path: Path) -> dict[str, Result]:
    """The results of an earlier run, by workload."""
    try:
        data = json.loads(path.read_bytes())
        return {str(result["workload"]): result for result in data["results"]}
    except (ValueError, KeyError, TypeError):
        raise InputError(
            "these are no results", where=str(path), hint="write them with `stowplan bench -o json`"
        ) from None


def row(result: Result) -> list[str]:
    """One line of the table, under TITLES."""
    if "error" in result:
        return [str(result["workload"]), *["-"] * (len(TITLES) - 1)]
    return [
        str(result["workload"]),
        f"{result['nodes']:,}",
        f"{result['init_pods']:,}",
        f"{result['pods']:,}",
        f"{result['pods_per_s']:,.0f}",
        f"{result['pods_per_cpu_s']:,.0f}",
        _percent(result.get("ratio")),
        _percent(share_of_goal(result)),
        f"{result['attempt_p50_ms']:.3f}",
        f"{result['attempt_p99_ms']:.3f}",
        f"{result['peak_rss_mib']:,.0f}",
    ]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


def details(result: Result) -> Iterator[str]:
    """What the table has no room for."""
    if "error" in result:
        return
    throughput = result.get("throughput")
    if throughput:
        rates = ", ".join(f"{name} {rate:,.0f}" for name, rate in throughput.items())
        yield f"Pods per second, sampled every second as scheduler_perf does: {rates}."
    else:
        yield "Too short for scheduler_perf's samples of a second."
    attempts = ", ".join(f"{count:,} {name}" for name, count in result["attempts"].items())
    yield f"Attempts: {attempts}."
    kept = result.get("kept")
    if kept:
        yield (
            f"Kept answers served {100 * kept['hit_rate']:.1f} % of the cycles; "
            f"{kept['rows_asked_per_pod']:g} nodes were asked about anew per pod."
        )
    yield from _goal_line(result)
    if "first_bind_s" in result:
        yield f"First binding {result['first_bind_s']:.2f} s after the start."
    if result.get("gates_ignored"):
        yield f"Feature gates that cannot be set: {', '.join(result['gates_ignored'])}."


def _goal_line(result: Result) -> Iterator[str]:
    goal = goal_of(result)
    if goal is None or "ratio" not in result:
        return
    line = (
        f"Goal: {goal.pods_per_s:,.0f} pods/s on the machine of reference, "
        f"{100 * goal.ratio:.1f} % of the bare kernel; here it is {100 * result['ratio']:.1f} %"
    )
    if goal.kube_scheduler:
        line += f" (kube-scheduler's decisions alone: {goal.kube_scheduler:,.0f} pods/s)"
    yield line + "."


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


COMPARED = ("WORKLOAD", "PODS/CPU-S", "BEFORE", "RATIO", "BY KERNEL", "P99", "MEMORY")


def compare(results: Sequence[Result], before: Mapping[str, Result]) -> list[list[str]]:
    """Now against then; above 1 is better in every column.

    `BY KERNEL` is the honest one between machines and hours: each rate as a share of the bare
    kernel's in its own run.
    """
    lines = []
    for result in results:
        old = before.get(result["workload"])
        if old is None or "error" in result or "error" in old:
            continue
        lines.append(
            [
                str(result["workload"]),
                f"{result['pods_per_cpu_s']:,.0f}",
                f"{old['pods_per_cpu_s']:,.0f}",
                _ratio(result["pods_per_cpu_s"], old["pods_per_cpu_s"]),
                _ratio(result.get("ratio"), old.get("ratio")),
                _ratio(old["attempt_p99_ms"], result["attempt_p99_ms"]),
                _ratio(old["peak_rss_mib"], result["peak_rss_mib"]),
            ]
        )
    return lines


def worst_ratio(results: Sequence[Result], before: Mapping[str, Result]) -> float | None:
    """The smallest share of an earlier rate, by the kernel; None if nothing can be compared."""
    found = [
        result["ratio"] / before[result["workload"]]["ratio"]
        for result in results
        if result.get("ratio") and before.get(result["workload"], {}).get("ratio")
    ]
    return min(found, default=None)


def _ratio(new: float | None, old: float | None) -> str:
    return f"{new / old:.2f}" if new and old else "-"
