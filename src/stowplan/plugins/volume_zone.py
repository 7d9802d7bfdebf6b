"""VolumeZone: a pod runs where its volumes are, by the zone and region labels of the volumes.

Old volumes carry their zone as a label instead of a node affinity.  A volume in several zones
writes them as `zone-a__zone-b`.  Mirrors kube-scheduler's `volumezone/volume_zone.go`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stowplan.framework.cycle import Cycle
from stowplan.framework.events import Action, EventRegistration, Hint, Resource, on
from stowplan.framework.reads import Reads
from stowplan.framework.status import (
    SKIP,
    SKIP_ALWAYS,
    NodeMask,
    Rows,
    Status,
    Verdict,
    unresolvable,
    verdict_of,
)
from stowplan.objects.pod import Pod
from stowplan.objects.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from stowplan.plugins._shared.csi_migration import BETA_REGION, BETA_ZONE, REGION, ZONE
from stowplan.plugins._shared.volumes import (
    WAIT_FOR_FIRST_CONSUMER,
    claims_of,
    class_of,
    not_found,
    queue_if,
    uses_claim,
)
from stowplan.state.label_column import ABSENT
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.object_index import ObjectIndex
from stowplan.state.pod_info import PodInfo

NO_ZONE = "node(s) had no available volume zone"

_TOPOLOGY_LABELS = (BETA_ZONE, BETA_REGION, ZONE, REGION)
_TODAY = {BETA_ZONE: ZONE, BETA_REGION: REGION}

Requirement = tuple[str, frozenset[str]]
"""A label key of a volume, and the values that a node may have for it."""


class VolumeZone:
    name = "VolumeZone"
    reads = Reads.CLUSTER

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        if not pod.kind.volumes:
            return SKIP_ALWAYS
        requirements: set[Requirement] = set()
        objects = cycle.handle.objects
        for use in claims_of(pod):
            if use.is_ephemeral:
                continue
            if not use.name:
                return unresolvable("PersistentVolumeClaim had no name")
            claim = objects.get(PersistentVolumeClaim, use.key)
            if claim is None:
                return unresolvable(not_found(use.name))
            name = claim.spec.volume_name
            if not name:
                if (status := _unbound(objects, claim)) is not None:
                    return status
                continue
            volume = objects.get(PersistentVolume, name)
            if volume is None:
                return unresolvable(f'persistentvolume "{name}" not found')
            if volume.metadata.labels:
                requirements.update(_requirements(volume))
        if not requirements:
            return SKIP
        cycle.data[self.name] = frozenset(requirements)
        return None

    def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status | None:
        labels = node.labels
        if not any(key in labels for key in _TOPOLOGY_LABELS):
            return None
        for key, values in cycle.data[self.name]:
            # A node's own beta label beats the one of today; never the other way round.
            value = labels.get(key, labels.get(_TODAY.get(key, key)))
            if value not in values:
                return unresolvable(NO_ZONE)
        return None

    def filter_nodes(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows | slice
    ) -> Verdict:
        wanted: frozenset[Requirement] = cycle.data[self.name]
        reachable = nodes.row_set(
            (self.name, wanted), lambda table, asked: _reachable(table, asked, wanted)
        )
        return verdict_of(~reachable.mask[rows], NO_ZONE, unresolvable=True)

    def events_to_register(self) -> Sequence[EventRegistration]:
        changed = Action.ADD | Action.UPDATE
        return (
            on(Resource.STORAGE_CLASS, Action.ADD, _after_class_added),
            on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
            on(Resource.PERSISTENT_VOLUME_CLAIM, changed, _after_claim_change),
            on(Resource.PERSISTENT_VOLUME, changed, _after_volume_change),
        )


def _unbound(objects: ObjectIndex, claim: PersistentVolumeClaim) -> Status | None:
    """A claim without a volume is fine only if it waits for the pod's node."""
    class_name = class_of(claim)
    if not class_name:
        return unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
    storage_class = objects.get(StorageClass, class_name)
    if storage_class is None:
        return unresolvable(f'storageclass.storage.k8s.io "{class_name}" not found')
    mode = storage_class.volume_binding_mode
    if mode is None:
        return unresolvable(f'VolumeBindingMode not set for StorageClass "{class_name}"')
    if mode == WAIT_FOR_FIRST_CONSUMER:
        return None
    return unresolvable("PersistentVolume had no name")


def _requirements(volume: PersistentVolume) -> list[Requirement]:
    labels = volume.metadata.labels or {}
    found = []
    for key in _TOPOLOGY_LABELS:
        if key in labels:
            values = frozenset(value.strip() for value in labels[key].split("__"))
            if "" not in values:
                found.append((key, values))
    return found


def _reachable(table: NodeTable, rows: Rows, wanted: frozenset[Requirement]) -> NodeMask:
    unlabelled = np.ones(len(rows), np.bool_)
    for key in _TOPOLOGY_LABELS:
        unlabelled &= table.label(key).ids[rows] == ABSENT
    matched = np.ones(len(rows), np.bool_)
    for key, values in wanted:
        accepted = _accepted(table, key, values)
        if today := _TODAY.get(key):
            absent = table.label(key).ids == ABSENT
            accepted = np.where(absent, _accepted(table, today, values), accepted)
        matched &= accepted[rows]
    return unlabelled | matched


def _accepted(table: NodeTable, key: str, values: frozenset[str]) -> NodeMask:
    return table.label(key).matches(lambda value: value in values)


def _after_class_added(pod: Pod, old: StorageClass | None, new: StorageClass) -> Hint:
    return queue_if(new.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER)


def _after_claim_change(
    pod: Pod, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim
) -> Hint:
    return queue_if(uses_claim(pod, new, ephemeral=False))


def _after_volume_change(pod: Pod, old: PersistentVolume | None, new: PersistentVolume) -> Hint:
    return queue_if(old is None or _requirements(old) != _requirements(new))
