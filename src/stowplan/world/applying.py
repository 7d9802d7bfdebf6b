"""Objects into the store, as `kubectl apply` does it: new ones are created, others changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from itertools import groupby
from operator import itemgetter
from typing import Any

from stowplan.apiserver.store import Store, view
from stowplan.apiserver.stored_kinds import STORED_KIND_BY_NAME, STORED_KINDS
from stowplan.cluster.port import ListOptions
from stowplan.errors import ApiError, InputError
from stowplan.objects.api import Create, Delete, Patch, Request
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import (
    KIND_BY_NAME,
    NAMESPACE,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    PRIORITY_CLASS,
    RUNTIME_CLASS,
    STORAGE_CLASS,
    Kind,
)
from stowplan.objects.manifests import DEFAULT_NAMESPACE, Manifest, decode, describe
from stowplan.objects.pod import Pod
from stowplan.objects.storage import PersistentVolume
from stowplan.offline.admission import admit
from stowplan.offline.input_objects import InputObject, decode_all, refuse_misspelled
from stowplan.world.dump import volume_rests

_FIRST = {
    kind: place
    for place, kind in enumerate(
        (NAMESPACE, PRIORITY_CLASS, STORAGE_CLASS, NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM)
    )
}
"""What others refer to is created before them."""

_SERVER_SET = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
    "selfLink",
)
"""Fields of `metadata` that an API server fills in: a dump has them."""

_BY_NAME = {kind.name.lower(): kind for kind in reversed(STORED_KINDS)}
_BY_NAME |= {kind.plural: kind for kind in reversed(STORED_KINDS)}


def kind_named(name: str) -> Kind:
    """`Deployment`, `deployment` or `deployments`."""
    found = _BY_NAME.get(name.lower())
    if found is None:
        near = get_close_matches(name.lower(), _BY_NAME, n=1)
        hint = f"did you mean {_BY_NAME[near[0]].name!r}?" if near else ""
        raise InputError(f"there is no kind {name!r}", hint=hint)
    return found


def apply_all(store: Store, manifests: list[Manifest]) -> list[str]:
    """Check everything, then apply it; kinds that the cluster does not serve are left out."""
    checked: list[tuple[Kind, str, dict[str, Any]]] = []
    for where, data in manifests:
        refuse_misspelled(data, where)
        decode(data, where)
        kind = STORED_KIND_BY_NAME.get((str(data["apiVersion"]), str(data["kind"])))
        if kind is not None and store.serves(kind):
            checked.append((kind, where, data))
    checked.sort(key=lambda entry: _FIRST.get(entry[0], len(_FIRST)))
    with store.batch():
        for kind, alike in groupby(checked, key=itemgetter(0)):
            _apply(store, kind, ((where, data) for _, where, data in alike))
    return [describe(data) for _, _, data in checked]


def _apply(store: Store, kind: Kind, manifests: Iterable[Manifest]) -> None:
    """Objects of one kind; new ones that come one after the other are created together."""
    new: dict[tuple[str, str], tuple[str, Create]] = {}
    for where, data in manifests:
        metadata = {key: text for key, text in data["metadata"].items() if key not in _SERVER_SET}
        namespace = (metadata.get("namespace") or DEFAULT_NAMESPACE) if kind.namespaced else ""
        name, body = metadata["name"], {**data, "metadata": metadata}
        is_twice = (namespace, name) in new
        if not is_twice and not _is_there(store, kind, namespace, name):
            new[namespace, name] = where, Create(kind, namespace, body)
            continue
        _execute(store, new.values())
        new = {}
        if kind is not NODE:
            body.pop("status", None)
        _execute(store, [(where, Patch(kind, namespace, name, body))])
    _execute(store, new.values())


def _execute(store: Store, requests: Collection[tuple[str, Request]]) -> None:
    """Requests of one type, each from a place; the first one that is refused is raised."""
    answers = store.execute_all([request for _, request in requests])
    for (where, _), answer in zip(requests, answers, strict=True):
        if isinstance(answer, ApiError):
            answer.where = answer.where or where
            raise answer


def _is_there(store: Store, kind: Kind, namespace: str, name: str) -> bool:
    try:
        store.read(kind, namespace, name)
    except ApiError:
        return False
    return True


# -- objects put in the place of others, as if they had always been there ---------------------
# An API server lets few fields of a pod or a claim be changed.  A trial asks what would be if the
# manifest said something else, so the object is completed as `offline` completes manifests, and
# takes the place of the one that is there.


_CLASSES = (PRIORITY_CLASS, RUNTIME_CLASS, STORAGE_CLASS)
"""What admission looks up."""

Sources = dict[tuple[str, str], dict[str, Any]]
"""(kind, `namespace/name`) -> the object as its file has it."""


def put_all(store: Store, manifests: list[Manifest], sources: Sources) -> None:
    admitted = completed(store, manifests, sources)
    rests = volume_rests(manifests)
    with store.batch():
        for obj in admitted:
            if isinstance(obj, Pod) and _is_another(store, obj):
                store.execute(Delete(POD, obj.namespace, obj.name, grace_period_seconds=0))
            store.put(obj, rests.get(obj.name) if isinstance(obj, PersistentVolume) else None)


def _is_another(store: Store, pod: Pod) -> bool:
    """Whether it has the identity of one that is there, but cannot have become of it: a pod never
    leaves its group or its node."""
    try:
        there, _ = store.read(POD, pod.namespace, pod.name)
    except ApiError:
        return False
    assert isinstance(there, Pod), there
    is_elsewhere = there.spec.node_name not in ("", pod.spec.node_name)
    is_apart = there.spec.scheduling_group != pod.spec.scheduling_group
    return there.uid == pod.uid and (is_elsewhere or is_apart)


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
