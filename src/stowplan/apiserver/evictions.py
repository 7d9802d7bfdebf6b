"""Evictions, many at a time: who preempts patches the status of every victim and deletes it.

What `writes.Writer` does for one request is done here for all, and written at once.  That holds
for requests as schedulers send them, each about another pod that nobody depends on; where one is
special, or must be refused, nothing is written and all of them are left to `Writer`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from stowplan.apiserver.deletion import plan_deletion
from stowplan.apiserver.garbage import Garbage
from stowplan.apiserver.ledger import NOBODY, Ledger
from stowplan.apiserver.pod_writes import merge_status, status_patch
from stowplan.objects.api import Delete, Patch
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import POD
from stowplan.objects.pod import Pod, PodStatus

_NOTHING = (None, None)


def patch_statuses(requests: Sequence[Patch], ledger: Ledger) -> Sequence[KubeObject] | None:
    """Write them all, or nothing (None) where one of them must be looked at on its own."""
    if ledger.refusal is not None:
        return None
    table, version = ledger.tables[Pod], ledger.version
    pods = table.objects
    patched: dict[tuple[str, str], Pod] = {}
    changed: list[tuple[KubeObject | None, KubeObject]] = []
    merged: dict[int, tuple[dict[str, Any], PodStatus]] = {}
    for request in requests:
        namespace, name = request.namespace, request.name
        old: Any = pods.get(namespace, NOBODY).get(name)
        if old is None or request.kind is not POD:
            return None
        patch, before = status_patch(old, request), old.status
        if patch is None:
            return None
        last, after = merged.get(id(before), _NOTHING)
        if patch != last:
            # Pods that had one status and are told the same go on to have one.
            after = merge_status(before, patch)
            if after is None:
                return None
            merged[id(before)] = patch, after
        new = old
        if after != before:
            version += 1
            meta = replace(old.metadata, resource_version=f"{version}")
            new = replace(old, metadata=meta, status=after)
            changed.append((old, new))
        patched[namespace, name] = new
    if len(patched) < len(requests):
        return None
    ledger.write_all(table, "MODIFIED", changed)
    return [*patched.values()]


def delete_pods(
    requests: Sequence[Delete], ledger: Ledger, garbage: Garbage, now_s: float
) -> Sequence[KubeObject] | None:
    """Delete them all, or nothing (None) where one of them must be looked at on its own.

    Either all of them go at once, or all of them are given their time.
    """
    if ledger.refusal is not None:
        return None
    table, version = ledger.tables[Pod], ledger.version
    pods = table.objects
    deleted: dict[tuple[str, str], Pod] = {}
    changed: list[tuple[KubeObject | None, KubeObject]] = []
    ends: set[bool] = set()
    for request in requests:
        namespace, name = request.namespace, request.name
        old: Any = pods.get(namespace, NOBODY).get(name)
        if old is None or request.kind is not POD:
            return None
        before = old.metadata
        if (request.uid and request.uid != before.uid) or garbage.concerns(before):
            return None
        meta, gone = plan_deletion(old, request.grace_period_seconds, now_s)
        new = old
        if gone or meta is not before:
            version += 1
            new = replace(old, metadata=replace(meta, resource_version=f"{version}"))
            changed.append((old, new))
            ends.add(gone)
        deleted[namespace, name] = new
    if len(deleted) < len(requests) or len(ends) > 1:
        return None
    ledger.write_all(table, "DELETED" if ends == {True} else "MODIFIED", changed)
    return [*deleted.values()]
