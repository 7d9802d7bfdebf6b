"""Choosing a node: PreFilter, Filter, Score, pick.  The decision proper, without its effects.

Mirrors `schedulePod` and what it calls in kube-scheduler's `schedule_one.go`.  A generator,
because an extender may have to be asked in the middle: it yields `CallExtender` and is sent the
answer; without extenders it runs through without a pause.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from msgspec import Struct

from stowplan.core.decision import Decision
from stowplan.core.extender import CallExtender, Extender, ExtenderFailed, FilterResult
from stowplan.core.steps import Parallel
from stowplan.framework.cycle import Cycle
from stowplan.framework.diagnosis import Diagnosis
from stowplan.framework.errors import PluginFailed
from stowplan.framework.runtime import Feasible, Framework, PreFilterVerdict, ScoreBoard
from stowplan.framework.status import Code, Rows, Status
from stowplan.framework.timing import SUCCESS
from stowplan.queue import EXTENDER
from stowplan.state.pod_info import PodInfo

MIN_FEASIBLE_NODES = 100

TieBreak = Literal["random", "name"]


class Search(Struct):
    """What was found, for one pod."""

    row: int = -1
    """The chosen node; -1 when none fits."""
    score: int | None = None
    feasible_count: int = 0
    evaluated_count: int = 0
    diagnosis: Diagnosis | None = None
    """Why not, when no node fits."""
    found: Feasible | None = None
    """What the filters said; None when they were not asked, or about one node only."""
    board: ScoreBoard | None = None
    """The scores; None where there was nothing to compare."""


Explain = Callable[[Framework, Cycle, PodInfo, Search, Decision], None]
"""May write the decision's `explanation`."""


@dataclass(slots=True)
class Algorithm:
    """The choice as configured.  `start_index` is the only thing it remembers between pods."""

    extenders: Sequence[Extender] = ()
    tie_break: TieBreak = "random"
    start_index: int = 0
    explain: Explain | None = None
    """Told of every search, while the columns it was made of still hold."""
    post_filters: bool = True
    """Whether a pod that fits nowhere may evict others."""

    def search(
        self, framework: Framework, cycle: Cycle, pod: PodInfo
    ) -> Generator[Any, Any, Search]:
        verdict = framework.pre_filter(cycle, pod)
        if verdict.status is not None:
            return self._turned_down(cycle, verdict)
        tried: dict[int, Status] | None = None
        row = cycle.nodes.row_of.get(pod.pod.status.nominated_node_name)
        if row is not None:
            tried = {}
            if (yield from self._fits_nominated(framework, cycle, pod, row, tried)):
                return Search(row, feasible_count=1, evaluated_count=1)
        found = framework.find_feasible(cycle, pod, verdict.nodes)
        if verdict.nodes is not None:
            found.absent = _not_chosen(verdict.narrowed_by)
            found.rejected_by.update(verdict.narrowed_by)
            for row, status in (tried or {}).items():
                if not _is_candidate(found, row):
                    found.overrides[row] = status
        percentage = framework.percentage_of_nodes_to_score
        if 0 < percentage < 100:
            rows, evaluated = self._limit(framework, cycle, found, percentage)
        else:
            rows, evaluated = found.rows(), cycle.nodes.node_count
        if self.extenders:
            passed_count = len(rows)
            rows = yield from self._ask_filters(cycle, pod, found, rows)
            if len(rows) < passed_count:
                found.rejected_by.add(EXTENDER)
        count = len(rows)
        search = Search(feasible_count=count, evaluated_count=evaluated, found=found)
        if count > 1:
            board = framework.score(cycle, pod, found, rows)
            if self.extenders:
                yield from self._ask_priorities(cycle, pod, board)
            self._pick(cycle, board, search)
        elif count:
            search.row = int(rows[0])
        else:
            search.diagnosis = framework.diagnose(cycle.nodes, found)
        return search

    def _turned_down(self, cycle: Cycle, verdict: PreFilterVerdict) -> Search:
        status = verdict.status
        assert status is not None
        diagnosis = Diagnosis(cycle.nodes, cycle.nodes.node_count, absent=status)
        diagnosis.pre_filter_message = status.message
        diagnosis.add_status(status)
        if not status.plugin:
            diagnosis.unschedulable_plugins.update(verdict.narrowed_by)
        return Search(diagnosis=diagnosis)

    def _fits_nominated(
        self, framework: Framework, cycle: Cycle, pod: PodInfo, row: int, tried: dict[int, Status]
    ) -> Generator[Any, Any, bool]:
        """The node that preemption made room on is tried first, and taken without comparing.

        `tried` is told why not.
        """
        recorder = framework.recorder
        started_s = recorder.now()
        try:
            status = framework.filter_one_with_nominated(cycle, pod, cycle.nodes.info(row))
            recorder.point("Filter", framework.profile, SUCCESS, recorder.now() - started_s)
            if status is not None:
                tried[row] = status
                return False
            if not self.extenders:
                return True
            found = Feasible(np.zeros(0, np.bool_), framework.local_answers(cycle, pod), [])
            rows = yield from self._ask_filters(cycle, pod, found, np.array([row], np.intp))
        except (PluginFailed, ExtenderFailed):
            # Upstream only logs it: the full search below decides.
            return False
        tried.update(found.overrides)
        return len(rows) == 1

    def _limit(
        self, framework: Framework, cycle: Cycle, found: Feasible, percentage: int
    ) -> tuple[Rows, int]:
        """The feasible rows to consider, and how many nodes were looked at for them."""
        table, order = cycle.nodes, cycle.nodes.order
        if found.candidates is not None:
            order = order[found.candidates[order]]
        count = len(order)
        if not count:
            return found.rows(), 0
        wanted = nodes_to_find(count, percentage) if self._compares(framework) else 1
        turned = np.roll(order, -(self.start_index % count))
        passed = found.mask[turned]
        hits = np.flatnonzero(passed)
        # Upstream looks on until one hit too many tells it to stop.
        looked_at = int(hits[wanted]) if len(hits) > wanted else count
        unseen = turned[looked_at:]
        if len(unseen):
            seen = table.alive.copy() if found.candidates is None else found.candidates.copy()
            seen[unseen] = False
            found.candidates = seen
        self.start_index = (self.start_index + looked_at) % max(1, table.node_count)
        return np.sort(turned[hits[:wanted]]), looked_at

    def _compares(self, framework: Framework) -> bool:
        """Whether it makes a difference which of several feasible nodes are found."""
        return bool(framework.plugins.score) or any(
            extender.filters or extender.prioritizes for extender in self.extenders
        )

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
            kept = np.isin(rows, cycle.nodes.rows_of(frozenset(result.nodes)))
            _note_refusals(cycle, found, result, rows[~kept])
            rows = rows[kept]
        return rows

    def _ask_priorities(
        self, cycle: Cycle, pod: PodInfo, board: ScoreBoard
    ) -> Generator[Any, Any, None]:
        """Add what extenders make of the nodes."""
        asked = [e for e in self.extenders if e.prioritizes and e.is_interested(pod)]
        if not asked:
            return
        infos = [cycle.nodes.info(row) for row in board.rows.tolist()]
        answers = yield Parallel([_ask(e.prioritize_call(pod, infos)) for e in asked])
        for extender, answer in zip(asked, answers, strict=True):
            extra = extender.read_priorities(answer)
            board.vary(np.array([extra.get(info.name, 0) for info in infos], np.int64))

    def _pick(self, cycle: Cycle, board: ScoreBoard, search: Search) -> None:
        """One of the best: each with the same chance, or the first by name."""
        search.board = board
        answers = board.answers
        if answers is not None and board.added is None and board.rows is answers.known_rows:
            # Of all that pass local filters, the kept sum alone says which are best.
            if self.tie_break == "random":
                search.row = answers.one_of_the_best(cycle.handle.random.random)
            else:
                search.row = _first_by_name(cycle, answers.best().nonzero()[0])
            search.score = answers.best_sum + board.constant
            return
        varying = board.varying
        best = varying[varying.argmax()]
        places = (varying == best).nonzero()[0]
        if self.tie_break == "random":
            place = places.item(int(cycle.handle.random.random() * len(places)))
            search.row = board.rows.item(place)
        else:
            search.row = _first_by_name(cycle, board.rows[places])
        search.score = int(best) + board.constant


def _first_by_name(cycle: Cycle, rows: Rows) -> int:
    nodes = cycle.nodes
    return nodes.row_of[min(map(nodes.names.__getitem__, rows.tolist()))]


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


def _is_candidate(found: Feasible, row: int) -> bool:
    return found.candidates is None or bool(found.candidates[row])


def _ask(call: CallExtender) -> Generator[CallExtender, Any, Any]:
    answer = yield call
    return answer


def _note_refusals(cycle: Cycle, found: Feasible, result: FilterResult, rows: Rows) -> None:
    """Why an extender turned these nodes down; one that it left out without a word is absent."""
    silent = []
    for row in rows.tolist():
        name = cycle.nodes.names[row]
        if name in result.unresolvable:
            code, text = Code.UNSCHEDULABLE_AND_UNRESOLVABLE, result.unresolvable[name]
        elif name in result.failed:
            code, text = Code.UNSCHEDULABLE, result.failed[name]
        else:
            silent.append(row)
            continue
        found.overrides[row] = Status(code, (text,), EXTENDER)
    if silent and len(found.mask):
        candidates = cycle.nodes.alive if found.candidates is None else found.candidates
        found.candidates = candidates.copy()
        found.candidates[silent] = False
