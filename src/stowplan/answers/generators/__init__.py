"""Changes that may help, a module per sort of cause; nothing in here is true before it is proven.

`BY_FAMILY` names, for what objects to nodes, whoever thinks of changes: told the situation and the
nodes (by position) that this is wrong with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from stowplan.answers.changes import Candidate
from stowplan.answers.generators.devices import devices
from stowplan.answers.generators.groups import for_all, group_changes, on_member, unplaced
from stowplan.answers.generators.node_labels import node_affinity
from stowplan.answers.generators.own import features, gates, host_ports, node_name, scheduler
from stowplan.answers.generators.pod_affinity import inter_pod
from stowplan.answers.generators.resources import smaller_requests
from stowplan.answers.generators.room import another_node, freed_pods, priorities
from stowplan.answers.generators.spread import spread
from stowplan.answers.generators.taints import tolerations, uncordon
from stowplan.answers.generators.volumes import volumes
from stowplan.answers.situation import GATES, SCHEDULER, VOLUMES, Situation

Generator = Callable[[Situation, list[int]], Iterator[Candidate]]

BY_FAMILY: dict[str, Generator] = {
    SCHEDULER: scheduler,
    GATES: gates,
    "GangScheduling": group_changes,
    "NodeName": node_name,
    "NodeUnschedulable": uncordon,
    "TaintToleration": tolerations,
    "NodeAffinity": node_affinity,
    "NodeDeclaredFeatures": features,
    "NodePorts": host_ports,
    "NodeResourcesFit": smaller_requests,
    VOLUMES: volumes,
    "PodTopologySpread": spread,
    "InterPodAffinity": inter_pod,
    "DynamicResources": devices,
}

__all__ = [
    "BY_FAMILY",
    "Generator",
    "another_node",
    "for_all",
    "freed_pods",
    "group_changes",
    "on_member",
    "priorities",
    "unplaced",
]
