"""Objects into the store, as `kubectl apply` does it: new ones are created, others changed."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from stowplan.apiserver.store import Store
from stowplan.apiserver.stored_kinds import STORED_KIND_BY_NAME, STORED_KINDS
from stowplan.errors import ApiError, InputError
from stowplan.objects.api import Create, Patch
from stowplan.objects.kinds import (
    NAMESPACE,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    PRIORITY_CLASS,
    STORAGE_CLASS,
    Kind,
)
from stowplan.objects.manifests import DEFAULT_NAMESPACE, Manifest, decode, describe
from stowplan.offline.input_objects import refuse_misspelled

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
        for kind, where, data in checked:
            try:
                _apply(store, kind, data)
            except ApiError as error:
                error.where = error.where or where
                raise
    return [describe(data) for _, _, data in checked]


def _apply(store: Store, kind: Kind, data: dict[str, Any]) -> None:
    metadata = {key: text for key, text in data["metadata"].items() if key not in _SERVER_SET}
    namespace = (metadata.get("namespace") or DEFAULT_NAMESPACE) if kind.namespaced else ""
    body = {**data, "metadata": metadata}
    if _is_there(store, kind, namespace, metadata["name"]):
        if kind is not NODE:
            body.pop("status", None)
        store.execute(Patch(kind, namespace, metadata["name"], body))
    else:
        store.execute(Create(kind, namespace, body))


def _is_there(store: Store, kind: Kind, namespace: str, name: str) -> bool:
    try:
        store.read(kind, namespace, name)
    except ApiError:
        return False
    return True
