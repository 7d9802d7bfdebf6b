"""TeamNodes: a node that belongs to a team runs that team's pods only.

A plugin of the simplest sort: one method, asked about one node at a time.  `fast/team_nodes.py`
gives the same answers for all nodes at once.
"""

from __future__ import annotations

from stowplan.plugin import Cycle, NodeInfo, PodInfo, Status, unresolvable

TEAM = "example.com/team"
OTHER_TEAM = "node(s) belonged to another team"


class TeamNodes:
    name = "TeamNodes"

    def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status | None:
        owner = node.labels.get(TEAM)
        if owner is None or owner == pod.kind.labels.get(TEAM):
            return None
        return unresolvable(OTHER_TEAM)
