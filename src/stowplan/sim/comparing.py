"""A against B: the same measures of runs with the same seed, and how sure the difference is.

Seeds pair runs: what chance did to one configuration it did to the other, so the differences per
seed spread far less than the runs do.  Intervals are Student's, at 95 percent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import sqrt
from typing import Any

_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
      2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
      2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042)  # fmt: skip
"""Two-sided 95 percent, for 1 to 30 degrees of freedom."""
_T_MANY = 1.96

Summaries = Sequence[tuple[str, int, Mapping[str, Any]]]
"""Configuration, seed, summary."""


def main_measures(summary: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The numbers of a summary that configurations are compared by."""
    for name, amounts in summary["resources"].items():
        yield f"{name} allocated, %", amounts["allocated_percent"]
        yield f"{name} stranded, %", amounts["stranded_percent"]
        yield f"{name} fragmentation, %", amounts["fragmentation_percent"]
    wait = summary["wait"]
    for key, name in (("mean", "mean"), ("p50", "median"), ("p99", "p99"), ("most", "longest")):
        if key in wait:
            yield f"wait, {name}, s", wait[key]
    if "mean" in summary["slowdown"]:
        yield "slowdown, mean", summary["slowdown"]["mean"]
    pods = summary["pods"]
    yield "pods pending at the end", pods["pending"]
    yield "pods lost", pods["lost"]
    yield "evictions", summary["evictions"]
    yield "lost work, s", summary["lost_work_s"]
    yield "nodes in use, mean", summary["nodes"]["in_use"]
    if "cost" in summary:
        yield "cost", summary["cost"]


def mean_and_margin(values: Sequence[float]) -> tuple[float, float | None]:
    """The margin is None where one value says nothing about chance.

    >>> mean_and_margin([1.0, 1.0, 1.0])
    (1.0, 0.0)
    """
    count = len(values)
    mean = sum(values) / count
    if count < 2:
        return mean, None
    variance = sum((value - mean) ** 2 for value in values) / (count - 1)
    t = _T[count - 2] if count - 2 < len(_T) else _T_MANY
    return mean, t * sqrt(variance / count)


def compare_configs(summaries: Summaries) -> dict[str, Any]:
    """Every configuration's measures, and its differences from the first one."""
    by_config: dict[str, dict[int, dict[str, float]]] = {}
    for config, seed, summary in summaries:
        by_config.setdefault(config, {})[seed] = dict(main_measures(summary))
    if not by_config:
        return {}
    first, *others = by_config
    configs = {config: _means([*runs.values()]) for config, runs in by_config.items()}
    against = {other: _paired(by_config[first], by_config[other]) for other in others}
    return {"configs": configs, "baseline": first, "differences": against}


def _means(runs: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    names = [name for name in runs[0] if all(name in run for run in runs)]
    return {name: _rounded(*mean_and_margin([run[name] for run in runs])) for name in names}


def _paired(
    base: Mapping[int, Mapping[str, float]], other: Mapping[int, Mapping[str, float]]
) -> dict[str, Any]:
    seeds = sorted(base.keys() & other.keys())
    if not seeds:
        return {}
    names = [
        name
        for name in base[seeds[0]]
        if all(name in base[seed] and name in other[seed] for seed in seeds)
    ]
    found = {}
    for name in names:
        mean, margin = mean_and_margin([other[seed][name] - base[seed][name] for seed in seeds])
        is_sure = margin is not None and abs(mean) > margin
        found[name] = {**_rounded(mean, margin), "sure": is_sure, "seeds": len(seeds)}
    return found


def _rounded(mean: float, margin: float | None) -> dict[str, float | None]:
    return {
        "mean": round(mean, 6),
        "margin": None if margin is None else round(margin, 6),
    }


def ratios(
    new: Mapping[str, Any], old: Mapping[str, Any]
) -> Iterator[tuple[str, str, float, float, float | None]]:
    """Configuration, measure, old and new mean and their ratio, of two summaries of results."""
    after, before = (one.get("comparison", {}).get("configs", {}) for one in (new, old))
    for config in after:
        if config not in before:
            continue
        for name, value in after[config].items():
            if name in before[config]:
                a, b = before[config][name]["mean"], value["mean"]
                yield config, name, a, b, b / a if a else None
