"""Where a group goes: which placements are tried, and choosing nodes within one of them.

`PlacementChoice` puts the placements in order, so that mostly the first one that takes all members
is the best there is.  `GroupAlgorithm` is the search of `core.algorithm` on the nodes of one
placement: what is said of a pod that fits nowhere is said of these alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stowplan.core.algorithm import Algorithm, Search
from stowplan.core.together import GANG_PLUGIN
from stowplan.framework.cycle import Cycle
from stowplan.framework.errors import PluginFailed, describe
from stowplan.framework.groups import GroupCycle, PlacedGroup, Placement
from stowplan.framework.runtime import Feasible, Framework
from stowplan.framework.status import MAX_NODE_SCORE, NodeMask, Rows, Status
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import PodInfo, PodKind


@dataclass(slots=True)
class GroupAlgorithm(Algorithm):
    """The algorithm for members of a group: on all nodes, or on those of `placement`."""

    _mask: NodeMask | None = field(default=None, init=False)
    _count: int = field(default=0, init=False)

    @classmethod
    def of(cls, algorithm: Algorithm) -> GroupAlgorithm:
        return cls(
            algorithm.extenders, algorithm.tie_break, algorithm.start_index, algorithm.explain
        )

    def narrow(self, nodes: NodeTable, placement: Placement | None) -> None:
        """Look at these nodes alone; None: at all."""
        self._mask = None
        if placement is not None and len(placement.rows) < nodes.node_count:
            self._mask = np.zeros(nodes.size, np.bool_)
            self._mask[placement.rows] = True
            self._count = len(placement.rows)

    def search(
        self, framework: Framework, cycle: Cycle, pod: PodInfo
    ) -> Generator[Any, Any, Search]:
        # The class is made anew for its slots, so that a bare `super()` knows the wrong one.
        if self._mask is None:
            return (yield from super(GroupAlgorithm, self).search(framework, cycle, pod))
        narrowed = FrameworkWithin(framework, self._mask)
        search: Search = yield from super(GroupAlgorithm, self).search(narrowed, cycle, pod)
        search.evaluated_count = min(search.evaluated_count, self._count)
        if search.diagnosis is not None:
            search.diagnosis.node_count = self._count
        return search

    def _fits_nominated(
        self, framework: Framework, cycle: Cycle, pod: PodInfo, row: int, tried: dict[int, Status]
    ) -> Generator[Any, Any, bool]:
        if self._mask is not None and not self._mask[row]:
            return False
        return (
            yield from super(GroupAlgorithm, self)._fits_nominated(
                framework, cycle, pod, row, tried
            )
        )


class FrameworkWithin(Framework):
    """A profile's framework, that finds nodes among some of them only.  It keeps nothing itself."""

    def __init__(self, framework: Framework, mask: NodeMask) -> None:
        vars(self).update(vars(framework))
        self._mask = mask

    def find_feasible(
        self, cycle: Cycle, pod: PodInfo, nodes: frozenset[str] | None = None
    ) -> Feasible:
        found, mask = super().find_feasible(cycle, pod, nodes), self._mask
        found.mask = found.mask & mask
        found.candidates = mask if found.candidates is None else found.candidates & mask
        return found


class _Refusals(NamedTuple):
    """What the filters that read the node object alone say of a kind of pod."""

    names: dict[int, str]
    """Of these filters, by number."""
    first: NDArray[np.uint8]
    """Per row the number of the one that turned the node down; 0: none."""

    def names_on(self, rows: Rows) -> set[str]:
        return {self.names[number] for number in self.first[rows].tolist() if number}


class PlacementChoice:
    """Which placements to try, in which order, and which of those that are possible is best."""

    def __init__(
        self, framework: Framework, cycle: GroupCycle, placements: list[Placement]
    ) -> None:
        """At least one placement."""
        self._framework = framework
        self._cycle = cycle
        self._scorers = framework.plugins.placement_score
        self._is_bounded = all(hasattr(each, "most_for_placement") for each in self._scorers)
        handle = framework.handle
        placements = sorted(placements, key=lambda placement: placement.name)
        if not handle.ties_by_name:
            handle.random.shuffle(placements)
        self._filters = [each for each in framework.plugins.filter if hasattr(each, "most_members")]
        self._may_evict = cycle.group is None or cycle.group.spec.scheduling_constraints is None
        """Then there may be more room than is free; with constraints, members evict nobody."""
        self._needed = self._needed_count()
        self.too_small: set[str] = set()
        """The filters that leave too few members a place, in placements that are not tried."""
        self.bounds = dict.fromkeys((each.name for each in placements), len(cycle.members))
        """How many members each placement takes, at most, as far as that is known."""
        # But one is tried in any case, to say why not.
        self.to_try = self._large_enough(placements) or placements[:1]
        if self._is_bounded and len(self.to_try) > 1:
            # Stable: among equals any order is as good.
            self.to_try.sort(key=self._most, reverse=True)

    def is_best(self, placed_count: int) -> bool:
        """Whether no placement that comes later can be better."""
        return self._is_bounded and placed_count == len(self._cycle.members)

    def best(self, possible: list[PlacedGroup]) -> int:
        """The place of the best in the list; of several, the first."""
        if len(possible) == 1:
            return 0
        totals = [0] * len(possible)
        recorder, label = self._framework.recorder, "Error"
        started_s = recorder.now()
        try:
            for scorer in self._scorers:
                weight = self._framework.plugins.placement_weights[_name(scorer)]
                for at, score in enumerate(self._scores(scorer, possible)):
                    totals[at] += weight * score
            label = "Success"
        finally:
            seconds = recorder.now() - started_s
            recorder.point("PlacementScore", self._framework.profile, label, seconds)
        return totals.index(max(totals))

    def _most(self, placement: Placement) -> int:
        weights = self._framework.plugins.placement_weights
        scorers: tuple[Any, ...] = self._scorers
        return sum(
            weights[_name(scorer)] * scorer.most_for_placement(self._cycle, placement)
            for scorer in scorers
        )

    def _needed_count(self) -> int:
        """How many of the members must have a node, at least."""
        cycle = self._cycle
        is_gang = any(_name(each) == GANG_PLUGIN for each in self._framework.plugins.permit)
        min_count = cycle.group.spec.min_count if cycle.group is not None and is_gang else 1
        return min_count - cycle.state.scheduled_count

    def _large_enough(self, placements: list[Placement]) -> list[Placement]:
        """Without those in which a filter says that it lets too few members pass."""
        if self._may_evict:
            return placements
        return [each for each in placements if self._is_large_enough(each, each.rows)]

    def _is_large_enough(self, placement: Placement, rows: Rows) -> bool:
        """Whether these of its nodes may take as many members as are needed."""
        cycle, within = self._cycle, Placement(placement.name, rows)
        most = {_name(each): each.most_members(cycle, within) for each in self._filters}
        small = [name for name, count in most.items() if count < self._needed]
        self.too_small.update(small)
        self.bounds[placement.name] = min([self.bounds[placement.name], *most.values()])
        return not small

    # -- what a trial in vain says of the others --------------------------------------------

    def learn(self, tried: Iterable[tuple[Cycle, PodInfo]]) -> None:
        """Leave out those whose nodes, whoever is there, turn too many of the members down.

        Each member was asked about all nodes already: without this a taint on all of them would be
        met in every placement anew.
        """
        if self._may_evict:
            return
        counts: Counter[PodKind] = Counter()
        refusals: dict[PodKind, _Refusals] = {}
        for cycle, pod in tried:
            counts[pod.kind] += 1
            if pod.kind not in refusals:
                refusals[pod.kind] = self._refusals(cycle, pod)
        self.to_try = [each for each in self.to_try if self._is_open(each, counts, refusals)]

    def _refusals(self, cycle: Cycle, pod: PodInfo) -> _Refusals:
        if cycle.plan is None:
            return _Refusals({}, np.zeros(cycle.nodes.size, np.uint8))
        names = {each.number: each.name for each in cycle.plan.outline.node_only.filters}
        first = self._framework.local_answers(cycle, pod).first
        counts = np.zeros(256, np.bool_)
        counts[list(names)] = True
        return _Refusals(names, np.where(counts[first], first, 0))

    def _is_open(
        self, placement: Placement, counts: Counter[PodKind], refusals: dict[PodKind, _Refusals]
    ) -> bool:
        rows = placement.rows
        accepted = {kind: found.first[rows] == 0 for kind, found in refusals.items()}
        takes = sum(count for kind, count in counts.items() if accepted[kind].any())
        self.bounds[placement.name] = min(self.bounds[placement.name], takes)
        is_open = takes >= self._needed
        if is_open and len(accepted) == 1:
            (of_all,) = accepted.values()
            is_open = self._is_large_enough(placement, rows[of_all])
        if not is_open:
            self.too_small.update(*(found.names_on(rows) for found in refusals.values()))
        return is_open

    def _scores(self, scorer: Any, possible: list[PlacedGroup]) -> list[int]:
        name = _name(scorer)
        try:
            scores = [scorer.score_placement(self._cycle, placed) for placed in possible]
            if hasattr(scorer, "normalize_placement_scores"):
                scores = scorer.normalize_placement_scores(self._cycle, scores)
        except Exception as cause:
            raise PluginFailed(name, describe(cause), "PlacementScore") from cause
        for score in scores:
            if not 0 <= score <= MAX_NODE_SCORE:
                raise PluginFailed(
                    name,
                    f'plugin "{name}" returns an invalid score {score}, '
                    f"it should in the range of [0, {MAX_NODE_SCORE}] after normalizing",
                    "PlacementScore",
                )
        return [int(score) for score in scores]


def _name(plugin: Any) -> str:
    name: str = plugin.name
    return name
