"""What a profile does for one kind of pod, worked out once: which plugins must be asked at all.

For most pods most plugins have nothing to say, and that is plain from the pod alone.  A plan
remembers it, so that an attempt only meets the plugins that matter to it.  Made by `Framework`,
kept on the `PodKind`.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from stowplan.framework.errors import PluginFailed
from stowplan.framework.plugin import PreFilterResult
from stowplan.framework.status import Status

PreFilterAnswer = PreFilterResult | Status | None


@dataclass(frozen=True, slots=True)
class PreFilterStep:
    plugin: Any
    name: str
    known: PreFilterAnswer = None
    """A node-local plugin's answer, the same for every pod of this kind."""
    asks: bool = True
    """Whether the plugin must be asked each time."""


@dataclass(slots=True)
class Tally:
    """Which plugins have a say under plans alike, and how often it came to that: for metrics."""

    pre_filters: tuple[str, ...]
    filters: tuple[str, ...]
    pre_scores: tuple[str, ...]
    scores: tuple[str, ...]
    pre_filtered: int = 0
    filtered: int = 0
    scored: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    node_count: int
    """The plan is made anew when nodes come or go: their number may be part of a signature."""
    signature: tuple[Hashable, ...]
    """Of all node-local plugins; None where a plugin is not node-local for this kind."""
    node_signature: tuple[Hashable, ...]
    """Of those that read the node object alone."""
    skipped: frozenset[str]
    """Plugins whose PreFilter answers Skip for every pod of this kind."""
    steps: tuple[PreFilterStep, ...]
    """PreFilters that have something to say, in order."""
    data: dict[str, Any]
    """What node-local plugins wrote into the cycle: true for all pods of this kind."""
    local_filters: tuple[tuple[int, Any], ...]
    """(1 + position among the profile's Filter plugins, plugin)"""
    cluster_filters: tuple[tuple[int, Any], ...]
    local_scores: tuple[Any, ...]
    plain_scores: tuple[tuple[str, int], ...]
    """Of the local ones, those that need no normalising: (name, weight)."""
    normalized_scores: tuple[Any, ...]
    """The other local ones."""
    cluster_scores: tuple[Any, ...]
    tally: Tally
    score_error: PluginFailed | None
    """A node-local PreScore that fails: an error once there are nodes to score, not before."""


def is_node_only(plugin: Any) -> bool:
    """Whether the plugin reads the node object alone, never the pods on it."""
    return getattr(plugin, "node_only", False)


def normalizes(plugin: Any) -> bool:
    return hasattr(plugin, "normalize_scores")
