"""Choosing a node: PreFilter, Filter, Score, pick.  The decision proper, without its effects.

Mirrors `schedulePod` and what it calls in kube-scheduler's `schedule_one.go`.  A generator,
because an extender may have to be asked in the middle: it yields `CallExtender` and is sent the
answer; without extenders it runs through without a pause.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from stowplan.core.decision import Detail, describe_rejections, describe_scores
from stowplan.core.extender import CallExtender, Extender, ExtenderFailed
from stowplan.framework.cycle import Cycle
from stowplan.framework.diagnosis import Diagnosis
from stowplan.framework.errors import PluginFailed
from stowplan.framework.runtime import Feasible, Framework, PreFilterVerdict, ScoreBoard
from stowplan.framework.status import Code, Rows, Status
from stowplan.state.pod_info import PodInfo

MIN_FEASIBLE_NODES = 100

TieBreak = Literal["random", "name"]

Asking = Generator[CallExtender, Any, Any]


@dataclass(slots=True)
class Search:
    """What was found, for one pod."""

    row: int = -1
    """The chosen node; -1 when none fits."""
    score: int | None = None
    feasible_count: int = 0
    evaluated_count: int = 0
    diagnosis: Diagnosis | None = None
    """Why not, when no node fits (and, with detail on, always)."""
    board: ScoreBoard | None = None
    detail: Detail | None = None


@dataclass(slots=True)
class Algorithm:
    """The choice as configured.  `start_index` is the only thing it remembers between pods."""

    extenders: Sequence[Extender] = ()
    percentage_of_nodes_to_score: int = 0
    """0: look at every node."""
    tie_break: TieBreak = "random"
    detail: bool = False
    start_index: int = field(default=0)

    def search(
        self, framework: Framework, cycle: Cycle, pod: PodInfo
    ) -> Generator[Any, Any, Search]:
        table = cycle.nodes
        verdict = framework.pre_filter(cycle, pod)
        if verdict.status is not None:
            return self._turned_down(cycle, verdict)
        nominated = pod.pod.status.nominated_node_name
        if nominated and nominated in table.row_of:
            row = table.row_of[nominated]
            if (yield from self._fits_nominated(framework, cycle, pod, row)):
                return Search(row, feasible_count=1, evaluated_count=1)
        found = framework.find_feasible(cycle, pod, verdict.nodes)
        if verdict.nodes is not None:
            found.absent = _not_chosen(verdict.narrowed_by)
        rows, evaluated = self._limit(framework, cycle, found)
        rows = yield from self._ask_filters(cycle, pod, found, rows)
        search = Search(feasible_count=len(rows), evaluated_count=evaluated)
        if not len(rows) or self.detail:
            search.diagnosis = framework.diagnose(table, found)
            search.diagnosis.unschedulable_plugins.update(verdict.narrowed_by)
            if self.extenders and any(s.plugin == "Extender" for s in found.overrides.values()):
                search.diagnosis.unschedulable_plugins.add("Extender")
        if len(rows):
            yield from self._choose(framework, cycle, pod, found, rows, search)
        if self.detail:
            self._write_detail(cycle, search, rows)
        return search

    def _turned_down(self, cycle: Cycle, verdict: PreFilterVerdict) -> Search:
        status = verdict.status
        assert status is not None
        diagnosis = Diagnosis(cycle.nodes, cycle.nodes.node_count, absent=status)
        diagnosis.pre_filter_message = status.message
        diagnosis.add_status(status)
        if not status.plugin:
            diagnosis.unschedulable_plugins.update(verdict.narrowed_by)
        search = Search(diagnosis=diagnosis)
        if self.detail:
            self._write_detail(cycle, search, np.zeros(0, np.intp))
        return search

    def _fits_nominated(
        self, framework: Framework, cycle: Cycle, pod: PodInfo, row: int
    ) -> Generator[Any, Any, bool]:
        """The node that preemption made room on is tried first, and taken without comparing."""
        try:
            status = framework.filter_one_with_nominated(cycle, pod, cycle.nodes.info(row))
            if status is not None:
                return False
            found = Feasible(np.zeros(0, np.bool_), framework.local_answers(cycle, pod), [])
            rows = yield from self._ask_filters(cycle, pod, found, np.array([row], np.intp))
        except (PluginFailed, ExtenderFailed):
            # Upstream only logs it: the full search below decides.
            return False
        return len(rows) == 1

    def _limit(self, framework: Framework, cycle: Cycle, found: Feasible) -> tuple[Rows, int]:
        """The feasible rows to consider, and how many nodes were looked at for them."""
        table = cycle.nodes
        own = framework.percentage_of_nodes_to_score
        percentage = self.percentage_of_nodes_to_score if own is None else own
        if percentage == 0 or percentage >= 100:
            return found.rows(), table.node_count
        order = table.order
        if found.candidates is not None:
            order = order[found.candidates[order]]
        count = len(order)
        wanted = nodes_to_find(count, percentage)
        if not count:
            return found.rows(), 0
        turned = np.roll(order, -(self.start_index % count))
        passed = found.mask[turned]
        hits = np.flatnonzero(passed)
        looked_at = int(hits[wanted - 1]) + 1 if len(hits) >= wanted else count
        unseen = turned[looked_at:]
        if len(unseen):
            seen = table.alive.copy() if found.candidates is None else found.candidates.copy()
            seen[unseen] = False
            found.candidates = seen
        self.start_index = (self.start_index + looked_at) % max(1, table.node_count)
        return np.sort(turned[hits[:wanted]]), looked_at

    def _ask_filters(
        self, cycle: Cycle, pod: PodInfo, found: Feasible, rows: Rows
    ) -> Generator[CallExtender, Any, Rows]:
        for extender in self.extenders:
            if not len(rows):
                break
            if not extender.filters or not extender.is_interested(pod):
                continue
            infos = [cycle.nodes.info(row) for row in rows.tolist()]
            answer = yield extender.filter_call(pod, infos)
            try:
                result = extender.read_filter(answer, infos)
            except ExtenderFailed:
                if extender.ignorable:
                    continue
                raise
            for row in rows.tolist():
                name = cycle.nodes.names[row]
                if name in result.unresolvable:
                    found.overrides[row] = _refused(
                        Code.UNSCHEDULABLE_AND_UNRESOLVABLE, result, name
                    )
                elif name in result.failed:
                    found.overrides[row] = _refused(Code.UNSCHEDULABLE, result, name)
            kept = cycle.nodes.rows_of(frozenset(result.nodes))
            rows = rows[np.isin(rows, kept)]
        return rows

    def _choose(
        self,
        framework: Framework,
        cycle: Cycle,
        pod: PodInfo,
        found: Feasible,
        rows: Rows,
        search: Search,
    ) -> Generator[CallExtender, Any, None]:
        if len(rows) == 1 and not self.detail:
            search.row = int(rows[0])
            return
        board = framework.score(cycle, pod, found, rows)
        for extender in self.extenders:
            if extender.prioritizes and extender.is_interested(pod):
                infos = [cycle.nodes.info(row) for row in rows.tolist()]
                answer = yield extender.prioritize_call(pod, infos)
                extra = extender.read_priorities(answer)
                board.varying = board.varying + np.array(
                    [extra.get(cycle.nodes.names[row], 0) for row in rows.tolist()], np.int64
                )
        position = self._pick(cycle, board)
        search.row = int(rows[position])
        search.score = int(board.varying[position]) + board.constant
        search.board = board

    def _pick(self, cycle: Cycle, board: ScoreBoard) -> int:
        is_best = board.varying == board.varying.max()
        if self.tie_break == "random":
            # From a random place on, the first of the best: any of them will do.
            start = cycle.handle.random.randrange(len(is_best))
            position = start + int(is_best[start:].argmax())
            return position if is_best[position] else int(is_best.argmax())
        names, rows = cycle.nodes.names, board.rows
        best = is_best.nonzero()[0].tolist()
        return int(min(best, key=lambda position: names[rows[position]]))

    def _write_detail(self, cycle: Cycle, search: Search, rows: Rows) -> None:
        table = cycle.nodes
        detail = search.detail = Detail()
        detail.feasible = sorted(table.names[row] for row in rows.tolist())
        if search.diagnosis is not None:
            rejected = describe_rejections(table, search.diagnosis)
            detail.rejected = {n: s for n, s in rejected.items() if n not in detail.feasible}
        if search.board is not None:
            detail.scores, detail.totals = describe_scores(table, search.board)


def nodes_to_find(count: int, percentage: int) -> int:
    """How many feasible nodes are enough.

    >>> nodes_to_find(99, 10), nodes_to_find(5000, 10), nodes_to_find(500, 10)
    (99, 500, 100)
    """
    if count < MIN_FEASIBLE_NODES:
        return count
    return max(MIN_FEASIBLE_NODES, count * percentage // 100)


def _not_chosen(plugins: tuple[str, ...]) -> Status:
    text = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}]"
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (text,))


def _refused(code: Code, result: Any, name: str) -> Status:
    text = result.unresolvable.get(name) or result.failed.get(name) or ""
    return Status(code, (text,), "Extender")
