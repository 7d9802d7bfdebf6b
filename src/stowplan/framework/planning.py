"""Makes plans: asks each plugin once what it has to say of a kind of pod, before any node.

Most plugins of a profile (`by_traits`) do not look at a pod's size.  What they say is asked for
once per `PodTraits`, so that where no two pods are alike in size only those are asked anew that
look at it.  `Framework.plan_of` calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
from msgspec import Struct

from stowplan.framework.cycle import Cycle
from stowplan.framework.errors import PluginFailed, describe, filter_failed, point_failed
from stowplan.framework.handle import Handle
from stowplan.framework.plan import (
    LocalFilter,
    LocalPlugins,
    LocalScore,
    Outline,
    Plan,
    PreFilterAnswer,
    PreFilterStep,
    Tally,
    is_by_traits,
    is_node_only,
    is_sums_only,
    normalizes,
)
from stowplan.framework.plugin import PluginSet
from stowplan.framework.status import Code, Rows, Status
from stowplan.state.pod_info import KeptPer, PodInfo

_Item = TypeVar("_Item")

Tallies = dict[tuple[tuple[str, ...], ...], Tally]

_OUTLINES_MAX = 64
"""Outlines remembered: few are needed, but a plugin may say something new of every kind."""

_NO_ROWS: Rows = np.zeros(0, np.intp)

_COMMON = "plans"
"""The key among what is kept per traits."""


class _Member(NamedTuple):
    """A plugin, and what it can be asked about a pod."""

    name: str
    plugin: Any
    signs: bool
    pre_filters: bool
    selects: bool
    scores: bool
    is_general: bool
    """Whether all pods with the same traits are one to it."""


class _Word(Struct, frozen=True, eq=False):
    """What a plugin says of a kind of pod."""

    is_local: bool
    skips: bool
    asks: bool
    scores: bool
    answer: PreFilterAnswer = None
    """What PreFilter of a node-local plugin said, other than "go on" and Skip."""
    error: PluginFailed | None = None


_usual = lru_cache(maxsize=None)(_Word)
"""A word without answer and error is the same object whoever says it: outlines go by that."""


class _Common(Struct, frozen=True, eq=False):
    """What the plugins that go by traits say, for all kinds with the same traits."""

    node_count: int
    signature: tuple[Hashable, ...]
    node_signature: tuple[Hashable, ...]
    data: dict[str, Any]
    words: tuple[_Word, ...]
    outlines: dict[tuple[_Word, ...], Outline]
    """By what the other plugins say; shared between all traits with these words."""


class Planner:
    def __init__(
        self,
        plugins: PluginSet,
        handle: Handle,
        tallies: Tallies,
        by_traits: KeptPer,
        pre_filter: Callable[[Cycle, PodInfo, Any], PreFilterAnswer],
        pre_score_says_go: Callable[[Cycle, PodInfo, str, Rows], bool],
    ) -> None:
        self._plugins = plugins
        self._handle = handle
        self._tallies = tallies
        self._by_traits = by_traits
        self._pre_filter = pre_filter
        self._pre_score_says_go = pre_score_says_go
        self._outlines: dict[tuple[_Word, ...], dict[tuple[_Word, ...], Outline]] = {}
        members = _members(plugins)
        if any(m.signs and not (is_node_only(m.plugin) or is_sums_only(m.plugin)) for m in members):
            handle.nodes.follows_pod_kinds = True
        self._general = tuple(m for m in members if m.is_general)
        self._others = tuple(m for m in members if not m.is_general)
        self._others_node_only = any(is_node_only(m.plugin) for m in self._others)

    def make(self, pod: PodInfo) -> Plan:
        common = self._common(pod)
        cycle = Cycle(self._handle)
        parts, words = self._ask(self._others, cycle, pod)
        outline = common.outlines.get(words)
        if outline is None:
            outline = self._outline(common, words)
        signature = (common.signature, *parts)
        latest = outline.latest
        if latest is not None and latest.signature == signature:
            return latest
        node_signature, data = common.node_signature, common.data
        if cycle.data:
            data = data | _written(cycle, self._others)
        if self._others_node_only:
            node_signature = (node_signature, *_node_parts(self._others, parts))
        plan = Plan(common.node_count, signature, node_signature, data, outline)
        outline.latest = plan
        return plan

    def _common(self, pod: PodInfo) -> _Common:
        kept = self._by_traits[pod.kind.traits.ref]
        found: _Common | None = kept.get(_COMMON)
        node_count = self._handle.nodes.node_count
        if found is None or found.node_count != node_count:
            general, cycle = self._general, Cycle(self._handle)
            parts, words = self._ask(general, cycle, pod)
            found = kept[_COMMON] = _Common(
                node_count,
                parts,
                _node_parts(general, parts),
                _written(cycle, general),
                words,
                _remembered(self._outlines, words, {}),
            )
        return found

    # -- asking -----------------------------------------------------------------------------

    def _ask(
        self, members: Iterable[_Member], cycle: Cycle, pod: PodInfo
    ) -> tuple[tuple[Hashable, ...], tuple[_Word, ...]]:
        """Per member its signature, and its word."""
        parts, words = [], []
        for member in members:
            part = None
            if member.signs:
                try:
                    part = member.plugin.signature(pod)
                except Exception as cause:
                    raise filter_failed(member.name, describe(cause)) from cause
            parts.append(part)
            is_local = part is not None
            words.append((self._local if is_local else self._cluster_wide)(member, cycle, pod))
        return tuple(parts), tuple(words)

    def _local(self, member: _Member, cycle: Cycle, pod: PodInfo) -> _Word:
        answer: PreFilterAnswer = None
        if member.pre_filters:
            answer = self._pre_filter(cycle, pod, member.plugin)
        skips = answer is not None and isinstance(answer, Status) and answer.code == Code.SKIP
        scores, error = False, None
        if member.scores:
            try:
                scores = self._pre_score_says_go(cycle, pod, member.name, _NO_ROWS)
            except PluginFailed as problem:
                error = problem
        if error is None and (answer is None or skips):
            return _usual(True, skips, False, scores)
        return _Word(True, skips, False, scores, answer, error)

    def _cluster_wide(self, member: _Member, cycle: Cycle, pod: PodInfo) -> _Word:
        plugin, asks, scores = member.plugin, member.pre_filters, member.scores
        if asks and member.selects:
            try:
                asks = bool(plugin.concerns(pod))
            except Exception as cause:
                raise point_failed(member.name, "PreFilter", describe(cause)) from cause
        if scores and hasattr(plugin, "concerns_score"):
            try:
                scores = bool(plugin.concerns_score(pod))
            except Exception as cause:
                raise point_failed(member.name, "PreScore", describe(cause)) from cause
        return _usual(False, member.pre_filters and not asks, asks, scores)

    # -- the outline ------------------------------------------------------------------------

    def _outline(self, common: _Common, words: tuple[_Word, ...]) -> Outline:
        """What follows from everybody's word; remembered."""
        members, everyone = (*self._general, *self._others), (*common.words, *words)
        said = {member.name: word for member, word in zip(members, everyone, strict=True)}
        return _remembered(common.outlines, words, self._draw(said))

    def _draw(self, words: dict[str, _Word]) -> Outline:
        plugins, weights = self._plugins, self._plugins.weights
        skipped = frozenset(name for name, word in words.items() if word.skips)
        steps = []
        for plugin in plugins.pre_filter:
            name = _name(plugin)
            word = words[name]
            if word.asks or (word.answer is not None and not word.skips):
                steps.append(PreFilterStep(plugin, name, word.answer, word.asks, skipped | {name}))
        filters = [(n, p) for n, p in enumerate(plugins.filter, 1) if p.name not in skipped]
        scorers = [p for p in plugins.score if words[p.name].scores]
        local_filters = [(n, p) for n, p in filters if words[p.name].is_local]
        local_scores = [p for p in scorers if words[p.name].is_local]
        cluster_scores = tuple(p for p in scorers if not words[p.name].is_local)
        errors = (words[p.name].error for p in plugins.score)
        return Outline(
            skipped,
            tuple(steps),
            _layer(local_filters, local_scores, weights, node_only=True),
            _layer(local_filters, local_scores, weights, node_only=False),
            tuple((n, p) for n, p in filters if not words[p.name].is_local),
            tuple((p.name, weights[p.name]) for p in local_scores if not normalizes(p)),
            tuple(p for p in local_scores if normalizes(p)),
            cluster_scores,
            self._tally(skipped, (*local_scores, *cluster_scores)),
            next((problem for problem in errors if problem is not None), None),
        )

    def _tally(self, skipped: frozenset[str], scores: tuple[Any, ...]) -> Tally:
        """One for all outlines that ask the same plugins; there are few such sets."""
        pre_filters = tuple(
            name for name in _names(self._plugins.pre_filter) if name not in skipped
        )
        filters = tuple(name for name in _names(self._plugins.filter) if name not in skipped)
        names = _names(scores)
        pre_scoring = _names(self._plugins.pre_score)
        pre_scores = tuple(name for name in names if name in pre_scoring)
        key = (pre_filters, filters, names)
        if key not in self._tallies:
            self._tallies[key] = Tally(pre_filters, filters, pre_scores, names)
        return self._tallies[key]


def _members(plugins: PluginSet) -> tuple[_Member, ...]:
    everyone = {_name(p): p for p in (*plugins.pre_filter, *plugins.filter, *plugins.score)}
    of_nodes, scoring = {*_names(plugins.filter), *_names(plugins.score)}, _names(plugins.score)
    pre_filtering = _names(plugins.pre_filter)
    members = []
    for name, plugin in everyone.items():
        signs = name in of_nodes and callable(getattr(plugin, "signature", None))
        selects = hasattr(plugin, "concerns")
        never_looks = not (signs or selects or hasattr(plugin, "concerns_score"))
        members.append(
            _Member(
                name,
                plugin,
                signs,
                name in pre_filtering,
                selects,
                name in scoring,
                never_looks or is_by_traits(plugin),
            )
        )
    return tuple(members)


def _layer(
    filters: list[tuple[int, Any]], scores: list[Any], weights: dict[str, int], *, node_only: bool
) -> LocalPlugins:
    return LocalPlugins(
        tuple(
            LocalFilter(number, plugin.name, plugin, plugin.filter_node)
            for number, plugin in filters
            if is_node_only(plugin) == node_only
        ),
        tuple(
            LocalScore(
                plugin.name,
                0 if normalizes(plugin) else weights[plugin.name],
                plugin,
                plugin.score_node,
            )
            for plugin in scores
            if is_node_only(plugin) == node_only
        ),
    )


def _remembered(
    known: dict[tuple[_Word, ...], _Item], words: tuple[_Word, ...], item: _Item
) -> _Item:
    if len(known) == _OUTLINES_MAX:
        known.clear()
    return known.setdefault(words, item)


def _node_parts(members: tuple[_Member, ...], parts: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
    return tuple(p for m, p in zip(members, parts, strict=True) if is_node_only(m.plugin))


def _written(cycle: Cycle, members: tuple[_Member, ...]) -> dict[str, Any]:
    return {m.name: cycle.data[m.name] for m in members if m.signs and m.name in cycle.data}


def _names(plugins: Iterable[Any]) -> tuple[str, ...]:
    return tuple(plugin.name for plugin in plugins)


def _name(plugin: Any) -> str:
    name: str = plugin.name
    return name
