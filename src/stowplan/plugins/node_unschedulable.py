"""NodeUnschedulable: keep pods off cordoned nodes, unless they tolerate the cordon's taint.

Mirrors kube-scheduler's `nodeunschedulable/node_unschedulable.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stowplan.framework.cycle import Cycle
from stowplan.framework.events import Action, EventRegistration, Hint, Resource, on
from stowplan.framework.reads import Reads
from stowplan.framework.status import Rows, Status, Verdict, unresolvable, verdict_of
from stowplan.objects.node import Node, Taint
from stowplan.objects.pod import Pod, Toleration
from stowplan.objects.taints import NO_SCHEDULE, tolerates
from stowplan.plugins._shared.rows import all_passed
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import PodInfo, PodKind, fact

UNSCHEDULABLE = "node(s) were unschedulable"

_CORDON = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
_STATUS = unresolvable(UNSCHEDULABLE)


class NodeUnschedulable:
    name = "NodeUnschedulable"
    reads = Reads.NODE

    def signature(self, pod: PodInfo) -> bool:
        """Whether the pod tolerates the cordon: all that is read of it."""
        return _is_unconcerned(pod.kind)

    def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status | None:
        cordoned = node.node is not None and node.node.spec.unschedulable
        return _STATUS if cordoned and not self.signature(pod) else None

    def filter_nodes(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows | slice
    ) -> Verdict:
        if self.signature(pod):
            return all_passed((UNSCHEDULABLE,), nodes, rows)
        return verdict_of(nodes.unschedulable[rows], UNSCHEDULABLE, unresolvable=True)

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (
            on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT, _after_node_change),
            on(Resource.POD, Action.UPDATE_POD_TOLERATION, _after_toleration_change),
        )


@fact
def _is_unconcerned(kind: PodKind) -> bool:
    return _tolerates_cordon(kind.tolerations)


def _tolerates_cordon(tolerations: Iterable[Toleration]) -> bool:
    return any(tolerates(toleration, _CORDON) for toleration in tolerations)


def _after_node_change(pod: Pod, old: Node | None, new: Node) -> Hint:
    was_open = old is not None and not old.spec.unschedulable
    return Hint.SKIP if new.spec.unschedulable or was_open else Hint.QUEUE


def _after_toleration_change(pod: Pod, old: Pod, new: Pod) -> Hint:
    same = new.metadata.uid == pod.metadata.uid
    return Hint.QUEUE if same and _tolerates_cordon(new.spec.tolerations or ()) else Hint.SKIP
