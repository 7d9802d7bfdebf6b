"""Pod affinity as scores: weighted counts of pods per topology domain, brought to 0..100.

Where there are few domains everything is worked out per domain; where each node is a domain of its
own, what was worked out is kept (`host_scores`).  Mirrors kube-scheduler's
`interpodaffinity/scoring.go`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from stowplan.framework.status import Rows, Scores
from stowplan.plugins._shared.kept_columns import KeptColumns
from stowplan.plugins.inter_pod_affinity.affinity_terms import Weighted
from stowplan.plugins.inter_pod_affinity.host_scores import (
    HostScores,
    Shares,
    normalized,
    per_value,
    shares_of,
)
from stowplan.state.label_column import LabelColumn
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import PodKind

_FEW_DOMAINS = 64
"""So few are gone through faster one by one than by array operations."""


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
        rows: Rows | slice,
        kept: KeptColumns[HostScores],
    ) -> Scores | int:
        """What counts of them: a number if it is the same for all rows."""
        if len(self._by_key) == 1:
            [shares] = self._by_key.values()
            counts = shares[0][1]
            row_count = nodes.size if isinstance(rows, slice) else len(rows)
            if len(counts.sums) <= _FEW_DOMAINS and len(counts.sums) < row_count:
                return _by_domain(shares, counts.label, nodes, rows)
            if counts.domains.are_single_nodes:
                host_scores = kept.of(kind, nodes)
                return host_scores.normalized(nodes, rows, self._weights, shares)
        return normalized(self.of_rows(rows))


def _by_domain(
    shares: Shares, label: LabelColumn, nodes: NodeTable, rows: Rows | slice
) -> Scores | int:
    """Few domains: what the highest and the lowest of those with nodes make of each of them."""
    raw = [0] * (len(label.values) + 1)
    for share, counts in shares:
        raw = [score + share * count for score, count in zip(raw, counts.to_list(), strict=True)]
    ids = label.ids[rows]
    if isinstance(rows, slice) or len(rows) == nodes.node_count:
        present = label.present_numbers(nodes.alive, nodes.node_version)
    else:
        # One more than a number, so that a node without the label is counted too.
        present = [n - 1 for n, count in enumerate(np.bincount(ids + 1).tolist()) if count]
    there = [raw[number] for number in present]
    lowest = min(there)
    spread = max(there) - lowest
    return shares_of(np.array(raw) - lowest, spread).take(ids) if spread else 0
