"""Where a group goes: which placements are tried, and choosing nodes within one of them.

`PlacementChoice` puts the placements in order, so that mostly the first one that takes all members
is the best there is.  `GroupAlgorithm` is the search of `core.algorithm` on the nodes of one
placement: what is said of a pod that fits nowhere is said of these alone.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stowplan.core.algorithm import Algorithm, Search
from stowplan.core.together import GANG_PLUGIN
from stowplan.framework.cycle import Cycle
from stowplan.framework.errors import PluginFailed, describe
from stowplan.framework.groups import GroupCycle, PlacedGroup, Placement
from stowplan.framework.runtime import Feasible, Framework
from stowplan.framework.status import MAX_NODE_SCORE, NodeMask, Status
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import PodInfo


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
        self.too_small: set[str] = set()
        """The filters that leave too few members a place, in placements that are not tried."""
        self.bounds: dict[str, int] = {}
        """How many members each placement takes, at most."""
        self.to_try = self._worth_trying(placements)
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

    def _worth_trying(self, placements: list[Placement]) -> list[Placement]:
        """Without those that cannot take enough members; but one, to say why not."""
        cycle, plugins = self._cycle, self._framework.plugins
        filters = [each for each in plugins.filter if hasattr(each, "most_members")]
        is_gang = any(_name(each) == GANG_PLUGIN for each in plugins.permit)
        min_count = cycle.group.spec.min_count if cycle.group is not None and is_gang else 1
        needed = min_count - cycle.state.scheduled_count
        worth = []
        for placement in placements:
            most = {_name(each): each.most_members(cycle, placement) for each in filters}
            small = [name for name, count in most.items() if count < needed]
            self.too_small.update(small)
            self.bounds[placement.name] = min([len(cycle.members), *most.values()])
            if not small:
                worth.append(placement)
        return worth or placements[:1]

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
