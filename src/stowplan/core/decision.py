"""Decision: the outcome of one scheduling attempt, and how to show it.

A brief decision (the node, its scores, or why there is none) is cheap and always made.  With
`detail` on, what every plugin said about every node is written down too; that is what
`stowplan dry-run -o json` prints and what the conformance tests compare.  Scores stay columns
until somebody reads them: a list of decisions on a large cluster must fit into memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from stowplan.framework.diagnosis import Diagnosis
from stowplan.framework.runtime import ScoreBoard
from stowplan.framework.status import Rows, Status
from stowplan.state.node_table import NodeTable

Column = NDArray[np.int64] | NDArray[np.int32]

_INT32 = np.iinfo(np.int32)


class NodeIndex:
    """Names of nodes and their positions, shared by the columns of one decision."""

    __slots__ = ("_positions", "names")

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self._positions: dict[str, int] = {}

    def position(self, node: str) -> int:
        if not self._positions:
            self._positions = {name: n for n, name in enumerate(self.names)}
        return self._positions[node]


class Totals(Mapping[str, int]):
    """Node -> total score."""

    __slots__ = ("_column", "_nodes")

    def __init__(self, nodes: NodeIndex, column: Column) -> None:
        self._nodes, self._column = nodes, column

    def __getitem__(self, node: str) -> int:
        return int(self._column[self._nodes.position(node)])

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes.names)

    def __len__(self) -> int:
        return len(self._nodes.names)

    def to_dict(self) -> dict[str, int]:
        return dict(zip(self._nodes.names, self._column.tolist(), strict=True))

    @property
    def column(self) -> Column:
        """As long as `Scores.nodes`."""
        return self._column


class Scores(Mapping[str, dict[str, int]]):
    """Node -> plugin -> score."""

    __slots__ = ("_columns", "_nodes")

    def __init__(self, nodes: NodeIndex, columns: dict[str, Column]) -> None:
        self._nodes, self._columns = nodes, columns

    def __getitem__(self, node: str) -> dict[str, int]:
        n = self._nodes.position(node)
        return {plugin: int(column[n]) for plugin, column in self._columns.items()}

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes.names)

    def __len__(self) -> int:
        return len(self._nodes.names)

    @property
    def nodes(self) -> list[str]:
        return self._nodes.names

    @property
    def columns(self) -> dict[str, Column]:
        """Plugin -> scores, one for each of `nodes`."""
        return self._columns

    def to_dict(self) -> dict[str, dict[str, int]]:
        columns = {plugin: column.tolist() for plugin, column in self._columns.items()}
        return {
            name: {plugin: column[n] for plugin, column in columns.items()}
            for n, name in enumerate(self._nodes.names)
        }


_NO_NODES = NodeIndex([])


class Detail(Struct):
    """What every plugin said about every node."""

    feasible: list[str] = field(default_factory=list)
    rejected: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Node -> plugin, code and reasons.  Nodes turned down alike share one value."""
    scores: Scores = field(default_factory=lambda: Scores(_NO_NODES, {}))
    totals: Totals = field(default_factory=lambda: Totals(_NO_NODES, np.zeros(0, np.int64)))


class Decision(Struct, gc=False):
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
            "totals": detail.totals.to_dict(),
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
    for row in _rows_in_question(table, diagnosis).tolist():
        status = diagnosis.status(row)
        if status is not None:
            described = shared.get(status)
            if described is None:
                described = shared[status] = _status_dict(status)
            rejected[table.names[row]] = described
    return rejected


def _rows_in_question(table: NodeTable, diagnosis: Diagnosis) -> Rows:
    """Rows that have a status, of which the diagnosis can tell at a glance."""
    found = table.alive.copy()
    if diagnosis.rejections is not None and diagnosis.candidates is not None:
        passed = diagnosis.candidates & (diagnosis.rejections.first == 0)
        passed[list(diagnosis.overrides)] = False
        found &= ~passed
    return np.flatnonzero(found)


def _status_dict(status: Status) -> dict[str, Any]:
    return {
        "plugin": status.plugin,
        "code": status.code.label,
        "reasons": list(status.reasons),
    }


def describe_scores(table: NodeTable, board: ScoreBoard) -> tuple[Scores, Totals]:
    """Node -> plugin -> score, and node -> total."""
    nodes = NodeIndex([table.names[row] for row in board.rows.tolist()])
    columns = {name: _compact(board.of_plugin(name)) for name in board.plugins}
    return Scores(nodes, columns), Totals(nodes, _compact(board.total))


def _compact(column: Column) -> Column:
    """A copy, because the board's own columns may change with the next cycle; half the size."""
    fits = len(column) > 0 and column.min() >= _INT32.min and column.max() <= _INT32.max
    return column.astype(np.int32) if fits else column.copy()
