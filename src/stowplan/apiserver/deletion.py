"""What DELETE means for an object: gone at once, or marked and gone later.

A pod on a node is given its grace period and stays until the kubelet deletes it with a period of
0; a pod on no node, and one that has ended, goes at once.  Anything with finalizers stays, marked,
until the last one is removed.  Pure; mirrors `rest.BeforeDelete` and the pod strategy's
`CheckGracefulDelete`.
"""

from __future__ import annotations

from functools import lru_cache

from msgspec.structs import replace

from stowplan.objects.base import KubeObject, ObjectMeta
from stowplan.objects.pod import ENDED_PHASES, Pod
from stowplan.objects.times import format_time, parse_time

Deletion = tuple[ObjectMeta, bool]
"""The metadata to store, or to show as the last state; and whether the object is gone."""


def plan_deletion(thing: KubeObject, grace_s: int | None, now_s: float) -> Deletion:
    meta = thing.metadata
    if meta.deletion_timestamp is not None:
        return _again(meta, grace_s)
    if isinstance(thing, Pod):
        period_s = _grace_period(thing, grace_s)
    elif meta.finalizers:
        period_s = 0
    else:
        return meta, True
    marked = replace(
        meta,
        deletion_timestamp=_stamp(int(now_s) + period_s),
        deletion_grace_period_seconds=period_s,
        # Its controllers have something to look at; kinds without generations keep none.
        generation=meta.generation + 1 if meta.generation else 0,
    )
    return marked, period_s == 0 and not meta.finalizers


@lru_cache(maxsize=4096)
def _stamp(second: int) -> str:
    """Whole seconds: victims of one moment share their text."""
    return format_time(second)


def may_go(meta: ObjectMeta) -> bool:
    """Whether a marked object has nothing left to wait for."""
    return (
        meta.deletion_timestamp is not None
        and not meta.finalizers
        and not meta.deletion_grace_period_seconds
    )


def _grace_period(pod: Pod, grace_s: int | None) -> int:
    if not pod.spec.node_name or pod.status.phase in ENDED_PHASES:
        return 0
    period_s = grace_s if grace_s is not None else pod.spec.termination_grace_period_seconds
    if period_s is None:
        return 0
    return period_s if period_s >= 0 else 1


def _again(meta: ObjectMeta, grace_s: int | None) -> Deletion:
    """A second DELETE may only shorten the period of the first."""
    assert meta.deletion_timestamp is not None, "only an object that was deleted before"
    period_s = meta.deletion_grace_period_seconds or 0
    if grace_s is None or grace_s >= period_s:
        return meta, may_go(meta)
    grace_s = max(grace_s, 0)
    shorter = replace(
        meta,
        deletion_timestamp=format_time(parse_time(meta.deletion_timestamp) - period_s + grace_s),
        deletion_grace_period_seconds=grace_s,
    )
    return shorter, grace_s == 0 and not meta.finalizers
