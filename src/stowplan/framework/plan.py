"""What a profile does for one kind of pod, worked out once: which plugins must be asked at all.

For most pods most plugins have nothing to say, and that is plain from the pod alone.  A plan
remembers it, so that an attempt only meets the plugins that matter to it.  Made by
`framework.planning`, kept per kind of pod.  Where no two pods are alike in size, plans differ in
their signature only: all else is an `Outline` that they share.

What plugins said when asked (SKIP_STEADILY, SKIP_ALWAYS) makes plans shorter, in the end so short
that nobody but node-local plugins is left, whose answers are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from msgspec import Struct

from stowplan.framework.errors import PluginFailed
from stowplan.framework.plugin import PreFilterResult
from stowplan.framework.status import Status, Verdict

PreFilterAnswer = PreFilterResult | Status | None


@dataclass(frozen=True, slots=True)
class PreFilterStep:
    plugin: Any
    name: str
    known: PreFilterAnswer
    """A node-local plugin's answer, the same for every pod of this kind."""
    asks: bool
    """Whether the plugin must be asked each time."""


@dataclass(slots=True)
class PlanCounts:
    """Which plugins have a say under plans alike, and how often it came to that: for metrics."""

    pre_filters: tuple[str, ...]
    filters: tuple[str, ...]
    pre_scores: tuple[str, ...]
    scores: tuple[str, ...]
    pre_filtered: int = 0
    filtered: int = 0
    scored: int = 0


class LocalFilter(NamedTuple):
    number: int
    """1 + position among the profile's Filter plugins."""
    name: str
    ask_many: Callable[..., Verdict]
    ask: Callable[..., Status | None]
    """The form for one node."""


class LocalScore(NamedTuple):
    name: str
    weight: int
    """0 when the scores are normalised first: they are no part of the kept sum."""
    ask_many: Callable[..., Any]
    ask: Callable[..., int]


class LocalPlugins(NamedTuple):
    """Node-local plugins whose answers are kept in one layer."""

    filters: tuple[LocalFilter, ...]
    scores: tuple[LocalScore, ...]


@dataclass(slots=True)
class Outline:
    """Who has what to say, for kinds of pods of which all plugins say the same."""

    skipped: frozenset[str]
    """Plugins whose PreFilter is known to answer Skip: their Filter is out."""
    steps: tuple[PreFilterStep, ...]
    """PreFilters that have something to say, in order."""
    node_only: LocalPlugins
    """Those that read the node object alone."""
    node_local: LocalPlugins
    """Those that read the pods on the node too."""
    cluster_filters: tuple[tuple[int, Any], ...]
    """(1 + position among the profile's Filter plugins, plugin)"""
    plain_scores: tuple[tuple[str, int], ...]
    """Of the local ones, those that need no normalising: (name, weight)."""
    normalized_scores: tuple[Any, ...]
    """The other local ones."""
    cluster_scores: tuple[Any, ...]
    reserve: tuple[Any, ...]
    pre_bind: tuple[Any, ...]
    tally: PlanCounts
    score_error: PluginFailed | None
    """A node-local PreScore that fails: an error once there are nodes to score, not before."""
    flat: tuple[dict[str, Any], int] | None = None
    """What plugins that normalise add where all their raw scores are 0, weighted, and the sum."""
    latest: Plan | None = field(default=None, repr=False)
    """The plan made last: kinds that differ in nothing the plugins read have the same."""
    on_one_node: dict[frozenset[str], Any] = field(default_factory=dict, repr=False)
    """Per set of skipped plugins, who has a say about single nodes."""


class Plan(Struct, frozen=True, eq=False):
    node_count: int
    """The plan is made anew when nodes come or go: their number may be part of a signature."""
    context: int
    """It holds as long as nothing changes that a plugin which skips steadily may read; -1: for
    longer, nobody does."""
    signature: tuple[Hashable, ...]
    """Of all node-local plugins; None where a plugin is not node-local for this kind."""
    node_signature: tuple[Hashable, ...]
    """Of those that read the node object alone."""
    data: dict[str, Any]
    """What node-local plugins wrote into the cycle: true for all pods of this kind."""
    outline: Outline


def normalizes(plugin: Any) -> bool:
    return hasattr(plugin, "normalize_scores")
