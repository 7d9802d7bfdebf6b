"""The scheduler's own histograms, summed up as scheduler_perf does: in milliseconds.

Averages, and percentiles interpolated within buckets.  The metrics are reset when measuring
starts, so that they are about the measured pods only.  `run` adds them to the result.
"""

from __future__ import annotations

from stowplan.core.machine import Machine
from stowplan.runtime.exposition import Histogram
from stowplan.runtime.metrics import Metrics

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
            merged[key] = _merged(merged.get(key), histogram)
        found[name] = {key: summary(each) for key, each in sorted(merged.items()) if each.count}
    return {name: parts for name, parts in found.items() if parts}


def _merged(one: Histogram | None, other: Histogram) -> Histogram:
    result = Histogram(other.bounds)
    result.counts, result.sum = list(other.counts), other.sum
    if one is not None:
        result.counts = [a + b for a, b in zip(one.counts, other.counts, strict=True)]
        result.sum += one.sum
    return result


def summary(histogram: Histogram) -> Summary:
    count = histogram.count
    found = {"count": count, "average_ms": round(1000 * histogram.sum / count, 4)}
    for percent in PERCENTILES:
        found[f"p{percent}_ms"] = round(1000 * quantile(histogram, percent / 100), 4)
    return found


def quantile(histogram: Histogram, share: float) -> float:
    """
    >>> histogram = Histogram((1.0, 2.0, 4.0))
    >>> for value in (0.5, 1.5, 1.5, 3.0):
    ...     histogram.observe(value)
    >>> quantile(histogram, 0.5)
    1.5
    """
    rank, below, start = share * histogram.count, 0, 0.0
    for bound, count in zip(histogram.bounds, histogram.counts, strict=False):
        if below + count >= rank:
            return start + (bound - start) * (rank - below) / max(1, count)
        below += count
        start = bound
    return start
