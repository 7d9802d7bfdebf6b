"""NodeVolumeLimits: no more volumes of a CSI driver on a node than the driver can attach there.

Limits come from the node's CSINode.  A volume that a pod of the node uses already costs nothing.
The counts per node are kept in `attached_volumes`.  Mirrors kube-scheduler's
`nodevolumelimits/csi.go`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stowplan.framework.cycle import Cycle
from stowplan.framework.errors import filter_failed
from stowplan.framework.events import Action, EventRegistration, Hint, Resource, on
from stowplan.framework.handle import Handle
from stowplan.framework.reads import Reads
from stowplan.framework.status import (
    SKIP_ALWAYS,
    Code,
    NodeMask,
    Rows,
    Status,
    Verdict,
    error,
    unresolvable,
    unschedulable,
    verdict_of,
)
from stowplan.objects.pod import Pod
from stowplan.objects.storage import (
    CSINode,
    PersistentVolumeClaim,
    VolumeAttachment,
)
from stowplan.plugins._shared.csi_migration import TranslationError, plugin_of
from stowplan.plugins._shared.rows import all_passed, row_count
from stowplan.plugins._shared.volumes import (
    claim_uses,
    claims_of,
    not_found,
    ownership_problem,
    queue_if,
    uses_claim,
)
from stowplan.plugins.node_volume_limits.attached_volumes import AttachedVolumes
from stowplan.plugins.node_volume_limits.csi_volumes import (
    CSIVolume,
    RunningVolumes,
    inline_volumes,
    limits_of,
    volume_of_claim,
)
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.object_index import ObjectIndex
from stowplan.state.pod_info import PodInfo, PodKind, fact

TOO_MANY = "node(s) exceed max volume count"

VolumesByDriver = dict[str, set[CSIVolume]]


class NodeVolumeLimits:
    name = "NodeVolumeLimits"
    reads = Reads.CLUSTER

    def __init__(self, args: Any, handle: Handle) -> None:
        self._objects = handle.objects
        self._attached = AttachedVolumes(handle.nodes, handle.objects)
        self._running = RunningVolumes(handle.objects)

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        if not pod.kind.volumes or not _may_count(pod.kind):
            return SKIP_ALWAYS
        cycle.data[self.name] = _wanted(self._objects, pod)
        return None

    def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> Status | None:
        wanted: VolumesByDriver | Status = cycle.data[self.name]
        if isinstance(wanted, Status):
            return wanted
        limits = limits_of(self._objects.get(CSINode, node.name)) if wanted else {}
        if limits.keys().isdisjoint(wanted):
            return None
        in_use = self._running.of_all(node.pods.values())
        attached = in_use | self._attached.attached_to(node.name)
        for driver, volumes in wanted.items():
            added = len(volumes - in_use)
            if added and driver in limits:
                before = sum(volume[0] == driver for volume in attached)
                if before + added > limits[driver]:
                    return unschedulable(TOO_MANY)
        return None

    def filter_nodes(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows | slice
    ) -> Verdict:
        wanted: VolumesByDriver | Status = cycle.data[self.name]
        if isinstance(wanted, Status):
            if wanted.code == Code.ERROR:
                raise filter_failed(self.name, wanted.message)
            everywhere = np.ones(row_count(nodes, rows), np.bool_)
            return verdict_of(everywhere, wanted.message, unresolvable=True)
        self._attached.refresh()
        failed: NodeMask | None = None
        for driver, volumes in wanted.items():
            if not self._attached.has_room(driver, len(volumes)):
                exceeded = self._exceeded(driver, volumes)
                failed = exceeded if failed is None else failed | exceeded
        if failed is None:
            return all_passed((TOO_MANY,), nodes, rows)
        return verdict_of(failed[rows], TOO_MANY, unresolvable=False)

    def _exceeded(self, driver: str, volumes: set[CSIVolume]) -> NodeMask:
        attached = self._attached
        limit = attached.limit(driver)
        in_use = [list(rows) for volume in volumes if (rows := attached.rows_in_use(volume))]
        if not in_use:
            exceeded: NodeMask = attached.count(driver) + len(volumes) > limit
            return exceeded
        added = np.full(len(limit), len(volumes))
        for rows in in_use:
            added[rows] -= 1
        exceeded = attached.count(driver) + added > limit
        return exceeded & (added > 0)

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (
            on(Resource.CSI_NODE, Action.ADD),
            on(Resource.CSI_NODE, Action.UPDATE, _after_csi_node_update),
            on(Resource.POD, Action.DELETE, _after_pod_deleted),
            on(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD, _after_claim_added),
            on(Resource.VOLUME_ATTACHMENT, Action.DELETE, _after_detached),
        )


@fact
def _may_count(kind: PodKind) -> bool:
    return _has_attachable(kind.pod)


def _has_attachable(pod: Pod) -> bool:
    return any(
        volume.persistent_volume_claim is not None
        or volume.ephemeral is not None
        or plugin_of(volume) is not None
        for volume in pod.spec.volumes or ()
    )


def _wanted(objects: ObjectIndex, pod: PodInfo) -> VolumesByDriver | Status:
    """What the pod would bring to a node, or why no node can take it."""
    volumes: set[CSIVolume] = set()
    for use in claims_of(pod):
        if not use.name:
            return error("PersistentVolumeClaim had no name")
        claim = objects.get(PersistentVolumeClaim, use.key)
        if claim is None:
            return unresolvable(f"looking up PVC {use.key}: {not_found(use.name)}")
        if use.is_ephemeral and (problem := ownership_problem(pod.pod, claim)):
            return error(problem)
        if (volume := volume_of_claim(objects, claim)) is not None:
            volumes.add(volume)
    try:
        volumes.update(inline_volumes(pod.kind))
    except TranslationError as problem:
        return error(str(problem))
    by_driver: VolumesByDriver = {}
    for volume in volumes:
        by_driver.setdefault(volume[0], set()).add(volume)
    return by_driver


def _after_csi_node_update(pod: Pod, old: CSINode, new: CSINode) -> Hint:
    before = limits_of(old)
    return queue_if(any(count > before.get(name, 0) for name, count in limits_of(new).items()))


def _after_pod_deleted(pod: Pod, old: Pod, new: Pod | None) -> Hint:
    return queue_if(bool(old.spec.node_name) and _has_attachable(old))


def _after_claim_added(
    pod: Pod, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim
) -> Hint:
    return queue_if(uses_claim(pod, new))


def _after_detached(pod: Pod, old: VolumeAttachment, new: VolumeAttachment | None) -> Hint:
    if any(not use.is_ephemeral for use in claim_uses(pod)):
        return Hint.QUEUE
    plugins = [plugin_of(volume) for volume in pod.spec.volumes or ()]
    return queue_if(any(p is not None and p.driver == old.spec.attacher for p in plugins))
