"""PodGroupPodsCount: of several placements, the one that takes most of a group's pods.

Mirrors kube-scheduler's `topologyaware/podgroup_pods_count.go`.
"""

from __future__ import annotations

from stowplan.framework.groups import GroupCycle, PlacedGroup, Placement
from stowplan.framework.status import MAX_NODE_SCORE


class PodGroupPodsCount:
    name = "PodGroupPodsCount"

    def score_placement(self, cycle: GroupCycle, placement: PlacedGroup) -> int:
        return cycle.state.scheduled_count + len(placement.nodes)

    def most_for_placement(self, cycle: GroupCycle, placement: Placement) -> int:
        return MAX_NODE_SCORE

    def normalize_placement_scores(self, cycle: GroupCycle, scores: list[int]) -> list[int]:
        highest = max(scores)
        if not highest:
            raise ValueError(
                "no pods from pod group are assigned to any of the candidate placements"
            )
        return [MAX_NODE_SCORE * score // highest for score in scores]
