"""Who has to go: the victims on one node, and the best of several nodes.

Mirrors `SelectVictimsOnNode` and `pickOneNodeForPreemption` of kube-scheduler.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from operator import attrgetter
from struct import Struct, pack, unpack

from stowplan.framework.cycle import Cycle
from stowplan.framework.errors import PluginFailed
from stowplan.framework.nominations import filter_beside, nominated_beside
from stowplan.framework.runtime import Framework
from stowplan.framework.status import Status, error, unresolvable
from stowplan.objects.labels import Selector, compile_selector
from stowplan.objects.node import Node
from stowplan.objects.times import parse_time
from stowplan.objects.workloads import PodDisruptionBudget
from stowplan.state.node_info import NodeInfo
from stowplan.state.pod_info import PodInfo, PodKind

NO_VICTIMS = "No preemption victims found for incoming pod"

Neighbour = tuple[str, PodKind]
"""A pod (its uid, and what it is like) that stays on the node whoever is evicted."""

_PRIORITY_OFFSET = 2**31
"""Makes every priority positive, so that more victims always weigh more."""


_rank = attrgetter("rank")
_NUMBERS = Struct(">QQQQ")
_SIGN_BIT = 2**63


class Candidate:
    """A node, and who would have to leave it."""

    __slots__ = ("node", "rank", "victims", "violations")

    def __init__(self, node: str, victims: tuple[PodInfo, ...], violations: int) -> None:
        self.node = node
        self.victims = victims
        """At least one; most important first."""
        self.violations = violations
        """Victims whose eviction breaks a disruption budget."""
        self.rank = self._rank()
        """The candidate that hurts least has the lowest: each part breaks the ties of those
        before it."""

    def _rank(self) -> tuple[int, bytes]:
        victims = self.victims
        top = max(victim.priority for victim in victims)
        # Big-endian numbers, one after the other: as bytes, a hundred are compared in no time.
        numbers = _NUMBERS.pack(
            victims[0].priority + _PRIORITY_OFFSET,
            sum(victim.priority + _PRIORITY_OFFSET for victim in victims),
            len(victims),
            ordered(-min(start_time_s(victim) for victim in victims if victim.priority == top)),
        )
        # Upstream takes any; the smallest name makes a run repeatable.
        return self.violations, numbers + self.node.encode()


def ordered(number: float) -> int:
    """An integer from 0 on that is the larger, the larger the number.

    >>> ordered(-inf) < ordered(-1.5) < ordered(-1.0) < ordered(0.0) < ordered(2.0) < ordered(inf)
    True
    """
    bits: int = unpack(">Q", pack(">d", number))[0]
    return bits ^ (2 * _SIGN_BIT - 1 if bits & _SIGN_BIT else _SIGN_BIT)


def start_time_s(pod: PodInfo) -> float:
    """When it started; one that has not yet is younger than any other."""
    started = pod.pod.status.start_time
    return parse_time(started) if started else inf


def importance(pod: PodInfo) -> tuple[int, float]:
    """Sort key: higher priority first, then the longer-running pod."""
    return -pod.priority, start_time_s(pod)


class Refusal:
    """A node where evicting pods does not help, and why."""

    __slots__ = ("_beside", "_node", "status")

    def __init__(
        self, status: Status, node: Node | None = None, beside: list[Neighbour] | None = None
    ) -> None:
        self.status = status
        self._node, self._beside = node, beside

    def holds(self, node: Node | None, beside: list[Neighbour]) -> bool:
        """Whether it is still so: possible victims come and go without making a difference."""
        return node is self._node and beside == self._beside


_NOBODY_TO_EVICT = Refusal(unresolvable(NO_VICTIMS))


def select_victims(
    framework: Framework,
    cycle: Cycle,
    pod: PodInfo,
    node: NodeInfo,
    budgets: Sequence[PodDisruptionBudget],
    before: Refusal | None = None,
) -> Candidate | Refusal:
    """The fewest, least important pods of this node without which `pod` fits; or why not.

    `before` is why not when a pod of its kind last asked; only for filters that are node-local.
    """
    priority = pod.kind.priority
    lower: list[PodInfo] = []
    beside: list[Neighbour] = []
    for other in node.pods.values():
        if other.kind.priority < priority:
            lower.append(other)
        else:
            beside.append((other.uid, other.kind))
    if not lower:
        return _NOBODY_TO_EVICT
    nominated = nominated_beside(framework.handle.nominated, pod, node.name)
    beside += [(other.uid, other.kind) for other in nominated]
    if before is not None and before.holds(node.node, beside):
        return before
    try:
        trial, trial_node = _without(framework, cycle, pod, node, lower)
        if nominated:
            status = filter_beside(framework, trial, pod, trial_node, nominated)
            if status is not None:
                return Refusal(status, node.node, beside)
        status = framework.filter_one(trial, pod, trial_node)
        if status is None:
            return _reprieve(framework, trial, pod, trial_node, lower, budgets)
        # Beside the nominated pods it would fit: once they have come, the answer is another.
        return Refusal(status) if nominated else Refusal(status, node.node, beside)
    except PluginFailed as failure:
        return Refusal(failure.status)


def _without(
    framework: Framework, cycle: Cycle, pod: PodInfo, node: NodeInfo, gone: list[PodInfo]
) -> tuple[Cycle, NodeInfo]:
    """The cycle and the node as they would be without these pods, to try things out on."""
    trial_node = node.clone()
    if not framework.has_extensions(cycle):
        trial_node.remove_pods(gone)
        return cycle, trial_node
    trial = cycle.clone()
    for other in gone:
        trial_node.remove_pod(other)
        framework.remove_pod(trial, pod, other, trial_node)
    return trial, trial_node


def _reprieve(
    framework: Framework,
    cycle: Cycle,
    pod: PodInfo,
    node: NodeInfo,
    lower: list[PodInfo],
    budgets: Sequence[PodDisruptionBudget],
) -> Candidate | Refusal:
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
        return Refusal(error(f'expected at least one victim pod on node "{node.name}"'))
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
    return min(candidates, key=_rank, default=None)
