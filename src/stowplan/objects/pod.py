"""Pod: the thing that is scheduled, with every field a default plugin reads."""

from __future__ import annotations

from typing import Any

import msgspec

from stowplan.objects.base import (
    Condition,
    KubeObject,
    LabelSelector,
    ObjectMeta,
    Resources,
    Struct,
)

ENDED_PHASES = frozenset({"Succeeded", "Failed"})


class ResourceRequirements(Struct, frozen=True):
    requests: Resources | None = None
    limits: Resources | None = None


class ContainerPort(Struct, frozen=True):
    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = ""


class ContainerRestartRule(Struct, frozen=True):
    action: str = ""


class Container(Struct, frozen=True):
    name: str = ""
    image: str = ""
    resources: ResourceRequirements | None = None
    ports: list[ContainerPort] | None = None
    restart_policy: str = ""
    restart_policy_rules: list[ContainerRestartRule] | None = None


class NodeSelectorRequirement(Struct, frozen=True):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class NodeSelectorTerm(Struct, frozen=True):
    match_expressions: list[NodeSelectorRequirement] | None = None
    match_fields: list[NodeSelectorRequirement] | None = None


class NodeSelector(Struct, frozen=True):
    node_selector_terms: list[NodeSelectorTerm] | None = None


class PreferredSchedulingTerm(Struct, frozen=True):
    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Struct, frozen=True):
    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[PreferredSchedulingTerm] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Struct, frozen=True):
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    topology_key: str = ""
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodAffinityTerm(Struct, frozen=True):
    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Struct, frozen=True):
    """Used for affinity and anti-affinity alike: the two have the same shape."""

    required: list[PodAffinityTerm] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[WeightedPodAffinityTerm] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Struct, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Struct, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class TopologySpreadConstraint(Struct, frozen=True):
    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class PodSchedulingGate(Struct, frozen=True):
    name: str = ""


class PVCVolumeSource(Struct, frozen=True):
    claim_name: str = ""
    read_only: bool = False


class EphemeralVolumeSource(Struct, frozen=True):
    volume_claim_template: dict[str, Any] | None = None


class GCEPersistentDisk(Struct, frozen=True):
    pd_name: str = ""
    read_only: bool = False


class AWSElasticBlockStore(Struct, frozen=True):
    volume_id: str = msgspec.field(default="", name="volumeID")
    read_only: bool = False


class RBDVolume(Struct, frozen=True):
    monitors: list[str] | None = None
    pool: str = ""
    image: str = ""
    read_only: bool = False


class ISCSIVolume(Struct, frozen=True):
    target_portal: str = ""
    iqn: str = ""
    lun: int = 0
    read_only: bool = False


class CSIVolumeSource(Struct, frozen=True):
    driver: str = ""
    read_only: bool | None = None


class VolumeById(Struct, frozen=True):
    """Inline sources of which scheduling only needs to know that they are there."""

    volume_id: str = msgspec.field(default="", name="volumeID")


class AzureDisk(Struct, frozen=True):
    disk_name: str = ""
    disk_uri: str = msgspec.field(default="", name="diskURI")


class ImageVolumeSource(Struct, frozen=True):
    reference: str = ""


class Volume(Struct, frozen=True):
    name: str = ""
    persistent_volume_claim: PVCVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    rbd: RBDVolume | None = None
    iscsi: ISCSIVolume | None = None
    csi: CSIVolumeSource | None = None
    cinder: VolumeById | None = None
    azure_disk: AzureDisk | None = None
    azure_file: VolumeById | None = None
    vsphere_volume: VolumeById | None = None
    portworx_volume: VolumeById | None = None
    image: ImageVolumeSource | None = None


class PodResourceClaim(Struct, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(Struct, frozen=True):
    """The pods that a pod is scheduled with: `objects.pod_groups`."""

    pod_group_name: str = ""


class PodSpec(Struct, frozen=True):
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    volumes: list[Volume] | None = None
    node_name: str = ""
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    topology_spread_constraints: list[TopologySpreadConstraint] | None = None
    scheduling_gates: list[PodSchedulingGate] | None = None
    scheduling_group: PodSchedulingGroup | None = None
    scheduler_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    overhead: Resources | None = None
    resources: ResourceRequirements | None = None
    resource_claims: list[PodResourceClaim] | None = None
    restart_policy: str = ""
    runtime_class_name: str | None = None
    host_network: bool = False
    host_users: bool | None = None
    termination_grace_period_seconds: int | None = None


class PodTemplate(Struct, frozen=True):
    """What a workload makes its pods of."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class ContainerStatus(Struct, frozen=True):
    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: Resources | None = None


class PodResourceClaimStatus(Struct, frozen=True):
    """The claim that was made for a template; none where none is needed."""

    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(Struct, frozen=True):
    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class PodExtendedResourceClaimStatus(Struct, frozen=True):
    """The claim that the scheduler made for extended resources, and who gets what of it."""

    resource_claim_name: str = ""
    request_mappings: list[ContainerExtendedResourceRequest] | None = None


class PodStatus(Struct, frozen=True):
    phase: str = ""
    conditions: list[Condition] | None = None
    nominated_node_name: str = ""
    start_time: str | None = None
    reason: str = ""
    message: str = ""
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: Resources | None = None
    resource_claim_statuses: list[PodResourceClaimStatus] | None = None
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    observed_generation: int = 0


class Pod(KubeObject, frozen=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
