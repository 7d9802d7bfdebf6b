"""Decision: the outcome of one scheduling attempt, and how to show it.

A brief decision (the node, its score, or why there is none) is cheap and always made.  What every
plugin said about every node is its `explanation`, made for whoever asks (`core.explanation`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

from stowplan.core.explanation import Explanation
from stowplan.core.group_outcome import GroupOutcome


class Decision(Struct, gc=False):
    pod: str
    """namespace/name"""
    node: str = ""
    """Where it goes; empty when no node was found."""
    score: int | None = None
    """The winner's total; None where there was nothing to compare."""
    node_count: int = 0
    feasible_count: int = 0
    evaluated_count: int = 0
    message: str = ""
    """Why no node was found, without PostFilter's part."""
    pre_filter_message: str = ""
    post_filter_message: str = ""
    reasons: dict[str, int] = field(default_factory=dict)
    """Reason -> number of nodes, for a pod that fits nowhere."""
    unschedulable_plugins: tuple[str, ...] = ()
    nominated_node: str = ""
    victims: tuple[str, ...] = ()
    error: str = ""
    """A plugin, an extender or the scheduler itself failed."""
    gated: bool = False
    """Kept out of the queue (by `unschedulable_plugins`), so no node was looked at."""
    group: GroupOutcome | None = None
    """Of a member that was decided on with the others of its group."""
    details: dict[str, Callable[[], Any]] | None = None
    """What plugins want shown: the field's name in JSON -> what makes its value."""
    explanation: Explanation | None = None
    """What every plugin said about every node, if somebody wanted to know."""

    @property
    def full_message(self) -> str:
        if self.error:
            return self.error
        parts = (self.message, self.post_filter_message)
        return " ".join(part for part in parts if part)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: plain data, fields that do not apply left out."""
        explained = self.explanation.to_dict() if self.explanation is not None else {}
        data: dict[str, Any] = {
            "pod": self.pod,
            "feasible": explained.get("feasible", []),
            "rejected": explained.get("rejected", {}),
            "unschedulablePlugins": sorted(self.unschedulable_plugins),
        }
        optional: dict[str, Any] = {
            "preFilterMessage": self.pre_filter_message,
            "scores": explained.get("scores"),
            "totals": explained.get("totals"),
            "chosen": self.node,
            "message": self.message or self.error,
            "nominatedNode": self.nominated_node,
            "victims": list(self.victims),
            "postFilterMessage": self.post_filter_message,
            "group": None if self.group is None else self.group.to_dict(),
        }
        for name, make in (self.details or {}).items():
            optional[name] = make()
        data.update({name: value for name, value in optional.items() if value})
        return data
