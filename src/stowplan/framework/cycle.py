"""One scheduling attempt: what plugins remember between its extension points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from stowplan.framework.handle import Handle
from stowplan.state.node_table import NodeTable

DETAILS = "details"
"""Where `Cycle.data` has the function that makes the details of a decision: of all nodes, or
(`of_nodes=False`) without what takes long to put together for each."""

Details = dict[str, Callable[[], Any]]
"""The field's name in JSON -> a function that makes its value, called when somebody looks."""


class Cycle(Struct, eq=False):
    """Each plugin keeps its own state under its own name; a value with `clone` is copied by it."""

    handle: Handle
    nodes: NodeTable
    """Those of the handle."""
    plan: Any = None
    """The framework's `Plan` for this kind of pod, once PreFilter has begun."""
    data: dict[str, Any] = {}
    kept: dict[str, Any] = {}
    """`handle.kept` of this kind of pod, once PreFilter has begun."""
    skip_filter: frozenset[str] = frozenset()
    """Plugins whose PreFilter answered Skip: their Filter, AddPod and RemovePod are off."""
    context: int = -1
    """Set with the plan: another number whenever something changed that a plugin which skips
    steadily may read."""
    activate: list[Any] = []
    """Pods (PodInfo) a plugin wants in the active queue, should this attempt succeed."""
    statuses: Any = None
    """The `Diagnosis` of a pod that fits nowhere, for PostFilter."""
    sampled: bool = False
    """Whether plugins are timed one by one, from PreFilter until the pod is bound."""

    def details(self) -> Details | None:
        """What the decision is to show, of how things are now; None: no plugin has more to say."""
        make: Callable[..., Details] | None = self.data.get(DETAILS)
        return None if make is None else make()

    def clone(self) -> Cycle:
        copy = Cycle(self.handle, self.nodes)
        copy.data = {
            name: value.clone() if hasattr(value, "clone") else value
            for name, value in self.data.items()
        }
        copy.plan, copy.kept, copy.skip_filter = self.plan, self.kept, self.skip_filter
        copy.sampled, copy.statuses = self.sampled, self.statuses
        return copy
