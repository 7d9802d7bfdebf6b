"""The cluster's objects other than pods and nodes, as the informers last saw them.

Plugins look things up here by key.  A version per kind tells a plugin whether what it derived
from objects of that kind is still true.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import KIND_BY_STRUCT, Kind

Object = TypeVar("Object", bound=KubeObject)


class ObjectIndex:
    def __init__(self) -> None:
        self._by_kind: dict[Kind, dict[str, KubeObject]] = {}
        self._versions: dict[Kind, int] = {}

    def put(self, obj: KubeObject) -> None:
        kind = KIND_BY_STRUCT[type(obj)]
        self._by_kind.setdefault(kind, {})[obj.key] = obj
        self._versions[kind] = self._versions.get(kind, 0) + 1

    def remove(self, obj: KubeObject) -> None:
        kind = KIND_BY_STRUCT[type(obj)]
        if self._by_kind.get(kind, {}).pop(obj.key, None) is not None:
            self._versions[kind] = self._versions.get(kind, 0) + 1

    def get(self, struct: type[Object], key: str) -> Object | None:
        """By `namespace/name`, or the name of a cluster-scoped object."""
        return cast("Object | None", self._by_kind.get(KIND_BY_STRUCT[struct], {}).get(key))

    def all(self, struct: type[Object]) -> Mapping[str, Object]:
        return cast("Mapping[str, Object]", self._by_kind.get(KIND_BY_STRUCT[struct], {}))

    def version(self, struct: type[KubeObject]) -> int:
        """Grows with every change to objects of this kind."""
        return self._versions.get(KIND_BY_STRUCT[struct], 0)

    def kinds(self) -> dict[Kind, dict[str, Any]]:
        return dict(self._by_kind)
