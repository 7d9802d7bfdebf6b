"""Answers that are the same for every row asked about."""

from __future__ import annotations

import numpy as np

from stowplan.framework.status import Rows, Scores, Verdict
from stowplan.state.node_table import NodeTable


def row_count(nodes: NodeTable, rows: Rows | slice) -> int:
    """
    >>> table = NodeTable()
    >>> row_count(table, slice(0, 5)), row_count(table, np.array([3, 7]))
    (0, 2)
    """
    if isinstance(rows, slice):
        return len(range(*rows.indices(nodes.size)))
    return len(rows)


def all_passed(reason: str, nodes: NodeTable, rows: Rows | slice) -> Verdict:
    count = row_count(nodes, rows)
    return Verdict((reason,), np.zeros(count, np.uint32), np.zeros(count, np.bool_))


def all_zero(nodes: NodeTable, rows: Rows | slice) -> Scores:
    return np.zeros(row_count(nodes, rows), np.int64)
