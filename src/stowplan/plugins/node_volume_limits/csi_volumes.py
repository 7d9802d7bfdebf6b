"""Which CSI volume a claim, an in-tree volume or an attachment stands for, and a node's limits.

A volume is known by its driver and the driver's handle: two claims for the same volume are one
volume to the node it is attached to.  Mirrors the look-ups of kube-scheduler's
`nodevolumelimits/csi.go`.  There a node without a CSINode sees in-tree volumes untranslated; but
such a node has no limits either, so the answer here is the same for all nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stowplan.objects.base import KubeObject
from stowplan.objects.pod import Volume
from stowplan.objects.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from stowplan.plugins._shared.csi_migration import (
    TranslationError,
    inline_handle,
    plugin_named,
    plugin_of,
    volume_handle,
)
from stowplan.plugins._shared.volumes import ClaimUse, claims_of, class_of, ownership_problem
from stowplan.state.object_index import ObjectIndex
from stowplan.state.pod_info import PodInfo, PodKind, fact

CSIVolume = tuple[str, str]
"""The driver, and its handle of the volume."""

_DECISIVE: tuple[type[KubeObject], ...] = (
    PersistentVolumeClaim,
    PersistentVolume,
    StorageClass,
)
_REMEMBERED_MAX = 65536
_KEPT = "in-tree volumes of the pod as CSI volumes"


def volume_of_claim(objects: ObjectIndex, claim: PersistentVolumeClaim) -> CSIVolume | None:
    """None when no CSI driver is known to have to do with the claim."""
    name = claim.spec.volume_name
    volume = objects.get(PersistentVolume, name) if name else None
    if volume is not None:
        return _of_persistent_volume(volume)
    class_name = class_of(claim)
    storage_class = objects.get(StorageClass, class_name) if class_name else None
    if storage_class is None:
        return None
    driver = storage_class.provisioner
    if (plugin := plugin_named(driver)) is not None:
        driver = plugin.driver if plugin.is_on else ""
    # No volume yet, and so no handle: one that no driver can give, for this claim alone.
    return (driver, f"\0{claim.key}") if driver else None


def _of_persistent_volume(volume: PersistentVolume) -> CSIVolume | None:
    spec = volume.spec
    if spec.csi is not None:
        driver, handle = spec.csi.driver, spec.csi.volume_handle
    else:
        plugin = plugin_of(spec)
        if plugin is None or not plugin.is_on:
            return None
        try:
            driver, handle = plugin.driver, volume_handle(plugin, volume)
        except TranslationError:
            return None
    return (driver, handle) if driver and handle else None


@fact
def inline_volumes(kind: PodKind) -> tuple[CSIVolume, ...]:
    """The in-tree volumes written into the pod; raises `TranslationError`."""
    return tuple(_inline(kind.volumes))


def _inline(volumes: Iterable[Volume]) -> Iterator[CSIVolume]:
    for volume in volumes:
        plugin = plugin_of(volume)
        if plugin is None or not plugin.is_on:
            continue
        try:
            yield plugin.driver, inline_handle(plugin, volume)
        except TranslationError as cause:
            raise TranslationError(
                f"converting volume({volume.name}) from inline to csi: {cause}"
            ) from cause


def inline_of_running(pod: PodInfo) -> tuple[CSIVolume, ...]:
    try:
        return inline_volumes(pod.kind)
    except TranslationError:
        return ()


def volume_of_running(objects: ObjectIndex, use: ClaimUse, pod: PodInfo) -> CSIVolume | None:
    """The volume of a pod that is on a node; what cannot be resolved does not count."""
    claim = objects.get(PersistentVolumeClaim, use.key)
    if claim is None or (use.is_ephemeral and ownership_problem(pod.pod, claim)):
        return None
    return volume_of_claim(objects, claim)


class RunningVolumes:
    """The volumes of pods on nodes, remembered until a claim, a volume or a class changes."""

    def __init__(self, objects: ObjectIndex) -> None:
        self._objects = objects
        self._versions: tuple[int, ...] = ()
        self._by_uid: dict[str, set[CSIVolume]] = {}

    def of_all(self, pods: Iterable[PodInfo]) -> set[CSIVolume]:
        versions = tuple(map(self._objects.version, _DECISIVE))
        if versions != self._versions or len(self._by_uid) > _REMEMBERED_MAX:
            self._versions = versions
            self._by_uid.clear()
        found: set[CSIVolume] = set()
        for pod in pods:
            if pod.kind.volumes:
                found |= self._of(pod)
        return found

    def _of(self, pod: PodInfo) -> set[CSIVolume]:
        found = self._by_uid.get(pod.uid)
        if found is None:
            by_claim = (volume_of_running(self._objects, use, pod) for use in claims_of(pod))
            found = self._by_uid[pod.uid] = {v for v in by_claim if v is not None}
            found.update(inline_of_running(pod))
        return found


def volume_of_attachment(objects: ObjectIndex, attachment: VolumeAttachment) -> CSIVolume | None:
    spec = attachment.spec
    name = spec.source.persistent_volume_name
    volume = objects.get(PersistentVolume, name) if name else None
    if not spec.attacher or volume is None or volume.spec.csi is None:
        return None
    return spec.attacher, volume.spec.csi.volume_handle


def limits_of(node: CSINode | None) -> dict[str, int]:
    """Driver -> how many of its volumes the node can hold, where it says so."""
    drivers = (node.spec.drivers or ()) if node is not None else ()
    return {
        driver.name: driver.allocatable.count
        for driver in drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    }
