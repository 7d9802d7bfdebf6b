"""NodeResourcesFit: a node passes when it still has room for what the pod requests.

Filter reports every shortage, not only the first; a pod that is larger than the whole node makes
the node unresolvable.  Score rates how full the node would be (`_shared.scoring_strategies`), and
counts containers without requests as small ones.  What is derived from the pod is worked out once
per kind of pod.  Mirrors kube-scheduler's `noderesources/fit.go` and `resource_allocation.go`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Protocol

import numpy as np

from stowplan.errors import ConfigError
from stowplan.framework.cycle import Cycle
from stowplan.framework.events import Action, EventRegistration, Hint, Resource, on
from stowplan.framework.groups import GroupCycle, PlacedGroup, Placement
from stowplan.framework.handle import Handle
from stowplan.framework.reads import Reads
from stowplan.framework.status import Code, Rows, Scores, Status, Verdict
from stowplan.objects.devices import DeviceClass
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod
from stowplan.objects.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    allocatable,
    is_extended,
    is_scalar,
    pod_requests,
)
from stowplan.plugins._shared.device_classes import IMPLICIT_PREFIX, ResourceClasses, may_be_devices
from stowplan.plugins._shared.device_totals import DeviceTotals
from stowplan.plugins._shared.resource_columns import ResourceColumns, ResourceTable
from stowplan.plugins._shared.rows import all_passed, all_zero, row_count
from stowplan.plugins._shared.scoring_strategies import (
    LeastAllocated,
    MostAllocated,
    RequestedToCapacityRatio,
    Strategy,
    weigh_many,
)
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import PodInfo, PodKind

TOO_MANY_PODS = "Too many pods"

_WITH_DEVICES = "NodeResourcesFit/devices"
"""The key in `handle.kept` where device classes have a say."""

_PACKED = MostAllocated()
_NATIVE = (CPU, MEMORY, EPHEMERAL_STORAGE)
_ONE_POD = (PODS, 1, 1)
"""Checked first for every pod: (resource, amount, bit)."""
_REASONS_MAX = 32
"""A verdict has so many bits; the reasons of further resources share the last one."""


class ResourceSpec(Protocol):
    name: str
    weight: int


class ShapePoint(Protocol):
    utilization: int
    score: int


class Ratio(Protocol):
    shape: Sequence[ShapePoint] | None


class ScoringStrategy(Protocol):
    type: str
    resources: Sequence[ResourceSpec]
    requested_to_capacity_ratio: Ratio | None


class Args(Protocol):
    ignored_resources: Sequence[str]
    ignored_resource_groups: Sequence[str]
    scoring_strategy: ScoringStrategy | None


class _Ask:
    """What one kind of pod asks for, in the form Filter and Score need it."""

    __slots__ = (
        "_statuses",
        "checked",
        "classes_version",
        "devices",
        "reasons",
        "scored",
        "scored_devices",
        "signature",
    )

    def __init__(
        self,
        checked: Mapping[str, int],
        scored: tuple[tuple[str, int, int], ...],
        devices: frozenset[str] = frozenset(),
    ) -> None:
        self.checked = tuple(
            [
                (name, amount, 1 << min(bit, _REASONS_MAX - 1))
                for bit, (name, amount) in enumerate(checked.items(), 1)
            ]
        )
        """(resource, amount, its bit in a verdict), in the order shortages are reported."""
        self.scored = scored
        """(resource, amount, weight)"""
        self.reasons = _reasons(tuple(checked))
        self.devices = devices
        """Of the checked ones, those that can be had as devices where no device plugin has them."""
        self.classes_version: int | None = None
        """Of the device classes, where one could stand for what is asked for."""
        self.scored_devices: frozenset[str] = frozenset()
        """Of the scored ones, those that are counted in devices where the node lists none."""
        self.signature: Hashable = (self.checked, scored)
        self._statuses: dict[int, Status] = {}

    def status(self, bits: int, *, final: bool) -> Status:
        key = bits << 1 | final
        known = self._statuses.get(key)
        if known is None:
            code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if final else Code.UNSCHEDULABLE
            reasons = tuple(text for n, text in enumerate(self.reasons) if bits >> n & 1)
            known = self._statuses[key] = Status(code, reasons)
        return known


@lru_cache(maxsize=256)
def _reasons(checked: tuple[str, ...]) -> tuple[str, ...]:
    return (TOO_MANY_PODS, *(f"Insufficient {name}" for name in checked))[:_REASONS_MAX]


class NodeResourcesFit:
    name = "NodeResourcesFit"
    reads = Reads.SUMS | Reads.SIZE

    def __init__(self, args: Args | None, handle: Handle) -> None:
        self._ignored = frozenset(args.ignored_resources if args is not None else ())
        self._ignored_groups = frozenset(args.ignored_resource_groups if args is not None else ())
        strategy = args.scoring_strategy if args is not None else None
        self._strategy = _strategy(strategy)
        self._resources = _resources(strategy)
        self._kept = handle.kept
        self._resource_table = handle.shared(ResourceTable)
        self._resources_as_devices = handle.derived(ResourceClasses)
        self._device_totals = handle.derived(DeviceTotals)

    def signature(self, pod: PodInfo) -> Hashable:
        """Which of it can be had as devices holds until a class changes: then all is dropped.

        How many devices there are depends on more than the node.
        """
        ask = self._ask(pod)
        if ask.scored_devices:
            return None
        return (ask.signature, ask.devices) if ask.devices else ask.signature

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> None:
        """Nothing to do: what the pod asks for is worked out where it is first needed."""

    def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status | None:
        ask: _Ask = cycle.kept.get(self.name) or self._ask(pod)
        has, requested = node.allocatable, node.requested
        bits = 1 if len(node.pods) >= has.get(PODS, 0) else 0
        final = False
        for name, amount, bit in ask.checked:
            total = has.get(name, 0)
            if amount > total - requested.get(name, 0):
                if total <= 0 and name in ask.devices:
                    continue
                bits |= bit
                final = final or amount > total
        return ask.status(bits, final=final) if bits else None

    def filter_nodes(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows | slice
    ) -> Verdict:
        ask: _Ask = cycle.kept.get(self.name) or self._ask(pod)
        of = self._resource_table.of
        self._resource_table.catch_up()
        tight = [
            (name, columns, amount, bit)
            for name, amount, bit in (_ONE_POD, *ask.checked)
            if amount > (columns := of(name)).least_free
        ]
        if not tight:
            return all_passed(ask.reasons, nodes, rows)
        count = row_count(nodes, rows)
        why, final = np.zeros(count, np.uint32), np.zeros(count, np.bool_)
        for name, columns, amount, bit in tight:
            short = columns.free[rows] < amount
            if name in ask.devices:
                short &= nodes.allocatable(name)[rows] > 0
            if short.any():
                why |= short * np.uint32(bit)
                if amount > columns.least_capacity and name != PODS:
                    final |= nodes.allocatable(name)[rows] < amount
        return Verdict(ask.reasons, why, final)

    def pre_score(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> None:
        """Nor here."""

    def score_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> int:
        ask: _Ask = cycle.kept.get(self.name) or self._ask(pod)
        strategy, has = self._strategy, node.allocatable
        total = weights = 0
        for name, amount, weight in ask.scored:
            capacity = has.get(name)
            if name == CPU:
                used = node.nonzero_milli_cpu
            elif name == MEMORY:
                used = node.nonzero_memory
            elif name in ask.scored_devices:
                capacity, used = self._device_totals.on_node(name, node)
            else:
                used = node.requested.get(name, 0)
            if capacity:
                rated = strategy.rate(used + amount, capacity)
                if rated or strategy.counts_zero:
                    total += rated * weight
                    weights += weight
        if not weights:
            return 0
        return total // weights if strategy.counts_zero else (2 * total + weights) // (2 * weights)

    def score_nodes(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows | slice
    ) -> Scores:
        ask: _Ask = cycle.kept.get(self.name) or self._ask(pod)
        of = self._resource_table.by_score
        self._resource_table.catch_up()
        if ask.scored_devices:
            of = partial(self._columns_of, ask.scored_devices, nodes)
        parts = [(weight, amount, of(name).at(rows)) for name, amount, weight in ask.scored]
        return weigh_many(self._strategy, parts) if parts else all_zero(nodes, rows)

    def _columns_of(self, devices: frozenset[str], nodes: NodeTable, name: str) -> ResourceColumns:
        if name in devices:
            return self._device_totals.on_nodes(name, nodes)
        return self._resource_table.by_score(name)

    def score_placement(self, cycle: GroupCycle, placement: PlacedGroup) -> int:
        placed = [pod for pod in cycle.members if pod.uid in placement.nodes]
        return self._fullness(cycle.nodes, placement.placement.rows, placed)

    def most_for_placement(self, cycle: GroupCycle, placement: Placement) -> int:
        return self._fullness(cycle.nodes, placement.rows, cycle.members)

    def _fullness(self, nodes: NodeTable, rows: Rows, pods: Sequence[PodInfo]) -> int:
        """How full these nodes would be with these pods on them, whatever the strategy is."""
        total = weights = 0
        kinds = Counter(pod.kind for pod in pods)
        for name, weight in self._resources:
            amount = sum(kind.fit_score_requests.get(name, 0) * n for kind, n in kinds.items())
            capacity = int(nodes.allocatable(name)[rows].sum())
            if not capacity or not (amount or name in _NATIVE):
                continue
            used = nodes.requested(name)
            if name == CPU:
                used = nodes.nonzero_milli_cpu
            elif name == MEMORY:
                used = nodes.nonzero_memory
            total += weight * _PACKED.rate(int(used[rows].sum()) + amount, capacity)
            weights += weight
        return total // weights if weights else 0

    def most_members(self, cycle: GroupCycle, placement: Placement) -> int:
        """For how many of these members, if they are all alike, there is room."""
        ask = self._ask(cycle.members[0])
        if ask.devices or not cycle.are_alike:
            return len(cycle.members)
        nodes, rows = cycle.nodes, placement.rows
        room = nodes.allocatable(PODS)[rows] - nodes.pod_count[rows]
        for name, amount, _ in ask.checked:
            if amount:
                free = nodes.allocatable(name)[rows] - nodes.requested(name)[rows]
                room = np.minimum(room, free // amount)
        return min(int(np.maximum(room, 0).sum()), len(cycle.members))

    def events_to_register(self) -> Sequence[EventRegistration]:
        freed = Action.DELETE | Action.UPDATE_POD_SCALE_DOWN
        grown = Action.ADD | Action.UPDATE_NODE_ALLOCATABLE
        return (
            on(Resource.POD, freed, _after_pod_change, by_kind=True),
            on(Resource.NODE, grown, self._after_node_change, by_kind=True),
            on(
                Resource.DEVICE_CLASS,
                Action.ADD | Action.UPDATE,
                _after_class_change,
                by_kind=True,
            ),
        )

    def _after_node_change(self, pod: Pod, old: Node | None, new: Node) -> Hint:
        wanted = self._checked(pod_requests(pod, use_status=False))
        has = allocatable(new)
        devices = self._resources_as_devices.by_resource
        short = [name for name, amount in wanted.items() if amount > has.get(name, 0)]
        if has[PODS] < 1 or any(has.get(name, 0) > 0 or name not in devices for name in short):
            return Hint.SKIP
        if old is None:
            return Hint.QUEUE
        had = allocatable(old)
        more = any(has.get(name, 0) > had.get(name, 0) for name in (PODS, *wanted))
        left_to_devices = any(name in devices and has.get(name, 0) <= 0 for name in wanted)
        return Hint.QUEUE if more or left_to_devices else Hint.SKIP

    def _ask(self, pod: PodInfo) -> _Ask:
        kept = self._kept[pod.kind.ref]
        ask: _Ask | None = kept.get(self.name)
        if ask is None:
            ask = kept.get(_WITH_DEVICES)
            if ask is None or ask.classes_version != self._resources_as_devices.version:
                ask = self._make_ask(pod.kind, kept)
        return ask

    def _make_ask(self, kind: PodKind, kept: dict[str, Any]) -> _Ask:
        """What may be had as devices is made anew when device classes change."""
        checked = self._checked(kind.requests)
        if not (checked.keys() - _NATIVE and any(map(may_be_devices, checked))):
            ask = kept[self.name] = _Ask(checked, self._scored(kind))
            return ask
        devices = frozenset(checked.keys() & self._resources_as_devices.by_resource.keys())
        ask = kept[_WITH_DEVICES] = _Ask(checked, self._scored(kind), devices)
        ask.classes_version = self._resources_as_devices.version
        counts = self._device_totals.counts
        ask.scored_devices = frozenset(name for name, *_ in ask.scored if counts(name))
        return ask

    def _checked(self, requests: Mapping[str, int]) -> dict[str, int]:
        """What Filter looks at: nothing is checked that is not requested."""
        wanted = {name: requests[name] for name in _NATIVE if requests.get(name, 0) > 0}
        for name in sorted(requests.keys() - _NATIVE):
            if requests[name] > 0 and not self._is_ignored(name):
                wanted[name] = requests[name]
        return wanted

    def _is_ignored(self, name: str) -> bool:
        group = name.split("/")[0]
        return is_extended(name) and (name in self._ignored or group in self._ignored_groups)

    def _scored(self, kind: PodKind) -> tuple[tuple[str, int, int], ...]:
        """What Score looks at: a resource counted by name only where the pod requests it."""
        requests = kind.fit_score_requests
        return tuple(
            [
                (name, requests.get(name, 0), weight)
                for name, weight in self._resources
                if name in _NATIVE or requests.get(name, 0)
            ]
        )


def _strategy(given: ScoringStrategy | None) -> Strategy:
    kind = given.type if given is not None else "LeastAllocated"
    if kind == "LeastAllocated":
        return LeastAllocated()
    if kind == "MostAllocated":
        return MostAllocated()
    ratio = given.requested_to_capacity_ratio if given is not None else None
    if kind == "RequestedToCapacityRatio" and ratio is not None and ratio.shape:
        return RequestedToCapacityRatio([(p.utilization, p.score) for p in ratio.shape])
    raise ConfigError(
        f"scoring strategy {kind!r} cannot be used",
        where="NodeResourcesFitArgs.scoringStrategy",
        hint="LeastAllocated, MostAllocated, or RequestedToCapacityRatio with a shape",
    )


def _resources(given: ScoringStrategy | None) -> tuple[tuple[str, int], ...]:
    """(name, weight), without names that nodes never have."""
    if given is None or not given.resources:
        return (CPU, 1), (MEMORY, 1)
    return tuple(
        (spec.name, spec.weight or 1)
        for spec in given.resources
        if spec.name in _NATIVE or is_scalar(spec.name)
    )


def _after_class_change(pod: Pod, old: DeviceClass | None, new: DeviceClass) -> Hint:
    """The class may stand for what the pod lacks, and did not before."""
    names = {new.spec.extended_resource_name}
    if old is None:
        names.add(IMPLICIT_PREFIX + new.metadata.name)
    elif old.spec.extended_resource_name in names:
        return Hint.SKIP
    wanted = pod_requests(pod, use_status=False)
    return Hint.QUEUE if any(wanted.get(name or "", 0) for name in names) else Hint.SKIP


def _after_pod_change(pod: Pod, old: Pod, new: Pod | None) -> Hint:
    """A pod left its node, or asks for less than before."""
    if new is None:
        had_place = old.spec.node_name or old.status.nominated_node_name
        return Hint.QUEUE if had_place else Hint.SKIP
    if new.metadata.uid == pod.metadata.uid:
        return Hint.QUEUE
    if not new.spec.node_name:
        return Hint.SKIP
    before, after = pod_requests(old, use_status=True), pod_requests(new, use_status=True)
    wanted = pod_requests(pod, use_status=True)
    freed = any(n and before.get(name, 0) > after.get(name, 0) for name, n in wanted.items())
    return Hint.QUEUE if freed else Hint.SKIP
