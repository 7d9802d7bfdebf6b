"""What each plugin said about each node, in one search: columns now, words on demand.

A search leaves its columns behind (`Search.found`, `Search.board`); they belong to the node table
and to kept answers, and hold until the next cycle.  An `Explanation` is a compact copy of them,
made after the search: whether somebody will ask why changes nothing about the decision.

`Algorithm.explain` is told of every search: the `Explainer` here explains them all (dry runs,
conformance), `runtime.explanations` as many as it can afford.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stowplan.framework.cycle import Cycle
from stowplan.framework.diagnosis import Diagnosis, Rejections
from stowplan.framework.errors import PluginFailed
from stowplan.framework.raw_scores import raw_scores
from stowplan.framework.runtime import Feasible, Framework, ScoreBoard
from stowplan.framework.status import NodeMask, Rows, Status
from stowplan.queue import EXTENDER
from stowplan.state.pod_info import PodInfo

if TYPE_CHECKING:
    from stowplan.core.algorithm import Search
    from stowplan.core.decision import Decision

Column = NDArray[Any]

_SHORT = np.iinfo(np.int16)


class Explanation:
    """One search, true for ever: nothing in here belongs to the table any more."""

    __slots__ = (
        "_absent", "_candidates", "_names", "_overrides", "_rejections", "raw", "rows", "scores",
        "weights",
    )  # fmt: skip

    def __init__(self, names: list[str], rows: Rows) -> None:
        self._names = names
        """Per row of the table as it was; empty where there was no node."""
        self.rows = rows.astype(np.int32)
        """The feasible ones, ascending."""
        self.scores: dict[str, Column] = {}
        """Per plugin, its share of the total in the order of `rows`; empty when there was nothing
        to compare."""
        self.raw: dict[str, Column] = {}
        """The same before it was normalised and weighted, of plugins that normalise."""
        self.weights: dict[str, int] = {}
        """What the scores were multiplied with."""
        self._rejections: Rejections | None = None
        self._candidates: NodeMask | None = None
        self._overrides: dict[int, Status] = {}
        self._absent: Status | None = None

    @property
    def byte_count(self) -> int:
        columns: list[Any] = [self.rows, self._candidates]
        columns += [*self.scores.values(), *self.raw.values()]
        if self._rejections is not None:
            found = self._rejections
            columns += [found.first, found.why, found.final]
        return 1000 + sum(getattr(column, "nbytes", 0) for column in columns)

    @property
    def name_width(self) -> int:
        return max(map(len, self._names), default=0)

    def turned_down(self, diagnosis: Diagnosis) -> None:
        """Keep why the other nodes were not feasible."""
        self._rejections = diagnosis.rejections
        candidates = diagnosis.candidates
        self._candidates = None if candidates is None else candidates.copy()
        self._overrides = dict(diagnosis.overrides)
        self._absent = diagnosis.absent

    def scored(self, board: ScoreBoard, raw: dict[str, Column], weights: Mapping[str, int]) -> None:
        """Keep what each plugin added to the total, and of what that was made."""
        self.scores = {name: _compact(board.of_plugin(name)) for name in board.plugins}
        self.raw = {name: _compact(column) for name, column in raw.items()}
        self.weights = {name: weights[name] for name in self.scores}
        rest = board.total - self.totals()
        if rest.any():
            self.scores[EXTENDER] = rest

    # -- reading ----------------------------------------------------------------------------

    @property
    def feasible(self) -> list[str]:
        """The nodes that passed every filter, in the order of `rows`."""
        return [self._names[row] for row in self.rows.tolist()]

    def totals(self) -> NDArray[np.int64]:
        """In the order of `rows`."""
        total = np.zeros(len(self.rows), np.int64)
        for column in self.scores.values():
            total += column
        return total

    def ranked(self, chosen: str) -> Iterator[tuple[str, dict[str, int]]]:
        """Each feasible node with its score per plugin: the chosen one, then the best."""
        order = np.argsort(-self.totals(), kind="stable").tolist()
        order.sort(key=lambda position: self._names[self.rows[position]] != chosen)
        for position in order:
            name = self._names[self.rows[position]]
            yield name, {plugin: int(column[position]) for plugin, column in self.scores.items()}

    def rejected(self) -> Iterator[tuple[str, Status]]:
        """Each other node and why, as the table had them."""
        feasible = set(self.rows.tolist())
        for row, name in enumerate(self._names):
            if name and row not in feasible:
                status = self._status(row)
                if status is not None:
                    yield name, status

    def _status(self, row: int) -> Status | None:
        if row in self._overrides:
            return self._overrides[row]
        candidates, rejections = self._candidates, self._rejections
        if candidates is not None and candidates[row] and rejections is not None:
            return rejections.status(row)
        return self._absent

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: plain data."""
        feasible = self.feasible
        columns = {plugin: column.tolist() for plugin, column in self.scores.items()}
        described: dict[Status, dict[str, Any]] = {}
        return {
            "feasible": sorted(feasible),
            "rejected": {
                name: described.setdefault(status, _status_dict(status))
                for name, status in self.rejected()
            },
            "scores": {
                name: {plugin: column[n] for plugin, column in columns.items()}
                for n, name in enumerate(feasible)
            }
            if columns
            else {},
            "totals": dict(zip(feasible, self.totals().tolist(), strict=True)) if columns else {},
        }


class Explainer:
    """Explains every search, with the scores of a node that was alone in question.

    Those are what a cycle that nobody asks saves itself.
    """

    def __init__(self) -> None:
        self._names: list[str] = []
        """Shared by all explanations of a table whose nodes stay the same."""

    def explain(
        self, framework: Framework, cycle: Cycle, pod: PodInfo, search: Search, decision: Decision
    ) -> None:
        score_alone(framework, cycle, pod, search, decision)
        decision.details = cycle.details()
        decision.explanation = self.copy(framework, cycle, pod, search)
        diagnosis = search.diagnosis
        if diagnosis is not None:
            decision.unschedulable_plugins = tuple(sorted(diagnosis.unschedulable_plugins))

    def copy(self, framework: Framework, cycle: Cycle, pod: PodInfo, search: Search) -> Explanation:
        names, board = cycle.nodes.names, search.board
        if self._names != names:
            self._names = list(names)
        rows = np.array([search.row] if search.row >= 0 else [], np.intp)
        explanation = Explanation(self._names, rows if board is None else board.rows)
        if search.diagnosis is None and search.found is not None:
            search.diagnosis = framework.diagnose(cycle.nodes, search.found)
        if search.diagnosis is not None:
            explanation.turned_down(search.diagnosis)
        if board is not None:
            plugins = framework.plugins
            raw = raw_scores(plugins.score, cycle, pod, board)
            explanation.scored(board, raw, plugins.weights)
        return explanation


def score_alone(
    framework: Framework, cycle: Cycle, pod: PodInfo, search: Search, decision: Decision
) -> None:
    """Score the one node that was feasible, or was taken without comparing; nobody else does."""
    if search.board is not None or search.row < 0:
        return
    found = search.found
    try:
        if found is None:
            answers = framework.local_answers(cycle, pod)
            found = Feasible(answers.passed, answers, [])
        search.board = framework.score(cycle, pod, found, np.array([search.row], np.intp))
    except PluginFailed:
        # The decision stands without it: nobody would have been asked.
        return
    decision.score = int(search.board.total[0])


def _status_dict(status: Status) -> dict[str, Any]:
    return {
        "plugin": status.plugin,
        "code": status.code.label,
        "reasons": list(status.reasons),
    }


def _compact(column: Column) -> Column:
    """A copy, because the board's own may change with the next cycle; in few bytes."""
    fits = not len(column) or _SHORT.min <= int(column.min()) <= int(column.max()) <= _SHORT.max
    return column.astype(np.int16 if fits else np.int64)
