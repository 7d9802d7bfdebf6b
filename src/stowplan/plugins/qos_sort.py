"""QOSSort: an alternative to PrioritySort that also looks at the quality-of-service class.

The higher priority first; then Guaranteed before Burstable before BestEffort; then the pod that
was created earlier.  Not in the default profile: name it under `queueSort`.  Mirrors `qos/` of
kubernetes-sigs/scheduler-plugins, and `qos_class` mirrors Kubernetes' own `qos/qos.go`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from stowplan.objects.base import Resources
from stowplan.objects.pod import Pod, ResourceRequirements
from stowplan.objects.quantity import parse_quantity
from stowplan.objects.resources import CPU, MEMORY
from stowplan.objects.times import parse_time
from stowplan.state.pod_info import PodInfo, PodKind, fact


class QOSClass(IntEnum):
    """In the order the queue takes them."""

    GUARANTEED = 0
    BURSTABLE = 1
    BEST_EFFORT = 2


class QOSSort:
    name = "QOSSort"

    def sort_key(self, pod: PodInfo, timestamp_s: float) -> tuple[int, int, float, float]:
        created = pod.pod.metadata.creation_timestamp
        qos = _qos_class(pod.kind)
        return -pod.kind.priority, qos, parse_time(created) if created else 0.0, timestamp_s


def qos_class(pod: Pod) -> QOSClass:
    """Guaranteed: every container limits cpu and memory, and requests just that.

    Requests and limits of the pod as a whole, where given, are all that counts.
    """
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    limited = True
    for resources in _stanzas(pod):
        _add(requests, _positive(resources.requests))
        found = _positive(resources.limits)
        _add(limits, found)
        limited = limited and len(found) == len(_COUNTED)
    if not requests and not limits:
        return QOSClass.BEST_EFFORT
    return QOSClass.GUARANTEED if limited and requests == limits else QOSClass.BURSTABLE


@fact
def _qos_class(kind: PodKind) -> QOSClass:
    return qos_class(kind.pod)


_COUNTED = (CPU, MEMORY)
_NO_RESOURCES = ResourceRequirements()


def _stanzas(pod: Pod) -> Iterable[ResourceRequirements]:
    if pod.spec.resources is not None:
        return (pod.spec.resources,)
    containers = (*(pod.spec.containers or ()), *(pod.spec.init_containers or ()))
    return [container.resources or _NO_RESOURCES for container in containers]


def _positive(resources: Resources | None) -> dict[str, int]:
    """In nanos: the exact amounts, for 1000m equals 1."""
    return {
        name: nanos
        for name, quantity in (resources or {}).items()
        if name in _COUNTED and (nanos := parse_quantity(quantity)) > 0
    }


def _add(total: dict[str, int], more: dict[str, int]) -> None:
    for name, nanos in more.items():
        total[name] = total.get(name, 0) + nanos
