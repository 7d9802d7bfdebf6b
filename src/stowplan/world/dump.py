"""A cluster filled from manifests and dumps of another one.

A dump shows one moment, and perhaps not everything.  What it shows stays as it is until something
about it changes: pods that run go on, those that are ending stay so, and workloads are left alone
but for the pods they lack, which `offline` has added.  Pods whose owners or nodes are not shown are
nobody's business.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from stowplan.objects.base import KubeObject, OwnerReference
from stowplan.objects.codec import split
from stowplan.objects.kinds import PERSISTENT_VOLUME
from stowplan.objects.manifests import Manifest
from stowplan.objects.pod import ENDED_PHASES, Pod
from stowplan.objects.storage import PersistentVolume
from stowplan.objects.times import parse_time
from stowplan.offline import build_cluster
from stowplan.world.engine import Engine
from stowplan.world.setup import Setup


def engine_of(setup: Setup, manifests: Iterable[Manifest]) -> Engine:
    """A cluster in which all this has been applied."""
    manifests = list(manifests)
    objects = _with_owner_uids(build_cluster(manifests))
    return filled(setup, objects, volume_rests(manifests))


def volume_rests(manifests: Iterable[Manifest]) -> dict[str, dict[str, Any] | None]:
    """Per volume what no struct holds, such as `local` and `hostPath`: without a source a volume
    is none, and could not be bound."""
    return {
        data["metadata"]["name"]: split(data, PersistentVolume)[1]
        for _, data in manifests
        if data.get("kind") == PERSISTENT_VOLUME.name
    }


def filled(
    setup: Setup,
    objects: list[KubeObject],
    rests: Mapping[str, dict[str, Any] | None] | None = None,
) -> Engine:
    """A cluster with all these objects; pending pods wait in the order they were created in.

    `rests` are of volumes, by name.
    """
    engine = Engine.new(setup, start_s=_moment_of(objects), is_copy=True)
    pending = [obj for obj in objects if _is_pending(obj)]
    pending.sort(key=_created_s)
    # The scheduler sees everything in the order of the input, which may decide between equals.
    engine.cluster.start_scheduler()
    engine.store.put_all(
        (obj, (rests or {}).get(obj.name) if isinstance(obj, PersistentVolume) else None)
        for obj in objects
        if not _is_pending(obj)
    )
    engine.cluster.start_workers()
    engine.store.put_all((obj, None) for obj in pending)
    engine.take_in()
    return engine


def _is_pending(obj: KubeObject) -> bool:
    return isinstance(obj, Pod) and not obj.spec.node_name and obj.status.phase not in ENDED_PHASES


def _created_s(obj: KubeObject) -> float:
    """A pod that does not say when it was created would be created now, after all others."""
    created = obj.metadata.creation_timestamp
    return parse_time(created) if created else math.inf


def _moment_of(objects: Iterable[KubeObject]) -> float:
    """The latest time that a pod speaks of: whatever has no time yet comes after it."""
    times = (
        text
        for obj in objects
        if isinstance(obj, Pod)
        for text in (obj.metadata.creation_timestamp, obj.status.start_time)
    )
    return max((parse_time(text) for text in times if text), default=0.0)


def _with_owner_uids(objects: list[KubeObject]) -> list[KubeObject]:
    """Who writes references by hand leaves out the uid, by which controllers know their own."""
    uids = {(type(obj).__name__, obj.namespace, obj.name): obj.uid for obj in objects}

    def complete(obj: KubeObject) -> KubeObject:
        owners = obj.metadata.owner_references
        if not owners or all(owner.uid for owner in owners):
            return obj
        found = [_with_uid(owner, uids, obj.namespace) for owner in owners]
        return replace(obj, metadata=replace(obj.metadata, owner_references=found))

    return [complete(obj) for obj in objects]


def _with_uid(
    owner: OwnerReference, uids: dict[tuple[str, str, str], str], namespace: str
) -> OwnerReference:
    if owner.uid:
        return owner
    uid = uids.get((owner.kind, namespace, owner.name)) or uids.get((owner.kind, "", owner.name))
    return owner if uid is None else replace(owner, uid=uid)
