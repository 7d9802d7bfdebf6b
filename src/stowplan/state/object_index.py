"""The cluster's objects other than pods and nodes, as the informers last saw them.

Plugins look things up here by key.  A version per kind tells a plugin whether what it derived
from objects of that kind is still true, and `changed_since` what to look at again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, TypeVar, cast

from stowplan.objects.base import KubeObject
from stowplan.objects.devices import ResourceClaim

Object = TypeVar("Object", bound=KubeObject)
Derived = TypeVar("Derived")

_LOG_MAX = 4096
"""Changed keys remembered per kind; who is further behind has to look at everything."""

_OF_ONE_POD = frozenset({ResourceClaim})
"""Written for every pod that has one: what holds for all pods must not end with each of them."""

_NONE: Mapping[str, Any] = {}


class ObjectIndex:
    def __init__(self) -> None:
        self._by_struct: dict[type[KubeObject], dict[str, KubeObject]] = {}
        self._versions: dict[type[KubeObject], int] = {}
        self._logs: dict[type[KubeObject], deque[str]] = {}
        self.change_count = 0
        """Grows with every change to any object but those of single pods."""
        self._derived: dict[Callable[[ObjectIndex], Any], Any] = {}

    def fork(self) -> ObjectIndex:
        fork = ObjectIndex()
        fork._by_struct = {struct: objects.copy() for struct, objects in self._by_struct.items()}
        fork._versions = self._versions.copy()
        fork._logs = {struct: log.copy() for struct, log in self._logs.items()}
        fork.change_count = self.change_count
        return fork

    def derived(self, made_of_this: Callable[[ObjectIndex], Derived]) -> Derived:
        """What all profiles share, however often they are configured: made for the first to ask.

        A fork has none of it: there, nothing is under way.
        """
        found: Derived | None = self._derived.get(made_of_this)
        if found is None:
            found = self._derived[made_of_this] = made_of_this(self)
        return found

    def put(self, obj: KubeObject) -> None:
        struct, key = type(obj), obj.key
        self._by_struct.setdefault(struct, {})[key] = obj
        self._changed(struct, key)

    def remove(self, obj: KubeObject) -> None:
        struct, key = type(obj), obj.key
        if self._by_struct.get(struct, {}).pop(key, None) is not None:
            self._changed(struct, key)

    def _changed(self, struct: type[KubeObject], key: str) -> None:
        if struct not in self._logs:
            self._logs[struct] = deque(maxlen=_LOG_MAX)
        self._logs[struct].append(key)
        if struct not in _OF_ONE_POD:
            self.change_count += 1
        self._versions[struct] = self._versions.get(struct, 0) + 1

    def get(self, struct: type[Object], key: str) -> Object | None:
        """By `namespace/name`, or the name of a cluster-scoped object."""
        found: Any = self._by_struct.get(struct, _NONE).get(key)
        return found  # type: ignore[no-any-return]

    def all(self, struct: type[Object]) -> Mapping[str, Object]:
        """By key.  It follows what comes and goes, so that one may hold on to it."""
        return cast("Mapping[str, Object]", self._by_struct.setdefault(struct, {}))

    def version(self, struct: type[KubeObject]) -> int:
        """Grows by one with every change to an object of this kind."""
        return self._versions.get(struct, 0)

    def changed_since(self, struct: type[KubeObject], version: int) -> list[str] | None:
        """Keys of objects put or removed after `version`; None when that is too long ago to say."""
        count = self._versions.get(struct, 0) - version
        if count <= 0:
            return []
        log = self._logs[struct]
        return None if count > len(log) else list(islice(reversed(log), count))
