"""Extended resources that are devices, in scores: how many there are on each node, and in use.

Where no device plugin offers a resource that a device class stands for, scores count the devices of
the class.  DynamicResources knows those; plugins do not know each other, so it leaves word here who
counts them.  Mirrors the part of kube-scheduler's `noderesources/resource_allocation.go` about DRA.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stowplan.objects.devices import DeviceClass
from stowplan.plugins._shared.device_classes import ResourceClasses
from stowplan.plugins._shared.resource_columns import ResourceColumns, make_columns
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.object_index import ObjectIndex


class DeviceCount(NamedTuple):
    total: int
    used: int


class Counter(Protocol):
    def on_node(self, device_class: DeviceClass, node: NodeInfo) -> DeviceCount: ...

    def on_nodes(
        self, device_class: DeviceClass, nodes: NodeTable
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Per row how many there are, and how many of those are used."""


class DeviceTotals:
    """Of all profiles."""

    def __init__(self, objects: ObjectIndex) -> None:
        self._classes = objects.derived(ResourceClasses)
        self.counter: Counter | None = None
        """None where nobody allocates devices."""

    def counts(self, resource: str) -> bool:
        """Whether it may be counted in devices."""
        return self.counter is not None and resource in self._classes.by_resource

    def on_node(self, resource: str, node: NodeInfo) -> DeviceCount:
        """What the node itself lists of the resource, or its devices."""
        total = node.allocatable.get(resource, 0)
        if total <= 0 and self.counter is not None:
            return self.counter.on_node(self._classes.by_resource[resource], node)
        return DeviceCount(total, node.requested.get(resource, 0))

    def on_nodes(self, resource: str, nodes: NodeTable) -> ResourceColumns:
        totals, used = nodes.allocatable(resource), nodes.requested(resource)
        if self.counter is not None:
            listed = totals > 0
            there, taken = self.counter.on_nodes(self._classes.by_resource[resource], nodes)
            totals, used = np.where(listed, totals, there), np.where(listed, used, taken)
        return make_columns(totals, used)
