"""The last minutes, a sample a second: throughput, latency, who waits and why, how full."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from stowplan.web.nodes import fill, reasons_of_pending
from stowplan.world.cluster import Cluster

SAMPLES_MAX = 900
"""A quarter of an hour."""
CAUSES_MAX = 8


@dataclass(frozen=True, slots=True)
class Sample:
    time_s: float
    decisions: int
    """Made so far."""
    placed: int
    """Pods that were given a node so far."""
    lanes: dict[str, int]
    causes: dict[str, int]
    fill: dict[str, float]
    latency_ms: dict[str, float] = field(default_factory=dict)
    """Percentiles of the attempts of this second."""


@dataclass(frozen=True, slots=True)
class Waiting:
    lanes: dict[str, int]
    causes: dict[str, int]


def waiting_in(cluster: Cluster) -> Waiting:
    return Waiting(cluster.lane_counts(), reasons_of_pending(cluster, CAUSES_MAX))


class Series:
    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=SAMPLES_MAX)

    def take(
        self, cluster: Cluster, time_s: float, ours: Waiting | None = None, placed: int = 0
    ) -> None:
        """`ours`: who waits and why, and `placed`: how many have a node, beside another scheduler,
        which the cluster itself does not know of."""
        pace = cluster.pace()
        waiting = ours or waiting_in(cluster)
        self._samples.append(
            Sample(
                time_s,
                pace.decisions or placed,
                pace.placed or placed,
                waiting.lanes,
                waiting.causes,
                fill(cluster),
                {f"p{n}": seconds * 1000 for n, seconds in pace.latency_s.items()},
            )
        )

    def view(self) -> dict[str, Any]:
        samples = list(self._samples)
        pairs = list(pairwise(samples))

        def rates(name: str) -> list[float | None]:
            return [None, *(_rate(old, new, name) for old, new in pairs)][: len(samples)]

        return {
            "time": [sample.time_s for sample in samples],
            "throughput": {
                "decisions a second": rates("decisions"),
                "placed a second": rates("placed"),
            },
            "latency": _columns([sample.latency_ms for sample in samples]),
            "lanes": _columns([sample.lanes for sample in samples]),
            "causes": _columns([sample.causes for sample in samples]),
            "fill": _columns([sample.fill for sample in samples]),
        }


def _rate(old: Sample, new: Sample, name: str) -> float:
    seconds = max(new.time_s - old.time_s, 1e-3)
    return max(0.0, float(getattr(new, name) - getattr(old, name)) / seconds)


def _columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name, 0) for row in rows] for name in names}
