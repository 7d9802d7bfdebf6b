"""NodeResourcesBalancedAllocation: prefer nodes whose resources the pod brings into balance.

A node is balanced when the same share of each resource is taken.  The score rates how the pod
*changes* that, from 50 (worse) over 75 (as before) to 100.  How balanced a node is before the pod
comes depends on no pod, so it is kept and brought up to date where nodes changed.  Mirrors
kube-scheduler's `noderesources/balanced_allocation.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from math import sqrt
from typing import Protocol

import numpy as np

from stowplan.framework.cycle import Cycle
from stowplan.framework.handle import Handle
from stowplan.framework.reads import Reads
from stowplan.framework.status import (
    MAX_NODE_SCORE,
    SKIP,
    NodeMask,
    Rows,
    ShortScores,
    Status,
    row_numbers,
)
from stowplan.objects.resources import CPU, EPHEMERAL_STORAGE, MEMORY, is_scalar
from stowplan.plugins._shared.device_totals import DeviceTotals
from stowplan.plugins._shared.resource_columns import Floats, ResourceColumns, ResourceTable
from stowplan.plugins._shared.rows import row_count
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import PodInfo, PodKind
from stowplan.state.row_follower import FEW, ROWS_PER_CHANGE, RowFollower

_NATIVE = (CPU, MEMORY, EPHEMERAL_STORAGE)
_SHIFT = MAX_NODE_SCORE * 3 // 2
"""Upstream's score, 50 + (50 + after - before) / 2, is (150 + after - before) / 2: the difference
is never below -50."""

Wanted = tuple[tuple[str, int], ...]
"""(resource, amount)"""


class _Ask:
    """What one kind of pod asks for of the resources that count for it."""

    __slots__ = ("devices", "names", "pre_score", "wanted")

    def __init__(self, wanted: Wanted, devices: frozenset[str]) -> None:
        self.wanted = wanted
        self.devices = devices
        """Those that are counted in devices where the node lists none: until a class changes, when
        all that is kept is dropped."""
        self.names = tuple([name for name, _ in wanted])
        self.pre_score = None if any(amount for _, amount in wanted) else SKIP


class ResourceSpec(Protocol):
    name: str


class Args(Protocol):
    resources: Sequence[ResourceSpec]


class NodeResourcesBalancedAllocation:
    name = "NodeResourcesBalancedAllocation"
    reads = Reads.SUMS | Reads.SIZE

    def __init__(self, args: Args | None, handle: Handle) -> None:
        given = tuple(spec.name for spec in args.resources) if args is not None else ()
        names = given or (CPU, MEMORY)
        self._resources = tuple(name for name in names if name in _NATIVE or is_scalar(name))
        self._kept = handle.kept
        self._resource_table = handle.shared(ResourceTable)
        self._device_totals = handle.derived(DeviceTotals)
        self._before: dict[tuple[str, ...], _Before] = {}

    def signature(self, pod: PodInfo) -> Hashable:
        """How many devices there are depends on more than the node."""
        ask = self._ask(pod)
        return None if ask.devices else ask.wanted

    def pre_score(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> Status | None:
        return self._ask(pod).pre_score

    def score_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> int:
        ask: _Ask = cycle.kept.get(self.name) or self._ask(pod)
        if ask.devices:
            before, after = self._balances_with_devices(node, ask)
        else:
            before, after = _balances(node, ask.wanted)
        return (_SHIFT + after - before) // 2

    def score_nodes(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows | slice
    ) -> ShortScores:
        ask: _Ask = cycle.kept.get(self.name) or self._ask(pod)
        self._resource_table.catch_up()
        of = self._resource_table.of
        if ask.devices:
            of = partial(self._columns_of, ask.devices, nodes)
            before = _SHIFT - _balance_many(of, nodes, _nothing_of(ask.names), rows)
        else:
            kept = self._before.get(ask.names)
            if kept is None:
                kept = self._before[ask.names] = _Before(ask.names)
            before = kept.up_to_date(self._resource_table, nodes)[rows]
        scores = _balance_many(of, nodes, ask.wanted, rows)
        scores += before
        scores >>= 1
        return scores

    def _columns_of(self, devices: frozenset[str], nodes: NodeTable, name: str) -> ResourceColumns:
        if name in devices:
            return self._device_totals.on_nodes(name, nodes)
        return self._resource_table.of(name)

    def _balances_with_devices(self, node: NodeInfo, ask: _Ask) -> tuple[int, int]:
        before, after = [], []
        for name, amount in ask.wanted:
            capacity, used = node.allocatable.get(name, 0), node.requested.get(name, 0)
            if name in ask.devices:
                capacity, used = self._device_totals.on_node(name, node)
            if capacity:
                before.append(used / float(capacity))
                after.append((used + amount) / float(capacity))
        return _balance(before), _balance(after)

    def _ask(self, pod: PodInfo) -> _Ask:
        kept = self._kept[pod.kind.ref]
        ask: _Ask | None = kept.get(self.name)
        if ask is None:
            wanted = self._wanted_by(pod.kind)
            counts = self._device_totals.counts
            devices = frozenset(name for name, _ in wanted if "/" in name and counts(name))
            ask = kept[self.name] = _Ask(wanted, devices)
        return ask

    def _wanted_by(self, kind: PodKind) -> Wanted:
        """A resource counted by name only where the pod requests it."""
        requests = kind.running_requests
        return tuple(
            [
                (name, requests.get(name, 0))
                for name in self._resources
                if name in _NATIVE or requests.get(name, 0)
            ]
        )


class _Before:
    """150 less the balance of each node as it stands, by one choice of resources."""

    __slots__ = ("_column", "_column_at", "_follower", "_names")

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names
        self._column: ShortScores = np.zeros(0, np.int32)
        self._column_at = self._column.data
        self._follower = RowFollower()

    def up_to_date(self, resource_table: ResourceTable, nodes: NodeTable) -> ShortScores:
        changed = self._follower.changed(nodes, at_most=FEW + nodes.size // ROWS_PER_CHANGE)
        if changed is None or len(changed) > FEW:
            rows = slice(0, nodes.size) if changed is None else row_numbers(changed)
            nothing = _nothing_of(self._names)
            balances = _SHIFT - _balance_many(resource_table.of, nodes, nothing, rows)
            if changed is None:
                self._column, self._column_at = balances, balances.data
            else:
                self._column[rows] = balances
        else:
            for row in changed:
                info = nodes.infos[row]
                if info is not None:
                    self._column_at[row] = _SHIFT - _balance(_shares_of(info, self._names))
        return self._column


def _shares_of(node: NodeInfo, names: tuple[str, ...]) -> list[float]:
    """What is taken of each of these resources that the node has."""
    has, requested = node.allocatable, node.requested
    # By a float: the quotient of large integers is more exact in Python than in Go.
    return [
        requested.get(name, 0) / float(capacity) for name in names if (capacity := has.get(name))
    ]


def _balances(node: NodeInfo, wanted: Wanted) -> tuple[int, int]:
    """How balanced the node is (0..100) as it stands, and with `wanted` on top."""
    has, requested = node.allocatable, node.requested
    if len(wanted) == 2:
        # As by default; the same as below without the lists.
        (one, more), (other, also) = wanted
        size, width = float(has.get(one, 0)), float(has.get(other, 0))
        if size and width:
            used, taken = requested.get(one, 0), requested.get(other, 0)
            return (
                _balance_of_two(used / size, taken / width),
                _balance_of_two((used + more) / size, (taken + also) / width),
            )
    before, after = [], []
    for name, amount in wanted:
        if capacity := has.get(name):
            # By a float: the quotient of large integers is more exact in Python than in Go.
            size, used = float(capacity), requested.get(name, 0)
            before.append(used / size)
            after.append((used + amount) / size)
    return _balance(before), _balance(after)


def _balance(shares: list[float]) -> int:
    """A share above 1 counts as 1."""
    if len(shares) < 2:
        return MAX_NODE_SCORE
    if len(shares) == 2:
        return _balance_of_two(*shares)
    return int((1.0 - _deviation([min(share, 1.0) for share in shares])) * MAX_NODE_SCORE)


def _balance_of_two(one: float, other: float) -> int:
    """The standard deviation of two numbers is half their difference."""
    # Without `min` and `abs`: a call takes as long as all the rest.
    difference = (min(1.0, one)) - (min(1.0, other))
    return int((1.0 - (difference if difference > 0.0 else -difference) / 2) * MAX_NODE_SCORE)


def _deviation(shares: list[float]) -> float:
    # Not `sum`, which compensates for rounding: equal answers depend on plain additions.
    total = squares = 0.0
    for share in shares:
        total += share
    mean = total / len(shares)
    for share in shares:
        squares += (share - mean) * (share - mean)
    return sqrt(squares / len(shares))


def _nothing_of(names: tuple[str, ...]) -> Wanted:
    return tuple((name, 0) for name in names)


def _balance_many(
    columns_of: Callable[[str], ResourceColumns],
    nodes: NodeTable,
    wanted: Wanted,
    rows: Rows | slice,
) -> ShortScores:
    """How balanced many nodes are with `wanted` on top."""
    if len(wanted) < 2:
        return np.full(row_count(nodes, rows), MAX_NODE_SCORE, np.int32)
    parts = [(columns_of(name).at(rows), amount) for name, amount in wanted]
    shares = [_shares(columns, amount) for columns, amount in parts]
    present = [columns.present for columns, _ in parts]
    if len(shares) == 2 and present[0] is None and present[1] is None:
        # Half the difference; halving is exact, so it is left to the last factor.
        difference = np.subtract(shares[0], shares[1], out=shares[0])
        np.abs(difference, out=difference)
        rated = np.subtract(2.0, difference, out=difference)
        rated *= MAX_NODE_SCORE / 2
    else:
        rated = 1.0 - _deviations(shares, present)
        rated *= MAX_NODE_SCORE
    return rated.astype(np.int32)


def _shares(columns: ResourceColumns, amount: int) -> Floats:
    shares: Floats = columns.used + float(amount)
    shares /= columns.capacity
    return np.minimum(shares, 1.0, out=shares) if amount > columns.least_free else shares


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
