"""What a profile does for one kind of pod, worked out once: which plugins must be asked at all.

For most pods most plugins have nothing to say, and that is plain from the pod alone.  A plan
remembers it, so that an attempt only meets the plugins that matter to it.  Made by
`framework.planning`, kept on the `PodKind`.  Where no two pods are alike in size, plans differ in
their signature only: all else is an `Outline` that they share.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from msgspec import Struct

from stowplan.framework.errors import PluginFailed
from stowplan.framework.plugin import PreFilterResult
from stowplan.framework.status import Status

PreFilterAnswer = PreFilterResult | Status | None


@dataclass(frozen=True, slots=True)
class PreFilterStep:
    plugin: Any
    name: str
    known: PreFilterAnswer
    """A node-local plugin's answer, the same for every pod of this kind."""
    asks: bool
    """Whether the plugin must be asked each time."""
    skipped: frozenset[str]
    """What the plan skips, and this one: should it be the first to answer Skip when asked."""


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


class LocalFilter(NamedTuple):
    number: int
    """1 + position among the profile's Filter plugins."""
    name: str
    plugin: Any
    ask: Callable[..., Status | None]
    """The form for one node."""


class LocalScore(NamedTuple):
    name: str
    weight: int
    """0 when the scores are normalised first: they are no part of the kept sum."""
    plugin: Any
    ask: Callable[..., int]


class LocalPlugins(NamedTuple):
    """Node-local plugins whose answers are kept in one layer."""

    filters: tuple[LocalFilter, ...]
    scores: tuple[LocalScore, ...]


@dataclass(slots=True)
class Outline:
    """Who has what to say, for kinds of pods of which all plugins say the same."""

    skipped: frozenset[str]
    """Plugins whose PreFilter answers Skip for every pod of this kind."""
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
    tally: Tally
    score_error: PluginFailed | None
    """A node-local PreScore that fails: an error once there are nodes to score, not before."""
    latest: Plan | None = field(default=None, repr=False)
    """The plan made last: kinds that differ in nothing the plugins read have the same."""


class Quiet(Struct, eq=False):
    """No cluster-wide plugin has anything to say of pods with the same traits: all skip, steadily.

    Kept with the traits, because such plugins do not look at a pod's size.
    """

    context: int
    """What it rests on: the sum of the versions of all that such plugins may read."""
    outline: Outline
    """And for which pods it holds: those of which the other plugins say the same."""
    skipped: frozenset[str]
    """The cycle's `skip_filter`."""
    is_settled: bool = False
    """The PreScores skipped it too."""
    flat: dict[str, Any] | None = None
    """Set once node-local plugins alone decide: what those of them add that normalise, weighted,
    which is the same on every node."""
    constant: int = 0
    """The sum of that."""

    def note(self, normalized: dict[str, Any], constant: int) -> None:
        """A pod was scored, the same for every node by those plugins that normalise."""
        outline = self.outline
        # Raw scores that are 0 everywhere stay so while the nodes themselves stay as they are.
        if all(plugin.name in self.skipped for _, plugin in outline.cluster_filters) and all(
            is_node_only(plugin) for plugin in outline.normalized_scores
        ):
            self.flat, self.constant = normalized, constant


class Plan(Struct, frozen=True, eq=False):
    node_count: int
    """The plan is made anew when nodes come or go: their number may be part of a signature."""
    signature: tuple[Hashable, ...]
    """Of all node-local plugins; None where a plugin is not node-local for this kind."""
    node_signature: tuple[Hashable, ...]
    """Of those that read the node object alone."""
    data: dict[str, Any]
    """What node-local plugins wrote into the cycle: true for all pods of this kind."""
    outline: Outline


def is_node_only(plugin: Any) -> bool:
    """Whether the plugin reads the node object alone, never the pods on it."""
    return getattr(plugin, "node_only", False)


def is_sums_only(plugin: Any) -> bool:
    """Whether of the pods on a node the plugin reads only what they take up in sum."""
    return getattr(plugin, "sums_only", False)


def is_idle_if_skipped(plugin: Any) -> bool:
    """Whether Reserve and PreBind have nothing to do for a pod whose PreFilter was skipped."""
    return getattr(plugin, "idle_if_skipped", False)


def is_by_traits(plugin: Any) -> bool:
    """Whether the plugin's word about a pod is the same for all with the same `PodTraits`."""
    return getattr(plugin, "by_traits", False)


def normalizes(plugin: Any) -> bool:
    return hasattr(plugin, "normalize_scores")
