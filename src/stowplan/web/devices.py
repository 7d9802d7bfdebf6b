"""Devices as resources of the map: how many of each driver a node has, and how many are allocated.

Counted from ResourceSlices and ResourceClaims as they are.  Devices that belong to no single node
(reached over a network, or from nodes that a selector names) are no part of any cell: they are rows
of a table beside the map.  One that is shared, or that an administrator looks at, is taken once or
not at all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from stowplan.objects.devices import Device, ResourceClaim, ResourceSlice
from stowplan.objects.node import Node
from stowplan.objects.node_selector import compile_node_selector
from stowplan.objects.pod import NodeSelector, NodeSelectorRequirement
from stowplan.world.cluster import Cluster

Key = tuple[str, str, str]
"""Driver, pool, device."""
Counts = dict[str, tuple[int, int]]
"""Node -> how many there are, how many are taken."""
CLAIMS_MAX = 20
"""Named of those that hold devices of a pool."""


@dataclass(slots=True)
class Shared:
    """Devices of a pool that are reached from the same nodes."""

    pool: str
    selector: NodeSelector | None
    """None: from every node."""
    whole: int = 0
    used: int = 0
    claims: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True)
class OfDriver:
    by_node: Counts = field(default_factory=dict)
    shared: dict[tuple[str, str], Shared] = field(default_factory=dict)
    """By pool and by the words of the selector."""

    def rows(self, nodes: list[Node]) -> list[dict[str, Any]]:
        """The shared ones, as a table."""
        return [
            {
                "pool": each.pool,
                "from": _words(each.selector),
                "nodes": _reach(each.selector, nodes),
                "whole": each.whole,
                "used": each.used,
                "claims": list(each.claims)[:CLAIMS_MAX],
            }
            for _, each in sorted(self.shared.items())
        ]


def devices(cluster: Cluster) -> dict[str, OfDriver]:
    """By the name of a resource, which no real one can have."""
    slices = [cast(ResourceSlice, each) for each in cluster.objects("ResourceSlice")]
    if not slices:
        return {}
    taken = dict(_taken(cluster))
    found: dict[str, OfDriver] = defaultdict(OfDriver)
    for key, (of, device) in _present(slices).items():
        driver, pool, _ = key
        of_driver = found[f"devices of {driver}"]
        where = device if of.spec.per_device_node_selection else of.spec
        if where.node_name:
            there, used = of_driver.by_node.get(where.node_name, (0, 0))
            of_driver.by_node[where.node_name] = there + 1, used + (key in taken)
        elif where.all_nodes or where.node_selector is not None:
            selector = None if where.all_nodes else where.node_selector
            name = pool, _words(selector)
            shared = of_driver.shared.setdefault(name, Shared(pool, selector))
            shared.whole += 1
            if key in taken:
                shared.used += 1
                shared.claims[taken[key]] = None
    return dict(sorted(found.items()))


def _present(slices: list[ResourceSlice]) -> dict[Key, tuple[ResourceSlice, Device]]:
    """Slices of an older generation of a pool are gone."""
    newest: dict[tuple[str, str], int] = {}
    for each in slices:
        pool = each.spec.driver, each.spec.pool.name
        newest[pool] = max(newest.get(pool, 0), each.spec.pool.generation)
    return {
        (each.spec.driver, each.spec.pool.name, device.name): (each, device)
        for each in slices
        if each.spec.pool.generation == newest[each.spec.driver, each.spec.pool.name]
        for device in each.spec.devices or ()
    }


def _taken(cluster: Cluster) -> Iterator[tuple[Key, str]]:
    """Devices, and which claim holds each."""
    for each in cluster.objects("ResourceClaim"):
        allocation = cast(ResourceClaim, each).status.allocation
        for result in (allocation.devices.results or ()) if allocation is not None else ():
            if not result.admin_access:
                yield (result.driver, result.pool, result.device), f"{each.namespace}/{each.name}"


def _reach(selector: NodeSelector | None, nodes: list[Node]) -> int:
    compiled = compile_node_selector(selector)
    if compiled is None:
        return len(nodes)
    return sum(compiled.matches(node.metadata.labels or {}, node.name) for node in nodes)


def _words(selector: NodeSelector | None) -> str:
    if selector is None:
        return "every node"
    terms = (
        [*(term.match_expressions or ()), *(term.match_fields or ())]
        for term in selector.node_selector_terms or ()
    )
    return " or ".join(", ".join(map(_requirement, term)) for term in terms)


def _requirement(each: NodeSelectorRequirement) -> str:
    return " ".join(filter(None, (each.key, each.operator, " ".join(each.values or ()))))
