"""Plugins that know only one node at a time, asked about many: how a user's first plugin runs.

`Framework` and plans call these where a plugin has no `filter_nodes` or `score_nodes`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from stowplan.framework.cycle import Cycle
from stowplan.framework.errors import filter_failed
from stowplan.framework.status import NO_REASON, Code, NodeMask, Rows, Scores, Verdict
from stowplan.state.pod_info import PodInfo

_REASONS_MAX = 32


def filter_one_by_one(
    cycle: Cycle, pod: PodInfo, plugin: Any, passed: NodeMask, pending: set[str]
) -> Verdict:
    """Ask about the nodes that are still in question; note the plugin if it answers Pending."""
    rows = passed.nonzero()[0]
    return _over_all(cycle, rows, filter_rows(cycle, pod, plugin, rows, pending))


def filter_passing(cycle: Cycle, pod: PodInfo, plugin: Any, passed: NodeMask) -> Verdict:
    """The same for a plugin that knows many nodes at a time, and is not to look at all of them."""
    rows = passed.nonzero()[0]
    if len(rows) == cycle.nodes.size:
        verdict: Verdict = plugin.filter_nodes(cycle, pod, cycle.nodes, slice(0, len(rows)))
        return verdict
    asked: Verdict = plugin.filter_nodes(cycle, pod, cycle.nodes, rows)
    return _over_all(cycle, rows, asked)


def _over_all(cycle: Cycle, rows: Rows, asked: Verdict) -> Verdict:
    why = np.zeros(cycle.nodes.size, np.uint32)
    final = np.zeros(cycle.nodes.size, np.bool_)
    why[rows], final[rows] = asked.why, asked.unresolvable
    return Verdict(asked.reasons, why, final, all_passed=asked.all_passed)


def filter_of_many(plugin: Any) -> Callable[..., Verdict]:
    """The plugin's `filter_nodes`, or what does the same with its `filter_node`."""
    if hasattr(plugin, "filter_nodes"):
        return cast("Callable[..., Verdict]", plugin.filter_nodes)
    return lambda cycle, pod, nodes, rows: filter_rows(cycle, pod, plugin, rows)


def score_of_many(plugin: Any) -> Callable[..., Any]:
    if hasattr(plugin, "score_nodes"):
        return cast("Callable[..., Any]", plugin.score_nodes)
    return lambda cycle, pod, nodes, rows: score_one_by_one(cycle, pod, plugin, rows)


def filter_rows(
    cycle: Cycle, pod: PodInfo, plugin: Any, rows: Rows | slice, pending: set[str] | None = None
) -> Verdict:
    """As `filter_nodes` would answer; rows that hold no node pass."""
    infos = cycle.nodes.infos
    numbers = _numbers(rows, len(infos))
    reasons: list[str] = []
    why = np.zeros(len(numbers), np.uint32)
    final = np.zeros(len(numbers), np.bool_)
    for position, row in enumerate(numbers):
        info = infos[row]
        status = None if info is None else plugin.filter_node(cycle, pod, info)
        if status is None:
            continue
        if not status.is_rejected:
            raise filter_failed(plugin.name, status.message)
        if status.code == Code.PENDING and pending is not None:
            pending.add(plugin.name)
        for text in status.reasons or NO_REASON:
            why[position] |= np.uint32(1 << _number(reasons, text))
        final[position] = status.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    return Verdict(tuple(reasons), why, final)


def _numbers(rows: Rows | slice, size: int) -> list[int]:
    return list(range(*rows.indices(size))) if isinstance(rows, slice) else rows.tolist()


def _number(reasons: list[str], text: str) -> int:
    """The bit of a reason; those that come when all bits are taken share the last."""
    if text in reasons:
        return reasons.index(text)
    if len(reasons) < _REASONS_MAX:
        reasons.append(text)
    return len(reasons) - 1


def score_one_by_one(cycle: Cycle, pod: PodInfo, plugin: Any, rows: Rows | slice) -> Scores:
    infos = cycle.nodes.infos
    found = (infos[row] for row in _numbers(rows, len(infos)))
    scores = [0 if info is None else plugin.score_node(cycle, pod, info) for info in found]
    return np.array(scores, np.int64)
