"""Volumes, claims, classes and what CSI drivers say about nodes."""

from __future__ import annotations

import msgspec

from stowplan.objects.base import (
    KubeObject,
    LabelSelector,
    ObjectReference,
    Quantity,
    Resources,
    Struct,
)
from stowplan.objects.pod import (
    AWSElasticBlockStore,
    AzureDisk,
    GCEPersistentDisk,
    ISCSIVolume,
    NodeSelector,
    RBDVolume,
    ResourceRequirements,
    VolumeById,
)


class VolumeNodeAffinity(Struct, frozen=True):
    required: NodeSelector | None = None


class CSIPersistentVolume(Struct, frozen=True):
    driver: str = ""
    volume_handle: str = ""


class PersistentVolumeSpec(Struct, frozen=True):
    capacity: Resources | None = None
    access_modes: list[str] | None = None
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSIPersistentVolume | None = None
    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    rbd: RBDVolume | None = None
    iscsi: ISCSIVolume | None = None
    cinder: VolumeById | None = None
    azure_disk: AzureDisk | None = None
    azure_file: VolumeById | None = None
    vsphere_volume: VolumeById | None = None
    portworx_volume: VolumeById | None = None


class PersistentVolumeStatus(Struct, frozen=True):
    phase: str = ""


class PersistentVolume(KubeObject, frozen=True):
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class PersistentVolumeClaimSpec(Struct, frozen=True):
    access_modes: list[str] | None = None
    selector: LabelSelector | None = None
    resources: ResourceRequirements | None = None
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimStatus(Struct, frozen=True):
    phase: str = ""


class PersistentVolumeClaim(KubeObject, frozen=True):
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class TopologyLabelRequirement(Struct, frozen=True):
    key: str = ""
    values: list[str] | None = None


class TopologySelectorTerm(Struct, frozen=True):
    match_label_expressions: list[TopologyLabelRequirement] | None = None


class StorageClass(KubeObject, frozen=True):
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologySelectorTerm] | None = None


class VolumeNodeResources(Struct, frozen=True):
    count: int | None = None


class CSINodeDriver(Struct, frozen=True):
    name: str = ""
    node_id: str = msgspec.field(default="", name="nodeID")
    topology_keys: list[str] | None = None
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Struct, frozen=True):
    drivers: list[CSINodeDriver] | None = None


class CSINode(KubeObject, frozen=True):
    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(Struct, frozen=True):
    storage_capacity: bool | None = None
    attach_required: bool | None = None


class CSIDriver(KubeObject, frozen=True):
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(KubeObject, frozen=True):
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None


class VolumeAttachmentSource(Struct, frozen=True):
    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Struct, frozen=True):
    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachment(KubeObject, frozen=True):
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
