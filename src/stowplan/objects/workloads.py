"""Namespaces, the owners and selectors of pods, priorities and disruption budgets."""

from __future__ import annotations

from typing import Any

from stowplan.objects.base import Condition, KubeObject, LabelSelector, Resources, Struct
from stowplan.objects.storage import PersistentVolumeClaim


class Namespace(KubeObject, frozen=True):
    pass


class ServiceSpec(Struct, frozen=True):
    selector: dict[str, str] | None = None


class Service(KubeObject, frozen=True):
    spec: ServiceSpec = ServiceSpec()


class ReplicationControllerSpec(Struct, frozen=True):
    replicas: int | None = None
    selector: dict[str, str] | None = None
    template: dict[str, Any] | None = None


class ReplicationController(KubeObject, frozen=True):
    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class WorkloadSpec(Struct, frozen=True):
    """What Deployment, ReplicaSet, StatefulSet, DaemonSet and Job have in common."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: dict[str, Any] | None = None
    """The pod template as written: its pods must keep every field of it."""
    min_ready_seconds: int = 0


class RollingUpdate(Struct, frozen=True):
    """Of a Deployment, a StatefulSet or a DaemonSet: each has its own of these fields."""

    max_surge: int | str | None = None
    max_unavailable: int | str | None = None
    partition: int | None = None


class UpdateStrategy(Struct, frozen=True):
    type: str = ""
    rolling_update: RollingUpdate | None = None


class WorkloadStatus(Struct, frozen=True):
    conditions: list[Condition] | None = None


class ReplicaSet(KubeObject, frozen=True):
    spec: WorkloadSpec = WorkloadSpec()


class StatefulSetOrdinals(Struct, frozen=True):
    start: int = 0


class StatefulSetSpec(WorkloadSpec, frozen=True):
    pod_management_policy: str = ""
    update_strategy: UpdateStrategy | None = None
    ordinals: StatefulSetOrdinals | None = None
    volume_claim_templates: list[PersistentVolumeClaim] | None = None


class StatefulSet(KubeObject, frozen=True):
    spec: StatefulSetSpec = StatefulSetSpec()


class DeploymentSpec(WorkloadSpec, frozen=True):
    strategy: UpdateStrategy | None = None
    paused: bool = False
    revision_history_limit: int | None = None
    progress_deadline_seconds: int | None = None


class Deployment(KubeObject, frozen=True):
    spec: DeploymentSpec = DeploymentSpec()
    status: WorkloadStatus = WorkloadStatus()


class DaemonSetSpec(WorkloadSpec, frozen=True):
    update_strategy: UpdateStrategy | None = None


class DaemonSet(KubeObject, frozen=True):
    spec: DaemonSetSpec = DaemonSetSpec()


class JobSpec(WorkloadSpec, frozen=True):
    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    suspend: bool | None = None
    backoff_limit: int | None = None
    active_deadline_seconds: int | None = None


class JobStatus(Struct, frozen=True):
    conditions: list[Condition] | None = None
    start_time: str | None = None
    succeeded: int = 0
    failed: int = 0


class Job(KubeObject, frozen=True):
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


Workload = Deployment | ReplicaSet | ReplicationController | StatefulSet | DaemonSet | Job
"""What has a template of pods."""


class PodDisruptionBudgetSpec(Struct, frozen=True):
    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class PodDisruptionBudgetStatus(Struct, frozen=True):
    disruptions_allowed: int = 0
    disrupted_pods: dict[str, str] | None = None


class PodDisruptionBudget(KubeObject, frozen=True):
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class PriorityClass(KubeObject, frozen=True):
    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None


class RuntimeClassOverhead(Struct, frozen=True):
    pod_fixed: Resources | None = None


class RuntimeClass(KubeObject, frozen=True):
    handler: str = ""
    overhead: RuntimeClassOverhead | None = None
