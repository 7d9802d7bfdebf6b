"""NodeDeclaredFeatures: a pod that needs a feature of the kubelet goes where a node declares it.

The pod does not ask for features; they are inferred from what its spec uses.  Nodes share few
distinct feature lists, so the loop is over those.  Mirrors kube-scheduler's
`nodedeclaredfeatures/nodedeclaredfeatures.go` and `component-helpers/nodedeclaredfeatures`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stowplan.framework.cycle import Cycle
from stowplan.framework.events import Action, EventRegistration, Hint, Resource, on
from stowplan.framework.reads import Reads
from stowplan.framework.status import SKIP, Rows, Status, Verdict, unresolvable, verdict_of
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod
from stowplan.plugins._shared.rows import spread
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import PodInfo, PodKind, fact

FEATURES_MISSING = "node(s) didn't match Pod's required features"

RESTART_ALL_CONTAINERS = "RestartAllContainersOnContainerExits"
USER_NAMESPACES_HOST_NETWORK = "UserNamespacesHostNetworkSupport"

_STATUS = unresolvable(FEATURES_MISSING)


class NodeDeclaredFeatures:
    name = "NodeDeclaredFeatures"
    reads = Reads.NODE

    def signature(self, pod: PodInfo) -> frozenset[str]:
        """The features the pod needs: all that is read of it."""
        return _required_features(pod.kind)

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        return None if self.signature(pod) else SKIP

    def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status | None:
        declared = (node.node.status.declared_features or ()) if node.node is not None else ()
        return None if self.signature(pod).issubset(declared) else _STATUS

    def filter_nodes(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows | slice
    ) -> Verdict:
        required = self.signature(pod)
        missing = np.array([not required <= declared for declared in nodes.feature_lists], np.bool_)
        unfit = spread(missing, nodes.feature_list[rows])
        return verdict_of(unfit, FEATURES_MISSING, unresolvable=True)

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (
            on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_DECLARED_FEATURE, _after_node_change),
            on(Resource.POD, Action.UPDATE, _after_pod_change),
        )


def required_features(pod: Pod) -> frozenset[str]:
    spec = pod.spec
    required = set()
    containers = (*(spec.containers or ()), *(spec.init_containers or ()))
    rules = (rule for container in containers for rule in container.restart_policy_rules or ())
    if any(rule.action == "RestartAllContainers" for rule in rules):
        required.add(RESTART_ALL_CONTAINERS)
    if spec.host_network and spec.host_users is False:
        required.add(USER_NAMESPACES_HOST_NETWORK)
    return frozenset(required)


@fact
def _required_features(kind: PodKind) -> frozenset[str]:
    return required_features(kind.pod)


def _after_node_change(pod: Pod, old: Node | None, new: Node) -> Hint:
    declared = new.status.declared_features or []
    changed = old is None or (old.status.declared_features or []) != declared
    return Hint.QUEUE if changed else Hint.SKIP


def _after_pod_change(pod: Pod, old: Pod, new: Pod) -> Hint:
    same = new.metadata.uid == pod.metadata.uid
    changed = same and required_features(old) != required_features(new)
    return Hint.QUEUE if changed else Hint.SKIP
