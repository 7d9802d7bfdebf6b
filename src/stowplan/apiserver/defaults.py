"""The defaults of the API, for the fields that the structs hold.

Pure functions from struct to struct; what already has its defaults comes back as the same object,
so a pod that was written out in full costs a few comparisons.  `client_defaults` has those of the
fields that only clients see, `admission` what depends on other objects.  Mirrors
`pkg/apis/*/v1/defaults.go`.
"""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from stowplan.objects.base import KubeObject, Resources
from stowplan.objects.node import Node
from stowplan.objects.pod import (
    Container,
    ContainerPort,
    Pod,
    PodSpec,
    ResourceRequirements,
    Toleration,
)
from stowplan.objects.quantity import QuantityError, parse_quantity
from stowplan.objects.resources import pod_request_nanos
from stowplan.objects.storage import (
    CSIDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimStatus,
    PersistentVolumeStatus,
    StorageClass,
)
from stowplan.objects.workloads import (
    Deployment,
    Job,
    Namespace,
    PodDisruptionBudget,
    PodDisruptionBudgetStatus,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)

DEFAULT_SCHEDULER = "default-scheduler"
GRACE_PERIOD_S = 30
PREEMPT_LOWER_PRIORITY = "PreemptLowerPriority"
METADATA_NAME_LABEL = "kubernetes.io/metadata.name"

_TOLERATION_SECONDS = 300
_NOT_READY = Toleration(
    key="node.kubernetes.io/not-ready",
    operator="Exists",
    effect="NoExecute",
    toleration_seconds=_TOLERATION_SECONDS,
)
_UNREACHABLE = replace(_NOT_READY, key="node.kubernetes.io/unreachable")

_T = TypeVar("_T", bound=KubeObject)


def default_spec(spec: PodSpec) -> PodSpec:
    """A pod's spec with its defaults, the tolerations of DefaultTolerationSeconds included."""
    changes: dict[str, Any] = {}
    if not spec.restart_policy:
        changes["restart_policy"] = "Always"
    if not spec.scheduler_name:
        changes["scheduler_name"] = DEFAULT_SCHEDULER
    if spec.termination_grace_period_seconds is None:
        changes["termination_grace_period_seconds"] = GRACE_PERIOD_S
    containers = default_containers(spec.containers, spec.host_network)
    if containers is not spec.containers:
        changes["containers"] = containers
    init_containers = default_containers(spec.init_containers, spec.host_network)
    if init_containers is not spec.init_containers:
        changes["init_containers"] = init_containers
    tolerations = default_tolerations(spec.tolerations)
    if tolerations is not spec.tolerations:
        changes["tolerations"] = tolerations
    if changes:
        spec = replace(spec, **changes)
    if spec.resources is not None and spec.resources.limits:
        spec = _pod_level_requests(spec, spec.resources)
    return spec


def default_tolerations(tolerations: list[Toleration] | None) -> list[Toleration] | None:
    """Five minutes on a node that is not ready or not reachable, unless the pod says otherwise."""
    missing = [
        default
        for default in (_NOT_READY, _UNREACHABLE)
        if not any(
            toleration.key in ("", default.key) and toleration.effect in ("", "NoExecute")
            for toleration in tolerations or ()
        )
    ]
    return [*(tolerations or ()), *missing] if missing else tolerations


def default_containers(
    containers: list[Container] | None, host_network: bool
) -> list[Container] | None:
    if not containers:
        return containers
    done = [_container(container, host_network) for container in containers]
    return containers if done == containers else done


def _container(container: Container, host_network: bool) -> Container:
    resources = _requests_from_limits(container.resources)
    ports = container.ports
    if ports and any(not p.protocol or (host_network and not p.host_port) for p in ports):
        ports = [_port(port, host_network) for port in ports]
    if resources is container.resources and ports is container.ports:
        return container
    return replace(container, resources=resources, ports=ports)


def _port(port: ContainerPort, host_network: bool) -> ContainerPort:
    # On the host's network a port is a port of the host.
    host_port = port.host_port or (port.container_port if host_network else 0)
    return replace(port, protocol=port.protocol or "TCP", host_port=host_port)


def _requests_from_limits(resources: ResourceRequirements | None) -> ResourceRequirements | None:
    if resources is None or not resources.limits:
        return resources
    requests = resources.requests or {}
    missing = {name: amount for name, amount in resources.limits.items() if name not in requests}
    return replace(resources, requests={**requests, **missing}) if missing else resources


def _pod_level_requests(spec: PodSpec, resources: ResourceRequirements) -> PodSpec:
    """What the pod as a whole requests when it only says its limits.

    The sum of its containers where they request the resource, otherwise the limit.
    """
    assert resources.limits, "only limits give pod-level requests"
    requests: Resources = dict(resources.requests or {})
    missing = [name for name in resources.limits if name not in requests]
    if not missing:
        return spec
    containers = replace(spec, resources=None, overhead=None)
    try:
        sums = pod_request_nanos(Pod(spec=containers))
    except QuantityError:
        return spec  # It will be refused, with the name of the container.
    for name in missing:
        nanos = sums.get(name)
        requests[name] = resources.limits[name] if nanos is None else quantity_text(nanos)
    return replace(spec, resources=replace(resources, requests=requests))


def quantity_text(nanos: int) -> str:
    """
    >>> quantity_text(1500 * 10**6), quantity_text(2 * 10**9), quantity_text(1)
    ('1500m', '2', '1n')
    """
    for unit, suffix in ((10**9, ""), (10**6, "m"), (10**3, "u")):
        if nanos % unit == 0:
            return f"{nanos // unit}{suffix}"
    return f"{nanos}n"


def default_object(thing: _T, *, creating: bool) -> _T:
    """An object of any kind but Pod with its defaults; a new one also with its first status."""
    default = _DEFAULTS.get(type(thing))
    if default is not None:
        thing = default(thing)
    if creating:
        status = _FIRST_STATUS.get(type(thing))
        if status is not None:
            thing = replace(thing, status=status)
    return thing


def _node(node: Node) -> Node:
    status = node.status
    if status.capacity is not None and status.allocatable is None:
        return replace(node, status=replace(status, allocatable=status.capacity))
    return node


def _namespace(namespace: Namespace) -> Namespace:
    meta = namespace.metadata
    if (meta.labels or {}).get(METADATA_NAME_LABEL) == meta.name or not meta.name:
        return namespace
    labels = {**(meta.labels or {}), METADATA_NAME_LABEL: meta.name}
    return replace(namespace, metadata=replace(meta, labels=labels))


def _filled(thing: Any, path: str, **defaults: Any) -> Any:
    place = getattr(thing, path) if path else thing
    missing = {name: it for name, it in defaults.items() if getattr(place, name) is None}
    if not missing:
        return thing
    return (
        replace(thing, **{path: replace(place, **missing)}) if path else replace(thing, **missing)
    )


def _job(job: Job) -> Job:
    if job.spec.parallelism is None and job.spec.completions is None:
        return replace(job, spec=replace(job.spec, parallelism=1, completions=1))
    filled: Job = _filled(job, "spec", parallelism=1)
    return filled


_ALWAYS: dict[tuple[type[KubeObject], ...], Any] = {
    (PersistentVolume, PersistentVolumeClaim): partial(
        _filled, path="spec", volume_mode="Filesystem"
    ),
    (StorageClass,): partial(_filled, path="", volume_binding_mode="Immediate"),
    (PriorityClass,): partial(_filled, path="", preemption_policy=PREEMPT_LOWER_PRIORITY),
    (CSIDriver,): partial(_filled, path="spec", attach_required=True, storage_capacity=False),
    (ReplicationController, ReplicaSet, StatefulSet, Deployment): partial(
        _filled, path="spec", replicas=1
    ),
    (Node,): _node,
    (Namespace,): _namespace,
    (Job,): _job,
}
_DEFAULTS = {kind: default for kinds, default in _ALWAYS.items() for kind in kinds}

# A node is the exception: it may be created with its status.
_FIRST_STATUS: dict[type[KubeObject], Any] = {
    PersistentVolume: PersistentVolumeStatus(phase="Pending"),
    PersistentVolumeClaim: PersistentVolumeClaimStatus(phase="Pending"),
    PodDisruptionBudget: PodDisruptionBudgetStatus(),
}
DEFAULTED = frozenset({*_DEFAULTS, *_FIRST_STATUS})
"""The kinds that `default_object` may change."""


def qos_class(spec: PodSpec) -> str:
    """Guaranteed, Burstable or BestEffort, from cpu and memory alone."""
    holders: list[ResourceRequirements | None] = [
        container.resources
        for container in [*(spec.containers or ()), *(spec.init_containers or ())]
    ]
    if spec.resources is not None:
        # Pod-level resources decide alone where they are given.
        holders = [spec.resources]
    guaranteed, anything = bool(holders), False
    for resources in holders:
        requests = _compute_resources(resources.requests if resources else None)
        limits = _compute_resources(resources.limits if resources else None)
        anything = anything or bool(requests) or bool(limits)
        guaranteed = guaranteed and len(limits) == 2 and (requests or limits) == limits
    if not anything:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _compute_resources(resources: Resources | None) -> dict[str, int]:
    amounts = {
        name: parse_quantity(amount)
        for name, amount in (resources or {}).items()
        if name in ("cpu", "memory")
    }
    return {name: amount for name, amount in amounts.items() if amount > 0}
