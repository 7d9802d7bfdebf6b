"""Pod groups: pods that are scheduled together, and the templates they are made of.

One struct stands for both versions of scheduling.k8s.io that have groups: v1alpha2 (Kubernetes
1.36) and v1beta1 (1.37).  It has the fields of both; where they say the same thing differently
(`podGroupTemplateRef` and `workloadRef`, two forms of `disruptionMode`), a property has the answer,
so that nobody else asks which version an object came in.  What else depends on the version is
`GroupVersion`: the scheduler finds out at its start which one the API server has.

A pod belongs to the group that its `spec.schedulingGroup` names, in its own namespace.
"""

from __future__ import annotations

from dataclasses import dataclass

from stowplan.objects.base import Condition, KubeObject, Struct
from stowplan.objects.pod import Pod, PodResourceClaim, PodResourceClaimStatus

GROUP = "scheduling.k8s.io"
V1ALPHA2 = f"{GROUP}/v1alpha2"
V1BETA1 = f"{GROUP}/v1beta1"

GENERIC_WORKLOAD = "GenericWorkload"
GANG_SCHEDULING = "GangScheduling"
TOPOLOGY_AWARE = "TopologyAwareWorkloadScheduling"
WORKLOAD_AWARE_PREEMPTION = "WorkloadAwarePreemption"
WORKLOAD_CLAIMS = "DRAWorkloadResourceClaims"

GROUP_GATES = (
    GENERIC_WORKLOAD,
    GANG_SCHEDULING,
    TOPOLOGY_AWARE,
    WORKLOAD_AWARE_PREEMPTION,
    WORKLOAD_CLAIMS,
)
"""The feature gates that have to do with groups."""

WHOLE_GROUP = "PodGroup"
"""`disruptionMode` of a group whose pods go together."""
POD_BY_POD = "Pod"
"""The other one, and the default."""

PROTECTION = f"{GROUP}/podgroup-protection"
"""Finalizer of a group: it stays as long as it has members."""


@dataclass(frozen=True, slots=True)
class GroupVersion:
    """What the scheduler does differently from version to version."""

    api_version: str
    condition: str
    """The type of the condition that says whether a group was scheduled."""
    implied_gates: tuple[str, ...] = ()
    """Feature gates that are gone there: GenericWorkload stands for them."""


GROUP_VERSIONS = (
    GroupVersion(
        V1BETA1,
        "PodGroupInitiallyScheduled",
        (GANG_SCHEDULING, WORKLOAD_AWARE_PREEMPTION),
    ),
    GroupVersion(V1ALPHA2, "PodGroupScheduled"),
)
"""The preferred one first."""


class BasicPolicy(Struct, frozen=True):
    """Whoever fits is scheduled."""


class GangPolicy(Struct, frozen=True):
    """At least so many at once, or none."""

    min_count: int = 0


class SchedulingPolicy(Struct, frozen=True):
    basic: BasicPolicy | None = None
    gang: GangPolicy | None = None


class TopologyConstraint(Struct, frozen=True):
    key: str = ""
    """Of the node label whose value all nodes of the group's pods must share."""


class SchedulingConstraints(Struct, frozen=True):
    topology: list[TopologyConstraint] | None = None


class SingleDisruption(Struct, frozen=True):
    pass


class WholeDisruption(Struct, frozen=True):
    pass


class DisruptionMode(Struct, frozen=True):
    """v1beta1's form."""

    single: SingleDisruption | None = None
    all: WholeDisruption | None = None


class WorkloadTemplateReference(Struct, frozen=True):
    """v1alpha2's form has `podGroupTemplateName`, v1beta1's `templateName`."""

    workload_name: str = ""
    pod_group_template_name: str = ""
    template_name: str = ""


class PodGroupTemplateReference(Struct, frozen=True):
    """v1alpha2's form."""

    workload: WorkloadTemplateReference | None = None


class PodGroupPlan(Struct, frozen=True):
    """What a group and a template of one have in common."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: SchedulingConstraints | None = None
    disruption_mode: str | DisruptionMode | None = None
    priority_class_name: str = ""
    priority: int | None = None
    preemption_policy: str | None = None
    """v1beta1 only."""
    resource_claims: list[PodResourceClaim] | None = None

    @property
    def min_count(self) -> int:
        """How many pods of a gang are scheduled at once, at least; 0 for a basic group."""
        gang = self.scheduling_policy.gang
        return 0 if gang is None else gang.min_count

    @property
    def topology_key(self) -> str:
        """The label whose value all nodes must share; empty without a constraint."""
        constraints = self.scheduling_constraints
        topology = (constraints.topology or ()) if constraints is not None else ()
        return topology[0].key if topology else ""

    @property
    def is_disrupted_whole(self) -> bool:
        """Whether the group's pods are evicted together or not at all."""
        mode = self.disruption_mode
        return mode.all is not None if isinstance(mode, DisruptionMode) else mode == WHOLE_GROUP


class PodGroupSpec(PodGroupPlan, frozen=True):
    pod_group_template_ref: PodGroupTemplateReference | None = None
    """v1alpha2's name for `workload_ref`."""
    workload_ref: WorkloadTemplateReference | None = None
    parent_composite_pod_group_name: str = ""

    @property
    def template(self) -> tuple[str, str] | None:
        """The workload's name, and that of the template in it that this group was made of."""
        reference = self.workload_ref
        if reference is None and self.pod_group_template_ref is not None:
            reference = self.pod_group_template_ref.workload
        if reference is None:
            return None
        name = reference.template_name or reference.pod_group_template_name
        return reference.workload_name, name


class PodGroupStatus(Struct, frozen=True):
    conditions: list[Condition] | None = None
    resource_claim_statuses: list[PodResourceClaimStatus] | None = None


class PodGroup(KubeObject, frozen=True):
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()

    def lists(self, reference: PodResourceClaim) -> bool:
        """Whether a claim that a pod names is the group's: same name, same reference."""
        return reference in (self.spec.resource_claims or ())


class PodGroupTemplate(PodGroupPlan, frozen=True):
    name: str = ""


class ControllerReference(Struct, frozen=True):
    api_group: str = ""
    kind: str = ""
    name: str = ""


class GroupWorkloadSpec(Struct, frozen=True):
    controller_ref: ControllerReference | None = None
    pod_group_templates: list[PodGroupTemplate] | None = None


class GroupWorkload(KubeObject, frozen=True):
    """Kind `Workload`: templates that controllers make groups of.  Scheduling never reads it."""

    spec: GroupWorkloadSpec = GroupWorkloadSpec()


def group_key(pod: Pod) -> str:
    """`namespace/name` of the pod's group; empty for a pod of its own."""
    group = pod.spec.scheduling_group
    return "" if group is None else f"{pod.metadata.namespace}/{group.pod_group_name}"
