"""CheapNodes: prefer nodes that cost less, by a label with their price.

Shows a score and args.  `fast/cheap_nodes.py` gives the same scores for all nodes at once.
"""

from __future__ import annotations

from typing import Any

from stowplan.plugin import MAX_NODE_SCORE, Cycle, Handle, NodeInfo, PodInfo

PRICE = "example.com/price"


class CheapNodes:
    name = "CheapNodes"

    def __init__(self, args: Any, handle: Handle) -> None:
        self._highest = int((args or {}).get("highestPrice", 100))
        if self._highest < 1:
            raise ValueError(f"highestPrice is {self._highest}, and must be positive")

    def score_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> int:
        return self._score(node.labels.get(PRICE))

    def _score(self, price: str | None) -> int:
        """A node without a price counts as the dearest."""
        known = int(price) if price is not None and price.isdecimal() else self._highest
        return MAX_NODE_SCORE * max(0, self._highest - known) // self._highest
