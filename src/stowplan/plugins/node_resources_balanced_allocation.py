"""NodeResourcesBalancedAllocation: prefer nodes whose resources the pod brings into balance.

A node is balanced when the same share of each resource is taken.  The score rates how the pod
*changes* that, from 50 (worse) over 75 (as before) to 100.  How balanced a node is before the pod
comes depends on no pod, so it is kept and brought up to date where nodes changed.  Mirrors
kube-scheduler's `noderesources/balanced_allocation.go`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import sqrt
from typing import Protocol

import numpy as np

from stowplan.framework.cycle import Cycle
from stowplan.framework.handle import Handle
from stowplan.framework.status import MAX_NODE_SCORE, SKIP, NodeMask, Rows, Scores, Status
from stowplan.objects.resources import CPU, EPHEMERAL_STORAGE, MEMORY, is_scalar
from stowplan.plugins._shared.capacity import Capacities, Floats
from stowplan.plugins._shared.rows import row_count
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import PodInfo, PodKind

_NATIVE = (CPU, MEMORY, EPHEMERAL_STORAGE)
_SHIFT = MAX_NODE_SCORE * 3 // 2
"""Upstream's score, 50 + (50 + after - before) / 2, is (150 + after - before) / 2: the difference
is never below -50."""
_ONE_BY_ONE_MAX = 8
"""Up to so many changed rows are looked at singly: cheaper than short arrays."""

Wanted = tuple[tuple[str, int], ...]
"""(resource, amount)"""


class _Ask:
    """What one kind of pod asks for of the resources that count for it."""

    __slots__ = ("names", "nothing", "pre_score", "wanted")

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self.names = tuple(name for name, _ in wanted)
        self.nothing: Wanted = tuple((name, 0) for name, _ in wanted)
        self.pre_score = None if any(amount for _, amount in wanted) else SKIP


class ResourceSpec(Protocol):
    name: str


class Args(Protocol):
    resources: Sequence[ResourceSpec]


class NodeResourcesBalancedAllocation:
    name = "NodeResourcesBalancedAllocation"

    def __init__(self, args: Args | None, handle: Handle) -> None:
        given = tuple(spec.name for spec in args.resources) if args is not None else ()
        names = given or (CPU, MEMORY)
        self._resources = tuple(name for name in names if name in _NATIVE or is_scalar(name))
        self._capacities = Capacities(handle.nodes)
        self._before: dict[tuple[str, ...], _Before] = {}

    def signature(self, pod: PodInfo) -> Hashable:
        return self._ask(pod).wanted

    def pre_score(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> Status | None:
        return self._ask(pod).pre_score

    def score_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> int:
        before, after = _balances(node, self._ask(pod).wanted)
        return (_SHIFT + after - before) // 2

    def score_nodes(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows | slice
    ) -> Scores:
        ask = self._ask(pod)
        before = self._before.get(ask.names)
        if before is None:
            before = self._before[ask.names] = _Before(ask.nothing)
        scores = balance(self._capacities, nodes, ask.wanted, rows)
        scores += before.up_to_date(self._capacities, nodes)[rows]
        scores >>= 1
        return scores

    def _ask(self, pod: PodInfo) -> _Ask:
        kept = pod.kind.kept
        ask: _Ask | None = kept.get(self)
        if ask is None:
            ask = kept[self] = _Ask(self._wanted_by(pod.kind))
        return ask

    def _wanted_by(self, kind: PodKind) -> Wanted:
        """A resource counted by name only where the pod requests it."""
        requests = kind.running_requests
        return tuple(
            (name, requests.get(name, 0))
            for name in self._resources
            if name in _NATIVE or requests.get(name, 0)
        )


class _Before:
    """150 less the balance of each node as it stands, by one choice of resources."""

    __slots__ = ("_column", "_nothing", "_seen")

    def __init__(self, nothing: Wanted) -> None:
        self._nothing = nothing
        self._column: Scores = np.zeros(0, np.int64)
        self._seen = -1

    def up_to_date(self, capacities: Capacities, nodes: NodeTable) -> Scores:
        if self._seen != nodes.version or len(self._column) != nodes.size:
            rows = nodes.rows_newer_than(self._seen)
            if self._seen < 0 or len(self._column) != nodes.size or 2 * len(rows) > nodes.size:
                every = slice(0, nodes.size)
                self._column = _SHIFT - balance(capacities, nodes, self._nothing, every)
            elif len(rows) > _ONE_BY_ONE_MAX:
                self._column[rows] = _SHIFT - balance(capacities, nodes, self._nothing, rows)
            else:
                for row in rows.tolist():
                    info = nodes.infos[row]
                    if info is not None:
                        self._column[row] = _SHIFT - _balances(info, self._nothing)[0]
            self._seen = nodes.version
        return self._column


def _balances(node: NodeInfo, wanted: Wanted) -> tuple[int, int]:
    """How balanced the node is (0..100) as it stands, and with `wanted` on top."""
    has, requested = node.allocatable, node.requested
    before, after = [], []
    for name, amount in wanted:
        capacity = has.get(name, 0)
        if capacity:
            # By a float: the quotient of large integers is more exact in Python than in Go.
            size, used = float(capacity), requested.get(name, 0)
            before.append(min(used / size, 1.0))
            after.append(min((used + amount) / size, 1.0))
    return _balance(before), _balance(after)


def _balance(shares: list[float]) -> int:
    if len(shares) < 2:
        return MAX_NODE_SCORE
    deviation = abs(shares[0] - shares[1]) / 2 if len(shares) == 2 else _deviation(shares)
    return int((1.0 - deviation) * MAX_NODE_SCORE)


def _deviation(shares: list[float]) -> float:
    # Not `sum`, which compensates for rounding: equal answers depend on plain additions.
    total = squares = 0.0
    for share in shares:
        total += share
    mean = total / len(shares)
    for share in shares:
        squares += (share - mean) * (share - mean)
    return sqrt(squares / len(shares))


def balance(capacities: Capacities, nodes: NodeTable, wanted: Wanted, rows: Rows | slice) -> Scores:
    """How balanced many nodes are with `wanted` on top."""
    if len(wanted) < 2:
        return np.full(row_count(nodes, rows), MAX_NODE_SCORE, np.int64)
    shares: list[Floats] = []
    present: list[NodeMask | None] = []
    for name, amount in wanted:
        capacity = capacities.of(name)
        share = nodes.requested(name)[rows].astype(np.float64)
        if amount:
            share += float(amount)
        share /= capacity.amounts[rows]
        np.minimum(share, 1.0, out=share)
        shares.append(share)
        present.append(None if capacity.present is None else capacity.present[rows])
    if len(shares) == 2 and present[0] is None and present[1] is None:
        # Half the difference; halving is exact, so it is left to the last factor.
        difference = np.subtract(shares[0], shares[1], out=shares[0])
        np.abs(difference, out=difference)
        rated = np.subtract(2.0, difference, out=difference)
        rated *= MAX_NODE_SCORE / 2
    else:
        rated = 1.0 - _deviations(shares, present)
        rated *= MAX_NODE_SCORE
    return rated.astype(np.int64)


def _deviations(shares: list[Floats], present: list[NodeMask | None]) -> Floats:
    """Per node over the resources it has: of two half their difference, of more the deviation.

    Added up in the same order as for one node, so that roundings are the same.
    """
    weights = np.array(
        [np.ones(len(shares[0])) if mask is None else mask for mask in present], np.float64
    )
    counts = weights.sum(axis=0)
    total = np.zeros(len(counts))
    low, high = np.ones(len(counts)), np.zeros(len(counts))
    for share, weight in zip(shares, weights, strict=True):
        total += share * weight
        low = np.where(weight, np.minimum(low, share), low)
        high = np.maximum(high, share * weight)
    mean = total / np.maximum(counts, 1)
    squares = np.zeros(len(counts))
    for share, weight in zip(shares, weights, strict=True):
        squares += (share - mean) * (share - mean) * weight
    spread = np.sqrt(squares / np.maximum(counts, 1))
    deviation: Floats = np.where(counts > 2, spread, np.where(counts == 2, (high - low) / 2, 0.0))
    return deviation
