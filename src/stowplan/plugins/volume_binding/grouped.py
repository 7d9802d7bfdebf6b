"""Objects of one kind sorted into groups, such as free volumes by class.

Follows the index by looking at changed objects only.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from stowplan.objects.base import KubeObject
from stowplan.state.object_index import ObjectIndex


class Ordered(Protocol):
    @property
    def order(self) -> Any: ...


Object = TypeVar("Object", bound=KubeObject)
Item = TypeVar("Item", bound=Ordered)


class Grouped(Generic[Object, Item]):
    def __init__(
        self,
        objects: ObjectIndex,
        struct: type[Object],
        sort: Callable[[Object], tuple[Hashable, Item] | None],
    ) -> None:
        self._objects = objects
        self._struct = struct
        self._sort = sort
        """Object -> its group and what to keep of it there; None: belongs to none."""
        self._seen = 0
        self._group_of: dict[str, Hashable] = {}
        self._groups: dict[Hashable, dict[str, Item]] = {}
        self._ordered: dict[Hashable, list[Item]] = {}

    def in_order(self, group: Hashable) -> Sequence[Item]:
        """The items of a group by their `order`."""
        self._refresh()
        items = self._groups.get(group)
        if items is None:
            return ()
        found = self._ordered.get(group)
        if found is None:
            found = sorted(items.values(), key=lambda item: item.order)
            self._ordered[group] = found
        return found

    def _refresh(self) -> None:
        version = self._objects.version(self._struct)
        if version == self._seen:
            return
        keys = self._objects.changed_since(self._struct, self._seen)
        self._seen = version
        if keys is None:
            keys = [*self._group_of, *self._objects.all(self._struct)]
        for key in keys:
            self._drop(key)
            obj = self._objects.get(self._struct, key)
            sorted_into = self._sort(obj) if obj is not None else None
            if sorted_into is not None:
                group, item = sorted_into
                self._group_of[key] = group
                self._groups.setdefault(group, {})[key] = item
                self._ordered.pop(group, None)

    def _drop(self, key: str) -> None:
        group = self._group_of.pop(key, None)
        if group is not None:
            items = self._groups[group]
            del items[key]
            self._ordered.pop(group, None)
            if not items:
                del self._groups[group]
