"""Which extended resources each node leaves to devices: those that no device plugin offers there.

The nodes are put into a few groups that leave the same to devices.  The groups follow the node
objects, row by row, for as long as the device classes stay the same.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from stowplan.objects.devices import DeviceClass
from stowplan.plugins._shared.device_classes import ResourceClasses, may_be_devices
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import PodInfo
from stowplan.state.row_follower import RowFollower

KEPT_MAX = 64

Needed = frozenset[str] | None
"""The resources that are to be had as devices; None: one of all cannot be had at all."""


def needed_on(
    node: NodeInfo, wanted: tuple[str, ...], classes: Mapping[str, DeviceClass]
) -> Needed:
    needed = set()
    for resource in wanted:
        if resource in classes and node.allocatable.get(resource, 0) <= 0:
            needed.add(resource)
        elif resource not in node.allocatable:
            return None
    return frozenset(needed)


def wanted_by(pod: PodInfo) -> tuple[str, ...]:
    """The resources that could be devices, in the order of the pod's requests."""
    requests = pod.kind.requests.items()
    return tuple(name for name, amount in requests if amount > 0 and may_be_devices(name))


class NodeGroups:
    """Of the nodes, for pods that want these resources."""

    def __init__(self, wanted: tuple[str, ...], classes: Mapping[str, DeviceClass]) -> None:
        self._wanted = wanted
        self._classes = classes
        self._follower = RowFollower(of_nodes=True)
        self._known: dict[Needed, int] = {}
        self.needed: list[Needed] = []
        """Per group."""
        self.of_row: list[int] = []

    def catch_up(self, nodes: NodeTable) -> None:
        changed = self._follower.changed(nodes)
        if changed is None:
            self.of_row = [self._group(node) for node in nodes.infos]
            return
        for row in changed:
            self.of_row[row] = self._group(nodes.infos[row])

    def _group(self, node: NodeInfo | None) -> int:
        needed = needed_on(node, self._wanted, self._classes) if node is not None else frozenset()
        found = self._known.get(needed)
        if found is None:
            found = self._known[needed] = len(self.needed)
            self.needed.append(needed)
        return found


class NeededResources:
    def __init__(self, resources: ResourceClasses) -> None:
        self._resources = resources
        self._kept: OrderedDict[tuple[int, tuple[str, ...]], NodeGroups] = OrderedDict()

    def groups_for(self, pod: PodInfo, nodes: NodeTable) -> NodeGroups:
        """Up to date."""
        key = (self._resources.version, wanted_by(pod))
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = NodeGroups(key[1], self._resources.by_resource)
            if len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        found.catch_up(nodes)
        return found
