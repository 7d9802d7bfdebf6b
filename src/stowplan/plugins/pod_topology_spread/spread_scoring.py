"""Soft spread constraints weighed: what each adds to a node's raw score.

A constraint over many domains weighs more than one over few, by the logarithm of their number
among the feasible nodes.  A part of the score comes from a count of pods, so it is the same for
all rows with the same number (`row_classes`): of pods on the node, or of the domain.
Mirrors kube-scheduler's `podtopologyspread/scoring.go`.
"""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stowplan.framework.status import Rows
from stowplan.plugins.pod_topology_spread.spread_constraint import HOSTNAME, Tracked
from stowplan.state.counts import CountColumn, DomainCounts
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable

Floats = NDArray[np.floating[Any]]


class PerNode:
    """A constraint over hosts: each node is its own domain, included or not."""

    __slots__ = ("_base", "_column", "_tracked", "_weight", "topology_key")

    def __init__(self, tracked: Tracked, column: CountColumn, size: int) -> None:
        self.topology_key = tracked.constraint.topology_key
        self._tracked = tracked
        self._column = column
        self._weight = log(size + 2)
        self._base = float(tracked.constraint.max_skew - 1)

    def of_node(self, node: NodeInfo, value: str) -> float:
        return self._tracked.count_on(node) * self._weight + self._base

    def of_rows(self, nodes: NodeTable, rows: Rows | slice) -> Floats:
        scores: Floats = self._column.per_row[rows] * self._weight
        scores += self._base
        label = nodes.label(HOSTNAME)
        if label.present(nodes.alive, nodes.node_version)[-1]:
            scores[label.ids[rows] < 0] = 0.0
        return scores

    @property
    def basis(self) -> object:
        return self._tracked

    def numbers(self) -> NDArray[np.integer[Any]]:
        return self._column.per_row

    def number_of(self, row: int) -> int:
        return self._column.on(row)

    def number_limit(self, nodes: NodeTable) -> int:
        if nodes.label(HOSTNAME).present(nodes.alive, nodes.node_version)[-1]:
            # A node without a host name gets nothing, whatever the number of pods.
            return 0
        highest = int(self._column.per_row.max(initial=0))
        return max(_PODS_MIN, 1 << (highest + 1).bit_length())

    def of_numbers(self, limit: int) -> list[float]:
        weight, base = self._weight, self._base
        return [number * weight + base for number in range(limit)]


class PerDomain:
    """A constraint over any other label."""

    __slots__ = ("_base", "_counts", "_unlabelled", "_weight", "topology_key")

    def __init__(
        self, tracked: Tracked, counts: DomainCounts, size: int, unlabelled: int = 0
    ) -> None:
        self.topology_key = tracked.constraint.topology_key
        self._counts = counts
        self._weight = log(size + 2)
        self._base = float(tracked.constraint.max_skew - 1)
        self._unlabelled = unlabelled
        """Pods on nodes without the label, which count for the value ""."""

    def of_node(self, node: NodeInfo, value: str) -> float:
        counts = self._counts
        count = int(counts.sums[counts.label.id_of(value)])
        if value == "":
            count += self._unlabelled
        return count * self._weight + self._base

    def of_rows(self, nodes: NodeTable, rows: Rows | slice) -> Floats:
        sums, label = self._counts.sums, self._counts.label
        if self._unlabelled:
            sums = sums.copy()
            sums[label.id_of("")] += self._unlabelled
        per_value: Floats = sums * self._weight + self._base
        per_value[-1] = 0.0
        return per_value.take(label.ids[rows])

    @property
    def basis(self) -> object:
        return self._counts.label

    def numbers(self) -> NDArray[np.integer[Any]]:
        label = self._counts.label
        return np.where(label.ids < 0, len(label.values), label.ids)

    def number_of(self, row: int) -> int:
        label = self._counts.label
        number = label.number_at(row)
        return number if number >= 0 else len(label.values)

    def number_limit(self, nodes: NodeTable) -> int:
        return len(self._counts.label.values) + 1

    def of_numbers(self, limit: int) -> list[float]:
        weight, base, sums = self._weight, self._base, self._counts.to_list()
        if self._unlabelled:
            sums[self._counts.label.id_of("")] += self._unlabelled
        scores = [count * weight + base for count in sums]
        scores[-1] = 0.0
        return scores


Part = PerNode | PerDomain

_PODS_MIN = 8
"""Room for numbers of pods on a node, at the least."""


def weighed(tracked: Tracked, table: NodeTable, rows: Rows, *, require_all: bool) -> Part:
    """`rows` are the feasible ones; without `require_all` some may lack the label."""
    if tracked.constraint.topology_key == HOSTNAME:
        return PerNode(tracked, tracked.per_node.ask(table), len(rows))
    counts = tracked.per_domain.ask(table)
    domains, label = counts.domains, counts.label
    empty = label.id_of("")
    if len(rows) == table.node_count == domains.rows.count and empty < 0:
        # All nodes: how many domains they have is known.
        return PerDomain(tracked, counts, domains.domain_count + (domains.node_count < len(rows)))
    seen = np.zeros(len(label.values) + 1, np.bool_)
    seen[label.ids[rows]] = True
    size = int(np.count_nonzero(seen))
    if require_all or empty < 0:
        return PerDomain(tracked, counts, size)
    # A node without the label counts for the value "", should there be one.
    size -= int(seen[empty] and seen[-1])
    outside = domains.rows.mask & (label.ids < 0)
    return PerDomain(tracked, counts, size, int(counts.column.per_row[outside].sum()))
