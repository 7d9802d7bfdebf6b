"""Decision: the outcome of one scheduling attempt, and how to show it.

A brief decision (the node, its scores, or why there is none) is cheap and always made.  With
`detail` on, what every plugin said about every node is written down too; that is what
`stowplan dry-run -o json` prints and what the conformance tests compare.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from stowplan.framework.diagnosis import Diagnosis
from stowplan.framework.runtime import ScoreBoard
from stowplan.framework.status import Status
from stowplan.state.node_table import NodeTable


@dataclass(slots=True)
class Detail:
    """What every plugin said about every node, as plain data."""

    feasible: list[str] = field(default_factory=list)
    rejected: dict[str, dict[str, Any]] = field(default_factory=dict)
    scores: dict[str, dict[str, int]] = field(default_factory=dict)
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
        """The JSON form; fields that do not apply are left out."""
        detail = self.detail or Detail()
        data: dict[str, Any] = {
            "pod": self.pod,
            "feasible": detail.feasible,
            "rejected": detail.rejected,
            "unschedulablePlugins": sorted(self.unschedulable_plugins),
        }
        optional: dict[str, Any] = {
            "preFilterMessage": self.pre_filter_message,
            "scores": detail.scores,
            "totals": detail.totals,
            "chosen": self.node,
            "message": self.message,
            "nominatedNode": self.nominated_node,
            "victims": list(self.victims),
            "postFilterMessage": self.post_filter_message,
            "error": self.error,
        }
        data.update({name: value for name, value in optional.items() if value})
        return data


def describe_rejections(table: NodeTable, diagnosis: Diagnosis) -> dict[str, dict[str, Any]]:
    """Node -> plugin, code and reasons, for every node that was turned down."""
    rejected = {}
    for row, name in enumerate(table.names):
        if table.infos[row] is None:
            continue
        status = diagnosis.status(row)
        if status is not None:
            rejected[name] = _status_dict(status)
    return rejected


def _status_dict(status: Status) -> dict[str, Any]:
    return {
        "plugin": status.plugin,
        "code": status.code.label,
        "reasons": list(status.reasons),
    }


def describe_scores(
    table: NodeTable, board: ScoreBoard
) -> tuple[dict[str, dict[str, int]], dict[str, int]]:
    """Node -> plugin -> score, and node -> total."""
    names = [table.names[row] for row in board.rows.tolist()]
    columns = {plugin: board.of_plugin(plugin).tolist() for plugin in board.by_plugin}
    scores = {
        name: {plugin: column[n] for plugin, column in columns.items()}
        for n, name in enumerate(names)
    }
    return scores, dict(zip(names, board.total.tolist(), strict=True))
