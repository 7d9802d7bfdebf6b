"""How few nodes could hold what runs: the bound beside `plan_consolidate`.

Nodes with the same room, which the same pods may go to, are one sort of bin; what belongs on every
node (DaemonSets, static pods) is taken off its room.  Which nodes a pod may go to at all, the
scheduler's own filters say that look at nothing but the node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stowplan.answers.packing import Bin, Bound, PodKind, lower_bound
from stowplan.objects.pod import ENDED_PHASES, Pod
from stowplan.objects.resources import pod_requests
from stowplan.world.cluster import Cluster

OF_THE_NODE = frozenset({"NodeAffinity", "TaintToleration", "NodeUnschedulable"})
MIRROR = "kubernetes.io/config.mirror"
SORTS_MAX = 200
"""Sorts of pods, by what they demand of a node, that the scheduler is asked about."""

Column = NDArray[Any]
Placing = bytes
"""What a pod demands of the node itself."""


def placement_bound(
    world: Cluster, kept: Iterable[str], price_of: Mapping[str, float] | None
) -> Bound:
    """In prices, or in nodes; nodes that are kept are counted whatever is on them."""
    moving: list[Pod] = []
    staying: list[Pod] = []
    for pod in world.pods(pending=False):
        if pod.spec.node_name and pod.status.phase not in ENDED_PHASES:
            (moving if moves(pod) else staying).append(pod)
    demands = [_demand(pod) for pod in moving]
    allowed = _allowed(world, dict(zip(demands, moving, strict=True)))
    whole = world.allocatable()
    names = whole.index
    room = {resource: whole[resource].copy() for resource in whole.columns}
    rows = {name: row for row, name in enumerate(names)}
    for pod in staying:
        if pod.spec.node_name in rows:
            for resource, amount in _requests(pod).items():
                if resource in room:
                    room[resource][rows[pod.spec.node_name]] -= amount
    bins, bin_of = _bins(names, room, allowed, set(kept), price_of)
    places = {
        demand: frozenset(np.unique(bin_of[mask]).tolist()) for demand, mask in allowed.items()
    }
    counted = Counter(
        (demand, tuple(sorted(_requests(pod).items())))
        for demand, pod in zip(demands, moving, strict=True)
    )
    kinds = [
        PodKind(count, dict(requests), places[demand])
        for (demand, requests), count in counted.items()
        if places[demand]
    ]
    return lower_bound(kinds, bins)


def _requests(pod: Pod) -> dict[str, int]:
    return {**pod_requests(pod, use_status=False), "pods": 1}


def _demand(pod: Pod) -> Placing:
    spec = pod.spec
    node_affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if not spec.node_selector and node_affinity is None and not spec.tolerations:
        return b""
    return msgspec.json.encode([spec.node_selector, node_affinity, spec.tolerations])


def _allowed(world: Cluster, examples: dict[Placing, Pod]) -> dict[Placing, Column]:
    """Which nodes such a pod may be on, or is on; beyond a number of sorts, all."""
    count = len(world.allocatable())
    allowed = {demand: np.ones(count, np.bool_) for demand in examples}
    for demand, pod in list(examples.items())[:SORTS_MAX]:
        objections = world.objections(pod.key)
        for plugin in OF_THE_NODE & set(objections.plugins):
            allowed[demand] &= ~objections.rejected[plugin]
    return allowed


def _bins(
    names: list[str],
    room: dict[str, Column],
    allowed: dict[Placing, Column],
    kept: set[str],
    price_of: Mapping[str, float] | None,
) -> tuple[list[Bin], Column]:
    """The sorts of nodes, and which of them each node is of."""
    numbers: dict[tuple[object, ...], int] = {}
    counts: Counter[int] = Counter()
    found: list[tuple[float, dict[str, int], bool]] = []
    bin_of = np.zeros(len(names), np.int64)
    masks = list(allowed.values())
    for row, name in enumerate(names):
        price = 1.0 if price_of is None else price_of[name]
        own = {resource: max(0, int(column[row])) for resource, column in room.items()}
        takes = tuple(bool(mask[row]) for mask in masks)
        sort = (price, tuple(own.values()), takes, name in kept)
        number = numbers.setdefault(sort, len(numbers))
        if number == len(found):
            found.append((price, own, name in kept))
        counts[number] += 1
        bin_of[row] = number
    bins = [
        Bin(price, own, counts[n], counts[n] if stays else 0)
        for n, (price, own, stays) in enumerate(found)
    ]
    return bins, bin_of


def moves(pod: Pod) -> bool:
    """Whether a drain evicts it."""
    owner = pod.metadata.controller()
    return (
        pod.status.phase not in ENDED_PHASES
        and pod.metadata.deletion_timestamp is None
        and MIRROR not in (pod.metadata.annotations or {})
        and (owner is None or owner.kind != "DaemonSet")
    )
