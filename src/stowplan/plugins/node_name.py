"""NodeName: a pod that names its node goes there or nowhere.

Mirrors kube-scheduler's `nodename/node_name.go`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stowplan.framework.cycle import Cycle
from stowplan.framework.events import Action, EventRegistration, Resource, on
from stowplan.framework.reads import Reads
from stowplan.framework.status import Rows, Status, Verdict, unresolvable, verdict_of
from stowplan.plugins._shared.rows import all_passed
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import PodInfo

OTHER_NODE = "node(s) didn't match the requested node name"

_STATUS = unresolvable(OTHER_NODE)


class NodeName:
    name = "NodeName"
    reads = Reads.NODE

    def signature(self, pod: PodInfo) -> str:
        return pod.pod.spec.node_name

    def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status | None:
        wanted = pod.pod.spec.node_name
        return _STATUS if wanted and wanted != node.name else None

    def filter_nodes(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows | slice
    ) -> Verdict:
        wanted = pod.pod.spec.node_name
        if not wanted:
            return all_passed((OTHER_NODE,), nodes, rows)
        other = np.ones(nodes.size, np.bool_)
        if wanted in nodes.row_of:
            other[nodes.row_of[wanted]] = False
        return verdict_of(other[rows], OTHER_NODE, unresolvable=True)

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (on(Resource.NODE, Action.ADD),)
