"""How a Deployment moves from one ReplicaSet to the next: numbers in, numbers out.

Pure.  Mirrors `pkg/controller/deployment/rolling.go` and `util/deployment_util.go`.
"""

from __future__ import annotations

from dataclasses import dataclass

from stowplan.apiserver.controllers.readiness import scaled_value
from stowplan.objects.workload_pods import replicas_of
from stowplan.objects.workloads import Deployment, RollingUpdate, UpdateStrategy


@dataclass(frozen=True, slots=True)
class Members:
    """A ReplicaSet of the Deployment, in numbers."""

    key: str
    wanted: int
    """Its `spec.replicas`."""
    pods: int
    ready: int
    available: int


@dataclass(frozen=True, slots=True)
class Limits:
    max_surge: int
    max_unavailable: int


def limits_of(deployment: Deployment) -> Limits:
    replicas = replicas_of(deployment)
    rolling = (deployment.spec.strategy or UpdateStrategy()).rolling_update or RollingUpdate()
    surge = scaled_value(
        rolling.max_surge if rolling.max_surge is not None else "25%",
        replicas,
        round_up=True,
        default=0,
    )
    unavailable = scaled_value(
        rolling.max_unavailable if rolling.max_unavailable is not None else "25%",
        replicas,
        round_up=False,
        default=0,
    )
    if not surge and not unavailable:
        # Nothing could ever move.
        unavailable = 1
    return Limits(surge, min(unavailable, replicas))


def is_recreated(deployment: Deployment) -> bool:
    strategy = deployment.spec.strategy
    return strategy is not None and strategy.type == "Recreate"


def new_size(replicas: int, limits: Limits, new: Members | None, old: list[Members]) -> int:
    """How many pods the new ReplicaSet should have now.

    >>> old = [Members("web-1", 10, 10, 10, 10)]
    >>> new_size(10, Limits(3, 2), None, old)
    3
    """
    has = new.wanted if new is not None else 0
    if has >= replicas:
        return replicas
    total = has + sum(one.wanted for one in old)
    room = replicas + limits.max_surge - total
    return has if room <= 0 else min(replicas, has + room)


def old_sizes(replicas: int, limits: Limits, new: Members, old: list[Members]) -> dict[str, int]:
    """How many pods each old ReplicaSet should have now: unhealthy ones go first."""
    sizes = {one.key: one.wanted for one in old}
    total = new.wanted + sum(sizes.values())
    min_available = replicas - limits.max_unavailable
    new_unavailable = new.wanted - new.available
    surplus = total - min_available - new_unavailable
    if surplus <= 0:
        return sizes
    available = {one.key: one.available for one in old}
    for one in old:
        unhealthy = max(0, sizes[one.key] - available[one.key])
        going = min(unhealthy, surplus)
        sizes[one.key] -= going
        surplus -= going
    spare = new.available + sum(available.values()) - min_available
    for one in old:
        going = max(0, min(sizes[one.key], spare))
        sizes[one.key] -= going
        spare -= going
    return sizes
