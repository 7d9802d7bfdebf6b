"""NodePorts: a node passes when the host ports the pod wants are free there.

Mirrors kube-scheduler's `nodeports/node_ports.go`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from stowplan.framework.cycle import Cycle
from stowplan.framework.events import Action, EventRegistration, Hint, Resource, on
from stowplan.framework.groups import GroupCycle, Placement
from stowplan.framework.reads import Reads
from stowplan.framework.status import SKIP, Rows, Status, Verdict, unschedulable, verdict_of
from stowplan.objects.pod import Pod
from stowplan.plugins._shared.rows import all_passed
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import PodInfo, PodKind

PORT_TAKEN = "node(s) didn't have free ports for the requested pod ports"

_STATUS = unschedulable(PORT_TAKEN)


class NodePorts:
    name = "NodePorts"
    reads = Reads.SUMS

    def signature(self, pod: PodInfo) -> Hashable:
        return frozenset(pod.kind.host_ports)

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        return None if pod.kind.host_ports else SKIP

    def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status | None:
        return _STATUS if node.port_conflict(pod.kind.host_ports) else None

    def filter_nodes(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows | slice
    ) -> Verdict:
        columns = [nodes.port_used(*port) for port in set(pod.kind.host_ports)]
        taken = [column[rows] for column in columns if column is not None]
        if not taken:
            return all_passed((PORT_TAKEN,), nodes, rows)
        return verdict_of(np.logical_or.reduce(taken), PORT_TAKEN, unresolvable=False)

    def most_members(self, cycle: GroupCycle, placement: Placement) -> int:
        """Members alike that want a port are on a node each."""
        keep_apart = cycle.are_alike and cycle.members[0].kind.host_ports
        return len(placement.rows if keep_apart else cycle.members)

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (
            on(Resource.POD, Action.DELETE, _after_pod_deleted, by_kind=True),
            on(Resource.NODE, Action.ADD),
        )


def _after_pod_deleted(pod: Pod, old: Pod, new: Pod | None) -> Hint:
    """Worth a try when the pod that is gone held a port of ours."""
    if not old.spec.node_name and not old.status.nominated_node_name:
        return Hint.SKIP
    once_there = NodeInfo("")
    once_there.used_ports = set(PodKind(old).host_ports)
    return Hint.QUEUE if once_there.port_conflict(PodKind(pod).host_ports) else Hint.SKIP
