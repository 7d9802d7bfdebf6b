"""One run: a trace through the whole scheduler, under the virtual clock.

What is known beforehand (arrivals, recorded ends, nodes that join, leave and fail, changes) is one
list of moments; the cluster runs from each to the next (`world.stream`), and what happens to
pods is written down in columns (`record`).  Nothing here looks at nodes or pods to decide anything:
that is the scheduler's business.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stowplan.sim.failing import failure_times
from stowplan.sim.record import NEVER, NodeFacts, Record, State, node_facts
from stowplan.sim.scaling import Scaler
from stowplan.sim.settings import Settings
from stowplan.sim.trace import Trace
from stowplan.sim.workload import Workload, make_workload
from stowplan.world.setup import Setup
from stowplan.world.stream import Stream

# What happens at one moment happens in this order: room is made before it is taken.
END, LEAVE, JOIN, CHANGE, ARRIVE, END_AT_ONCE, SCALE, SAMPLE = range(8)

SETTLE_S = 1.0
"""How long a run lasts at least: what arrives in its first moment is decided on."""

CHUNK = 1 << 16
"""Moments that are turned into Python numbers at a time."""

Moment = tuple[float, int, int]
Told = Callable[[int, int], None]
"""How far a run is: pods that have arrived, and how many there are."""


def run_one(
    trace: Trace,
    nodes: Sequence[Mapping[str, Any]] | None,
    settings: Settings,
    setup: Setup,
    told: Told | None = None,
) -> tuple[Workload, Record]:
    """`nodes`: instead of those of the trace, there from the beginning."""
    workload = make_workload(trace, settings)
    run = TraceRun(trace, nodes, workload, settings, setup)
    with run.stream:
        run.go(told)
    return workload, run.record


class TraceRun:
    """A trace on its way through a cluster."""

    def __init__(
        self,
        trace: Trace,
        nodes: Sequence[Mapping[str, Any]] | None,
        workload: Workload,
        settings: Settings,
        setup: Setup,
    ) -> None:
        self._trace, self._workload, self._settings = trace, workload, settings
        self._own_nodes = nodes
        self.end_s = _last_moment(trace, nodes is None, workload, settings)
        samples = np.linspace(0.0, self.end_s, settings.samples)
        self.record = Record(workload.count, samples)
        self.stream = Stream(setup, self)
        self._templates = [
            self.stream.template(one, f"pod template {n}")
            for n, one in enumerate(trace.pod_templates)
        ]
        self._run_s = workload.run_s
        self._arrived = 0
        self._pods: dict[str, int] = {}
        """Pods that are there, by key."""
        self._keys: dict[int, str] = {}
        self._stay: dict[int, int] = {}
        """Pods on nodes -> their row in the record."""
        self._names = tuple(
            str(node["metadata"]["name"]) for node in nodes or ()
        ) if nodes is not None else trace.node_names  # fmt: skip
        self._facts: dict[int, NodeFacts] = {}
        self._node_up: dict[int, bool] = {}
        self._later: list[Moment] = []
        """Moments that came up on the way."""
        self._scaler = Scaler(self, settings.autoscaler) if settings.autoscaler else None

    # -- time -------------------------------------------------------------------------------

    def go(self, told: Told | None) -> None:
        count = self._workload.count
        for pods in self.arrivals():
            self.arrive(pods)
            if told is not None:
                told(self._arrived, count)

    def arrivals(self) -> Iterator[list[int]]:
        """Pods whose time has come, while all else happens: who asks lets them `arrive`, or not."""
        handlers = {
            END: self.end, END_AT_ONCE: self.end, LEAVE: self._leave, JOIN: self._join,
            CHANGE: self._change, SCALE: self._scale, SAMPLE: self._sample,
        }  # fmt: skip
        stream = self.stream
        if self._scaler is not None:
            self._scaler.begin()
        for (time_s, rank), same in groupby(self._moments(), key=_when):
            stream.run_until(time_s)
            indices = [index for _, _, index in same]
            if rank == ARRIVE:
                yield indices
            else:
                handlers[rank](indices)
            if self._scaler is not None:
                self._scaler.look(time_s)
        stream.run_until(self.end_s)
        self.record.end_s = self.end_s

    def plan(self, time_s: float, rank: int, index: int = 0) -> None:
        """Something that was not known when the run began."""
        if time_s <= self.end_s:
            heapq.heappush(self._later, (time_s, rank, index))

    def _moments(self) -> Iterator[Moment]:
        """All of them in order, those that come up on the way included."""
        later = self._later
        for moment in self._known_moments():
            while later and later[0] < moment:
                yield heapq.heappop(later)
            yield moment
        while later:
            yield heapq.heappop(later)

    def _known_moments(self) -> Iterator[Moment]:
        times, ranks, indices = self._known_columns()
        order = np.lexsort((indices, ranks, times))
        order = order[times[order] <= self.end_s]
        for start in range(0, len(order), CHUNK):
            some = order[start : start + CHUNK]
            yield from zip(
                times[some].tolist(), ranks[some].tolist(), indices[some].tolist(), strict=True
            )

    def _known_columns(self) -> tuple[NDArray[Any], ...]:
        work, trace = self._workload, self._trace
        parts: list[tuple[int, NDArray[Any], NDArray[Any]]] = []
        pods = np.arange(work.count)
        parts.append((ARRIVE, work.arrival_s, pods))
        ends = np.isfinite(work.end_s)
        brief = work.end_s <= work.arrival_s
        late, now = pods[ends & ~brief], pods[ends & brief]
        parts.append((END, work.end_s[late], late))
        parts.append((END_AT_ONCE, work.arrival_s[now], now))
        nodes = np.arange(len(self._names))
        if self._own_nodes is None:
            joins_s, leaves_s = trace.node_joins_s, trace.node_leaves_s
        else:
            joins_s, leaves_s = np.zeros(len(nodes)), np.full(len(nodes), np.inf)
        parts.append((JOIN, joins_s, nodes))
        gone = np.isfinite(leaves_s)
        parts.append((LEAVE, leaves_s[gone], nodes[gone]))
        if self._settings.failures is not None:
            fails, returns = failure_times(
                self._settings.failures, self._settings.seed, joins_s, leaves_s, self.end_s
            )
            self.record.failures = len(fails[0])
            parts += [(LEAVE, *fails), (JOIN, *returns)]
        changes = np.array([one.time_s for one in trace.changes], np.float64)
        parts.append((CHANGE, changes, np.arange(len(changes))))
        samples = self.record.sample_s
        parts.append((SAMPLE, samples, np.arange(len(samples))))
        return (
            np.concatenate([times for _, times, _ in parts]),
            np.concatenate([np.full(len(times), rank, np.int8) for rank, times, _ in parts]),
            np.concatenate([indices for _, _, indices in parts]).astype(np.int64),
        )

    # -- what happens -----------------------------------------------------------------------

    def arrive(self, pods: Sequence[int]) -> None:
        state, trace, work = self.record.state, self._trace, self._workload
        made = []
        for index in pods:
            state[index] = State.PENDING
            made.append(self._named(index, work.name(trace, index)))
        self._arrived += len(pods)
        self.stream.create(made)

    def _named(self, index: int, name: str) -> tuple[Any, str]:
        template = self._templates[self._workload.template[index]]
        key = f"{template.metadata.namespace}/{name}"
        self._pods[key] = index
        self._keys[index] = key
        return template, name

    def end(self, pods: Sequence[int]) -> None:
        now_s, record = self.stream.now_s, self.record
        keys = []
        for index in pods:
            key = self._keys.pop(index, None)
            if key is None:
                continue  # It was lost before.
            del self._pods[key]
            keys.append(key)
            record.left_s[index] = now_s
            ran = self._leaves_node(index, now_s)
            record.state[index] = State.ENDED if ran else State.LOST
        self.stream.end(keys)

    def _leaves_node(self, index: int, now_s: float) -> bool:
        stay = self._stay.pop(index, None)
        if stay is None:
            return False
        stays = self.record.stays
        stays.end_s[stay] = now_s
        if self._scaler is not None:
            self._scaler.left(stays.where[stay], now_s)
        return True

    def _join(self, nodes: list[int]) -> None:
        manifests = []
        for index in nodes:
            if self._node_up.get(index):
                continue
            self._node_up[index] = True
            manifest = self._node(index)
            facts = self._facts.get(index)
            if facts is None:
                facts = self._facts[index] = node_facts(manifest, self._settings.prices)
            self.record.node_joins(facts, self.stream.now_s)
            manifests.append(manifest)
        self.stream.add_nodes(manifests)

    def _node(self, index: int) -> dict[str, Any]:
        if self._own_nodes is None:
            return self._trace.node(index)
        return dict(self._own_nodes[index])

    def _leave(self, nodes: list[int]) -> None:
        for index in nodes:
            if self._node_up.get(index):
                self._node_up[index] = False
                name = self._names[index]
                self.record.node_leaves(self.record.node_index[name], self.stream.now_s)
                self.stream.remove_node(name)

    def _change(self, changes: list[int]) -> None:
        cluster = self.stream.cluster
        for index in changes:
            change = self._trace.changes[index]
            data = dict(change.object)
            if change.verb == "apply":
                cluster.apply(data)
            else:
                meta = data["metadata"]
                key = f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else meta["name"]
                cluster.delete(key, data["kind"])

    def _scale(self, _: list[int]) -> None:
        if self._scaler is not None:
            self._scaler.act(self.stream.now_s)

    def _sample(self, samples: list[int]) -> None:
        self.record.pending += [self.stream.pending_by_cause()] * len(samples)

    # -- told by the stream -----------------------------------------------------------------

    def bound(self, key: str, node: str, now_s: float) -> float | None:
        index = self._pods.get(key)
        if index is None:
            return None
        record = self.record
        where = record.node_index[node]
        self._stay[index] = record.stays.begin(index, where, now_s)
        record.state[index] = State.RUNNING
        if self._scaler is not None:
            self._scaler.took(where)
        run_s = float(self._run_s[index])
        return run_s if math.isfinite(run_s) else None

    def due(self, keys: Sequence[str], now_s: float) -> None:
        """A pod that was evicted and came back has another name: its old time means nothing."""
        found = (self._pods.get(key) for key in keys)
        self.end([index for index in found if index is not None])

    def lost(self, keys: Sequence[str], now_s: float) -> None:
        record, again = self.record, []
        for key in keys:
            index = self._pods.pop(key, None)
            if index is None:
                continue
            del self._keys[index]
            if self._leaves_node(index, now_s):
                record.evictions[index] += 1
            if self._settings.evicted == "lost":
                record.state[index] = State.LOST
                record.left_s[index] = now_s
                continue
            record.state[index] = State.PENDING
            name = self._workload.name(self._trace, index)
            again.append(self._named(index, f"{name}-again-{record.evictions[index]}"))
        self.stream.create(again)

    def decided(self, key: str, node: str, now_s: float) -> None:
        self.record.decisions += 1
        index = self._pods.get(key)
        if index is not None:
            self.record.attempts[index] += 1


def _when(moment: Moment) -> tuple[float, int]:
    return moment[0], moment[1]


def _last_moment(
    trace: Trace, has_trace_nodes: bool, workload: Workload, settings: Settings
) -> float:
    """When the run is over: at the time that was given, or when nothing more is known to come."""
    columns = [workload.arrival_s, workload.end_s, workload.arrival_s + workload.run_s]
    columns.append(np.array([change.time_s for change in trace.changes], np.float64))
    if has_trace_nodes:
        columns += [trace.node_joins_s, trace.node_leaves_s]
    known = [float(c[np.isfinite(c)].max()) for c in columns if np.isfinite(c).any()]
    last_s = max(known, default=0.0)
    if settings.until_s < NEVER:
        return max(settings.until_s, SETTLE_S)
    return max(last_s, SETTLE_S)
