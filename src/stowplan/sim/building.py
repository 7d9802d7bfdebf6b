"""A trace made row by row: what readers have in common.

`TraceBuilder` keeps one copy of each template, gives every pod a name of its own, counts rows
that make no sense (`dirt.py`), and at the end puts pods and nodes in order and moves all times so
that the trace begins at 0.  Readers hand it times as their source has them.
"""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stowplan.errors import InputError
from stowplan.sim.dirt import Dirt
from stowplan.sim.trace import HOST, Change, Manifest, Outcome, Trace, Verb, namespace_of

ROWS_MAX = 100_000_000
"""Pods or nodes of one trace."""

_encode = msgspec.json.Encoder(order="deterministic").encode


class Templates:
    """Manifests without names, each kept once."""

    def __init__(self) -> None:
        self.manifests: list[Manifest] = []
        self._positions: dict[bytes, int] = {}

    def position(self, template: Manifest) -> int:
        key = _encode(template)
        position = self._positions.get(key)
        if position is None:
            position = self._positions[key] = len(self.manifests)
            self.manifests.append(template)
        return position


@dataclass(slots=True)
class _Names:
    """Names that were given, per namespace; a name that comes again gets a number."""

    taken: dict[tuple[str, str], int] = field(default_factory=dict)

    def give(self, namespace: str, name: str) -> str:
        count = self.taken.get((namespace, name), 0) + 1
        self.taken[namespace, name] = count
        while count > 1 and (namespace, f"{name}-{count}") in self.taken:
            count += 1
        if count == 1:
            return name
        self.taken[namespace, name] = count
        given = f"{name}-{count}"
        self.taken[namespace, given] = 1
        return given


@dataclass(slots=True)
class _Nodes:
    template: array[int] = field(default_factory=lambda: array("i"))
    names: list[str] = field(default_factory=list)
    joins_s: array[float] = field(default_factory=lambda: array("d"))
    leaves_s: array[float] = field(default_factory=lambda: array("d"))
    positions: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Pods:
    template: array[int] = field(default_factory=lambda: array("i"))
    names: list[str] = field(default_factory=list)
    arrival_s: array[float] = field(default_factory=lambda: array("d"))
    run_s: array[float] = field(default_factory=lambda: array("d"))
    end_s: array[float] = field(default_factory=lambda: array("d"))
    outcome: array[int] = field(default_factory=lambda: array("B"))
    node: list[str] = field(default_factory=list)


class TraceBuilder:
    """Times are those of the source, in seconds; `build` is told which of them is 0."""

    def __init__(self) -> None:
        self.dirt = Dirt()
        self.pod_templates = Templates()
        self.node_templates = Templates()
        self._namespaces: list[str] = []
        self._names = _Names()
        self._pods = _Pods()
        self._nodes = _Nodes()
        self._changes: list[Change] = []

    def pod_template(self, manifest: Manifest) -> int:
        position = self.pod_templates.position(manifest)
        if position == len(self._namespaces):
            self._namespaces.append(namespace_of(manifest))
        return position

    def node_template(self, manifest: Manifest) -> int:
        return self.node_templates.position(manifest)

    def add_pod(
        self,
        template: int,
        *,
        name: str,
        arrival_s: float,
        start_s: float = math.nan,
        end_s: float = math.nan,
        outcome: Outcome = Outcome.DELETED,
        node: str = "",
        where: str = "",
        reuses_names: bool = False,
    ) -> bool:
        """False when the row makes no sense and was left out.  nan: unknown.

        `reuses_names`: in this source a name comes again when its pod has gone, which is no dirt.
        """
        pods = self._pods
        where = where or name
        if len(pods.names) >= ROWS_MAX:
            raise InputError(f"more than {ROWS_MAX:,} pods", where=where)
        problem = _wrong_times(arrival_s, start_s, end_s)
        if problem:
            self.dirt.add(f"pods {problem}: left out", where)
            return False
        given = self._names.give(self._namespaces[template], name)
        if given != name and not reuses_names:
            self.dirt.add("names that other pods have: a number was added", f"{where}: {name}")
        started_s = arrival_s if math.isnan(start_s) else start_s
        pods.template.append(template)
        pods.names.append(given)
        pods.arrival_s.append(arrival_s)
        pods.run_s.append(math.inf if math.isnan(end_s) else end_s - started_s)
        pods.end_s.append(end_s)
        pods.outcome.append(outcome)
        pods.node.append(node)
        return True

    def add_node(
        self,
        template: int,
        *,
        name: str,
        joins_s: float = -math.inf,
        leaves_s: float = math.inf,
        where: str = "",
    ) -> bool:
        """-inf: it is there from the beginning."""
        nodes = self._nodes
        where = where or name
        if len(nodes.names) >= ROWS_MAX:
            raise InputError(f"more than {ROWS_MAX:,} nodes", where=where)
        if name in nodes.positions:
            self.dirt.add("names that other nodes have: left out", f"{where}: {name}")
            return False
        if math.isnan(joins_s) or leaves_s < joins_s:
            self.dirt.add("nodes that leave before they join: left out", where)
            return False
        nodes.positions[name] = len(nodes.names)
        nodes.template.append(template)
        nodes.names.append(name)
        nodes.joins_s.append(joins_s)
        nodes.leaves_s.append(leaves_s)
        return True

    def add_change(self, time_s: float, verb: Verb, manifest: Manifest) -> None:
        self._changes.append(Change(time_s, verb, manifest))

    def first_s(self) -> float:
        """The earliest time that anything has; 0 when nothing has one."""
        times = [min(self._pods.arrival_s, default=math.inf)]
        times.append(min((t for t in self._nodes.joins_s if t > -math.inf), default=math.inf))
        times.append(min((change.time_s for change in self._changes), default=math.inf))
        first = min(times)
        return first if math.isfinite(first) else 0.0

    def build(self, name: str, *, zero_s: float = 0.0, start_s: float = 0.0) -> Trace:
        """`zero_s` is the source's time at which the trace begins; what is older was there then."""
        nodes, joined_s, node_rows = self._ordered_nodes(zero_s)
        pods = self._pods
        arrival_s, run_s, end_s, kept = self._begun(
            np.array(pods.arrival_s, np.float64) - zero_s,
            np.array(pods.run_s, np.float64),
            np.array(pods.end_s, np.float64) - zero_s,
        )
        order = kept[np.argsort(arrival_s[kept], kind="stable")]
        placed = self._placements(nodes)
        self._changes.sort(key=lambda change: change.time_s)
        return Trace(
            name=name,
            start_s=start_s,
            pod_templates=tuple(self.pod_templates.manifests),
            pod_template=np.array(pods.template, np.int32)[order],
            pod_names=tuple(pods.names[n] for n in order.tolist()),
            pod_arrival_s=arrival_s[order],
            pod_run_s=run_s[order],
            pod_end_s=end_s[order],
            pod_outcome=np.array(pods.outcome, np.uint8)[order],
            pod_node=None if placed is None else placed[order],
            node_templates=tuple(self.node_templates.manifests),
            node_template=np.array(self._nodes.template, np.int32)[node_rows],
            node_names=tuple(nodes),
            node_joins_s=joined_s[node_rows],
            node_leaves_s=np.maximum(
                np.array(self._nodes.leaves_s, np.float64)[node_rows] - zero_s,
                joined_s[node_rows],
            ),
            changes=tuple(
                Change(max(0.0, change.time_s - zero_s), change.verb, change.object)
                for change in self._changes
            ),
            remarks=self.dirt.remarks(),
        )

    def _ordered_nodes(
        self, zero_s: float
    ) -> tuple[dict[str, int], NDArray[np.float64], NDArray[np.intp]]:
        """Name -> position in order; when each row joins; the rows in order."""
        joins_s = np.maximum(np.array(self._nodes.joins_s, np.float64) - zero_s, 0.0)
        rows = np.argsort(joins_s, kind="stable")
        names = self._nodes.names
        return {names[row]: n for n, row in enumerate(rows.tolist())}, joins_s, rows

    def _begun(
        self,
        arrival_s: NDArray[np.float64],
        run_s: NDArray[np.float64],
        end_s: NDArray[np.float64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.intp]]:
        """Pods older than the trace arrive at 0 and run for what is left of their time."""
        early = arrival_s < 0
        gone = early & (end_s < 0)
        if gone.any():
            example = self._pods.names[int(np.argmax(gone))]
            self.dirt.add(
                "pods that end before the trace begins: left out", example, int(gone.sum())
            )
        there = early & ~gone
        if there.any():
            example = self._pods.names[int(np.argmax(there))]
            self.dirt.add(
                "pods older than the trace: they arrive at its start", example, int(there.sum())
            )
        left_s = np.where(np.isnan(end_s), run_s, np.minimum(run_s, np.maximum(end_s, 0.0)))
        kept = np.flatnonzero(~gone)
        return np.maximum(arrival_s, 0.0), np.where(there, left_s, run_s), end_s, kept

    def _placements(self, nodes: dict[str, int]) -> NDArray[np.int32] | None:
        pods = self._pods
        if not any(pods.node):
            return None
        placed = np.full(len(pods.names), -1, np.int32)
        for row, node in enumerate(pods.node):
            if not node:
                continue
            position = nodes.get(node)
            if position is None:
                self.dirt.add(
                    "pods on nodes that the trace does not have: placement left out",
                    f"{pods.names[row]} on {node}",
                )
            else:
                placed[row] = position
        return placed


def nameless(manifest: Manifest) -> dict[str, Any]:
    """What a pod or node shares with its replicas: no name, nothing that a cluster wrote."""
    metadata = manifest.get("metadata") or {}
    kept = {
        key: metadata[key]
        for key in ("namespace", "labels", "annotations", "ownerReferences")
        if metadata.get(key)
    }
    labels = kept.get("labels")
    if labels and labels.get(HOST) == metadata.get("name"):
        kept["labels"] = {key: value for key, value in labels.items() if key != HOST}
    return {**manifest, "metadata": kept}


def _wrong_times(arrival_s: float, start_s: float, end_s: float) -> str:
    if not math.isfinite(arrival_s):
        return "without an arrival"
    if end_s < arrival_s:
        return "that end before they arrive"
    if start_s < arrival_s:
        return "that start before they arrive"
    return "that end before they start" if end_s < start_s else ""
