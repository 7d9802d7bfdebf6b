"""Objects as they will be once our own writes have come back to us.

Between a decision and the watch event that shows it, the decision must hold for the next pod: a
volume given away is not free any more.  An assumption stands on one version of its object and
falls with it: when the cluster shows another, that one is the truth.  Mirrors kube-scheduler's
`util/assumecache`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from stowplan.objects.base import KubeObject
from stowplan.state.object_index import ObjectIndex

Object = TypeVar("Object", bound=KubeObject)

_SWEEP_MIN = 256


class Assumed(Generic[Object]):
    def __init__(self, objects: ObjectIndex, struct: type[Object]) -> None:
        self._objects = objects.all(struct)
        self._assumed: dict[str, tuple[Object, Object]] = {}
        """Key -> the object as the cluster showed it, and as it is assumed to become."""
        self._sweep_at = _SWEEP_MIN

    def get(self, key: str) -> Object | None:
        current = self._objects.get(key)
        entry = self._assumed.get(key) if self._assumed else None
        if entry is None:
            return current
        base, assumed = entry
        if current is not None and _same_version(current, base):
            return assumed
        del self._assumed[key]
        return current

    def assume(self, obj: Object) -> bool:
        """False when the cluster has moved on from the version that `obj` was made from."""
        base = self._objects.get(obj.key)
        if base is None or base.metadata.resource_version != obj.metadata.resource_version:
            return False
        self._assumed[obj.key] = (base, obj)
        if len(self._assumed) >= self._sweep_at:
            for key in list(self._assumed):
                self.get(key)
            self._sweep_at = 2 * len(self._assumed) + _SWEEP_MIN
        return True

    def forget(self, obj: Object) -> None:
        """Take back this assumption, unless another one has taken its place."""
        entry = self._assumed.get(obj.key)
        if entry is not None and entry[1] is obj:
            del self._assumed[obj.key]

    def __iter__(self) -> Iterator[Object]:
        """What is assumed and still stands."""
        for key in list(self._assumed):
            obj = self.get(key)
            if obj is not None and key in self._assumed:
                yield obj


def _same_version(current: KubeObject, base: KubeObject) -> bool:
    version = base.metadata.resource_version
    return current is base or (bool(version) and current.metadata.resource_version == version)
