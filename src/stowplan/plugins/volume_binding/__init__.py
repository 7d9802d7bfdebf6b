"""VolumeBinding: a pod goes where its volumes are, or where volumes for its claims can be had.

Bound claims tie the pod to nodes that reach the volume.  Claims that wait for their first
consumer are matched with free volumes, or get new ones made, for the node that the pod is given;
Reserve takes note of the choice, PreBind writes it down and waits.  How nodes are searched is in
`volume_search`, what is written in `volume_writes`.  Mirrors kube-scheduler's
`volumebinding/volume_binding.go`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from stowplan.framework.cycle import Cycle
from stowplan.framework.errors import filter_failed
from stowplan.framework.events import Action, EventRegistration, Hint, Resource, on
from stowplan.framework.handle import Handle
from stowplan.framework.plugin import BindingSteps, PreFlight
from stowplan.framework.reads import Reads
from stowplan.framework.status import (
    SKIP,
    SKIP_ALWAYS,
    Rows,
    Scores,
    Status,
    Verdict,
    error,
    unresolvable,
)
from stowplan.objects.labels import SelectorError
from stowplan.objects.pod import Pod
from stowplan.objects.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from stowplan.plugins._shared.csi_migration import MIGRATED_PLUGINS, TranslationError
from stowplan.plugins._shared.rows import all_zero
from stowplan.plugins._shared.volumes import (
    WAIT_FOR_FIRST_CONSUMER,
    ClaimUse,
    claims_of,
    class_of,
    is_fully_bound,
    not_found,
    ownership_problem,
    queue_if,
    uses_claim,
)
from stowplan.plugins.volume_binding.assumed import Assumed
from stowplan.plugins.volume_binding.volume_affinity import VolumeAffinity
from stowplan.plugins.volume_binding.volume_offers import VolumeOffers, limit_bytes
from stowplan.plugins.volume_binding.volume_scores import VolumeScores
from stowplan.plugins.volume_binding.volume_search import VolumeSearch
from stowplan.plugins.volume_binding.volume_writes import (
    Binding,
    Writes,
    bind_volumes,
    bound_to,
    selected_for,
)
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import PodInfo

REASONS = (
    "node(s) didn't match PersistentVolume's node affinity",
    "node(s) didn't find available persistent volumes to bind",
    "node(s) did not have enough free storage",
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
)
UNREACHABLE, NOT_THERE = 1, 8
"""Bits of the reasons about bound volumes; those of the others are in `volume_search`."""

_BIND_TIMEOUT_S = 600


class ShapePoint(Protocol):
    utilization: int
    score: int


class Args(Protocol):
    bind_timeout_seconds: int
    shape: Sequence[ShapePoint] | None
    """Only with the gate StorageCapacityScoring; without it this plugin gives no scores."""


@dataclass(slots=True)
class _State:
    """Of one attempt; the same for every node, so clones of the cycle share it."""

    bound: list[PersistentVolume | None]
    """The volumes of bound claims, up to the first that does not exist (None)."""
    search: VolumeSearch | None
    """For the claims that wait for a node."""
    writes: Writes | None = None
    """Made by Reserve; None when there is nothing to write."""
    assumed_volumes: list[PersistentVolume] = field(default_factory=list)
    assumed_claims: list[PersistentVolumeClaim] = field(default_factory=list)


class VolumeBinding:
    name = "VolumeBinding"
    reads = Reads.CLUSTER

    def __init__(self, args: Args | None, handle: Handle) -> None:
        self._handle = handle
        self._objects = handle.objects
        self._all_claims = handle.objects.all(PersistentVolumeClaim)
        self._claims = Assumed(handle.objects, PersistentVolumeClaim)
        self._volumes = Assumed(handle.objects, PersistentVolume)
        self._offers = VolumeOffers(handle.objects, self._volumes)
        self._affinity = VolumeAffinity(handle.objects)
        self._timeout_s = args.bind_timeout_seconds if args is not None else _BIND_TIMEOUT_S
        shape = args.shape if args is not None else None
        self._scores = VolumeScores([(p.utilization, p.score) for p in shape]) if shape else None

    # -- PreFilter --------------------------------------------------------------------------

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        if not pod.kind.volumes:
            return SKIP_ALWAYS
        uses = claims_of(pod)
        for use in uses:
            if problem := self._claim_problem(pod, use):
                return unresolvable(problem)
        bound, delayed, immediate = [], [], False
        for use in uses:
            claim = self._claims.get(use.key)
            assert claim is not None, f"{use.key} vanished within an attempt"
            if is_fully_bound(claim):
                bound.append(claim)
                continue
            mode = self._binding_mode(claim)
            if mode is None:
                return error(f'VolumeBindingMode not set for StorageClass "{class_of(claim)}"')
            if mode == WAIT_FOR_FIRST_CONSUMER and not claim.spec.volume_name:
                delayed.append(claim)
            else:
                immediate = True
        if immediate:
            return unresolvable("pod has unbound immediate PersistentVolumeClaims")
        return self._begin(cycle, bound, delayed)

    def _claim_problem(self, pod: PodInfo, use: ClaimUse) -> str:
        claim = self._all_claims.get(use.key)
        if claim is None:
            if use.is_ephemeral:
                return (
                    "waiting for ephemeral volume controller to create the "
                    f'persistentvolumeclaim "{use.name}"'
                )
            return not_found(use.name)
        if claim.status.phase == "Lost":
            return (
                f'persistentvolumeclaim "{use.name}" bound to non-existent '
                f'persistentvolume "{claim.spec.volume_name}"'
            )
        if claim.metadata.deletion_timestamp is not None:
            return f'persistentvolumeclaim "{use.name}" is being deleted'
        return ownership_problem(pod.pod, claim) if use.is_ephemeral else ""

    def _binding_mode(self, claim: PersistentVolumeClaim) -> str | None:
        """The class's mode; "" without a class, None when the class lacks one."""
        class_name = class_of(claim)
        storage_class = self._objects.get(StorageClass, class_name) if class_name else None
        return "" if storage_class is None else storage_class.volume_binding_mode

    def _begin(
        self,
        cycle: Cycle,
        bound: list[PersistentVolumeClaim],
        delayed: list[PersistentVolumeClaim],
    ) -> Status | None:
        volumes: list[PersistentVolume | None] = []
        for claim in bound:
            volume = self._volumes.get(claim.spec.volume_name)
            if volume is None:
                volumes.append(None)
                break
            if not self._affinity.is_anywhere(volume):
                volumes.append(volume)
        if not delayed and not volumes:
            return SKIP  # All volumes are there, and any node can have them.
        try:
            search = VolumeSearch(self._offers, delayed) if delayed else None
        except SelectorError as cause:
            return error(f"error creating internal label selector for claim: {cause}")
        cycle.data[self.name] = _State(volumes, search)
        return None

    # -- Filter -----------------------------------------------------------------------------

    def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status | None:
        state: _State = cycle.data[self.name]
        why = 0
        try:
            for volume in state.bound:
                if volume is None:
                    why = NOT_THERE
                elif not self._affinity.accepts(volume, node):
                    why = UNREACHABLE
                    break
        except TranslationError as problem:
            return error(str(problem))
        if state.search is not None:
            found = state.search.on_node(node.name, node.labels)
            if isinstance(found, int):
                why |= found
        if not why:
            return None
        return unresolvable(*(text for n, text in enumerate(REASONS) if why >> n & 1))

    def filter_nodes(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows | slice
    ) -> Verdict:
        state: _State = cycle.data[self.name]
        why = np.zeros(nodes.size, np.uint32)
        try:
            for volume in state.bound:
                if volume is None:
                    why[why == 0] = NOT_THERE
                else:
                    why[~self._affinity.mask(volume, nodes)] = UNREACHABLE
        except TranslationError as problem:
            raise filter_failed(self.name, str(problem)) from problem
        if state.search is not None:
            why |= state.search.on_all(nodes).why
        asked = why[rows]
        return Verdict(REASONS, asked, np.ones(len(asked), np.bool_))

    # -- Score ------------------------------------------------------------------------------

    def pre_score(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> Status | None:
        if self._scores is None:
            return SKIP_ALWAYS
        state: _State | None = cycle.data.get(self.name)
        return SKIP if state is None or state.search is None else None

    def score_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> int:
        search = cycle.data[self.name].search
        return self._scores.of_node(search, node) if self._scores is not None else 0

    def score_nodes(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows | slice
    ) -> Scores:
        if self._scores is None:
            return all_zero(nodes, rows)
        return self._scores.of_all(cycle.data[self.name].search, nodes)[rows]

    # -- Reserve and PreBind ----------------------------------------------------------------

    def reserve(self, cycle: Cycle, pod: PodInfo, node: str) -> Status | None:
        state: _State | None = cycle.data.get(self.name)
        if state is None or state.search is None:
            return None
        info = self._handle.node(node)
        found = state.search.on_node(node, info.labels) if info is not None else 0
        if isinstance(found, int):
            return error(f'no volumes found for node "{node}"')
        volumes = [(claim, volume, bound_to(volume, claim)) for claim, volume in found.bindings]
        claims = [selected_for(claim, node) for claim, _ in found.provisions]
        state.assumed_volumes = [after for _, before, after in volumes if after is not before]
        state.assumed_claims = claims
        in_sync = all(map(self._volumes.assume, state.assumed_volumes)) and all(
            map(self._claims.assume, claims)
        )
        if not in_sync:
            self.unreserve(cycle, pod, node)
            return error("a volume or claim of the pod changed since it was looked at")
        state.writes = Writes([Binding(claim, after) for claim, _, after in volumes], list(claims))
        return None

    def unreserve(self, cycle: Cycle, pod: PodInfo, node: str) -> None:
        state: _State | None = cycle.data.get(self.name)
        if state is None:
            return
        for volume in state.assumed_volumes:
            self._volumes.forget(volume)
        for claim in state.assumed_claims:
            self._claims.forget(claim)

    def pre_bind_pre_flight(self, cycle: Cycle, pod: PodInfo, node: str) -> PreFlight | Status:
        return SKIP if self._writes(cycle) is None else PreFlight(allow_parallel=True)

    def pre_bind(self, cycle: Cycle, pod: PodInfo, node: str) -> BindingSteps:
        writes = self._writes(cycle)
        if writes is None:
            return None
        return (yield from bind_volumes(self._handle, pod, node, writes, self._timeout_s))

    def _writes(self, cycle: Cycle) -> Writes | None:
        state: _State | None = cycle.data.get(self.name)
        return state.writes if state is not None else None

    # -- events -----------------------------------------------------------------------------

    def events_to_register(self) -> Sequence[EventRegistration]:
        changed = Action.ADD | Action.UPDATE
        return (
            on(Resource.STORAGE_CLASS, changed, _after_class_change),
            on(Resource.PERSISTENT_VOLUME_CLAIM, changed, _after_claim_change),
            on(Resource.PERSISTENT_VOLUME, changed),
            on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
            on(Resource.CSI_NODE, changed, _after_csi_node_change),
            on(Resource.CSI_DRIVER, Action.UPDATE, _after_driver_change),
            on(Resource.CSI_STORAGE_CAPACITY, changed, _after_capacity_change),
        )


def _after_class_change(pod: Pod, old: StorageClass | None, new: StorageClass) -> Hint:
    return queue_if(old is None or (old.allowed_topologies or []) != (new.allowed_topologies or []))


def _after_claim_change(
    pod: Pod, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim
) -> Hint:
    return queue_if(uses_claim(pod, new))


def _after_csi_node_change(pod: Pod, old: CSINode | None, new: CSINode) -> Hint:
    return queue_if(old is None or _migrated_plugins(old) != _migrated_plugins(new))


def _migrated_plugins(node: CSINode) -> str:
    return (node.metadata.annotations or {}).get(MIGRATED_PLUGINS, "")


def _after_driver_change(pod: Pod, old: CSIDriver, new: CSIDriver) -> Hint:
    no_longer_counted = bool(old.spec.storage_capacity) and not new.spec.storage_capacity
    used = any(
        volume.csi is not None and volume.csi.driver == new.metadata.name
        for volume in pod.spec.volumes or ()
    )
    return queue_if(used and no_longer_counted)


def _after_capacity_change(
    pod: Pod, old: CSIStorageCapacity | None, new: CSIStorageCapacity
) -> Hint:
    if old is None:
        return Hint.QUEUE
    before, after = limit_bytes(old), limit_bytes(new)
    return queue_if(after is not None and (before is None or after > before))
