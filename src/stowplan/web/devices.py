"""Devices as resources of the map: how many of each driver a node has, and how many are allocated.

Counted from ResourceSlices and ResourceClaims as they are.  Only devices that belong to one node
are counted; one that is shared, or that an administrator looks at, is taken once or not at all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import cast

from stowplan.objects.devices import Device, ResourceClaim, ResourceSlice
from stowplan.world.cluster import Cluster

Key = tuple[str, str, str]
"""Driver, pool, device."""
Counts = dict[str, tuple[int, int]]
"""Node -> how many there are, how many are taken."""


def resource_name(driver: str) -> str:
    return f"devices of {driver}"


def devices_by_node(cluster: Cluster) -> dict[str, Counts]:
    """By the name of a resource, which no real one can have."""
    slices = [cast(ResourceSlice, each) for each in cluster.objects("ResourceSlice")]
    if not slices:
        return {}
    taken = set(_taken(cluster))
    counts: dict[str, Counts] = defaultdict(dict)
    for key, node in _owned(slices).items():
        of_driver = counts[resource_name(key[0])]
        there, used = of_driver.get(node, (0, 0))
        of_driver[node] = there + 1, used + (key in taken)
    return dict(sorted(counts.items()))


def _owned(slices: list[ResourceSlice]) -> dict[Key, str]:
    """The node of each device that has one; slices of an older generation of a pool are gone."""
    newest: dict[tuple[str, str], int] = {}
    for each in slices:
        pool = each.spec.driver, each.spec.pool.name
        newest[pool] = max(newest.get(pool, 0), each.spec.pool.generation)
    owned = {}
    for each in slices:
        spec = each.spec
        if spec.pool.generation < newest[spec.driver, spec.pool.name]:
            continue
        for device in spec.devices or ():
            node = _node_of(each, device)
            if node:
                owned[spec.driver, spec.pool.name, device.name] = node
    return owned


def _node_of(of: ResourceSlice, device: Device) -> str:
    return (device.node_name if of.spec.per_device_node_selection else of.spec.node_name) or ""


def _taken(cluster: Cluster) -> Iterator[Key]:
    for each in cluster.objects("ResourceClaim"):
        allocation = cast(ResourceClaim, each).status.allocation
        for result in (allocation.devices.results or ()) if allocation is not None else ():
            if not result.admin_access:
                yield result.driver, result.pool, result.device
