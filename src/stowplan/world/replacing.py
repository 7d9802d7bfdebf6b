"""Objects into a cluster as if it had always had them: what a trial changes.

An API server lets few fields of a pod or a claim be changed.  A trial asks what would be if the
manifest said something else, so the object is completed as `offline` completes manifests, and takes
the place of the one that is there.  Called by `Cluster.put`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stowplan.apiserver.store import Store, view
from stowplan.cluster.port import ListOptions
from stowplan.errors import NotFound
from stowplan.objects.api import Delete
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import KIND_BY_NAME, POD, PRIORITY_CLASS, RUNTIME_CLASS, STORAGE_CLASS
from stowplan.objects.manifests import DEFAULT_NAMESPACE, Manifest
from stowplan.objects.pod import Pod
from stowplan.objects.storage import PersistentVolume
from stowplan.offline.admission import admit
from stowplan.offline.input_objects import InputObject, decode_all
from stowplan.world.dump import volume_rests

_CLASSES = (PRIORITY_CLASS, RUNTIME_CLASS, STORAGE_CLASS)
"""What admission looks up."""

Sources = dict[tuple[str, str], dict[str, Any]]
"""(kind, `namespace/name`) -> the object as its file has it."""


def put_all(store: Store, manifests: list[Manifest], sources: Sources) -> None:
    admitted = completed(store, manifests, sources)
    rests = volume_rests(manifests)
    for obj in admitted:
        if isinstance(obj, Pod) and _changes_group(store, obj):
            # Nobody watches for that, since no pod ever does it: it goes and comes.
            store.execute(Delete(POD, obj.namespace, obj.name))
    with store.batch():
        for obj in admitted:
            store.put(obj, rests.get(obj.name) if isinstance(obj, PersistentVolume) else None)


def _changes_group(store: Store, pod: Pod) -> bool:
    try:
        old, _ = store.read(POD, pod.namespace, pod.name)
    except NotFound:
        return False
    return isinstance(old, Pod) and old.spec.scheduling_group != pod.spec.scheduling_group


def completed(store: Store, manifests: list[Manifest], sources: Sources) -> list[KubeObject]:
    """The objects as this cluster would have them, beside what it has."""
    given = decode_all(manifests)
    own = {(type(entry.obj), entry.obj.key) for entry in given}
    classes = [
        entry for entry in _classes(store, sources) if (type(entry.obj), entry.obj.key) not in own
    ]
    return admit([*given, *classes])[: len(given)]


def _classes(store: Store, sources: Sources) -> Iterable[InputObject]:
    for kind in _CLASSES:
        items, _ = store.select(kind, ListOptions())
        for thing, rest in items:
            data = sources.get((kind.name, thing.key)) or view(kind, thing, rest)
            yield InputObject("the cluster", data, thing, is_new=False)


def sources_of(manifests: Iterable[Manifest]) -> Sources:
    """The objects that somebody may want to change: not nodes, which are large and many, and
    whose changes need no more than an API server shows; nor pods that run already."""
    kept: Sources = {}
    for _, data in manifests:
        kind, metadata = str(data.get("kind")), data.get("metadata")
        if kind == "Node" or not isinstance(metadata, dict):
            continue
        if kind == "Pod" and (data.get("spec") or {}).get("nodeName"):
            continue
        kept[kind, _key(data, metadata)] = data
    return kept


def _key(data: dict[str, Any], metadata: dict[str, Any]) -> str:
    known = KIND_BY_NAME.get((str(data.get("apiVersion")), str(data.get("kind"))))
    name = str(metadata.get("name"))
    if known is not None and not known.namespaced:
        return name
    return f"{metadata.get('namespace') or DEFAULT_NAMESPACE}/{name}"
