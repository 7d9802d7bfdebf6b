"""Pod affinity as scores: weighted counts of pods per topology domain, brought to 0..100.

Between two pods of one kind little changes: the counts of a domain or two.  Where there are few
domains everything is worked out per domain; where each node is a domain of its own, the raw scores
are kept and follow the rows that changed.  Mirrors kube-scheduler's `interpodaffinity/scoring.go`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from stowplan.framework.status import MAX_NODE_SCORE, Rows, Scores
from stowplan.plugins._shared.affinity_terms import Weighted
from stowplan.plugins._shared.kept_columns import KeptColumns
from stowplan.state.counts import DomainCounts
from stowplan.state.label_column import LabelColumn
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import PodKind

Shares = list[tuple[int, DomainCounts]]
"""What each pod counted adds to the score of its domain."""

_FEW_ROWS = 16
"""Up to so many changed rows are followed one by one."""

_FEW_DOMAINS = 64
"""So few are gone through faster one by one than by array operations."""

_TABLE_MAX = 1024


class HostScores:
    """Raw scores per row for a key of which no two nodes have the same value."""

    __slots__ = ("_cells", "_node_version", "_raw", "_seen", "_weights", "used")

    def __init__(self) -> None:
        self._raw: Scores = np.zeros(0, np.int64)
        self._cells = self._raw.data
        self._weights: Sequence[Weighted] | None = None
        self._node_version = -1
        self._seen = -1
        self.used = 0

    def catch_up(self, nodes: NodeTable, weights: Sequence[Weighted], shares: Shares) -> Scores:
        """`weights` are known by identity: with others, all is looked at again."""
        label = shares[0][1].label
        few = None
        if self._weights is weights and self._node_version == nodes.node_version:
            few = nodes.few_rows_newer_than(self._seen, _FEW_ROWS)
        if few is None:
            self._raw = per_value(shares).take(label.ids)
            self._cells = self._raw.data
            self._weights, self._node_version = weights, nodes.node_version
        for row in few or ():
            number = label.number_at(row)
            self._cells[row] = sum(weight * counts.of(number) for weight, counts in shares)
        self._seen = nodes.version
        return self._raw


class AffinityScores:
    """What PreScore found for one pod: all that adds to a score, by topology key."""

    __slots__ = ("_by_key", "_weights")

    def __init__(self, weights: Sequence[Weighted], table: NodeTable) -> None:
        self._weights = weights
        self._by_key: dict[str, Shares] = {}
        for weight, query in weights:
            counts = query.ask(table)
            if counts.total:
                self._by_key.setdefault(query.topology_key, []).append((weight, counts))

    @property
    def is_empty(self) -> bool:
        return not self._by_key

    def of_node(self, labels: Mapping[str, str]) -> int:
        total = 0
        for key, shares in self._by_key.items():
            value = labels.get(key)
            if value is not None:
                number = shares[0][1].label.id_of(value)
                total += sum(weight * counts.of(number) for weight, counts in shares)
        return total

    def of_rows(self, rows: Rows | slice) -> Scores:
        """The raw scores."""
        total: Scores | None = None
        for shares in self._by_key.values():
            scores = per_value(shares).take(shares[0][1].label.ids[rows])
            total = scores if total is None else total + scores
        assert total is not None, "PreScore skips a pod that nothing is said about"
        return total

    def normalized(
        self,
        kind: PodKind,
        nodes: NodeTable,
        rows: Rows,
        weight: int,
        kept: KeptColumns[HostScores],
    ) -> Scores | int:
        """What counts of them: a number if it is the same for all rows."""
        everyone = len(rows) == nodes.size
        if len(self._by_key) == 1:
            [shares] = self._by_key.values()
            counts = shares[0][1]
            if len(counts.sums) <= _FEW_DOMAINS and len(counts.sums) < len(rows):
                return _by_domain(shares, counts.label, nodes, rows, weight)
            if counts.domains.are_single_nodes:
                raw = kept.of(kind, nodes).catch_up(nodes, self._weights, shares)
                return normalized(raw if everyone else raw[rows], weight)
        return normalized(self.of_rows(slice(0, nodes.size) if everyone else rows), weight)


def per_value(shares: Shares) -> Scores:
    """Raw scores per value of the key, and 0 in the slot for nodes that lack it."""
    (weight, counts), *others = shares
    total: Scores = counts.sums * np.int64(weight)
    for weight, counts in others:
        total += counts.sums * np.int64(weight)
    return total


def normalized(raw: Scores, weight: int) -> Scores | int:
    """The lowest becomes 0, the highest 100 times the weight; 0 if all are the same."""
    lowest = int(np.minimum.reduce(raw))
    spread = int(np.maximum.reduce(raw)) - lowest
    if spread == 0:
        return 0
    above = raw - lowest
    if spread <= _TABLE_MAX:
        # Cheaper for each score there can be than for each node.
        return _share_table(spread, weight).take(above)
    return _shares(above, spread, weight)


def _by_domain(
    shares: Shares, label: LabelColumn, nodes: NodeTable, rows: Rows, weight: int
) -> Scores | int:
    """Few domains: what the highest and the lowest of those with nodes make of each of them."""
    raw = [0] * (len(label.values) + 1)
    for share, counts in shares:
        raw = [score + share * count for score, count in zip(raw, counts.to_list(), strict=True)]
    ids = label.ids if len(rows) == nodes.size else label.ids[rows]
    if len(rows) == nodes.node_count:
        present = label.present_numbers(nodes.alive, nodes.node_version)
    else:
        # One more than a number, so that a node without the label is counted too.
        present = [n - 1 for n, count in enumerate(np.bincount(ids + 1).tolist()) if count]
    there = [raw[number] for number in present]
    lowest = min(there)
    spread = max(there) - lowest
    return _shares(np.array(raw) - lowest, spread, weight).take(ids) if spread else 0


@lru_cache(maxsize=64)
def _share_table(spread: int, weight: int) -> Scores:
    return _shares(np.arange(spread + 1), spread, weight)


def _shares(above: Scores, spread: int, weight: int) -> Scores:
    """Divided first, then multiplied: 29 of 100 becomes 28, as upstream has it."""
    return weight * (MAX_NODE_SCORE * (above / spread)).astype(np.int64)
