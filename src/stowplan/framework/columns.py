"""Columns that change their type and length as what is kept in them asks for; for `kept`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stowplan.framework.status import Rows


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
