"""Decision: the outcome of one scheduling attempt, and how to show it.

A brief decision (the node, its scores, or why there is none) is cheap and always made.  With
`detail` on, what every plugin said about every node is written down too; that is what
`stowplan dry-run -o json` prints and what the conformance tests compare.  Scores stay columns
until somebody reads them: a list of decisions on a large cluster must fit into memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stowplan.framework.diagnosis import Diagnosis
from stowplan.framework.runtime import ScoreBoard
from stowplan.framework.status import Status
from stowplan.state.node_table import NodeTable


class ScoreColumns(Mapping[str, dict[str, int]]):
    """Node -> plugin -> score, held as one column per plugin."""

    __slots__ = ("_columns", "_index", "_names")

    def __init__(self, names: list[str], columns: dict[str, NDArray[np.int32]]) -> None:
        self._names = names
        self._columns = columns
        self._index: dict[str, int] = {}

    def __getitem__(self, node: str) -> dict[str, int]:
        if not self._index:
            self._index = {name: n for n, name in enumerate(self._names)}
        n = self._index[node]
        return {plugin: int(column[n]) for plugin, column in self._columns.items()}

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def to_dict(self) -> dict[str, dict[str, int]]:
        plugins = list(self._columns)
        rows = zip(*(column.tolist() for column in self._columns.values()), strict=True)
        if not plugins:
            return {name: {} for name in self._names}
        return {
            name: dict(zip(plugins, row, strict=True))
            for name, row in zip(self._names, rows, strict=True)
        }


@dataclass(slots=True)
class Detail:
    """What every plugin said about every node."""

    feasible: list[str] = field(default_factory=list)
    rejected: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Node -> plugin, code and reasons.  Nodes turned down alike share one value."""
    scores: ScoreColumns = field(default_factory=lambda: ScoreColumns([], {}))
    totals: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Decision:
    pod: str
    """namespace/name"""
    node: str = ""
    """Where it goes; empty when no node was found."""
    score: int | None = None
    """The winner's total; None where there was nothing to compare."""
    node_count: int = 0
    feasible_count: int = 0
    evaluated_count: int = 0
    message: str = ""
    """Why no node was found, without PostFilter's part."""
    pre_filter_message: str = ""
    post_filter_message: str = ""
    reasons: dict[str, int] = field(default_factory=dict)
    """Reason -> number of nodes, for a pod that fits nowhere."""
    unschedulable_plugins: tuple[str, ...] = ()
    nominated_node: str = ""
    victims: tuple[str, ...] = ()
    error: str = ""
    """A plugin, an extender or the scheduler itself failed."""
    gated: bool = False
    """Kept out of the queue (by `unschedulable_plugins`), so no node was looked at."""
    plugin_scores: dict[str, int] = field(default_factory=dict)
    """The chosen node's weighted score per plugin."""
    detail: Detail | None = None

    @property
    def full_message(self) -> str:
        if self.error:
            return self.error
        parts = (self.message, self.post_filter_message)
        return " ".join(part for part in parts if part)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: plain data, fields that do not apply left out."""
        detail = self.detail or Detail()
        data: dict[str, Any] = {
            "pod": self.pod,
            "feasible": detail.feasible,
            "rejected": detail.rejected,
            "unschedulablePlugins": sorted(self.unschedulable_plugins),
        }
        optional: dict[str, Any] = {
            "preFilterMessage": self.pre_filter_message,
            "scores": detail.scores.to_dict(),
            "totals": detail.totals,
            "chosen": self.node,
            "message": self.message or self.error,
            "nominatedNode": self.nominated_node,
            "victims": list(self.victims),
            "postFilterMessage": self.post_filter_message,
        }
        data.update({name: value for name, value in optional.items() if value})
        return data


def describe_rejections(table: NodeTable, diagnosis: Diagnosis) -> dict[str, dict[str, Any]]:
    """Node -> plugin, code and reasons, for every node that was turned down."""
    rejected = {}
    shared: dict[Status, dict[str, Any]] = {}
    for row, name in enumerate(table.names):
        if table.infos[row] is None:
            continue
        status = diagnosis.status(row)
        if status is not None:
            described = shared.get(status)
            if described is None:
                described = shared[status] = _status_dict(status)
            rejected[name] = described
    return rejected


def _status_dict(status: Status) -> dict[str, Any]:
    return {
        "plugin": status.plugin,
        "code": status.code.label,
        "reasons": list(status.reasons),
    }


def describe_scores(table: NodeTable, board: ScoreBoard) -> tuple[ScoreColumns, dict[str, int]]:
    """Node -> plugin -> score, and node -> total."""
    names = [table.names[row] for row in board.rows.tolist()]
    # Copied: the board's own columns may change with the next cycle.
    columns = {name: board.of_plugin(name).astype(np.int32) for name in board.by_plugin}
    totals = dict(zip(names, board.total.tolist(), strict=True))
    return ScoreColumns(names, columns), totals
