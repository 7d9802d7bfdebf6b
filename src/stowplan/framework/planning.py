"""Makes plans: asks each plugin once what it has to say of a kind of pod, before any node.

Most plugins of a profile do not read a pod's size.  What they say is asked for once per
`PodTraits`, so that where no two pods are alike in size only those are asked anew that read it.
What cluster-wide plugins say when they are asked, `Known` remembers.  `Framework` calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
from msgspec import Struct

from stowplan.framework.cycle import Cycle
from stowplan.framework.errors import PluginFailed, describe, filter_failed
from stowplan.framework.handle import Handle
from stowplan.framework.one_by_one import filter_of_many, score_of_many
from stowplan.framework.plan import (
    LocalFilter,
    LocalPlugins,
    LocalScore,
    Outline,
    Plan,
    PlanCounts,
    PreFilterAnswer,
    PreFilterStep,
    normalizes,
)
from stowplan.framework.plugin import ProfilePlugins
from stowplan.framework.reads import (
    Reads,
    is_by_traits,
    is_node_local,
    is_node_only,
    reads_of,
    skips_by_traits,
)
from stowplan.framework.status import SKIP_ALWAYS, Code, Rows, Status
from stowplan.state.pod_info import KeptPer, PodInfo

_Key = TypeVar("_Key")
_Item = TypeVar("_Item")

Tallies = dict[tuple[tuple[str, ...], ...], PlanCounts]

_OUTLINES_MAX = 64
"""Outlines remembered: few are needed, but a plugin may say something new of every kind."""

_NO_ROWS: Rows = np.zeros(0, np.intp)

_NOBODY: frozenset[str] = frozenset()

_KNOWN = "known"
"""The key among what is kept per traits."""


class _Member(NamedTuple):
    """A plugin, and what it can be asked about a pod."""

    name: str
    plugin: Any
    signature: Callable[[PodInfo], Hashable] | None
    """None: it is not node-local, whatever the pod."""
    pre_filters: bool
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


_Skips = tuple[frozenset[str], frozenset[str], frozenset[str]]
"""Plugins that are out altogether, at Filter, and at Score."""


class Known(Struct, eq=False):
    """What is known of pods with the same traits, of any size."""

    node_count: int
    signature: tuple[Hashable, ...]
    """This and the next three: of the plugins that do not read the size."""
    node_signature: tuple[Hashable, ...]
    data: dict[str, Any]
    words: tuple[_Word, ...]
    outlines: dict[tuple[tuple[_Word, ...], _Skips], Outline]
    """By what the other plugins say, and who skips; shared between all traits with these words."""
    out: frozenset[str] = _NOBODY
    """Plugins that skip such pods always; the next two: that skip them until the context is
    another, or always, at their PreScore."""
    context: int = -1
    skip_filter: frozenset[str] = _NOBODY
    skip_score: frozenset[str] = _NOBODY
    never_score: frozenset[str] = _NOBODY

    def note(self, plugin: str, answer: Status, context: int, *, to_score: bool) -> None:
        """A plugin skipped such a pod, and will go on to."""
        if answer == SKIP_ALWAYS:
            if to_score:
                self.never_score |= {plugin}
            else:
                self.out |= {plugin}
            return
        if self.context != context:
            self.context, self.skip_filter, self.skip_score = context, _NOBODY, _NOBODY
        if to_score:
            self.skip_score |= {plugin}
        else:
            self.skip_filter |= {plugin}

    def skips(self, context: int) -> _Skips:
        """Who skips; -1 for the context: always."""
        if context < 0:
            return self.out, _NOBODY, self.never_score
        return self.out, self.skip_filter, self.never_score | self.skip_score


class Planner:
    def __init__(
        self,
        plugins: ProfilePlugins,
        handle: Handle,
        tallies: Tallies,
        by_traits: KeptPer,
        pre_filter: Callable[[Cycle, PodInfo, Any], PreFilterAnswer],
        pre_score: Callable[[Cycle, PodInfo, str, Rows], Status | None],
    ) -> None:
        self._plugins = plugins
        self._handle = handle
        self._tallies = tallies
        self._by_traits = by_traits
        self._pre_filter = pre_filter
        self._pre_score = pre_score
        self._scratch = Cycle(handle, handle.nodes)
        self._outlines: dict[
            tuple[_Word, ...], dict[tuple[tuple[_Word, ...], _Skips], Outline]
        ] = {}
        members = _members(plugins)
        local = [m.plugin for m in members if m.signature is not None]
        if any(Reads.PODS in reads_of(plugin) for plugin in local):
            handle.nodes.follows_pod_kinds = True
        self.is_per_pod = any(Reads.ANNOTATIONS in reads_of(plugin) for plugin in local)
        """Whether pods of one kind may differ in what plugins read of them."""
        self.remembering = frozenset(
            member.name for member in members if skips_by_traits(member.plugin)
        )
        """The plugins whose steady Skip of a pod stands for all with the same traits."""
        self._general = tuple(m for m in members if m.is_general)
        self._others = tuple(m for m in members if not m.is_general)
        self._others_node_only = any(is_node_only(m.plugin) for m in self._others)

    def known(self, pod: PodInfo) -> Known:
        kept = self._by_traits[pod.kind.traits.ref]
        found: Known | None = kept.get(_KNOWN)
        node_count = self._handle.nodes.node_count
        if found is None or found.node_count != node_count:
            before = found
            general, cycle = self._general, self._scratch
            cycle.data = {}
            parts, words = self._ask(general, cycle, pod)
            found = kept[_KNOWN] = Known(
                node_count,
                parts,
                _node_parts(general, parts),
                _written(cycle, general),
                words,
                _remembered(self._outlines, words, {}),
            )
            if before is not None:
                found.out, found.never_score = before.out, before.never_score
        return found

    def make(self, pod: PodInfo, known: Known, context: int) -> Plan:
        """For as long as the context is the same; -1: whatever it is."""
        cycle = self._scratch
        cycle.data = {}
        parts, words = self._ask(self._others, cycle, pod)
        key = words, known.skips(context)
        outline = known.outlines.get(key)
        if outline is None:
            outline = _remembered(known.outlines, key, self._outline(known, *key))
        signature = (known.signature, *parts)
        latest = outline.latest
        if latest is not None and latest.signature == signature and latest.context == context:
            return latest
        node_signature, data = known.node_signature, known.data
        if cycle.data:
            data = data | _written(cycle, self._others)
        if self._others_node_only:
            node_signature = (node_signature, *_node_parts(self._others, parts))
        plan = Plan(known.node_count, context, signature, node_signature, data, outline)
        outline.latest = plan
        return plan

    # -- asking -----------------------------------------------------------------------------

    def _ask(
        self, members: Iterable[_Member], cycle: Cycle, pod: PodInfo
    ) -> tuple[tuple[Hashable, ...], tuple[_Word, ...]]:
        """Per member its signature, and its word."""
        parts, words = [], []
        for member in members:
            part = None
            if member.signature is not None:
                try:
                    part = member.signature(pod)
                except Exception as cause:
                    raise filter_failed(member.name, describe(cause)) from cause
            parts.append(part)
            if part is None:
                words.append(_usual(False, False, member.pre_filters, member.scores))
            else:
                words.append(self._local(member, cycle, pod))
        return tuple(parts), tuple(words)

    def _local(self, member: _Member, cycle: Cycle, pod: PodInfo) -> _Word:
        answer: PreFilterAnswer = None
        if member.pre_filters:
            answer = self._pre_filter(cycle, pod, member.plugin)
        skips = answer is not None and isinstance(answer, Status) and answer.code == Code.SKIP
        scores, error = False, None
        if member.scores:
            try:
                scores = self._pre_score(cycle, pod, member.name, _NO_ROWS) is None
            except PluginFailed as problem:
                error = problem
        if error is None and (answer is None or skips):
            return _usual(True, skips, False, scores)
        return _Word(True, skips, False, scores, answer, error)

    # -- the outline ------------------------------------------------------------------------

    def _outline(self, known: Known, words: tuple[_Word, ...], skips: _Skips) -> Outline:
        """What follows from everybody's word."""
        members, everyone = (*self._general, *self._others), (*known.words, *words)
        said = {member.name: word for member, word in zip(members, everyone, strict=True)}
        return self._draw(said, *skips)

    def _draw(
        self,
        words: dict[str, _Word],
        out: frozenset[str],
        skip_filter: frozenset[str],
        skip_score: frozenset[str],
    ) -> Outline:
        plugins, weights = self._plugins, self._plugins.weights
        idle = out.union(name for name, word in words.items() if word.skips)
        skipped = idle | skip_filter
        steps = []
        for plugin in plugins.pre_filter:
            name = _name(plugin)
            word = words[name]
            if name not in skipped and (word.asks or word.answer is not None):
                steps.append(PreFilterStep(plugin, name, word.answer, word.asks))
        filters = [(n, p) for n, p in enumerate(plugins.filter, 1) if p.name not in skipped]
        rating = [p for p in plugins.score if words[p.name].scores and p.name not in out]
        scorers = [p for p in rating if p.name not in skip_score]
        local_filters = [(n, p) for n, p in filters if words[p.name].is_local]
        local_scores = [p for p in scorers if words[p.name].is_local]
        errors = (words[p.name].error for p in plugins.score)
        return Outline(
            skipped,
            tuple(steps),
            _layer(local_filters, local_scores, weights, node_only=True),
            _layer(local_filters, local_scores, weights, node_only=False),
            tuple((n, p) for n, p in filters if not words[p.name].is_local),
            tuple((p.name, weights[p.name]) for p in local_scores if not normalizes(p)),
            tuple(p for p in local_scores if normalizes(p)),
            tuple(p for p in scorers if not words[p.name].is_local),
            tuple(p for p in plugins.reserve if _name(p) not in out),
            tuple(p for p in plugins.pre_bind if _name(p) not in out),
            self._tally(idle, rating),
            next((problem for problem in errors if problem is not None), None),
        )

    def _tally(self, skipped: frozenset[str], scores: list[Any]) -> PlanCounts:
        """One for all outlines that leave it to the same plugins; there are few such sets.

        Who skips steadily counts as if it were asked, as it is by kube-scheduler.
        """
        pre_filters = tuple(
            name for name in _names(self._plugins.pre_filter) if name not in skipped
        )
        filters = tuple(name for name in _names(self._plugins.filter) if name not in skipped)
        names = _names(scores)
        pre_scoring = _names(self._plugins.pre_score)
        pre_scores = tuple(name for name in names if name in pre_scoring)
        key = (pre_filters, filters, names)
        if key not in self._tallies:
            self._tallies[key] = PlanCounts(pre_filters, filters, pre_scores, names)
        return self._tallies[key]


def _members(plugins: ProfilePlugins) -> tuple[_Member, ...]:
    everyone = {_name(p): p for p in (*plugins.pre_filter, *plugins.filter, *plugins.score)}
    of_nodes, scoring = {*_names(plugins.filter), *_names(plugins.score)}, _names(plugins.score)
    pre_filtering = _names(plugins.pre_filter)
    members = []
    for name, plugin in everyone.items():
        signature, is_general = None, True
        if name in of_nodes and is_node_local(plugin):
            is_general = is_by_traits(plugin)
            signature = getattr(plugin, "signature", _traits_of if is_general else _kind_of)
        is_asked = name in pre_filtering, name in scoring
        members.append(_Member(name, plugin, signature, *is_asked, is_general))
    return tuple(members)


def _traits_of(pod: PodInfo) -> Hashable:
    return pod.kind.traits.ref


def _kind_of(pod: PodInfo) -> Hashable:
    return pod.kind.ref


def _layer(
    filters: list[tuple[int, Any]], scores: list[Any], weights: dict[str, int], *, node_only: bool
) -> LocalPlugins:
    return LocalPlugins(
        tuple(
            LocalFilter(number, plugin.name, filter_of_many(plugin), plugin.filter_node)
            for number, plugin in filters
            if is_node_only(plugin) == node_only
        ),
        tuple(
            LocalScore(
                plugin.name,
                0 if normalizes(plugin) else weights[plugin.name],
                score_of_many(plugin),
                plugin.score_node,
            )
            for plugin in scores
            if is_node_only(plugin) == node_only
        ),
    )


def _remembered(known: dict[_Key, _Item], key: _Key, item: _Item) -> _Item:
    if len(known) == _OUTLINES_MAX:
        known.clear()
    return known.setdefault(key, item)


def _node_parts(members: tuple[_Member, ...], parts: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
    return tuple(p for m, p in zip(members, parts, strict=True) if is_node_only(m.plugin))


def _written(cycle: Cycle, members: tuple[_Member, ...]) -> dict[str, Any]:
    return {
        m.name: cycle.data[m.name]
        for m in members
        if m.signature is not None and m.name in cycle.data
    }


def _names(plugins: Iterable[Any]) -> tuple[str, ...]:
    return tuple(plugin.name for plugin in plugins)


def _name(plugin: Any) -> str:
    name: str = plugin.name
    return name
