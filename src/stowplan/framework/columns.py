"""Columns of what is kept, and the rows that are set in them; for `kept`."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stowplan.framework.status import NodeMask, Rows


def written(column: NDArray[Any], rows: Rows | slice, values: NDArray[Any]) -> NDArray[Any]:
    """The column with these values, made wider if it has to be."""
    if column.dtype != values.dtype:
        column = column.astype(np.promote_types(column.dtype, values.dtype), copy=False)
    column[rows] = values
    return column


def owned(scores: NDArray[Any]) -> NDArray[Any]:
    """An array to write to as rows change.

    What a plugin gave is the framework's, unless it may not be written: then it is the plugin's.
    """
    return scores if scores.flags.writeable and scores.flags.owndata else scores.copy()


def rows_of(mask: NodeMask) -> Rows:
    """The rows that are set, ascending."""
    everyone = np.count_nonzero(mask) == len(mask)
    return all_rows(len(mask)) if everyone else mask.nonzero()[0]


@lru_cache(maxsize=8)
def all_rows(size: int) -> Rows:
    rows = np.arange(size)
    rows.setflags(write=False)
    return rows
