"""`kubectl drain` without kubectl: evict the pods of a node, while budgets allow it."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable

from stowplan.apiserver.store import Store
from stowplan.errors import ApiError, TooManyRequests
from stowplan.objects.pod import ENDED_PHASES, Pod

_MIRROR = "kubernetes.io/config.mirror"


def evict_all(
    store: Store, pods: Callable[[], Iterable[Pod]], run: Callable[[], None]
) -> dict[str, str]:
    """Evict these pods until none is left or no eviction succeeds; who stays, and why.

    An eviction that a budget forbids is tried again after `run`: others may have new places then.
    """
    # The HTTP library takes longer to import than all the rest: only who drains nodes needs it.
    from stowplan.apiserver.http.subresources import evict

    while True:
        blocked: dict[str, str] = {}
        evicted = False
        for pod in pods():
            body = {"metadata": {"name": pod.name}}
            try:
                evict(store, pod.namespace, pod.name, body, dry_run=False)
                evicted = True
            except TooManyRequests as error:
                blocked[pod.key] = error.message
            except ApiError as error:
                if error.code != 429:
                    raise
                blocked[pod.key] = error.message
        run()
        if not blocked or not evicted:
            return blocked


def moved_by_drain(pods: Iterable[Pod], node: str, only: Container[str] | None = None) -> list[Pod]:
    """The pods that a drain of this node moves away; those of DaemonSets stay."""
    return [
        pod
        for pod in pods
        if pod.spec.node_name == node
        and (only is None or pod.key in only)
        and pod.metadata.deletion_timestamp is None
        and pod.status.phase not in ENDED_PHASES
        and _MIRROR not in (pod.metadata.annotations or {})
        and not any(o.kind == "DaemonSet" for o in pod.metadata.owner_references or ())
    ]
