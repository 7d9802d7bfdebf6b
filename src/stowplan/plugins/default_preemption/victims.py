"""Who has to go: the victims on one node, and the best of several nodes.

Mirrors `SelectVictimsOnNode` and `pickOneNodeForPreemption` of kube-scheduler.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress, repeat
from math import inf
from operator import attrgetter, eq
from struct import Struct, pack, unpack
from typing import TYPE_CHECKING, NamedTuple
from weakref import ref

from stowplan.framework.cycle import Cycle
from stowplan.framework.diagnosis import Diagnosis
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

if TYPE_CHECKING:
    from random import Random

NO_VICTIMS = "No preemption victims found for incoming pod"

Neighbour = tuple[str, ref[PodKind]]
"""A pod (its uid, and what it is like) that stays on the node whoever is evicted."""

_PRIORITY_OFFSET = 2**31
"""Makes every priority positive, so that more victims always weigh more."""


_NUMBERS = Struct(">QQQQQ")
_SIGN_BIT = 2**63


class Candidate(NamedTuple):
    """A node, and who would have to leave it.  Of several, the smallest hurts least."""

    harm: bytes
    """The criteria, each to break the ties of those before it."""
    node: str
    victims: tuple[PodInfo, ...]
    """At least one; most important first."""
    violations: int
    """Victims whose eviction breaks a disruption budget."""

    @classmethod
    def of(cls, node: str, victims: tuple[PodInfo, ...], violations: int) -> Candidate:
        priorities = [victim.kind.priority for victim in victims]
        top = max(priorities)
        # Big-endian numbers, one after the other: as bytes, a hundred are compared in no time.
        numbers = _NUMBERS.pack(
            violations + _SIGN_BIT,
            priorities[0] + _PRIORITY_OFFSET,
            sum(priorities) + _PRIORITY_OFFSET * len(priorities),
            len(priorities),
            ordered(-min([start_time_s(v) for v in victims if v.kind.priority == top])),
        )
        return cls(numbers, node, victims, violations)


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
    return -pod.kind.priority, start_time_s(pod)


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
            beside.append((other.uid, other.kind.ref))
    if not lower:
        return _NOBODY_TO_EVICT
    nominated = nominated_beside(framework.handle.nominated, pod, node.name)
    if nominated:
        beside += [(other.uid, other.kind.ref) for other in nominated]
    if before is not None and before.holds(node.node, beside):
        return before
    try:
        trial = _Trial(framework, cycle, pod, node, lower)
        if nominated:
            status = trial.refusal_beside(nominated)
            if status is not None:
                return Refusal(status, node.node, beside)
        status = trial.refusal()
        if status is None:
            return _reprieve(trial, lower, nominated, budgets)
        # Beside the nominated pods it would fit: once they have come, the answer is another.
        return Refusal(status) if nominated else Refusal(status, node.node, beside)
    except PluginFailed as failure:
        return Refusal(failure.status)


class _Trial:
    """A cycle and a node, as they would be without some of its pods, to try things out on."""

    __slots__ = ("_cycle", "_framework", "_node_passes", "_pod", "are_alike", "node")

    def __init__(
        self, framework: Framework, cycle: Cycle, pod: PodInfo, node: NodeInfo, gone: list[PodInfo]
    ) -> None:
        self._framework, self._cycle, self._pod = framework, cycle, pod
        diagnosis: Diagnosis | None = cycle.statuses
        first = diagnosis.first_filter(node.row) if diagnosis is not None else 0
        left = framework.on_one_node(cycle)
        self._node_passes = first > left.last_node_only
        """Whether no filter need be asked that reads the node object alone: going by which was the
        first to turn the node down (by its number; 0: unknown)."""
        self.are_alike = not left.extensions
        """Whether pods of one kind make the same difference."""
        if not self.are_alike:
            self._cycle, self.node = cycle.clone(), node.clone()
            for other in gone:
                self.remove(other)
        elif len(gone) == len(node.pods):
            self.node = node.emptied()
        else:
            self.node = node.clone()
            self.node.remove_pods(gone)

    def add(self, other: PodInfo) -> None:
        self.node.add_pod(other)
        if not self.are_alike:
            self._framework.add_pod(self._cycle, self._pod, other, self.node)

    def remove(self, other: PodInfo) -> None:
        self.node.remove_pod(other)
        if not self.are_alike:
            self._framework.remove_pod(self._cycle, self._pod, other, self.node)

    def refusal(self) -> Status | None:
        """Why the pod does not fit as things are."""
        status = self._framework.filter_one(
            self._cycle, self._pod, self.node, pods_only=self._node_passes
        )
        self._node_passes = self._node_passes or status is None
        return status

    def refusal_beside(self, nominated: list[PodInfo]) -> Status | None:
        """Why it does not, if these pods were there too."""
        return filter_beside(
            self._framework,
            self._cycle,
            self._pod,
            self.node,
            nominated,
            pods_only=self._node_passes,
        )

    def fits(self, nominated: list[PodInfo]) -> bool:
        """Whether it does, with and without them."""
        return (not nominated or self.refusal_beside(nominated) is None) and self.refusal() is None


def _reprieve(
    trial: _Trial,
    lower: list[PodInfo],
    nominated: list[PodInfo],
    budgets: Sequence[PodDisruptionBudget],
) -> Candidate | Refusal:
    """Put pods back one by one, those that budgets protect first, as long as the pod still fits."""
    lower = sorted(lower, key=importance)
    violating, others = split_by_budget(lower, budgets)
    refused: set[PodKind] = set()

    def stays(other: PodInfo) -> bool:
        if other.kind in refused:
            return False  # A replica of it had to go, and nothing has changed since.
        trial.add(other)
        if trial.fits(nominated):
            refused.clear()
            return True
        trial.remove(other)
        if trial.are_alike and not other.kind.has_claims:
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
    name = trial.node.name
    if not victims:
        return Refusal(error(f'expected at least one victim pod on node "{name}"'))
    return Candidate.of(name, tuple(victims), violations)


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
            if protects(budget, selectors[n], pod):
                left[n] -= 1
                breaks |= left[n] < 0
        (violating if breaks else others).append(pod)
    return violating, others


def protects(budget: PodDisruptionBudget, selector: Selector, pod: PodInfo) -> bool:
    kind = pod.kind
    return (
        bool(kind.labels)
        and budget.metadata.namespace == kind.namespace
        # A budget with an empty selector protects nobody here, whatever its author meant.
        and not selector.is_everything
        and selector.matches(kind.labels)
        and pod.pod.metadata.name not in (budget.status.disrupted_pods or {})
    )


def pick_candidate(candidates: Sequence[Candidate], random: Random | None) -> Candidate | None:
    """The node whose victims hurt least; of several any, or without `random` the first by name."""
    if random is None or not candidates:
        return min(candidates, default=None)
    harms = [*map(_harm, candidates)]
    least = min(harms)
    equal = [*compress(candidates, map(eq, harms, repeat(least)))]
    return equal[0] if len(equal) == 1 else random.choice(equal)


_harm = attrgetter("harm")
