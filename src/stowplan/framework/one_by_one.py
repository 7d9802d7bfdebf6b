"""Plugins that know only one node at a time, asked about many: how a user's first plugin runs.

`Framework` calls these where a plugin has no `filter_nodes` or `score_nodes`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stowplan.framework.cycle import Cycle
from stowplan.framework.errors import filter_failed
from stowplan.framework.status import Code, NodeMask, Rows, Scores, Verdict
from stowplan.state.pod_info import PodInfo

_REASONS_MAX = 32


def filter_one_by_one(
    cycle: Cycle, pod: PodInfo, plugin: Any, passed: NodeMask, pending: set[str]
) -> Verdict:
    """Ask about the nodes that are still in question; note the plugin if it answers Pending."""
    table = cycle.nodes
    reasons: list[str] = []
    why = np.zeros(table.size, np.uint32)
    final = np.zeros(table.size, np.bool_)
    for row in passed.nonzero()[0].tolist():
        status = plugin.filter_node(cycle, pod, table.infos[row])
        if status is None:
            continue
        if not status.is_rejected:
            raise filter_failed(plugin.name, status.message)
        if status.code == Code.PENDING:
            pending.add(plugin.name)
        for text in status.reasons or ("",):
            why[row] |= np.uint32(1 << _number(reasons, text))
        final[row] = status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    return Verdict(tuple(reasons), why, final)


def _number(reasons: list[str], text: str) -> int:
    """The bit of a reason; those that come when all bits are taken share the last."""
    if text in reasons:
        return reasons.index(text)
    if len(reasons) < _REASONS_MAX:
        reasons.append(text)
    return len(reasons) - 1


def score_one_by_one(cycle: Cycle, pod: PodInfo, plugin: Any, rows: Rows) -> Scores:
    infos = cycle.nodes.infos
    return np.array([plugin.score_node(cycle, pod, infos[row]) for row in rows.tolist()], np.int64)
