"""A trace that never was, like one that was: distributions fitted to a trace, and drawn from.

Arrivals follow the hours of the week (or of the day, where the source is short), in batches of the
sizes that the source has.  What a pod wants, how long it runs and how it ends is drawn together,
from the pods of the source; the time it runs is blurred by a lognormal, so that a few thousand
pods make a smooth distribution with a tail beyond the longest.  Nodes keep the source's mix.

Chance comes from integers and products only, and the one table of a curve (`_blur`) is rounded: the
same seed gives the same trace on every machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from stowplan.errors import InputError
from stowplan.sim.summary import mean_load
from stowplan.sim.trace import Manifest, Trace

HOUR_S = 3600
DAY_S = 24 * HOUR_S
WEEK_HOURS = 168
COUNT_MAX = 100_000_000
DAYS_MAX = 36_500.0
RUN_S_MAX = 1e10
_SMOOTHING = 1
"""Added to each hour's count: an hour without arrivals in the source is not impossible."""
_BLUR_STEPS = 4096
_MILLI = 3


@dataclass(frozen=True, slots=True)
class Fitted:
    """What is drawn from; `fit` makes it of a trace."""

    name: str
    hours: NDArray[np.int64]
    """Arrivals of batches by hour of the week, of the day, or in one number; never 0."""
    batch_first: NDArray[np.intp]
    """Pods of the source that arrive at one moment are a batch: its first row,"""
    batch_size: NDArray[np.intp]
    """and how many they are."""
    template: NDArray[np.int32]
    run_s: NDArray[np.float64]
    outcome: NDArray[np.uint8]
    blur: float
    """Standard deviation of the logarithm of what a lifetime is multiplied with."""
    pod_templates: tuple[Manifest, ...]
    node_templates: tuple[Manifest, ...]
    node_shares: NDArray[np.int64]
    """How many nodes of each template the source has."""


def fit(trace: Trace) -> Fitted:
    if not trace.pod_count or not trace.node_count:
        raise InputError("a trace without pods or nodes has nothing to fit to", where=trace.name)
    arrival_s = trace.pod_arrival_s
    begins = np.ones(trace.pod_count, np.bool_)
    begins[1:] = np.diff(arrival_s) > 0
    first = np.flatnonzero(begins)
    return Fitted(
        name=trace.name,
        hours=_hours(arrival_s[first], trace.start_s),
        batch_first=first,
        batch_size=np.diff(np.append(first, trace.pod_count)),
        template=trace.pod_template,
        run_s=trace.pod_run_s,
        outcome=trace.pod_outcome,
        blur=_bandwidth(trace.pod_run_s),
        pod_templates=trace.pod_templates,
        node_templates=trace.node_templates,
        node_shares=np.bincount(trace.node_template, minlength=len(trace.node_templates)),
    )


def synthesise(
    source: Trace | Fitted,
    *,
    nodes: int,
    pods: int,
    days: float,
    seed: int = 0,
    load: float | None = None,
) -> Trace:
    """`load`: how much of the nodes the pods ask for on average, of the resource that is asked
    for most; lifetimes are stretched or shortened for it.  None: lifetimes as they were."""
    for what, count in (("nodes", nodes), ("pods", pods)):
        if not 0 < count <= COUNT_MAX:
            raise InputError(f"{count} {what}", hint=f"from 1 to {COUNT_MAX:,}")
    if not 0 < days <= DAYS_MAX:
        raise InputError(f"{days} days", hint=f"above 0, up to {DAYS_MAX:g}")
    if load is not None and not 0 < load < 100:
        raise InputError(f"{load} is no load", hint="0.7 is 70 percent")
    fitted = source if isinstance(source, Fitted) else fit(source)
    rng = np.random.default_rng(seed)
    rows, batches = _drawn(fitted, pods, rng)
    arrival_s = _arrivals(fitted.hours, days, len(np.unique(batches)), rng)[batches]
    factor = _blur(fitted.blur)[rng.integers(0, _BLUR_STEPS, pods)]
    run_s: NDArray[np.float64] = np.minimum(fitted.run_s[rows] * factor, RUN_S_MAX)
    run_s = np.round(run_s, _MILLI)
    run_s[np.isinf(fitted.run_s[rows])] = math.inf
    order = np.argsort(arrival_s, kind="stable")
    made = Trace(
        name=f"{fitted.name}-synthesised",
        start_s=0.0,
        pod_templates=fitted.pod_templates,
        pod_template=fitted.template[rows][order],
        pod_names=None,
        pod_arrival_s=arrival_s[order],
        pod_run_s=run_s[order],
        pod_end_s=np.full(pods, np.nan),
        pod_outcome=fitted.outcome[rows][order],
        pod_node=None,
        node_templates=fitted.node_templates,
        node_template=_mixed(fitted.node_shares, nodes, rng),
        node_names=tuple(f"node-{n:06d}" for n in range(1, nodes + 1)),
        node_joins_s=np.zeros(nodes),
        node_leaves_s=np.full(nodes, np.inf),
    )
    return made if load is None else _loaded(made, load, days * DAY_S)


# -- fitting --------------------------------------------------------------------------------


def _hours(arrival_s: NDArray[np.float64], start_s: float) -> NDArray[np.int64]:
    span_s = float(arrival_s[-1]) if len(arrival_s) else 0.0
    period = WEEK_HOURS if span_s >= 14 * DAY_S else 24 if span_s >= 2 * DAY_S else 1
    hour = ((arrival_s + start_s) // HOUR_S).astype(np.int64) % period
    counts: NDArray[np.int64] = np.bincount(hour, minlength=period) + _SMOOTHING
    return counts


def _bandwidth(run_s: NDArray[np.float64]) -> float:
    """Silverman's rule for lifetimes in logarithms, with the spread that outliers do not move."""
    known = np.sort(run_s[np.isfinite(run_s) & (run_s > 0)])
    if len(known) < 2:
        return 0.0
    low, high = known[len(known) // 4], known[(3 * len(known)) // 4]
    spread = math.log(float(high / low)) / 1.34
    return round(0.9 * spread / math.pow(len(known), 0.2), _MILLI)


def _blur(deviation: float) -> NDArray[np.float64]:
    """Quantiles of a lognormal, equally likely; rounded, so that every machine has the same."""
    normal = NormalDist()
    exponents = (normal.inv_cdf((n + 0.5) / _BLUR_STEPS) for n in range(_BLUR_STEPS))
    return np.array([round(math.exp(deviation * exponent), 6) for exponent in exponents])


# -- drawing --------------------------------------------------------------------------------


def _drawn(
    fitted: Fitted, pods: int, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """A row of the source for each pod, and the number of its batch; the last one is cut off."""
    mean = len(fitted.template) / len(fitted.batch_first)
    drawn = np.zeros(0, np.intp)
    while fitted.batch_size[drawn].sum() < pods:
        more = int(pods / mean * 0.2) + 100
        drawn = np.append(drawn, rng.integers(0, len(fitted.batch_first), more))
    sizes = fitted.batch_size[drawn]
    ends = np.cumsum(sizes)
    last = int(np.searchsorted(ends, pods))
    drawn, sizes, ends = drawn[: last + 1], sizes[: last + 1], ends[: last + 1]
    batches = np.repeat(np.arange(len(drawn)), sizes)[:pods]
    within = np.arange(pods) - (ends - sizes)[batches]
    return fitted.batch_first[drawn][batches] + within, batches


def _arrivals(
    hours: NDArray[np.int64], days: float, count: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """A moment for each batch: an hour by its weight, and any millisecond of it."""
    end_ms = int(days * DAY_S * 1000)
    slots = -(-end_ms // (HOUR_S * 1000))
    weights = np.resize(hours, slots)
    ends = np.cumsum(weights)
    slot = np.searchsorted(ends, rng.integers(0, ends[-1], count), side="right")
    moment_ms = slot * (HOUR_S * 1000) + rng.integers(0, HOUR_S * 1000, count)
    # Of a last hour that is cut off, moments beyond the end fall somewhere before it.
    return np.where(moment_ms < end_ms, moment_ms, moment_ms % max(end_ms, 1)) / 1000


def _mixed(shares: NDArray[np.int64], count: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """Templates in proportion, to less than one each, in an order drawn from the seed."""
    ends = np.cumsum(shares)
    marks = (np.arange(count) * ends[-1] + rng.integers(0, ends[-1])) // count
    chosen = np.searchsorted(ends, marks, side="right").astype(np.int32)
    return rng.permutation(chosen)


def _loaded(trace: Trace, load: float, span_s: float) -> Trace:
    low, high = 0.0, 1.0
    while mean_load(_stretched(trace, high), span_s) < load and high < 2**40:
        low, high = high, high * 2
    for _ in range(20):
        middle = (low + high) / 2
        if mean_load(_stretched(trace, middle), span_s) < load:
            low = middle
        else:
            high = middle
    return _stretched(trace, high)


def _stretched(trace: Trace, factor: float) -> Trace:
    return replace(trace, pod_run_s=np.round(trace.pod_run_s * factor, _MILLI))
