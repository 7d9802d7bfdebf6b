"""What the framework found out about one pod: verdict, feasible nodes, scores.

Arrays over the rows of the node table; `Framework` makes them, `core.algorithm` reads them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from stowplan.framework.kept import LocalAnswers
from stowplan.framework.status import NodeMask, Rows, Scores, Status, Verdict


@dataclass(frozen=True, slots=True)
class PreFilterVerdict:
    status: Status | None
    """Why the pod as a whole was turned down."""
    narrowed_by: tuple[str, ...] = ()
    nodes: frozenset[str] | None = None


@dataclass(slots=True)
class Feasible:
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

    def rows(self) -> Rows:
        if self.mask is self.answers.passed:
            return self.answers.passed_rows()
        found: Rows = self.mask.nonzero()[0]
        return found


class KeptScores:
    """A kept column's share of the total, multiplied out only when somebody looks at it.

    True until the next cycle: whoever wants to keep it, copies `values()`.
    """

    __slots__ = ("_raw", "_rows", "_weight")

    def __init__(self, raw: Scores, rows: Rows, weight: int) -> None:
        self._raw, self._rows, self._weight = raw, rows, weight

    def values(self) -> Scores:
        return self._weight * self._raw[self._rows]


PluginScores = Scores | KeptScores | int
"""An int stands for the same score on every node."""


@dataclass(slots=True)
class ScoreBoard:
    """Scores of the feasible rows, in the order of `rows`."""

    rows: Rows
    varying: Scores
    """The part of the total that differs between nodes; may be a kept column: never written to."""
    by_plugin: dict[str, PluginScores] = field(default_factory=dict)
    """Weighted, after normalising."""
    constant: int = 0
    """The part of the total that is the same for all."""

    @property
    def total(self) -> Scores:
        return self.varying + self.constant

    def add(self, name: str, scores: Scores | int) -> None:
        self.by_plugin[name] = scores
        if isinstance(scores, int):
            self.constant += scores
        else:
            self.varying = self.varying + scores

    def of_plugin(self, name: str) -> Scores:
        scores = self.by_plugin[name]
        if isinstance(scores, KeptScores):
            return scores.values()
        if isinstance(scores, int):
            return np.full(len(self.rows), scores, np.int64)
        return scores
