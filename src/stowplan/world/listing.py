"""Objects of a cluster as a list that shows itself as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar, overload

from stowplan.errors import InputError
from stowplan.objects.base import KubeObject
from stowplan.objects.coordination import Event
from stowplan.objects.node import Node, Taint
from stowplan.world.nodes import ZONE
from stowplan.world.table import Table, text_column

Thing = TypeVar("Thing", bound=KubeObject)

Cells = Mapping[str, Callable[[Any], Any]]
"""Column -> how to read it from an object."""


class Listing(Sequence[Thing], Generic[Thing]):
    """Kubernetes objects, in order of their keys.

    `listing[0]` by position, `listing["default/web-1"]` by key, `listing.keys` all keys,
    `listing.table` the columns that people look at first.
    """

    __slots__ = ("_cells", "_things")

    def __init__(self, things: Sequence[Thing], cells: Cells) -> None:
        self._things = list(things)
        self._cells = cells

    @property
    def keys(self) -> list[str]:
        return [thing.key for thing in self._things]

    @property
    def table(self) -> Table:
        columns = {
            name: text_column([read(thing) for thing in self._things])
            for name, read in self._cells.items()
        }
        return Table("key", self.keys, columns)

    def to_pandas(self) -> Any:
        return self.table.to_pandas()

    def to_polars(self) -> Any:
        return self.table.to_polars()

    def __len__(self) -> int:
        return len(self._things)

    def __iter__(self) -> Iterator[Thing]:
        return iter(self._things)

    @overload
    def __getitem__(self, key: int | str) -> Thing: ...

    @overload
    def __getitem__(self, key: slice) -> list[Thing]: ...

    def __getitem__(self, key: int | str | slice) -> Thing | list[Thing]:
        if isinstance(key, str):
            found = next((thing for thing in self._things if thing.key == key), None)
            if found is None:
                raise InputError(f"there is no {key!r} here")
            return found
        return self._things[key]

    def __contains__(self, key: object) -> bool:
        if isinstance(key, str):
            return any(thing.key == key for thing in self._things)
        return key in self._things

    def __repr__(self) -> str:
        return repr(self.table) if self._things else "(none)"

    def _repr_html_(self) -> str:
        return self.table._repr_html_() if self._things else "<p>(none)</p>"


def regarding(event: Event) -> str:
    """The key of what an event is about."""
    about = event.regarding
    if about is None:
        return ""
    return f"{about.namespace}/{about.name}" if about.namespace else about.name


def node_cells(pods: Mapping[str, int]) -> Cells:
    """`pods` is how many run on each node."""
    return {
        "zone": lambda node: (node.metadata.labels or {}).get(ZONE, ""),
        "cpu": lambda node: _amount(node, "cpu"),
        "memory": lambda node: _amount(node, "memory"),
        "pods": lambda node: pods.get(node.name, 0),
        "cordoned": lambda node: node.spec.unschedulable,
        "taints": lambda node: tuple(map(_taint_text, node.spec.taints or ())),
    }


def _amount(node: Node, resource: str) -> str:
    return str((node.status.allocatable or {}).get(resource, ""))


def _taint_text(taint: Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


POD_CELLS: Cells = {
    "node": lambda pod: pod.spec.node_name,
    "phase": lambda pod: pod.status.phase or "Pending",
    "priority": lambda pod: pod.spec.priority or 0,
}

EVENT_CELLS: Cells = {
    "time": lambda event: event.event_time or "",
    "type": lambda event: event.type,
    "reason": lambda event: event.reason,
    "object": regarding,
    "note": lambda event: event.note,
}
