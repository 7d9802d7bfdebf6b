"""Images on nodes, as columns: made for an image when somebody asks for it, kept until full.

Part of the node table.  A row's entries are copied from the cache's image table when the row is
written and stay as they were until it is written again, as upstream's snapshot has it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stowplan.state.node_info import ImageState, NodeInfo

Ints = NDArray[np.int64]

IMAGES_MAX = 1024
"""Kept; the oldest goes first."""

_ABSENT = ImageState(0, 0)


class ImageColumns:
    __slots__ = ("_columns",)

    def __init__(self) -> None:
        self._columns: dict[str, tuple[Ints, Ints]] = {}

    def fork(self) -> ImageColumns:
        fork = ImageColumns()
        fork._columns = {
            name: (sizes.copy(), counts.copy()) for name, (sizes, counts) in self._columns.items()
        }
        return fork

    def __len__(self) -> int:
        return len(self._columns)

    def names(self) -> list[str]:
        return list(self._columns)

    def get(
        self, name: str, infos: Sequence[NodeInfo | None], capacity: int
    ) -> tuple[Ints, Ints] | None:
        """Per row its size there and on how many nodes it was when last looked at."""
        columns = self._columns.get(name)
        if columns is None:
            found = [
                (row, info.image_states[name])
                for row, info in enumerate(infos)
                if info is not None and name in info.image_states
            ]
            if not found:
                return None
            columns = np.zeros(capacity, np.int64), np.zeros(capacity, np.int64)
            for row, state in found:
                columns[0][row], columns[1][row] = state
            self._columns[name] = columns
            if len(self._columns) > IMAGES_MAX:
                self._columns.pop(next(iter(self._columns)))
        size = len(infos)
        return columns[0][:size], columns[1][:size]

    def write(self, row: int, states: dict[str, ImageState]) -> None:
        for name, (sizes, node_counts) in self._columns.items():
            sizes[row], node_counts[row] = states.get(name, _ABSENT)

    def forget(self, name: str) -> None:
        """No node has the image any more."""
        self._columns.pop(name, None)

    def grow(self, capacity: int) -> None:
        for name, columns in self._columns.items():
            grown = np.zeros((2, capacity), np.int64)
            for column, known in zip(grown, columns, strict=True):
                column[: len(known)] = known
            self._columns[name] = grown[0], grown[1]

    def clear(self) -> None:
        self._columns.clear()
