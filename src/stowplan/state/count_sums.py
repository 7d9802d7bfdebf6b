"""Many sorts of pods counted as one: what the terms of a pod with a thousand of them come to.

A column for each sort, followed pod by pod (`state.count_index`), is for few sorts: with a
thousand, every pod that comes or goes would pay for all of them.  So here nothing is followed.
What each kind of running pod weighs is remembered, and all pods are added up anew, by a few array
operations, when somebody asks after a change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from stowplan.state.counts import CountColumn, DomainCounts
from stowplan.state.pod_info import PodKind
from stowplan.state.pod_sorts import NO_PODS
from stowplan.state.pod_table import PodTable, Serials
from stowplan.state.row_set import ALL_NODES, all_nodes

if TYPE_CHECKING:
    from stowplan.state.node_table import NodeTable


class Weigher(Protocol):
    def weigh(self, kind: PodKind) -> int:
        """How much a pod of this kind counts; never below 0."""


class SumQuery:
    """Asks for `DomainCounts` of many sorts at once, again and again."""

    __slots__ = ("_counts", "_seen", "_serials", "_weigher", "_weights", "topology_key")

    rows_key = ALL_NODES
    member = staticmethod(all_nodes)

    def __init__(self, weigher: Weigher, topology_key: str) -> None:
        self.topology_key = topology_key
        self._weigher = weigher
        self._weights: Serials = np.zeros(0, np.int64)
        """Per kind slot of the pod table, of the kinds with these serials."""
        self._serials: Serials = np.zeros(0, np.int64)
        self._counts: DomainCounts | None = None
        self._seen: tuple[object, ...] = ()

    def ask(self, table: NodeTable) -> DomainCounts:
        pods = table.pods
        version = (table.version, table.label(self.topology_key))
        if self._counts is None or self._seen != version:
            table.counts.is_summed = True
            self._catch_up(pods)
            column = CountColumn(NO_PODS, table.size, table.capacity, np.int64)
            if self._weights.any():
                column.build(self._weights, pods.kind_slots, pods.rows)
            self._counts = DomainCounts(column, table.counts.domains_of(self))
            self._counts.refresh()
            self._seen = version
        return self._counts

    def _catch_up(self, pods: PodTable) -> None:
        """Weigh the kinds that were not there the last time."""
        serials = pods.kind_serials
        known, weights = np.zeros(len(serials), np.int64), np.zeros(len(serials), np.int64)
        kept = min(len(serials), len(self._serials))
        known[:kept], weights[:kept] = self._serials[:kept], self._weights[:kept]
        for slot in np.flatnonzero(known != serials).tolist():
            kind = pods.kinds[slot]
            weights[slot] = 0 if kind is None else self._weigher.weigh(kind)
        self._serials, self._weights = serials.copy(), weights
