"""TeamNodes for large clusters: all nodes at once, answers kept, and woken only when it helps."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from stowplan.plugin import (
    Action,
    Cycle,
    EventRegistration,
    Hint,
    Node,
    NodeInfo,
    NodeTable,
    Pod,
    PodInfo,
    Reads,
    Resource,
    Rows,
    Status,
    Verdict,
    on,
    unresolvable,
    verdict_of,
)

TEAM = "example.com/team"
OTHER_TEAM = "node(s) belonged to another team"


class TeamNodes:
    name = "TeamNodes"
    reads = Reads.NODE

    def signature(self, pod: PodInfo) -> Hashable:
        return (pod.kind.labels.get(TEAM),)

    def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status | None:
        owner = node.labels.get(TEAM)
        return None if _accepts(owner, pod.kind.labels.get(TEAM)) else unresolvable(OTHER_TEAM)

    def filter_nodes(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows | slice
    ) -> Verdict:
        team = pod.kind.labels.get(TEAM)
        refused = nodes.label(TEAM).matches(lambda owner: not _accepts(owner, team))
        return verdict_of(refused[rows], OTHER_TEAM, unresolvable=True)

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (
            on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL, _after_node_change),
            on(Resource.POD, Action.UPDATE_POD_LABEL, _after_pod_change),
        )


def _accepts(owner: str | None, team: str | None) -> bool:
    return owner is None or owner == team


def _after_node_change(pod: Pod, old: Node | None, new: Node) -> Hint:
    """Worth a try when the node takes the pod now and did not before."""
    team = (pod.metadata.labels or {}).get(TEAM)
    if not _accepts((new.metadata.labels or {}).get(TEAM), team):
        return Hint.SKIP
    was_open = old is not None and _accepts((old.metadata.labels or {}).get(TEAM), team)
    return Hint.SKIP if was_open else Hint.QUEUE


def _after_pod_change(pod: Pod, old: Pod, new: Pod) -> Hint:
    """Only the pod's own labels matter."""
    return Hint.QUEUE if new.metadata.uid == pod.metadata.uid else Hint.SKIP
