"""Where would our scheduler put a pod that another one has just placed?

A `Judge` is a machine that is fed what a live cluster shows and never decides for itself: it is
asked about one pod in the state just reached.  The search is the one that `stowplan run` makes,
over all nodes.  `answers.shadow` feeds and asks it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from random import Random

import numpy as np
from msgspec.structs import fields, replace

from stowplan.config import SchedulerConfig
from stowplan.config.types import PluginSet
from stowplan.core.algorithm import Search
from stowplan.core.attempts import AttemptLog
from stowplan.core.explanation import Explainer
from stowplan.core.machine import Machine
from stowplan.core.profiles import Registry
from stowplan.framework.cycle import Cycle
from stowplan.framework.errors import PluginFailed
from stowplan.framework.runtime import Framework
from stowplan.objects.changes import Added, Change, Deleted, Updated
from stowplan.objects.pod import Pod
from stowplan.state.pod_info import PodInfo
from stowplan.world.objections import run_search
from stowplan.world.setup import Setup


@dataclass(frozen=True, slots=True)
class Standing:
    """What our scheduler thinks of one node for the pod."""

    is_best: bool
    gap: int = 0
    """By how much its score is below the best."""
    better_count: int = 0
    """How many nodes have a higher score."""
    tipped_by: dict[str, int] | None = None
    """Plugin -> by how much it prefers the best node to this one; the largest first."""
    turned_down_by: str = ""
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """Where the pod would go; the nodes in `best` are equally good."""

    best: frozenset[str]
    picked: str
    feasible_count: int
    problem: str = ""
    """Why there is no node, or what failed."""
    standings: dict[str, Standing] | None = None
    """Of the nodes that somebody wanted to know about; None where nobody asked."""

    def standing(self, node: str) -> Standing:
        if node in self.best:
            return Standing(True)
        known = (self.standings or {}).get(node)
        return known if known is not None else Standing(False, reasons=("no such node is known",))


class Judge:
    def __init__(self, setup: Setup, machine: Machine | None = None) -> None:
        """`machine`: one that knows something already."""
        self.setup = setup
        self._machine = machine or Machine(
            looking_at_all(setup.config),
            random=Random(setup.seed),
            registry=setup.registry,
            tie_break=setup.tie_break,
            log=AttemptLog(decisions_max=0),
        )

    def fork(self) -> Judge:
        """Another one that knows the same; what it is told this one does not hear."""
        log = AttemptLog(decisions_max=0)
        return Judge(self.setup, self._machine.fork(Random(self.setup.seed), log))

    def close(self) -> None:
        self._machine.close()

    @property
    def node_count(self) -> int:
        return len(self._machine.cache.tree)

    def take(self, changes: Sequence[Change], now_s: float) -> None:
        """What the cluster shows, in its order.  Whatever the machine would do about it is not
        done."""
        for _, alike in groupby(changes, type):
            self._machine.handle_all([*alike], now_s)

    def undo(self, change: Change, now_s: float) -> None:
        """Let a change not have happened."""
        self.take(_inverse(change), now_s)

    def decides(self, pod: Pod) -> bool:
        """Whether a profile of ours is the pod's."""
        return pod.spec.scheduler_name in self._machine.frameworks

    def pending(self) -> list[Pod]:
        """Pods without a node that a profile of ours decides on."""
        infos = self._machine.pods.values()
        return [info.pod for info in infos if not info.node_name and self.decides(info.pod)]

    def judge(self, pod: Pod, *asked: str) -> Verdict:
        """Where the pod, which has no node, would go now, and what we think of the nodes asked
        about; without any, of all."""
        machine = self._machine
        machine.table.refresh(machine.cache)
        framework = machine.frameworks[pod.spec.scheduler_name]
        known = machine.pods.get(pod.key)
        info = known if known is not None and known.pod is pod else PodInfo(pod)
        cycle = Cycle(framework.handle, framework.handle.nodes)
        try:
            search = run_search(framework, cycle, info)
        except PluginFailed as failure:
            return Verdict(frozenset(), "", 0, str(failure))
        best = _best(search)
        names = cycle.nodes.names
        found = frozenset(names[row] for row in best)
        picked = names[search.row] if search.row >= 0 else ""
        diagnosis = search.diagnosis
        problem = "" if picked or diagnosis is None else "no node fits"
        standings = None
        if not asked or not found.issuperset(asked):
            standings = _standings(framework, cycle, info, search, asked)
        return Verdict(found, picked, search.feasible_count, problem, standings)


def _best(search: Search) -> list[int]:
    """The rows that share the highest score."""
    if search.row < 0:
        return []
    board = search.board
    if board is None:
        return [search.row]
    total = board.total
    best: list[int] = board.rows[total == total.max()].tolist()
    return best


def _standings(
    framework: Framework, cycle: Cycle, pod: PodInfo, search: Search, asked: Sequence[str]
) -> dict[str, Standing]:
    explanation = Explainer().copy(framework, cycle, pod, search)
    wanted = set(asked)
    found: dict[str, Standing] = {}
    totals = explanation.totals()
    top = int(np.argmax(totals)) if len(totals) and explanation.scores else 0
    for position, name in enumerate(explanation.feasible):
        if wanted and name not in wanted:
            continue
        gap = int(totals[top] - totals[position])
        tipped = {
            plugin: int(column[top]) - int(column[position])
            for plugin, column in explanation.scores.items()
        }
        ordered = sorted((it for it in tipped.items() if it[1]), key=lambda it: -it[1])
        better = int((totals > totals[position]).sum())
        found[name] = Standing(gap == 0, gap, better, dict(ordered))
    for name, status in explanation.rejected():
        if not wanted or name in wanted:
            found[name] = Standing(False, turned_down_by=status.plugin, reasons=status.reasons)
    return found


def _inverse(change: Change) -> tuple[Change, ...]:
    match change:
        case Added():
            return (Deleted(change.object),)
        case Deleted():
            return (Added(change.object),)
        case Updated(old, new):
            # A pod does not leave its node but by going away.
            moved = isinstance(old, Pod) and isinstance(new, Pod) and _node(old) != _node(new)
            return (Deleted(new), Added(old)) if moved else (Updated(new, old),)


def _node(pod: Pod) -> str:
    return pod.spec.node_name


def looking_at_all(config: SchedulerConfig) -> SchedulerConfig:
    """The configuration, but no node is left out to save time."""
    profiles = [replace(it, percentage_of_nodes_to_score=None) for it in config.profiles]
    return replace(config, profiles=profiles, percentage_of_nodes_to_score=100)


def without_unknown(
    config: SchedulerConfig, registry: Registry
) -> tuple[SchedulerConfig, tuple[str, ...]]:
    """The configuration without the plugins that are not here, and which those are."""
    lacking: dict[str, None] = {}
    profiles = []
    for profile in config.profiles:
        plugins = profile.plugins
        kept: dict[str, PluginSet] = {}
        for field in fields(plugins):
            each: PluginSet = getattr(plugins, field.name)
            unknown = [it.name for it in each.enabled if it.name not in registry]
            if unknown:
                lacking |= dict.fromkeys(unknown)
                enabled = [it for it in each.enabled if it.name in registry]
                kept[field.name] = replace(each, enabled=enabled)
        args = [it for it in profile.plugin_config if it.name in registry]
        profiles.append(replace(profile, plugins=replace(plugins, **kept), plugin_config=args))
    return replace(config, profiles=profiles), tuple(lacking)


__all__ = ["Judge", "Standing", "Verdict", "without_unknown"]
