"""Nodes that score alike: the same domain, the same number of pods on them.

A soft spread constraint gives a node a score by one small number: that of its domain or, over
hosts, how many pods it has.  Nodes for which all these numbers are the same make up a class; with
three zones and up to two pods per node there are nine of them.  So a score is worked out per class,
and each row is known by its class, which changes only with the row.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from stowplan.framework.status import Rows, Scores
from stowplan.state.node_table import NodeTable
from stowplan.state.row_follower import FEW, RowFollower

_CLASSES_MAX = 512
"""With more, it is better to look at rows."""


class Numbered(Protocol):
    """What puts rows into classes, and what it adds to their scores."""

    @property
    def basis(self) -> object:
        """What the numbers stand for: true as long as it is the same object."""

    def numbers(self) -> NDArray[np.integer[Any]]:
        """Per row, from 0 on."""

    def number_of(self, row: int) -> int: ...

    def number_limit(self, nodes: NodeTable) -> int:
        """More than any number there is, with room to grow; 0: it takes more than a number."""

    def of_numbers(self, limit: int) -> list[float]:
        """The share of a score that goes with each number."""


class RowClasses:
    """A class is known by a number, made of the numbers of its rows as digits."""

    __slots__ = (
        "_cells",
        "_follower",
        "_limits",
        "_of_row",
        "_sizes",
        "_table",
        "used",
    )

    def __init__(self) -> None:
        self.used = 0
        self._of_row: NDArray[np.intp] = np.zeros(0, np.intp)
        self._cells = self._of_row.data
        self._sizes: dict[int, int] = {}
        """How many nodes each class has; none that has no nodes."""
        self._limits: tuple[int, ...] = ()
        """Empty: rows cannot be told apart like that, or there could be too many classes."""
        self._table: Scores = np.zeros(0, np.int64)
        self._follower = RowFollower()

    def catch_up(self, nodes: NodeTable, parts: Sequence[Numbered]) -> bool:
        """False: there are too many classes, or none."""
        basis = nodes.node_version, [part.basis for part in parts]
        few = self._follower.changed(nodes, basis, FEW)
        if few is None or (self._limits and not all(self._move(row, parts) for row in few)):
            self._look_at_all(nodes, parts)
        return bool(self._limits)

    def of_rows(
        self, nodes: NodeTable, rows: Rows | slice
    ) -> tuple[NDArray[np.intp], Collection[int]]:
        """The class of each of these rows, which have nodes, and all classes among them."""
        of_row = self._of_row[rows]
        if isinstance(rows, slice) or len(rows) == nodes.node_count:
            return of_row, self._sizes
        return of_row, np.bincount(of_row).nonzero()[0].tolist()

    def raw_scores(self, parts: Sequence[Numbered], classes: Collection[int]) -> dict[int, int]:
        """The sum of the parts for each class, rounded; parts are never negative."""
        totals = [0.0]
        for part, limit in zip(parts, self._limits, strict=True):
            shares = part.of_numbers(limit)
            totals = [total + share for total in totals for share in shares]
        return {number: int(totals[number] + 0.5) for number in classes}

    def spread(self, scores: dict[int, int], of_row: NDArray[np.intp]) -> Scores:
        """The scores of classes looked up for rows."""
        table = self._table.data
        for number, score in scores.items():
            table[number] = score
        return self._table.take(of_row)

    def _look_at_all(self, nodes: NodeTable, parts: Sequence[Numbered]) -> None:
        self._limits = tuple(part.number_limit(nodes) for part in parts)
        count = prod(self._limits)
        if not 0 < count <= _CLASSES_MAX:
            self._limits = ()
            return
        self._table = np.zeros(count, np.int64)
        of_row = np.zeros(nodes.size, np.intp)
        for part, limit in zip(parts, self._limits, strict=True):
            of_row *= limit
            of_row += part.numbers()
        self._of_row, self._cells = of_row, of_row.data
        sizes = np.bincount(of_row[nodes.alive]).tolist()
        self._sizes = {number: size for number, size in enumerate(sizes) if size}

    def _move(self, row: int, parts: Sequence[Numbered]) -> bool:
        """Put the row where it belongs now; False if its numbers are too large for that."""
        after = 0
        for part, limit in zip(parts, self._limits, strict=True):
            number = part.number_of(row)
            if number >= limit:
                return False
            after = after * limit + number
        before = self._cells[row]
        if before != after:
            self._cells[row] = after
            sizes = self._sizes
            sizes[after] = sizes.get(after, 0) + 1
            sizes[before] -= 1
            if not sizes[before]:
                del sizes[before]
        return True
