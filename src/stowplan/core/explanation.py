"""What every plugin said about every node, for one decision: columns now, words on demand.

Made by `core.algorithm` for decisions in detail, and by `runtime.explanations` for as many others
as there is time and memory for.  It is part of its `Decision`: `stowplan dry-run -o json` prints
it, the conformance tests compare it, `runtime.debug_pages` shows it.  Columns stay columns until
somebody reads them: a list of decisions on a large cluster must fit into memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stowplan.framework.diagnosis import Diagnosis, Rejections
from stowplan.framework.findings import ScoreBoard
from stowplan.framework.status import NodeMask, Rows, Status
from stowplan.queue import EXTENDER

Column = NDArray[Any]

BASE_BYTES = 1000
"""Of an explanation without its columns."""


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

    def to_dict(self) -> dict[str, dict[str, int]]:
        columns = {plugin: column.tolist() for plugin, column in self._columns.items()}
        return {
            name: {plugin: column[n] for plugin, column in columns.items()}
            for n, name in enumerate(self._nodes.names)
        }


class Explanation:
    """True for ever: nothing in here belongs to the table any more."""

    __slots__ = ("_absent", "_candidates", "_names", "_overrides", "_rejections", "columns", "rows")

    def __init__(
        self, names: list[str], rows: Rows, diagnosis: Diagnosis | None, board: ScoreBoard | None
    ) -> None:
        """`names` is a copy of the table's, which several may share."""
        self._names = names
        """Per row of the table as it was; empty where there was no node."""
        self.rows = rows.astype(np.int32)
        """The feasible ones."""
        self.columns: dict[str, Column] = {}
        """Per plugin, its share of the total in the order of `rows`; empty when there was nothing
        to compare."""
        self._rejections: Rejections | None = None
        self._candidates: NodeMask | None = None
        self._overrides: dict[int, Status] = {}
        self._absent: Status | None = None
        if diagnosis is not None:
            self._rejections, self._absent = diagnosis.rejections, diagnosis.absent
            candidates = diagnosis.candidates
            self._candidates = None if candidates is None else candidates.copy()
            self._overrides = dict(diagnosis.overrides)
        if board is not None:
            self.columns = {name: _compact(board.of_plugin(name)) for name in board.plugins}
            rest = board.total - self.total()
            if rest.any():
                self.columns[EXTENDER] = _compact(rest)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Explanation):
            return NotImplemented
        mine, others = ((one.nodes, one.rejected, one.scores.to_dict()) for one in (self, other))
        return mine == others

    __hash__ = None  # type: ignore[assignment]

    @property
    def byte_count(self) -> int:
        columns: list[Any] = [self.rows, self._candidates, *self.columns.values()]
        if self._rejections is not None:
            found = self._rejections
            columns += [found.first, found.why, found.final]
        return BASE_BYTES + sum(getattr(column, "nbytes", 0) for column in columns)

    @property
    def name_width(self) -> int:
        return max(map(len, self._names), default=0)

    @property
    def nodes(self) -> list[str]:
        """The feasible ones, in the order of `rows`."""
        return [self._names[row] for row in self.rows.tolist()]

    @property
    def feasible(self) -> list[str]:
        return sorted(self.nodes)

    @property
    def scores(self) -> Scores:
        return Scores(NodeIndex(self.nodes if self.columns else []), self.columns)

    @property
    def totals(self) -> Totals:
        return Totals(
            NodeIndex(self.nodes if self.columns else []),
            self.total() if self.columns else np.zeros(0, np.int64),
        )

    def total(self) -> Column:
        total = np.zeros(len(self.rows), np.int64)
        for column in self.columns.values():
            total += column
        return total

    @property
    def rejected(self) -> dict[str, dict[str, Any]]:
        """Node -> plugin, code and reasons.  Nodes turned down alike share one value."""
        shared: dict[Status, dict[str, Any]] = {}
        rejected = {}
        for name, status in self.rejections():
            described = shared.get(status)
            if described is None:
                described = shared[status] = {
                    "plugin": status.plugin,
                    "code": status.code.label,
                    "reasons": list(status.reasons),
                }
            rejected[name] = described
        return rejected

    def ranked(self, chosen: str) -> Iterator[tuple[str, dict[str, int]]]:
        """Each feasible node with its score per plugin: the chosen one, then the best."""
        order = np.argsort(-self.total(), kind="stable").tolist()
        order.sort(key=lambda position: self._names[self.rows[position]] != chosen)
        for position in order:
            name = self._names[self.rows[position]]
            yield name, {plugin: int(column[position]) for plugin, column in self.columns.items()}

    def rejections(self) -> Iterator[tuple[str, Status]]:
        """Each node that is not feasible and why, as the table had them."""
        in_question = np.ones(len(self._names), np.bool_)
        candidates, rejections = self._candidates, self._rejections
        if candidates is not None and rejections is not None:
            in_question &= ~(candidates & (rejections.first == 0))
            in_question[list(self._overrides)] = True
        in_question[self.rows] = False
        for row in np.flatnonzero(in_question).tolist():
            name, status = self._names[row], self._status(row)
            if name and status is not None:
                yield name, status

    def _status(self, row: int) -> Status | None:
        if row in self._overrides:
            return self._overrides[row]
        candidates, rejections = self._candidates, self._rejections
        if candidates is not None and candidates[row] and rejections is not None:
            return rejections.status(row)
        return self._absent


def _compact(column: Column) -> Column:
    """A copy in few bytes: nearly all scores fit into two of them."""
    fits = not len(column) or -(2**15) <= int(column.min()) <= int(column.max()) < 2**15
    return column.astype(np.int16 if fits else np.int64)
