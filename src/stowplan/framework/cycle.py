"""One scheduling attempt: what plugins remember between its extension points."""

from __future__ import annotations

from typing import Any

from stowplan.framework.handle import Handle
from stowplan.state.node_table import NodeTable

DETAILS = "details"
"""Where `Cycle.data` has what the decision is to show: the field's name in JSON -> a function that
makes its value, called when somebody looks."""

_NOBODY: frozenset[str] = frozenset()


class Cycle:
    """Each plugin keeps its own state under its own name; a value with `clone` is copied by it."""

    __slots__ = (
        "activate",
        "context",
        "data",
        "handle",
        "kept",
        "nodes",
        "plan",
        "sampled",
        "skip_filter",
        "statuses",
    )

    def __init__(self, handle: Handle) -> None:
        self.handle = handle
        self.nodes: NodeTable = handle.nodes
        self.plan: Any = None
        """The framework's `Plan` for this kind of pod, once PreFilter has begun."""
        self.data: dict[str, Any] = {}
        self.kept: dict[str, Any] = {}
        """`handle.kept` of this kind of pod, once PreFilter has begun."""
        self.skip_filter = _NOBODY
        """Plugins whose PreFilter answered Skip: their Filter, AddPod and RemovePod are off."""
        self.context: int
        """Set with the plan: another number whenever something changed that a plugin which skips
        steadily may read."""
        self.activate: list[Any] = []
        """Pods (PodInfo) a plugin wants in the active queue, should this attempt succeed."""
        self.statuses: Any = None
        """The `Diagnosis` of a pod that fits nowhere, for PostFilter."""
        self.sampled = False
        """Whether plugins are timed one by one, from PreFilter until the pod is bound."""

    def clone(self) -> Cycle:
        copy = Cycle(self.handle)
        copy.data = {
            name: value.clone() if hasattr(value, "clone") else value
            for name, value in self.data.items()
        }
        copy.plan, copy.kept, copy.skip_filter = self.plan, self.kept, self.skip_filter
        copy.sampled, copy.statuses = self.sampled, self.statuses
        return copy
