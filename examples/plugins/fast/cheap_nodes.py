"""CheapNodes for large clusters: the price is read once per distinct label, not once per node."""

from __future__ import annotations

from typing import Any

import numpy as np

from stowplan.plugin import (
    MAX_NODE_SCORE,
    Cycle,
    Handle,
    NodeInfo,
    NodeTable,
    PodInfo,
    Reads,
    Rows,
    Scores,
)

PRICE = "example.com/price"


class CheapNodes:
    name = "CheapNodes"
    reads = Reads.NODE

    def __init__(self, args: Any, handle: Handle) -> None:
        self._highest = int((args or {}).get("highestPrice", 100))
        if self._highest < 1:
            raise ValueError(f"highestPrice is {self._highest}, and must be positive")

    def score_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> int:
        return self._score(node.labels.get(PRICE))

    def score_nodes(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows | slice
    ) -> Scores:
        prices = nodes.label(PRICE)
        by_value = np.array([self._score(value) for value in (*prices.values, None)], np.int64)
        scores: Scores = by_value[prices.ids[rows]]
        return scores

    def _score(self, price: str | None) -> int:
        """A node without a price counts as the dearest."""
        known = int(price) if price is not None and price.isdecimal() else self._highest
        return MAX_NODE_SCORE * max(0, self._highest - known) // self._highest
