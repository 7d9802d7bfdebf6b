"""Short ways to fill a store and to ask it."""

from __future__ import annotations

from typing import Any

from stowplan.apiserver.store import Store, view
from stowplan.clock import VirtualClock
from stowplan.cluster.port import ListOptions, ListResult, WatchEvent, WatchHandlers
from stowplan.errors import ApiError
from stowplan.objects.api import Bind, Create, Delete, Get, Patch, Update
from stowplan.objects.base import KubeObject, ObjectMeta
from stowplan.objects.kinds import NODE, POD, Kind
from stowplan.objects.node import Node
from stowplan.objects.pod import Container, Pod, PodSchedulingGate, PodSpec

START_S = 1_767_225_600.0
START = "2026-01-01T00:00:00Z"


def new_store(**options: Any) -> Store:
    return Store(VirtualClock(START_S), **options)


def pod_spec(**fields: Any) -> PodSpec:
    return PodSpec(containers=[Container(name="c", image="app:1")], **fields)


def make_pod(name: str = "p", *, namespace: str = "default", **spec: Any) -> Pod:
    labels = spec.pop("labels", None)
    meta = ObjectMeta(name=name, namespace=namespace, labels=labels)
    return Pod(metadata=meta, spec=pod_spec(**spec))


def pod_data(name: str = "p", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "app:1"}], **spec},
    }


def gate(name: str) -> PodSchedulingGate:
    return PodSchedulingGate(name=name)


def create(store: Store, kind: Kind, body: Any, namespace: str = "") -> Any:
    if kind.namespaced:
        namespace = namespace or "default"
    return store.execute(Create(kind, namespace, body))


def create_pod(store: Store, name: str = "p", **spec: Any) -> Pod:
    made = create(store, POD, make_pod(name, **spec))
    assert isinstance(made, Pod)
    return made


def create_node(store: Store, name: str = "n", **labels: str) -> None:
    create(store, NODE, Node(metadata=ObjectMeta(name=name, labels=labels or None)))


def get(store: Store, kind: Kind, name: str, namespace: str = "default") -> Any:
    return store.execute(Get(kind, namespace if kind.namespaced else "", name))


def get_pod(store: Store, name: str = "p") -> Pod:
    found = get(store, POD, name)
    assert isinstance(found, Pod)
    return found


def exists(store: Store, kind: Kind, name: str, namespace: str = "default") -> bool:
    return name in names(store, kind, namespace=namespace if kind.namespaced else "")


def data(store: Store, kind: Kind, name: str, namespace: str = "default") -> dict[str, Any]:
    return view(kind, *store.read(kind, namespace, name))


def bind(store: Store, name: str = "p", node: str = "n", uid: str = "") -> None:
    store.execute(Bind("default", name, uid, node))


def patch(
    store: Store,
    kind: Kind,
    name: str,
    body: Any,
    patch_type: str = "strategic",
    subresource: str = "",
) -> Any:
    namespace = "default" if kind.namespaced else ""
    return store.execute(Patch(kind, namespace, name, body, patch_type, subresource))


def update(store: Store, kind: Kind, name: str, body: Any, subresource: str = "") -> Any:
    namespace = "default" if kind.namespaced else ""
    return store.execute(Update(kind, namespace, name, body, subresource))


def delete(store: Store, kind: Kind, name: str, grace_s: int | None = None, uid: str = "") -> Any:
    namespace = "default" if kind.namespaced else ""
    return store.execute(Delete(kind, namespace, name, uid, grace_s))


def select(store: Store, kind: Kind, **options: str) -> list[KubeObject]:
    answers: list[ListResult | ApiError] = []
    store.list(kind, ListOptions(**options), answers.append)
    (answer,) = answers
    if isinstance(answer, ApiError):
        raise answer
    return answer.items


def names(store: Store, kind: Kind, **options: str) -> list[str]:
    return [thing.name for thing in select(store, kind, **options)]


class Log:
    """What a watch has seen."""

    def __init__(self, store: Store, kind: Kind = POD, version: str | None = None, **options: str):
        self.events: list[WatchEvent] = []
        self.batches: list[int] = []
        self.ended: list[ApiError | None] = []
        if version is None:
            version = store.resource_version
        handlers = WatchHandlers(self._heard, self.ended.append)
        self.watch = store.watch(kind, ListOptions(**options), version, handlers)

    def _heard(self, events: list[WatchEvent]) -> None:
        self.batches.append(len(events))
        self.events += events

    @property
    def story(self) -> list[tuple[str, str]]:
        return [(event.type, event.object.name) for event in self.events]
