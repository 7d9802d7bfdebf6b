"""What the framework found out about one pod: verdict, feasible nodes, scores.

Arrays over the rows of the node table; `Framework` makes them, `core.algorithm` reads them.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct, field

from stowplan.framework.kept import LocalAnswers
from stowplan.framework.status import NodeMask, Rows, Scores, Status, Verdict


class PreFilterVerdict(Struct, frozen=True):
    status: Status | None
    """Why the pod as a whole was turned down."""
    narrowed_by: tuple[str, ...] = ()
    nodes: frozenset[str] | None = None


class Feasible(Struct):
    """What the filters found: the nodes that passed, and the means to say why others did not."""

    mask: NodeMask
    """Per row; never to be written, it may be a kept answer."""
    answers: LocalAnswers
    verdicts: list[tuple[int, Verdict]]
    """Cluster-wide plugins: (1 + position among the Filter plugins, verdict on all rows)."""
    overrides: dict[int, Status] = field(default_factory=dict)
    candidates: NodeMask | None = None
    """Rows PreFilter left in; None: all."""
    absent: Status | None = None
    pending: set[str] = field(default_factory=set)
    """Plugins that answered Pending for some node."""
    rejected_by: set[str] = field(default_factory=set)
    """Whoever turned nodes down without a status for each: PreFilters that narrowed the search,
    extenders."""

    def rows(self) -> Rows:
        if self.mask is self.answers.passed:
            return self.answers.passed_rows()
        found: Rows = self.mask.nonzero()[0]
        return found


PluginScores = Scores | int
"""An int stands for the same score on every node."""


class ScoreBoard(Struct):
    """Scores of the feasible rows, in the order of `rows`.  True until the next cycle."""

    rows: Rows
    answers: LocalAnswers | None = None
    """Has the kept sum of the scores that need no normalising; None: nobody scores."""
    kept: tuple[tuple[str, int], ...] = ()
    """The plugins of that sum, with their weights."""
    by_plugin: dict[str, PluginScores] = {}
    """The other plugins' scores, weighted, after normalising."""
    constant: int = 0
    """The part of the total that is the same for all."""
    added: Scores | None = None
    """What differs between nodes beside the kept sum."""
    raw: dict[str, Scores] | None = None
    """What cluster-wide plugins said before it was normalised, where that was seen."""

    @property
    def varying(self) -> Scores:
        """The part of the total that differs between nodes; may be a kept column: never written."""
        if self.answers is None:
            return np.zeros(len(self.rows), np.int64) if self.added is None else self.added
        kept = self.answers.sum
        if len(self.rows) != len(kept):
            kept = kept[self.rows]
        return kept if self.added is None else kept + self.added

    @property
    def total(self) -> Scores:
        return self.varying.astype(np.int64, copy=False) + self.constant

    @property
    def plugins(self) -> list[str]:
        return [*(name for name, _ in self.kept), *self.by_plugin]

    def add(self, name: str, scores: Scores | int) -> None:
        self.by_plugin[name] = scores
        if isinstance(scores, int):
            self.constant += scores
        else:
            self.vary(scores)

    def vary(self, scores: Scores) -> None:
        """Add what no plugin of the profile said."""
        self.added = scores if self.added is None else self.added + scores

    def of_plugin(self, name: str) -> Scores:
        """A plugin's share of the total."""
        scores = self.by_plugin.get(name)
        if scores is None:
            assert self.answers is not None, f"{name} gave no scores"
            return dict(self.kept)[name] * self.answers.raw(name)[self.rows]
        if isinstance(scores, int):
            return np.full(len(self.rows), scores, np.int64)
        return scores
