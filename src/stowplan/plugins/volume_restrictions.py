"""VolumeRestrictions: a disk that only one pod may use is not handed to a second.

Two cases.  A disk written into the pod (GCE, AWS, iSCSI, RBD) clashes with the same disk of
another pod on the same node.  A claim with access mode ReadWriteOncePod is for one pod in the
whole cluster, so a second one fits nowhere until the first is gone.  Mirrors kube-scheduler's
`volumerestrictions/volume_restrictions.go`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from stowplan.framework.cycle import Cycle
from stowplan.framework.events import Action, EventRegistration, Hint, Resource, on
from stowplan.framework.reads import Reads
from stowplan.framework.status import (
    SKIP,
    SKIP_ALWAYS,
    Rows,
    Status,
    Verdict,
    unresolvable,
    unschedulable,
)
from stowplan.objects.pod import Pod, Volume
from stowplan.objects.storage import PersistentVolumeClaim
from stowplan.plugins._shared.rows import row_count
from stowplan.plugins._shared.volumes import (
    claim_uses,
    claims_of,
    not_found,
    queue_if,
    uses_claim,
)
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import PodInfo, PodKind, fact
from stowplan.state.pod_sorts import EVERY_POD, Place

DISK_CONFLICT = "node(s) had no available disk"
CLAIM_IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
)

_ONCE_POD = "ReadWriteOncePod"
_REASONS = (DISK_CONFLICT, CLAIM_IN_USE)


Disk = tuple[str, ...]
"""The sort of an inline disk, its name and, of RBD, one of the monitors that it is reached by: two
disks are the same only if they share one."""


class Disks(NamedTuple):
    """Those of a pod."""

    used: frozenset[Disk]
    written: frozenset[Disk]
    """Those that are not read-only: nobody else may use them."""


@dataclass(frozen=True, slots=True)
class PodsWithClashingDisks:
    """Pods that cannot be on one node with a pod that has these disks."""

    disks: Disks

    def weigh(self, kind: PodKind) -> int:
        return int(disks_clash(self.disks, disks_of(kind)))

    @property
    def places(self) -> list[Place]:
        return [EVERY_POD]


@dataclass(slots=True)
class _State:
    disks: Disks
    once_pod: frozenset[str]
    """Names of the pod's claims that one pod only may use."""
    conflicts: int
    """How many of them are in use elsewhere."""

    def clone(self) -> _State:
        return replace(self)


class VolumeRestrictions:
    name = "VolumeRestrictions"
    reads = Reads.CLUSTER

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        if not pod.kind.volumes:
            return SKIP_ALWAYS
        once_pod, conflicts = set(), 0
        in_use = cycle.nodes.pods.claims
        objects = cycle.handle.objects
        for use in claims_of(pod):
            if use.is_ephemeral:
                continue
            claim = objects.get(PersistentVolumeClaim, use.key)
            if claim is None:
                return unresolvable(not_found(use.name))
            if _ONCE_POD in (claim.spec.access_modes or ()) and use.name not in once_pod:
                once_pod.add(use.name)
                conflicts += use.key in in_use
        disks = disks_of(pod.kind)
        if not disks.used and not conflicts:
            return SKIP
        cycle.data[self.name] = _State(disks, frozenset(once_pod), conflicts)
        return None

    def add_pod(self, cycle: Cycle, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        state: _State = cycle.data[self.name]
        state.conflicts += _shared_names(state.once_pod, added)

    def remove_pod(self, cycle: Cycle, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        state: _State = cycle.data[self.name]
        state.conflicts -= _shared_names(state.once_pod, removed)

    def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status | None:
        state: _State = cycle.data[self.name]
        if state.disks.used and any(
            disks_clash(state.disks, disks_of(other.kind)) for other in node.pods.values()
        ):
            return unschedulable(DISK_CONFLICT)
        return unschedulable(CLAIM_IN_USE) if state.conflicts > 0 else None

    def filter_nodes(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows | slice
    ) -> Verdict:
        state: _State = cycle.data[self.name]
        count = row_count(nodes, rows)
        why = np.full(count, 2 if state.conflicts > 0 else 0, np.uint32)
        if state.disks.used:
            clashing = nodes.counts.column(PodsWithClashingDisks(state.disks))
            why[clashing.per_row[rows] > 0] = 1
        return Verdict(_REASONS, why, np.zeros(count, np.bool_))

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (
            on(Resource.POD, Action.DELETE, _after_pod_deleted),
            on(Resource.NODE, Action.ADD),
            on(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD, _after_claim_added),
        )


@fact
def disks_of(kind: PodKind) -> Disks:
    return _disks(kind.volumes)


def disks_clash(mine: Disks, theirs: Disks) -> bool:
    return not (mine.written.isdisjoint(theirs.used) and theirs.written.isdisjoint(mine.used))


def _disks(volumes: Sequence[Volume]) -> Disks:
    used, written = set(), set()
    for volume in volumes:
        for disk, read_only in _disks_in(volume):
            used.add(disk)
            if not read_only:
                written.add(disk)
    return Disks(frozenset(used), frozenset(written))


def _disks_in(volume: Volume) -> Iterator[tuple[Disk, bool]]:
    """With whether it is read-only."""
    if (gce := volume.gce_persistent_disk) is not None:
        yield ("gce", gce.pd_name), gce.read_only
    if (ebs := volume.aws_elastic_block_store) is not None:
        # Read-only or not: upstream lets no two pods share an EBS volume.
        yield ("ebs", ebs.volume_id), False
    if (iscsi := volume.iscsi) is not None:
        yield ("iscsi", iscsi.iqn), iscsi.read_only
    if (rbd := volume.rbd) is not None:
        for monitor in rbd.monitors or ():
            yield ("rbd", rbd.pool, rbd.image, monitor), rbd.read_only


def _shared_names(names: frozenset[str], pod: PodInfo) -> int:
    """The pod's volumes with a claim of such a name; in whatever namespace, as upstream counts."""
    return sum(not use.is_ephemeral and use.name in names for use in claims_of(pod))


def _after_pod_deleted(pod: Pod, old: Pod, new: Pod | None) -> Hint:
    if pod.metadata.namespace != old.metadata.namespace:
        return Hint.SKIP
    if not old.spec.volumes:
        return Hint.SKIP
    if disks_clash(_disks(pod.spec.volumes or ()), _disks(old.spec.volumes)):
        return Hint.QUEUE
    mine = {use.name for use in claim_uses(pod) if not use.is_ephemeral}
    return queue_if(any(use.name in mine for use in claim_uses(old) if not use.is_ephemeral))


def _after_claim_added(
    pod: Pod, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim
) -> Hint:
    return queue_if(uses_claim(pod, new, ephemeral=False))
