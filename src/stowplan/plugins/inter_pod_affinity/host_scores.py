"""Pod affinity scores where each node is a domain of its own: kept, and followed row by row.

A pod that comes or goes changes the raw score of its node and, most of the time, of no other; nor
does it change which is the highest and the lowest, by which all are brought to 0..100.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from stowplan.framework.status import MAX_NODE_SCORE, Rows, Scores
from stowplan.plugins.inter_pod_affinity.affinity_terms import Weighted
from stowplan.state.counts import DomainCounts
from stowplan.state.node_table import NodeTable
from stowplan.state.row_follower import FEW, RowFollower

Shares = list[tuple[int, DomainCounts]]
"""What each pod counted adds to the score of its domain."""

BYTES_PER_ROW = 4 * 8
"""Of `HostScores`: two columns, and two more of the feasible rows."""

_SPREAD_MAX = 1024
"""Between the lowest and the highest score: up to so much, scores are looked up and counted."""


class HostScores:
    __slots__ = ("_cells", "_follower", "_raw", "_rows", "_scale", "used")

    def __init__(self) -> None:
        self.used = 0
        self._raw: Scores = np.zeros(0, np.int64)
        self._cells = self._raw.data
        self._follower = RowFollower()
        self._rows: Rows | None = None
        """The feasible rows when last asked; None: all."""
        self._scale: _Scale | None = None
        """What was made of them, if they were the same twice."""

    def normalized(
        self,
        nodes: NodeTable,
        rows: Rows | slice,
        weights: Sequence[Weighted],
        shares: Shares,
    ) -> Scores | int:
        """Of the feasible rows, which nobody writes to; true until the next call.

        With other `weights` all is looked at again.
        """
        changes = self._catch_up(nodes, weights, shares)
        asked = None if isinstance(rows, slice) else rows
        if changes is None or asked is not self._rows:
            self._rows, self._scale = asked, None
            return normalized(self._raw[rows])
        if self._scale is None:
            self._scale = _Scale(self._raw[rows].copy())
            return self._scale.scores()
        for row in changes:
            place = row if asked is None else bisect_left(asked, row)
            if asked is None or (place < len(asked) and asked[place] == row):
                self._scale.put(place, self._cells[row])
        return self._scale.scores()

    def _catch_up(
        self, nodes: NodeTable, weights: Sequence[Weighted], shares: Shares
    ) -> Sequence[int] | None:
        """Bring the raw scores up to date; the rows that changed, or None for all."""
        label = shares[0][1].label
        few = self._follower.changed(nodes, (nodes.node_version, weights), FEW)
        if few is None:
            self._raw = per_value(shares).take(label.ids)
            self._cells = self._raw.data
            return None
        for row in few:
            number = label.number_at(row)
            self._cells[row] = sum(share * counts.of(number) for share, counts in shares)
        return tuple(few)


class _Scale:
    """Raw scores that change one by one, from the lowest to the highest as 0 to 100."""

    __slots__ = ("_normal", "_normal_cells", "_range", "_raw", "_raw_cells", "_sizes")

    def __init__(self, raw: Scores) -> None:
        self._raw, self._raw_cells = raw, raw.data
        self._normal, self._normal_cells = raw, raw.data
        self._range: tuple[int, int] | None = None
        """The lowest and the highest for which `_normal` holds."""
        self._sizes: dict[int, int] | None = None
        """How many have each raw score; None: these are too far apart."""
        lowest = int(np.minimum.reduce(raw))
        if int(np.maximum.reduce(raw)) - lowest <= _SPREAD_MAX:
            sizes = np.bincount(raw - lowest).tolist()
            self._sizes = {lowest + n: size for n, size in enumerate(sizes) if size}

    def put(self, place: int, score: int) -> None:
        before = self._raw_cells[place]
        if score == before:
            return
        self._raw_cells[place] = score
        sizes = self._sizes
        if sizes is None:
            return
        sizes[score] = sizes.get(score, 0) + 1
        sizes[before] -= 1
        if not sizes[before]:
            del sizes[before]
        if self._range is not None:
            lowest, highest = self._range
            share = MAX_NODE_SCORE * ((score - lowest) / (highest - lowest))
            self._normal_cells[place] = int(share)

    def scores(self) -> Scores | int:
        sizes = self._sizes
        if sizes is None:
            return normalized(self._raw)
        lowest, highest = now = min(sizes), max(sizes)
        if lowest == highest:
            return 0
        if now != self._range:
            self._normal = _scaled(self._raw, lowest, highest - lowest)
            self._normal_cells, self._range = self._normal.data, now
        return self._normal


def per_value(shares: Shares) -> Scores:
    """Raw scores per value of the key, and 0 in the slot for nodes that lack it."""
    (weight, counts), *others = shares
    total: Scores = counts.sums * np.int64(weight)
    for weight, counts in others:
        total += counts.sums * np.int64(weight)
    return total


def normalized(raw: Scores) -> Scores | int:
    """The lowest becomes 0, the highest 100; 0 if all are the same."""
    lowest = int(np.minimum.reduce(raw))
    spread = int(np.maximum.reduce(raw)) - lowest
    return _scaled(raw, lowest, spread) if spread else 0


def _scaled(raw: Scores, lowest: int, spread: int) -> Scores:
    above = raw - lowest if lowest else raw
    if spread <= _SPREAD_MAX:
        # Cheaper for each score there can be than for each node.
        return _share_table(spread).take(above)
    return shares_of(above, spread)


@lru_cache(maxsize=256)
def _share_table(spread: int) -> Scores:
    return shares_of(np.arange(spread + 1), spread)


def shares_of(above: Scores, spread: int) -> Scores:
    """Divided first, then multiplied: 29 of 100 becomes 28, as upstream has it."""
    return (MAX_NODE_SCORE * (above / spread)).astype(np.int64)
