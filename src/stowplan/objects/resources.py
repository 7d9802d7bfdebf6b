"""What a pod requests and what a node has, in the units kube-scheduler counts in.

Amounts are added up exactly, in nanos, and rounded once per pod (`amounts`): two containers of
`0.5m` CPU request 1m, not 2m.  Mirrors `component-helpers/resource/helpers.go` and the `Resource`
of `framework/types.go`.  The cache calls it for running pods (`use_status`), the resource plugins
for the pod to be placed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from stowplan.objects.base import Quantity, Resources
from stowplan.objects.names import label_key_problem
from stowplan.objects.node import Node
from stowplan.objects.pod import Container, ContainerStatus, Pod, PodStatus
from stowplan.objects.quantity import ceil_milli, ceil_value, parse_quantity

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"

DEFAULT_MILLI_CPU = 100
DEFAULT_MEMORY = 200 * 1024 * 1024
"""What a container without requests counts as in scores."""

_NONZERO_DEFAULTS: Mapping[str, int] = {
    CPU: DEFAULT_MILLI_CPU * 10**6,
    MEMORY: DEFAULT_MEMORY * 10**9,
}
_NO_NANOS: dict[str, int] = {}


def is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


@lru_cache(maxsize=4096)
def is_extended(name: str) -> bool:
    """A resource somebody else defined, such as `nvidia.com/gpu`."""
    if is_native(name) or name.startswith("requests."):
        return False
    return not label_key_problem(f"requests.{name}")


def is_hugepages(name: str) -> bool:
    return name.startswith("hugepages-")


def is_attachable(name: str) -> bool:
    return name.startswith("attachable-volumes-")


@lru_cache(maxsize=4096)
def is_scalar(name: str) -> bool:
    """Counted by name, next to cpu, memory and ephemeral storage."""
    return (
        is_hugepages(name) or is_attachable(name) or "kubernetes.io/" in name or is_extended(name)
    )


def pod_request_nanos(
    pod: Pod,
    *,
    use_status: bool = False,
    pod_level: bool = True,
    defaults: Mapping[str, int] | None = None,
) -> dict[str, int]:
    """The exact request of the whole pod, every resource it names.

    `use_status`: count what a resize in place has really been given, too.
    `pod_level`: requests of the pod as a whole replace the sum over its containers.
    `defaults`: nanos for each container that does not name the resource; where the pod as a whole
    has requests, only for resources that the pod names nowhere.
    """
    if defaults and pod_level and _pod_level_names(pod):
        named = pod_request_nanos(pod, use_status=use_status)
        defaults = {name: nanos for name, nanos in defaults.items() if name not in named}
    infeasible = use_status and _resize_is_infeasible(pod)
    statuses = _statuses(pod) if use_status else {}
    total = _sum_of_containers(pod, statuses, infeasible, defaults or _NO_NANOS)
    if pod_level:
        total.update(_pod_level_nanos(pod, use_status, infeasible))
    if pod.spec.overhead:
        _add(total, _nanos(pod.spec.overhead))
    return total


def amounts(nanos: Mapping[str, int]) -> dict[str, int]:
    """CPU in milli, all else in units, rounded up; names that scheduling does not count dropped."""
    counted = {}
    for name, amount in nanos.items():
        if name == CPU:
            counted[name] = ceil_milli(amount)
        elif name in (MEMORY, EPHEMERAL_STORAGE) or is_scalar(name):
            counted[name] = ceil_value(amount)
    return counted


@lru_cache(maxsize=8192)
def _amount(name: str, quantity: Quantity) -> int | None:
    """What one quantity amounts to; None for a name that scheduling does not count."""
    return amounts({name: parse_quantity(quantity)}).get(name)


def pod_requests(pod: Pod, *, use_status: bool) -> dict[str, int]:
    """As filters count: with status for a pod that runs, without for one to be placed."""
    spec = pod.spec
    containers = spec.containers or ()
    more = use_status or spec.init_containers or spec.overhead or spec.resources
    if len(containers) == 1 and not more:
        # As nearly always: there is nothing to add up.
        resources = containers[0].resources
        requests = resources.requests if resources else None
        return {
            name: amount
            for name, quantity in (requests or {}).items()
            if (amount := _amount(name, quantity)) is not None
        }
    return amounts(pod_request_nanos(pod, use_status=use_status))


def pod_nonzero_requests(pod: Pod, *, use_status: bool) -> tuple[int, int]:
    """Milli-CPU and memory as scores count a running pod: a container without requests counts."""
    nanos = pod_request_nanos(pod, use_status=use_status, defaults=_NONZERO_DEFAULTS)
    return ceil_milli(nanos.get(CPU, 0)), ceil_value(nanos.get(MEMORY, 0))


def fit_score_requests(pod: Pod) -> dict[str, int]:
    """As NodeResourcesFit's score counts the pod to be placed.

    Pod-level requests and status are left out, which looks wrong but is what upstream does: the
    scorer is not handed the feature gates.
    """
    return amounts(pod_request_nanos(pod, pod_level=False, defaults=_NONZERO_DEFAULTS))


def tells_amounts(status: PodStatus) -> bool:
    """Whether a status says anything that `use_status` would count."""
    return bool(status.container_statuses or status.init_container_statuses) or (
        status.resources is not None
    )


def needs_no_defaults(pod: Pod) -> bool:
    """Whether each container names all that there are defaults for."""
    spec = pod.spec
    for container in (*(spec.containers or ()), *(spec.init_containers or ())):
        requests = container.resources.requests if container.resources else None
        if not requests or not _NONZERO_DEFAULTS.keys() <= requests.keys():
            return False
    return True


def allocatable(node: Node) -> dict[str, int]:
    """What the node offers, and under `pods` how many pods it takes (0 when it does not say)."""
    nanos = _nanos(node.status.allocatable)
    offered = amounts(nanos)
    offered[PODS] = ceil_value(nanos.get(PODS, 0))
    return offered


def is_sidecar(container: Container) -> bool:
    """An init container that keeps running."""
    return container.restart_policy == "Always"


def _sum_of_containers(
    pod: Pod,
    statuses: Mapping[str, ContainerStatus],
    infeasible: bool,
    defaults: Mapping[str, int],
) -> dict[str, int]:
    """All containers at once, or the greediest moment of initialization if that is more."""
    total: dict[str, int] = {}
    for container in pod.spec.containers or ():
        _add(total, _container_nanos(container, statuses, infeasible, defaults))
    if not pod.spec.init_containers:
        return total
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in pod.spec.init_containers:
        if is_sidecar(container):
            request = _container_nanos(container, statuses, infeasible, defaults)
            _add(total, request)
            _add(sidecars, request)
            _maximize(peak, sidecars)
        else:
            # The status of an init container that ends is never looked at.
            request = _container_nanos(container, {}, False, defaults)
            _add(request, sidecars)
            _maximize(peak, request)
    _maximize(total, peak)
    return total


def _container_nanos(
    container: Container,
    statuses: Mapping[str, ContainerStatus],
    infeasible: bool,
    defaults: Mapping[str, int],
) -> dict[str, int]:
    request = _nanos(container.resources.requests if container.resources else None)
    status = statuses.get(container.name)
    if status is not None and status.resources is not None:
        if infeasible:
            request = {}
        _maximize(request, _nanos(status.resources.requests))
        _maximize(request, _nanos(status.allocated_resources))
    for name, nanos in defaults.items():
        request.setdefault(name, nanos)
    return request


def _pod_level_nanos(pod: Pod, use_status: bool, infeasible: bool) -> dict[str, int]:
    names = _pod_level_names(pod)
    if not names or pod.spec.resources is None:
        return {}
    request = _nanos(pod.spec.resources.requests)
    status = pod.status
    if use_status and status.resources is not None:
        if infeasible:
            request = {}
        _maximize(request, _nanos(status.resources.requests))
        _maximize(request, _nanos(status.allocated_resources))
    # Only names that the spec gives; one that an infeasible resize leaves without a value is 0.
    return {name: request.get(name, 0) for name in names}


def _pod_level_names(pod: Pod) -> list[str]:
    resources = pod.spec.resources
    if resources is None or not resources.requests:
        return []
    return [name for name in resources.requests if _allowed_at_pod_level(name)]


def _allowed_at_pod_level(name: str) -> bool:
    return name in (CPU, MEMORY) or is_hugepages(name)


def _resize_is_infeasible(pod: Pod) -> bool:
    for condition in pod.status.conditions or ():
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def _statuses(pod: Pod) -> dict[str, ContainerStatus]:
    status = pod.status
    return {
        entry.name: entry
        for entries in (status.container_statuses, status.init_container_statuses)
        for entry in entries or ()
    }


def _nanos(resources: Resources | None) -> dict[str, int]:
    if not resources:
        return {}
    return {name: parse_quantity(quantity) for name, quantity in resources.items()}


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, nanos in more.items():
        total[name] = total.get(name, 0) + nanos


def _maximize(total: dict[str, int], other: Mapping[str, int]) -> None:
    for name, nanos in other.items():
        if name not in total or total[name] < nanos:
            total[name] = nanos
