"""TopologyPlacementGenerator: a group with a topology constraint goes to the nodes of one domain.

A placement for each value of the label that the constraint names; one of all nodes without a
constraint.  Mirrors kube-scheduler's `topologyaware/topology_placement.go`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stowplan.framework.events import Action, EventRegistration, Hint, Resource, on
from stowplan.framework.groups import GroupCycle, Placement
from stowplan.framework.handle import Handle
from stowplan.framework.status import Status, error
from stowplan.objects.pod import Pod
from stowplan.objects.pod_groups import PodGroup, group_key
from stowplan.state.label_column import ABSENT
from stowplan.state.pod_info import PodInfo

_UNKNOWN_DOMAIN = "cannot determine domain for already scheduled pods: "


class TopologyPlacementGenerator:
    name = "TopologyPlacementGenerator"

    def __init__(self, args: Any, handle: Handle) -> None:
        self._handle = handle

    def generate_placements(self, cycle: GroupCycle) -> Sequence[Placement] | Status:
        group, nodes = cycle.group, cycle.nodes
        if group is None:
            name = cycle.key.rpartition("/")[2]
            return error(f'podgroup.scheduling.k8s.io "{name}" not found')
        key = group.spec.topology_key
        if not key:
            return [Placement("", nodes.alive.nonzero()[0])]
        taken = _domain_of(cycle, key, cycle.state.scheduled())
        if isinstance(taken, Status):
            return taken
        if not nodes.size:
            return []
        column = nodes.label(key)
        ids = np.where(nodes.alive, column.ids, ABSENT)
        order = np.argsort(ids, kind="stable")
        numbers, starts = np.unique(ids[order], return_index=True)
        rows_of = zip(numbers.tolist(), np.split(order, starts[1:]), strict=True)
        return [
            Placement(column.values[number], rows)
            for number, rows in rows_of
            if number != ABSENT and taken in (None, column.values[number])
        ]

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (
            on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
            on(Resource.POD, Action.DELETE, self._after_member_left, by_group=True),
        )

    def _after_member_left(self, pod: Pod, old: Pod | None, new: Pod) -> Hint:
        """With the last member that had a node, the group is free to go to another domain."""
        key = group_key(pod)
        group = self._handle.objects.get(PodGroup, key)
        is_bound_to_domain = group is not None and bool(group.spec.topology_key)
        is_free = is_bound_to_domain and not self._handle.groups.of(key).scheduled_count
        return Hint.QUEUE if is_free else Hint.SKIP


def _domain_of(cycle: GroupCycle, key: str, pods: list[PodInfo]) -> str | Status | None:
    """Where the members are that have a node; None if there are none."""
    found: dict[str, None] = {}
    for pod in pods:
        row = cycle.nodes.row_of.get(pod.node_name)
        if row is None:
            missing = f'nodeinfo not found for node name "{pod.node_name}"'
            return error(f"{_UNKNOWN_DOMAIN}getting node for pod {pod.key}: {missing}")
        value = cycle.nodes.info(row).labels.get(key)
        if value is None:
            return error(f"{_UNKNOWN_DOMAIN}no topology domain found for pod {pod.key}")
        found[value] = None
        if len(found) > 1:
            one, other = found
            return error(f"{_UNKNOWN_DOMAIN}more than 1 domain found for pod group: {one}, {other}")
    return next(iter(found), None)
