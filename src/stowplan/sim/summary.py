"""What a trace is like: how long, how many, of which sizes, how busy.  `stowplan trace inspect`.

Sizes are counted per template and multiplied, so a million pods cost no more than their columns.
Demand is what pods ask for while they are there, as recorded or, without a record, from their
arrival for as long as they run: nobody knows yet when a scheduler would start them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stowplan.errors import InputError
from stowplan.objects.manifests import check
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod
from stowplan.objects.quantity import QuantityError
from stowplan.objects.resources import allocatable, pod_requests
from stowplan.sim.trace import Manifest, Outcome, Trace, namespace_of

HOUR_S = 3600.0
GROUPS_SHOWN = 10
QUANTILES = (("min", 0.0), ("p10", 0.1), ("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0))

Amounts = dict[str, int]
"""CPU in milli, anything else in units."""


def pod_amounts(trace: Trace) -> list[Amounts]:
    """What a pod of each template asks for."""
    return [_amounts_of(template, n, Pod) for n, template in enumerate(trace.pod_templates)]


def node_amounts(trace: Trace) -> list[Amounts]:
    """What a node of each template offers."""
    return [_amounts_of(template, n, Node) for n, template in enumerate(trace.node_templates)]


def summary(trace: Trace) -> dict[str, Any]:
    """Plain data; `stowplan trace inspect -o json` prints it."""
    return {
        "name": trace.name,
        "start_s": trace.start_s,
        "span_s": trace.span_s,
        "nodes": _nodes(trace),
        "pods": _pods(trace),
        "arrivals": _arrivals(trace),
        "lifetimes_s": _lifetimes(trace),
        "demand": _demand(trace),
        "changes": dict(Counter(f"{c.verb} {c.object.get('kind')}" for c in trace.changes)),
        "remarks": [
            {"text": r.text, "count": r.count, "examples": list(r.examples)} for r in trace.remarks
        ],
    }


def mean_load(trace: Trace, span_s: float) -> float:
    """The mean demand over that time, as a share of the nodes, of the resource where it is most."""
    demand = _demand(trace, span_s)
    return max((values["mean_share"] for values in demand.values()), default=0.0)


def _amounts_of(template: Manifest, n: int, kind: type[Pod | Node]) -> Amounts:
    place = f"{kind.__name__.lower()} template {n}"
    try:
        data = check({"metadata": {}, **template}, kind, place)
        return pod_requests(data, use_status=False) if isinstance(data, Pod) else allocatable(data)
    except QuantityError as error:
        raise InputError(str(error), where=place) from None


def _nodes(trace: Trace) -> dict[str, Any]:
    amounts = node_amounts(trace)
    counts = np.bincount(trace.node_template, minlength=len(amounts))
    return {
        "count": trace.node_count,
        "stay": int(np.isinf(trace.node_leaves_s).sum()),
        "join_later": int((trace.node_joins_s > 0).sum()),
        "sizes": _groups(amounts, counts),
        "capacity": _total(amounts, counts),
    }


def _pods(trace: Trace) -> dict[str, Any]:
    amounts = pod_amounts(trace)
    counts = np.bincount(trace.pod_template, minlength=len(amounts))
    namespaces: Counter[str] = Counter()
    for template, count in zip(trace.pod_templates, counts.tolist(), strict=True):
        namespaces[namespace_of(template)] += count
    outcomes = np.bincount(trace.pod_outcome, minlength=len(Outcome))
    ends = np.isfinite(trace.pod_run_s)
    placed = 0 if trace.pod_node is None else int((trace.pod_node >= 0).sum())
    return {
        "count": trace.pod_count,
        "templates": len(amounts),
        "constrained": int(counts[[_is_constrained(t) for t in trace.pod_templates]].sum()),
        "placed": placed,
        "run_until_the_end": int((~ends).sum()),
        "outcomes": {o.name.lower(): int(outcomes[o]) for o in Outcome},
        "namespaces": dict(namespaces.most_common(GROUPS_SHOWN)),
        "sizes": _groups(amounts, counts),
    }


def _is_constrained(template: Manifest) -> bool:
    spec = template.get("spec") or {}
    return any(spec.get(k) for k in ("affinity", "nodeSelector", "topologySpreadConstraints"))


def _groups(amounts: list[Amounts], counts: NDArray[np.int64]) -> list[dict[str, Any]]:
    """The most frequent sizes, and a last one for all others."""
    found: Counter[tuple[tuple[str, int], ...]] = Counter()
    for size, count in zip(amounts, counts.tolist(), strict=True):
        found[tuple(sorted(size.items()))] += count
    shown = found.most_common(GROUPS_SHOWN)
    groups: list[dict[str, Any]] = [{"count": count, "size": dict(size)} for size, count in shown]
    rest = sum(found.values()) - sum(count for _, count in shown)
    return groups if not rest else [*groups, {"count": rest, "others": len(found) - len(shown)}]


def _total(amounts: list[Amounts], counts: NDArray[np.int64]) -> Amounts:
    total: Counter[str] = Counter()
    for size, count in zip(amounts, counts.tolist(), strict=True):
        total.update({name: amount * count for name, amount in size.items()})
    return dict(sorted(total.items()))


def _arrivals(trace: Trace) -> dict[str, Any]:
    if not trace.pod_count:
        return {"per_hour_mean": 0.0, "per_hour_max": 0, "at_start": 0, "at_once_max": 0}
    arrival_s = trace.pod_arrival_s
    # Hours without arrivals do not matter to the largest, and there may be very many of them.
    _, per_hour = np.unique(arrival_s // HOUR_S, return_counts=True)
    _, at_once = np.unique(arrival_s, return_counts=True)
    hours = max(1.0, float(arrival_s[-1] - arrival_s[0]) / HOUR_S)
    return {
        "per_hour_mean": round(trace.pod_count / hours, 3),
        "per_hour_max": int(per_hour.max()),
        "at_start": int((arrival_s == 0).sum()),
        "at_once_max": int(at_once.max()),
        "by_hour_of_day": _by_hour(arrival_s + trace.start_s),
    }


def _by_hour(time_s: NDArray[np.float64]) -> list[int]:
    hours = (time_s // HOUR_S % 24).astype(np.int64)
    return [int(count) for count in np.bincount(hours, minlength=24)]


def _lifetimes(trace: Trace) -> dict[str, float]:
    known = np.sort(trace.pod_run_s[np.isfinite(trace.pod_run_s)])
    if not len(known):
        return {}
    last = len(known) - 1
    found = {name: float(known[round(share * last)]) for name, share in QUANTILES}
    return {**found, "mean": round(float(known.mean()), 3)}


def _demand(trace: Trace, span_s: float | None = None) -> dict[str, dict[str, float]]:
    """Per resource: capacity, mean and highest demand, and these as shares of the capacity."""
    span_s = trace.span_s if span_s is None else span_s
    amounts, offered = pod_amounts(trace), node_amounts(trace)
    capacity = _over_time(trace.node_joins_s, trace.node_leaves_s, span_s)
    there = _over_time(trace.pod_arrival_s, _gone_s(trace), span_s)
    found = {}
    for name in sorted({name for size in amounts for name in size}):
        wanted = np.array([size.get(name, 0) for size in amounts], np.float64)
        given = np.array([size.get(name, 0) for size in offered], np.float64)
        mean, peak = there(wanted[trace.pod_template])
        mean_offered, offered_max = capacity(given[trace.node_template])
        found[name] = {
            "capacity": offered_max,
            "mean": round(mean, 3),
            "peak": peak,
            "mean_share": round(mean / mean_offered, 4) if mean_offered else math.inf,
            "peak_share": round(peak / offered_max, 4) if offered_max else math.inf,
        }
    return {name: values for name, values in found.items() if values["peak"]}


def _gone_s(trace: Trace) -> NDArray[np.float64]:
    known = ~np.isnan(trace.pod_end_s)
    return np.where(known, trace.pod_end_s, trace.pod_arrival_s + trace.pod_run_s)


def _over_time(came_s: NDArray[np.float64], gone_s: NDArray[np.float64], span_s: float) -> Any:
    """A function from amounts to their mean over the span and their highest sum at any time."""
    came_s, gone_s = np.minimum(came_s, span_s), np.minimum(gone_s, span_s)
    times_s = np.concatenate([came_s, gone_s])
    # At one moment what goes makes room before what comes takes it.
    signs = np.concatenate([np.ones(len(came_s)), np.zeros(len(gone_s))])
    order = np.lexsort((signs, times_s))
    stays = came_s < gone_s

    def summed(amount: NDArray[np.float64]) -> tuple[float, float]:
        if not len(amount):
            return 0.0, 0.0
        mean = float((amount * (gone_s - came_s)).sum()) / span_s if span_s else float(amount.sum())
        counted = np.where(stays, amount, 0.0)
        sums = np.cumsum(np.concatenate([counted, -counted])[order])
        highest = float(sums.max())
        return mean, highest if span_s else float(amount.sum())

    return summed


def demand_lines(found: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """Resource, capacity, and mean and highest demand with their shares, as text."""
    return [
        (
            name,
            amount_text(name, values["capacity"]),
            f"{amount_text(name, values['mean'])} ({_percent(values['mean_share'])})",
            f"{amount_text(name, values['peak'])} ({_percent(values['peak_share'])})",
        )
        for name, values in found["demand"].items()
    ]


def _percent(share: float) -> str:
    return "-" if math.isinf(share) else f"{share:.1%}"


def amount_text(name: str, amount: float) -> str:
    """
    >>> amount_text("cpu", 1500), amount_text("memory", 3 * 2**30), amount_text("example.com/x", 7)
    ('1.5', '3Gi', '7')
    """
    if name == "cpu":
        return f"{amount / 1000:.15g}" if amount < 10_000 else f"{amount / 1000:,.0f}"
    if name in ("memory", "ephemeral-storage"):
        return f"{amount / 2**30:,.0f}Gi" if amount >= 2**30 else f"{amount / 2**20:,.0f}Mi"
    return f"{amount:,.0f}"


def size_text(size: Mapping[str, int]) -> str:
    """
    >>> size_text({"cpu": 2000, "memory": 2**30, "pods": 110})
    'cpu 2, memory 1Gi, pods 110'
    """
    return ", ".join(f"{name} {amount_text(name, amount)}" for name, amount in size.items()) or "-"
