"""One scheduling attempt: what plugins remember between its extension points."""

from __future__ import annotations

from typing import Any

from stowplan.framework.handle import Handle
from stowplan.state.node_table import NodeTable


class Cycle:
    """Each plugin keeps its own state under its own name; a value with `clone` is copied by it."""

    __slots__ = ("activate", "data", "handle", "sampled", "skip_filter", "statuses")

    def __init__(self, handle: Handle) -> None:
        self.handle = handle
        self.data: dict[str, Any] = {}
        self.skip_filter: frozenset[str] = frozenset()
        """Plugins whose PreFilter answered Skip: their Filter, AddPod and RemovePod are off."""
        self.activate: list[Any] = []
        """Pods (PodInfo) a plugin wants in the active queue once this attempt has ended."""
        self.statuses: Any = None
        """The `Diagnosis` of a pod that fits nowhere, for PostFilter."""
        framework = handle.framework
        self.sampled = framework is not None and framework.recorder.sampled
        """Whether plugins are timed one by one, until the pod is bound."""

    @property
    def nodes(self) -> NodeTable:
        return self.handle.nodes

    def clone(self) -> Cycle:
        copy = Cycle(self.handle)
        copy.data = {
            name: value.clone() if hasattr(value, "clone") else value
            for name, value in self.data.items()
        }
        copy.skip_filter = self.skip_filter
        copy.statuses = self.statuses
        return copy
