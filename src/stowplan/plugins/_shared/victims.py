"""Who has to go: the victims on one node, and the best of several nodes.

Mirrors `SelectVictimsOnNode` and `pickOneNodeForPreemption` of kube-scheduler.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from operator import attrgetter
from typing import Any

from stowplan.framework.cycle import Cycle
from stowplan.framework.errors import PluginFailed
from stowplan.framework.runtime import Framework
from stowplan.framework.status import Status, error, unresolvable
from stowplan.objects.labels import Selector, compile_selector
from stowplan.objects.times import parse_time
from stowplan.objects.workloads import PodDisruptionBudget
from stowplan.state.node_info import NodeInfo
from stowplan.state.pod_info import PodInfo, PodKind

NO_VICTIMS = "No preemption victims found for incoming pod"

_PRIORITY_OFFSET = 2**31
"""Makes every priority positive, so that more victims always weigh more."""


_victims, _rank = attrgetter("victims"), attrgetter("rank")


class Candidate:
    """A node, and who would have to leave it."""

    __slots__ = ("node", "rank", "victims", "violations")

    def __init__(self, node: str, victims: tuple[PodInfo, ...], violations: int) -> None:
        self.node = node
        self.victims = victims
        """Most important first."""
        self.violations = violations
        """Victims whose eviction breaks a disruption budget."""
        self.rank = self._rank()
        """The candidate that hurts least has the lowest: each part breaks the ties of those
        before it."""

    def _rank(self) -> tuple[Any, ...]:
        victims = self.victims
        if not victims:
            return ()
        top = max(victim.priority for victim in victims)
        return (
            self.violations,
            victims[0].priority,
            sum(victim.priority + _PRIORITY_OFFSET for victim in victims),
            len(victims),
            -min(start_time_s(victim) for victim in victims if victim.priority == top),
            # Upstream takes any; the smallest name makes a run repeatable.
            self.node,
        )


def start_time_s(pod: PodInfo) -> float:
    """When it started; one that has not yet is younger than any other."""
    started = pod.pod.status.start_time
    return parse_time(started) if started else inf


def importance(pod: PodInfo) -> tuple[int, float]:
    """Sort key: higher priority first, then the longer-running pod."""
    return -pod.priority, start_time_s(pod)


def select_victims(
    framework: Framework,
    cycle: Cycle,
    pod: PodInfo,
    node: NodeInfo,
    budgets: Sequence[PodDisruptionBudget],
) -> Candidate | Status:
    """The fewest, least important pods of this node without which `pod` fits; or why not."""
    priority = pod.kind.priority
    lower = [other for other in node.pods.values() if other.kind.priority < priority]
    if not lower:
        return unresolvable(NO_VICTIMS)
    trial, trial_node = cycle.clone(), node.clone()
    try:
        if framework.has_extensions(trial):
            for other in lower:
                trial_node.remove_pod(other)
                framework.remove_pod(trial, pod, other, trial_node)
        else:
            trial_node.remove_pods(lower)
        status = framework.filter_one_with_nominated(trial, pod, trial_node)
        if status is not None:
            return status
        return _reprieve(framework, trial, pod, trial_node, lower, budgets)
    except PluginFailed as failure:
        return failure.status


def _reprieve(
    framework: Framework,
    cycle: Cycle,
    pod: PodInfo,
    node: NodeInfo,
    lower: list[PodInfo],
    budgets: Sequence[PodDisruptionBudget],
) -> Candidate | Status:
    """Put pods back one by one, those that budgets protect first, as long as `pod` still fits."""
    lower = sorted(lower, key=importance)
    violating, others = split_by_budget(lower, budgets)
    are_alike = not framework.has_extensions(cycle)
    refused: set[PodKind] = set()

    def stays(other: PodInfo) -> bool:
        if other.kind in refused:
            return False  # A replica of it had to go, and nothing has changed since.
        node.add_pod(other)
        framework.add_pod(cycle, pod, other, node)
        if framework.filter_one_with_nominated(cycle, pod, node) is None:
            refused.clear()
            return True
        node.remove_pod(other)
        framework.remove_pod(cycle, pod, other, node)
        if are_alike and not other.kind.has_claims:
            refused.add(other.kind)
        return False

    victims: list[PodInfo] = []
    violations = 0
    for other in violating:
        if not stays(other):
            victims.append(other)
            violations += 1
    victims += [other for other in others if not stays(other)]
    if violating and others:
        victims.sort(key=importance)
    if not victims:
        return error(f'expected at least one victim pod on node "{node.name}"')
    return Candidate(node.name, tuple(victims), violations)


def split_by_budget(
    pods: Sequence[PodInfo], budgets: Sequence[PodDisruptionBudget]
) -> tuple[list[PodInfo], list[PodInfo]]:
    """Pods whose eviction breaks a budget, and the others; budgets are spent in the order given."""
    if not budgets:
        return [], list(pods)
    selectors: list[Selector] = [compile_selector(budget.spec.selector) for budget in budgets]
    left = [budget.status.disruptions_allowed for budget in budgets]
    violating: list[PodInfo] = []
    others: list[PodInfo] = []
    for pod in pods:
        breaks = False
        for n, budget in enumerate(budgets):
            if _protects(budget, selectors[n], pod):
                left[n] -= 1
                breaks |= left[n] < 0
        (violating if breaks else others).append(pod)
    return violating, others


def _protects(budget: PodDisruptionBudget, selector: Selector, pod: PodInfo) -> bool:
    kind = pod.kind
    return (
        bool(kind.labels)
        and budget.metadata.namespace == kind.namespace
        # A budget with an empty selector protects nobody here, whatever its author meant.
        and not selector.is_everything
        and selector.matches(kind.labels)
        and pod.pod.metadata.name not in (budget.status.disrupted_pods or {})
    )


def pick_candidate(candidates: Sequence[Candidate]) -> Candidate | None:
    """The node whose victims hurt least."""
    return min(filter(_victims, candidates), key=_rank, default=None)
