"""The scheduler's own histograms, summed up as scheduler_perf does: in milliseconds.

Averages, and percentiles interpolated within buckets.  The metrics are reset when measuring
starts, so that they are about the measured pods only.  `run` adds them to the result.
"""

from __future__ import annotations

from stowplan.core.machine import Machine
from stowplan.framework.histogram import Histogram
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
            merged.setdefault(key, Histogram(histogram.bounds)).merge(histogram)
        found[name] = {key: summary(each) for key, each in sorted(merged.items()) if each.count}
    return {name: parts for name, parts in found.items() if parts}


def summary(histogram: Histogram) -> Summary:
    count = histogram.count
    found = {"count": count, "average_ms": round(1000 * histogram.sum / count, 4)}
    for percent in PERCENTILES:
        found[f"p{percent}_ms"] = round(1000 * histogram.quantile(percent / 100), 4)
    return found
