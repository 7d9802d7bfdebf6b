"""Which pods belong together when a pod does not say so: those of its Services and its owner.

The selector is worked out once per kind of pod and looked at again when a Service changed or the
owner's selector did; a ReplicaSet's status changes all the time and costs nothing.  Mirrors
kube-scheduler's `plugins/helper/spread.go`, function `DefaultSelector`.
"""

from __future__ import annotations

from collections.abc import Iterable

from stowplan.objects.base import LabelSelector
from stowplan.objects.labels import (
    Selector,
    SelectorError,
    compile_selector,
    selector_from_map,
)
from stowplan.objects.workloads import ReplicaSet, ReplicationController, Service, StatefulSet
from stowplan.state.object_index import ObjectIndex
from stowplan.state.pod_info import KeptPer, PodKind

_Labels = dict[str, str]
_OwnerSelector = LabelSelector | _Labels | None

_OWNERS: dict[tuple[str, str], type[ReplicationController | ReplicaSet | StatefulSet]] = {
    ("v1", "ReplicationController"): ReplicationController,
    ("apps/v1", "ReplicaSet"): ReplicaSet,
    ("apps/v1", "StatefulSet"): StatefulSet,
}

_KEPT = "default selector"


class DefaultSelectors:
    def __init__(self, objects: ObjectIndex, kept: KeptPer) -> None:
        self._objects = objects
        self._kept = kept
        self._services = _ServiceIndex(objects)

    def of(self, kind: PodKind) -> Selector:
        """Matches everything where neither a Service nor an owner selects the pod.

        As long as nothing changed, the very same object.
        """
        version = self._objects.version(Service)
        owner = self._owner_selector(kind)
        kept = self._kept[kind.ref]
        known: tuple[int, _OwnerSelector, Selector] | None = kept.get(_KEPT)
        if known is not None and known[0] == version and known[1] == owner:
            return known[2]
        selector = _combined(self._services.selectors_of(kind), owner)
        if known is not None and known[2] == selector:
            selector = known[2]
        kept[_KEPT] = (version, owner, selector)
        return selector

    def _owner_selector(self, kind: PodKind) -> _OwnerSelector:
        owners = kind.pod.metadata.owner_references
        if not owners:
            return None
        controller = kind.pod.metadata.controller()
        if controller is None:
            return None
        struct = _OWNERS.get((controller.api_version, controller.kind))
        if struct is None:
            return None
        owner = self._objects.get(struct, f"{kind.namespace}/{controller.name}")
        return None if owner is None else owner.spec.selector


def _combined(services: _Labels, owner: _OwnerSelector) -> Selector:
    if isinstance(owner, dict):
        # A ReplicationController's map is merged into the Services', one value per key.
        return selector_from_map({**services, **owner})
    selector = selector_from_map(services)
    if owner is None:
        return selector
    try:
        return selector.and_also(*compile_selector(owner).requirements)
    except SelectorError:
        return selector


class _ServiceIndex:
    """Services by namespace and by one of the labels that they ask for."""

    def __init__(self, objects: ObjectIndex) -> None:
        self._objects = objects
        self._seen = 0
        self._selectors: dict[str, tuple[str, _Labels]] = {}
        """Service key -> its namespace and selector."""
        self._buckets: dict[tuple[str, str, str], dict[str, _Labels]] = {}

    def selectors_of(self, kind: PodKind) -> _Labels:
        """The selectors of all Services that select the pod, merged."""
        self._catch_up()
        merged: _Labels = {}
        namespace, labels = kind.namespace, kind.labels
        places: Iterable[tuple[str, str, str]] = self._buckets
        if len(labels) < len(self._buckets):
            places = [(namespace, *pair) for pair in labels.items()]
        for place in places:
            for selector in self._buckets.get(place, {}).values() if place[0] == namespace else ():
                if selector.items() <= labels.items():
                    merged.update(selector)
        return merged

    def _catch_up(self) -> None:
        version = self._objects.version(Service)
        if version == self._seen:
            return
        changed = self._objects.changed_since(Service, self._seen)
        if changed is None:
            self._selectors.clear()
            self._buckets.clear()
            changed = list(self._objects.all(Service))
        for key in changed:
            self._put(key, self._objects.get(Service, key))
        self._seen = version

    def _put(self, key: str, service: Service | None) -> None:
        known = self._selectors.pop(key, None)
        if known is not None:
            bucket = self._buckets[_place(*known)]
            del bucket[key]
            if not bucket:
                del self._buckets[_place(*known)]
        # A Service without a selector selects nothing, one with an empty selector adds nothing.
        if service is not None and service.spec.selector:
            namespace, selector = service.metadata.namespace, service.spec.selector
            self._selectors[key] = namespace, selector
            self._buckets.setdefault(_place(namespace, selector), {})[key] = selector


def _place(namespace: str, selector: _Labels) -> tuple[str, str, str]:
    key, value = min(selector.items())
    return namespace, key, value
