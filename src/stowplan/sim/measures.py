"""What a run came to, worked out from its record: series over time, results per pod, a summary.

All for whole columns at once, at samples that are evenly spread over the run: how much was asked
for, offered, taken and stranded, how fragmented the rest was, who waited and why.  Amounts are
whole numbers (cpu in thousandths, memory in bytes) and sums are rounded, so that equal runs give
equal bytes on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stowplan.sim.record import Record, State
from stowplan.sim.trace import Trace
from stowplan.sim.workload import Workload
from stowplan.world.stream import requests_of

Column = NDArray[Any]
Columns = dict[str, Column]

RESOURCES_MAX = 16
PARTS_MAX = 32
"""Zones and pools that have series of their own; those with the most nodes."""
SIZES_MAX = 32
"""Sizes of pods that count for stranded amounts and fragmentation; the most frequent ones."""
CELLS_MAX = 4_000_000
"""Samples times nodes that are looked at: with more nodes, at fewer samples."""
PODS = "pods"
_QUANTILES = (50, 90, 99)
SLOWDOWN_BASE_S = 10.0
"""A pod that runs for less counts as if it ran for so long: seconds of waiting are no hardship."""


@dataclass(frozen=True, slots=True)
class Heat:
    """How full each node was at some of the samples: percent requested, 255 while it was away."""

    times_s: Column
    node_names: tuple[str, ...]
    percent: Mapping[str, NDArray[np.uint8]]
    """By resource: times by nodes."""


@dataclass(frozen=True, slots=True)
class Measures:
    summary: dict[str, Any]
    series: Columns
    pods: Columns
    heat: Heat


def measure(trace: Trace, workload: Workload, record: Record) -> Measures:
    requests = [requests_of(one, f"pod template {n}") for n, one in enumerate(trace.pod_templates)]
    resources = _resources(requests, record)
    asked = {
        name: np.array([one.get(name, 0) for one in requests], np.int64)[workload.template]
        if requests else np.zeros(0, np.int64)
        for name in resources
    }  # fmt: skip
    over_time = _OverTime(workload, record, asked)
    pods = _pod_columns(trace, workload, record)
    series = over_time.series()
    nodes = _NodesOverTime(record, asked, _common_sizes(requests, workload, resources))
    heat = nodes.measure(series)
    return Measures(_summary(trace, workload, record, series, pods), series, pods, heat)


def _resources(requests: Sequence[Mapping[str, int]], record: Record) -> list[str]:
    """Those that pods ask for or nodes offer; cpu and memory first."""
    asked = sorted({name for one in requests for name, amount in one.items() if amount})
    first = [name for name in ("cpu", "memory") if name in asked]
    rest = [name for name in asked if name not in ("cpu", "memory", PODS)]
    return [*first, *rest][:RESOURCES_MAX]


def rounded(column: Column, digits: int = 6) -> Column:
    return np.round(column.astype(np.float64), digits)


class _OverTime:
    """Sums over all pods, at each sample."""

    def __init__(
        self, workload: Workload, record: Record, asked: Mapping[str, NDArray[np.int64]]
    ) -> None:
        self._work, self._record, self._asked = workload, record, asked
        self._times = record.sample_s
        self._left_s = np.array(record.left_s, np.float64)
        self._arrived = np.array(record.state, np.int8) != State.UNBORN

    def series(self) -> Columns:
        who, _, begin_s, end_s = self._record.stays.columns()
        arrived = np.flatnonzero(self._arrived)
        there = self._work.arrival_s[arrived], self._left_s[arrived]
        ones = np.ones(len(arrived), np.int64)
        columns: Columns = {"time_s": rounded(self._times, 3)}
        columns["pods.arrived"] = self._count_until(there[0])
        columns["pods.there"] = self._between(*there, ones)
        columns["pods.running"] = self._between(begin_s, end_s, np.ones(len(who), np.int64))
        columns["pods.pending"] = columns["pods.there"] - columns["pods.running"]
        evictions = end_s[_is_eviction(self._record, who, end_s)]
        columns["pods.evicted"] = self._count_until(evictions)
        columns |= _causes(self._record.pending, len(self._times))
        columns |= self._nodes()
        for name, amounts in self._asked.items():
            columns[f"{name}.demand"] = self._between(*there, amounts[arrived])
            columns[f"{name}.requested"] = self._between(begin_s, end_s, amounts[who])
            columns[f"{name}.allocatable"] = self._offered(name)
        return columns

    def _nodes(self) -> Columns:
        record = self._record
        node, _, begin_s, end_s = record.presence.columns()
        count = self._between(begin_s, end_s, np.ones(len(node), np.int64))
        prices = np.array([one.price for one in record.nodes], np.float64)
        columns: Columns = {"nodes": count}
        if prices.any():
            rate = self._between(begin_s, end_s, np.round(prices[node] * 1e6).astype(np.int64))
            columns["cost.per_hour"] = rounded(rate / 1e6)
        return columns

    def _offered(self, name: str) -> Column:
        node, _, begin_s, end_s = self._record.presence.columns()
        offers = np.array([one.offers.get(name, 0) for one in self._record.nodes], np.int64)
        return self._between(begin_s, end_s, offers[node])

    def _count_until(self, moments: Column) -> Column:
        return np.searchsorted(np.sort(moments), self._times, side="right").astype(np.int64)

    def _between(self, begin_s: Column, end_s: Column, amounts: Column) -> Column:
        """The sum of the amounts of those that have begun and not ended, at each sample."""
        return self._until(begin_s, amounts) - self._until(end_s, amounts)

    def _until(self, moments: Column, amounts: Column) -> Column:
        order = np.argsort(moments, kind="stable")
        sums = np.concatenate([[0], np.cumsum(amounts[order])])
        total: Column = sums[np.searchsorted(moments[order], self._times, side="right")]
        return total


def _is_eviction(record: Record, who: Column, end_s: Column) -> Column:
    """Of each stay: whether it was ended by eviction and not by its pod's end."""
    evicted = np.array(record.evictions, np.int32)[who] > 0
    left = np.array(record.left_s, np.float64)[who]
    ended = np.array(record.state, np.int8)[who] == State.ENDED
    is_last = ended & (left == end_s)
    is_one: Column = evicted & np.isfinite(end_s) & ~is_last
    return is_one


def _causes(pending: Sequence[Mapping[str, int]], count: int) -> Columns:
    names = sorted({name for one in pending for name in one if name != "all"})
    columns = {}
    for name in names:
        values = np.array([one.get(name, 0) for one in pending], np.int64)
        if values.any():
            columns[f"pending.{name}"] = np.concatenate(
                [values, np.zeros(count - len(values), int)]
            )
    return columns


Size = tuple[dict[str, int], int]
"""What pods of a size ask for, and how many they are."""


def _common_sizes(
    requests: Sequence[Mapping[str, int]], workload: Workload, resources: Sequence[str]
) -> list[Size]:
    counts: Column = np.bincount(workload.template, minlength=len(requests))[: len(requests)]
    sizes: dict[tuple[int, ...], int] = {}
    for one, count in zip(requests, counts, strict=True):
        size = tuple(one.get(name, 0) for name in resources)
        sizes[size] = sizes.get(size, 0) + int(count)
    common = sorted(sizes.items(), key=lambda item: (-item[1], item[0]))[:SIZES_MAX]
    return [(dict(zip(resources, size, strict=True)), count) for size, count in common if count]


class _NodesOverTime:
    """What each node had left at each of some samples: the heat map, and what it amounts to."""

    def __init__(
        self, record: Record, asked: Mapping[str, NDArray[np.int64]], sizes: Sequence[Size]
    ) -> None:
        self._record, self._asked, self._sizes = record, asked, sizes
        nodes, samples = max(1, len(record.nodes)), len(record.sample_s)
        step = max(1, -(-samples * nodes // CELLS_MAX))
        self._chosen = np.arange(0, samples, step)
        self._times = record.sample_s[self._chosen]
        self._shape = len(self._times), len(record.nodes)

    def measure(self, series: Columns) -> Heat:
        node, _, begin_s, end_s = self._record.presence.columns()
        self._alive = self._cells(node, begin_s, end_s, np.ones(len(node))) > 0
        who, where, from_s, until_s = self._record.stays.columns()
        pods = self._cells(where, from_s, until_s, np.ones(len(who)))
        series["nodes.in_use"] = self._spread(((pods > 0) & self._alive).sum(axis=1))
        free, percent = {}, {}
        parts = self._parts()
        for name, amounts in self._asked.items():
            offers = np.array([n.offers.get(name, 0) for n in self._record.nodes], np.float64)
            used = self._cells(where, from_s, until_s, amounts[who])
            free[name] = np.where(self._alive, offers[None, :] - used, 0.0)
            percent[name] = _percent(used, offers, self._alive)
            for part, members in parts:
                taken = np.where(self._alive, used, 0)[:, members].sum(axis=1)
                series[f"{name}.requested.{part}"] = self._spread(taken)
                offered = self._alive[:, members] @ offers[members]
                series[f"{name}.allocatable.{part}"] = self._spread(offered)
        self._fragmentation(free, series)
        names = tuple(one.name for one in self._record.nodes)
        return Heat(rounded(self._times, 3), names, percent)

    def _cells(self, node: Column, begin_s: Column, end_s: Column, amounts: Column) -> Column:
        """Times by nodes: the sum of the amounts that are on each node then."""
        height, width = self._shape
        first = np.searchsorted(self._times, begin_s, side="left")
        last = np.searchsorted(self._times, end_s, side="left")
        length = (height + 1) * width
        change = np.bincount(first * width + node, amounts, length)
        change -= np.bincount(last * width + node, amounts, length)
        sums: Column = np.cumsum(change.reshape(height + 1, width)[:height], axis=0)
        return sums

    def _spread(self, column: Column) -> Column:
        """For all samples: one that was not looked at has what the last one before it had."""
        count = len(self._record.sample_s)
        places = np.searchsorted(self._chosen, np.arange(count), side="right") - 1
        return rounded(column)[places]

    def _parts(self) -> list[tuple[str, Column]]:
        """Zones and pools, if there are several."""
        found = []
        for what in ("zone", "pool"):
            names = np.array([getattr(one, what) for one in self._record.nodes], object)
            values, counts = np.unique(names.astype(str), return_counts=True)
            common = sorted(zip(-counts, values, strict=True))[:PARTS_MAX]
            if len(values) > 1:
                found += [
                    (f"{what}:{value}", np.flatnonzero(names == value))
                    for _, value in common
                    if value
                ]
        return found

    def _fragmentation(self, free: Mapping[str, Column], series: Columns) -> None:
        """Stranded: what is left of a resource where no common pod that asks for it fits any more.
        Fragmentation: the share of what is left that a pod drawn from these could not use."""
        stranded = {name: self._alive.copy() for name in free}
        unusable = {name: np.zeros(len(self._times)) for name in free}
        weights = dict.fromkeys(free, 0)
        for size, count in self._sizes:
            fits = self._alive
            for name, amount in size.items():
                if amount:
                    fits = fits & (free[name] >= amount)
            for name in free:
                if size[name]:
                    stranded[name] &= ~fits
                    unusable[name] += count * np.where(fits, 0.0, free[name]).sum(axis=1)
                    weights[name] += count
        for name, left in free.items():
            series[f"{name}.stranded"] = self._spread(
                np.where(stranded[name], left, 0.0).sum(axis=1)
            )
            total = left.sum(axis=1) * max(1, weights[name])
            share = np.divide(unusable[name], total, out=np.zeros_like(total), where=total > 0)
            series[f"{name}.fragmentation"] = self._spread(share)


def _percent(used: Column, offers: Column, alive: Column) -> NDArray[np.uint8]:
    share = np.divide(used * 100.0, offers, out=np.zeros(used.shape), where=offers > 0)
    percent = np.clip(np.round(share), 0, 200).astype(np.uint8)
    percent[~alive] = 255
    return percent


def _pod_columns(trace: Trace, workload: Workload, record: Record) -> Columns:
    count = workload.count
    names = np.array([workload.name(trace, n) for n in range(count)], object)
    who, where, begin_s, end_s = record.stays.columns()
    started_s, ran_s, node = np.full(count, np.nan), np.zeros(count), np.full(count, -1, np.int32)
    first = np.unique(who, return_index=True)
    started_s[first[0]] = begin_s[first[1]]
    last = len(who) - 1 - np.unique(who[::-1], return_index=True)[1]
    node[who[last]] = where[last]
    length_s = np.minimum(end_s, record.end_s) - begin_s
    np.add.at(ran_s, who, length_s)
    lost_s = np.zeros(count)
    evicted = _is_eviction(record, who, end_s)
    np.add.at(lost_s, who[evicted], length_s[evicted])
    left_s = np.array(record.left_s, np.float64)
    state = np.array(record.state, np.int8)
    priorities = np.array(
        [int((one.get("spec") or {}).get("priority") or 0) for one in trace.pod_templates], np.int32
    )
    node_names = np.array([*(one.name for one in record.nodes), ""], object)
    return {
        "name": names,
        "template": workload.template.astype(np.int32),
        "priority": priorities[workload.template] if count else np.zeros(0, np.int32),
        "state": np.array([one.name.lower() for one in State], object)[state],
        "arrival_s": rounded(workload.arrival_s, 3),
        "started_s": rounded(started_s, 3),
        "left_s": rounded(np.where(np.isinf(left_s), np.nan, left_s), 3),
        "wait_s": rounded(started_s - workload.arrival_s, 3),
        "ran_s": rounded(ran_s, 3),
        "lost_s": rounded(lost_s, 3),
        "node": node_names[node],
        "attempts": np.array(record.attempts, np.int32),
        "evictions": np.array(record.evictions, np.int32),
    }


def _summary(
    trace: Trace, workload: Workload, record: Record, series: Columns, pods: Columns
) -> dict[str, Any]:
    state = pods["state"]
    counts = {one.name.lower(): int((state == one.name.lower()).sum()) for one in State}
    summary: dict[str, Any] = {
        "trace": trace.name,
        "seconds": round(record.end_s, 3),
        "pods": {"arrived": workload.count - counts.pop("unborn"), **counts},
        "wait": waits(pods),
        "slowdown": _slowdown(pods),
        "resources": _resource_summary(series),
        "nodes": {
            "most": int(series["nodes"].max(initial=0)),
            "mean": _mean(series["nodes"]),
            "in_use": _mean(series["nodes.in_use"]),
            "failures": record.failures,
        },
        "pending": {
            name.removeprefix("pending."): _mean(column)
            for name, column in series.items()
            if name.startswith("pending.")
        },
        "evictions": int(pods["evictions"].sum()),
        "lost_work_s": round(float(pods["lost_s"].sum()), 3),
        "decisions": record.decisions,
        "by": _groups(trace, pods),
    }
    if "cost.per_hour" in series:
        summary["cost"] = round(_mean(series["cost.per_hour"]) * record.end_s / 3600.0, 2)
    return summary


def _mean(column: Column) -> float:
    return round(float(column.mean()), 6) if len(column) else 0.0


def waits(pods: Columns) -> dict[str, float]:
    """Of the pods that got a node: how long they waited for it."""
    return _spread_of(pods["wait_s"][~np.isnan(pods["wait_s"])])


def _spread_of(values: Column) -> dict[str, float]:
    if not len(values):
        return {"count": 0}
    found = {"count": len(values), "mean": round(float(values.mean()), 6)}
    for quantile in _QUANTILES:
        found[f"p{quantile}"] = round(float(np.percentile(values, quantile)), 6)
    return {**found, "most": round(float(values.max()), 6)}


def _slowdown(pods: Columns) -> dict[str, float]:
    """Of the pods that ended: how much longer they were there than they ran."""
    ended = (pods["state"] == "ended") & (pods["ran_s"] - pods["lost_s"] >= 0)
    useful_s = (pods["ran_s"] - pods["lost_s"])[ended]
    there_s = (pods["left_s"] - pods["arrival_s"])[ended]
    slowdown = np.maximum(there_s, SLOWDOWN_BASE_S) / np.maximum(useful_s, SLOWDOWN_BASE_S)
    return _spread_of(np.maximum(slowdown, 1.0))


def _resource_summary(series: Columns) -> dict[str, dict[str, float]]:
    found = {}
    for column in [*series]:
        name, _, last = column.rpartition(".")
        if last != "allocatable" or f"{name}.stranded" not in series:
            continue
        offered = np.maximum(series[column], 1).astype(np.float64)
        used = series[f"{name}.requested"] / offered * 100
        found[name] = {
            "allocated_percent": _mean(used),
            "allocated_percent_most": round(float(used.max(initial=0)), 6),
            "demand_percent": _mean(series[f"{name}.demand"] / offered * 100),
            "stranded_percent": _mean(series[f"{name}.stranded"] / offered * 100),
            "fragmentation_percent": _mean(series[f"{name}.fragmentation"] * 100),
        }
    return found


def _groups(trace: Trace, pods: Columns) -> dict[str, dict[str, dict[str, float]]]:
    """Waiting and slowdown by priority, by size and by what else is asked for."""
    requests = [requests_of(one) for one in trace.pod_templates]
    kinds = np.array([_kind(one) for one in requests] or [""], object)
    cpu = np.array([one.get("cpu", 0) for one in requests] or [0])
    sizes = np.array([_size(int(one)) for one in cpu], object)
    template = pods["template"]
    keys = {
        "priority": pods["priority"].astype(str).astype(object),
        "size": sizes[template],
        "kind": kinds[template],
    }
    found: dict[str, dict[str, dict[str, float]]] = {}
    for what, column in keys.items():
        values, counts = np.unique(column.astype(str), return_counts=True)
        common = [value for _, value in sorted(zip(-counts, values, strict=True))[:PARTS_MAX]]
        found[what] = {}
        for value in sorted(map(str, common)):
            some = {name: cells[column == value] for name, cells in pods.items()}
            found[what][value] = {
                **{f"wait_{key}": number for key, number in waits(some).items()},
                "slowdown_mean": _slowdown(some).get("mean", 0.0),
                "pods": len(some["name"]),
            }
    return found


def _kind(requests: Mapping[str, int]) -> str:
    more = sorted(name for name, amount in requests.items() if amount and "/" in name)
    return "with " + ", ".join(more) if more else "cpu and memory"


def _size(milli_cpu: int) -> str:
    for most, name in ((1000, "up to 1 cpu"), (4000, "up to 4 cpu"), (16000, "up to 16 cpu")):
        if milli_cpu <= most:
            return name
    return "above 16 cpu"
