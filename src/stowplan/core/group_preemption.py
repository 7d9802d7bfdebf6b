"""Making room for a whole group: who would have to go, over the whole cluster.

Everything less important is taken off the nodes, and the group is tried on what is left.  If it
fits, the victims come back one by one, the most important first, as long as it still does.  A group
that may only be disrupted whole goes or stays whole.  All of it is a trial: the cache is as before
when it ends.  Mirrors kube-scheduler's workload-aware preemption (`framework/preemption`).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from msgspec import Struct

from stowplan.core.schedule_group import GroupAttempt, GroupScheduler, rejected
from stowplan.framework.groups import GroupCycle
from stowplan.framework.runtime import Framework
from stowplan.framework.status import Code, Status
from stowplan.objects.labels import compile_selector
from stowplan.objects.pod_groups import PodGroup
from stowplan.objects.workloads import PodDisruptionBudget
from stowplan.plugins import protects, start_time_s
from stowplan.state.cache import Cache, LiftedPods
from stowplan.state.object_index import ObjectIndex
from stowplan.state.pod_info import PodInfo

NOT_REGISTERED = (
    "default preemption plugin is not registered, workload aware preemption is disabled"
)
NOT_WITH_CONSTRAINTS = (
    "workload aware preemption is not supported for pod groups with scheduling constraints"
)
NOBODY_TO_EVICT = "No preemption victims found for incoming preemptor"
NEVER = "not eligible due to preemptionPolicy=Never."


class Unit(Struct, eq=False):
    """Pods that go together: those of a group that is disrupted whole, or a single one."""

    priority: int
    pods: list[PodInfo]

    @property
    def importance(self) -> tuple[Any, ...]:
        """Sorts the most important first."""
        started_s = min(map(start_time_s, self.pods))
        if self.pods[0].kind.is_member:
            return -self.priority, 0, -len(self.pods), started_s
        return -self.priority, 1, started_s


class GroupPreemption:
    def __init__(
        self, framework: Framework, cache: Cache, scheduler: GroupScheduler, cycle: GroupCycle
    ) -> None:
        self._framework = framework
        self._cache = cache
        self._scheduler = scheduler
        self._cycle = cycle

    def make_room(self, result: GroupAttempt) -> Generator[Any, Any, None]:
        """Find victims for a group that does not fit, and write them, or why there are none."""
        if result.is_preempting:
            return
        assert result.status is not None
        if self._cycle.group is None:
            name = self._cycle.key.rpartition("/")[2]
            text = f'podgroup.scheduling.k8s.io "{name}" not found'
            result.status = Status(Code.ERROR, (text,))
            return
        found = self._not_eligible(self._cycle.group) or (yield from self._search(result))
        if isinstance(found, str):
            result.status = rejected(*result.status.reasons, found)
        elif isinstance(found, Status):
            result.status = found
        else:
            result.is_preempting, result.victims = True, found

    def _not_eligible(self, group: PodGroup) -> str:
        if "DefaultPreemption" not in self._framework.plugins.instances:
            return NOT_REGISTERED
        if group.spec.topology_key:
            return NOT_WITH_CONSTRAINTS
        waiting = self._cycle.state.unscheduled()
        return NEVER if any(p.pod.spec.preemption_policy == "Never" for p in waiting) else ""

    def _search(self, result: GroupAttempt) -> Generator[Any, Any, list[PodInfo] | str | Status]:
        """The victims, or why there are none; `result` gets the places of members."""
        group = self._cycle.group
        assert group is not None
        priority = group.spec.priority or 0
        candidates = [unit for unit in self._units() if unit.priority < priority]
        if not candidates:
            return NOBODY_TO_EVICT
        lifted = LiftedPods(self._cache, [pod for unit in candidates for pod in unit.pods])
        try:
            found = yield from self._without(candidates, lifted)
        except Exception:
            self._put_back(lifted)
            raise
        # Not in `finally`: a machine that is let go of in between may be in parts already.
        self._put_back(lifted)
        if not isinstance(found, tuple):
            return found
        victims, fits = found
        for member in fits.members:
            if (assumed := member.attempt.assumed) is not None:
                result.places[assumed.uid] = assumed.node_name
        return [pod for unit in victims for pod in unit.pods]

    def _without(
        self, candidates: list[Unit], lifted: LiftedPods
    ) -> Generator[Any, Any, tuple[list[Unit], GroupAttempt] | str | Status]:
        """Who of these has to go, all of whom have been lifted, and how the group fits then."""
        attempt = yield from self._trial()
        if attempt.status is not None:
            return attempt.status if attempt.is_error else attempt.status.message
        return (yield from self._reprieve(candidates, lifted, attempt))

    def _put_back(self, lifted: LiftedPods) -> None:
        lifted.end()
        self._cycle.nodes.refresh(self._cache)

    def _reprieve(
        self, candidates: list[Unit], lifted: LiftedPods, fits: GroupAttempt
    ) -> Generator[Any, Any, tuple[list[Unit], GroupAttempt]]:
        """Put back whom the group leaves room for; those that have to go, and how it fits then.

        `fits` is how the group fits without any of them.
        """
        candidates.sort(key=lambda unit: unit.importance)
        budgets = [*self._objects.all(PodDisruptionBudget).values()]
        violating, others = split_units(candidates, budgets)
        victims: list[Unit] = []
        for unit in (*violating, *others):
            lifted.put_back(unit.pods)
            if self._is_out_of_the_way(unit, fits):
                continue
            attempt = yield from self._trial()
            if attempt.status is None:
                fits = attempt
            else:
                lifted.lift(unit.pods)
                victims.append(unit)
        return victims, fits

    def _is_out_of_the_way(self, unit: Unit, fits: GroupAttempt) -> bool:
        """Whether it is plain that the group fits beside the unit, since it fits elsewhere.

        Where members are alike and each node decides for itself, as many find a place as there is
        room for: the room on the nodes that were enough is as it was.
        """
        first, *others = self._cycle.members
        if any(pod.kind is not first.kind for pod in others):
            return False
        used = set()
        for member in fits.members:
            attempt = member.attempt
            if attempt.assumed is None:
                continue
            is_local = self._framework.is_node_local(attempt.cycle, member.queued.info)
            if not is_local or attempt.cycle.plan.outline.reserve:
                return False
            used.add(attempt.assumed.node_name)
        return used.isdisjoint(pod.node_name for pod in unit.pods)

    def _trial(self) -> Generator[Any, Any, GroupAttempt]:
        attempt = yield from self._scheduler.search(post_filters=False)
        if attempt.status is None:
            self._scheduler.undo(attempt)
        return attempt

    @property
    def _objects(self) -> ObjectIndex:
        return self._framework.handle.objects

    def _units(self) -> list[Unit]:
        """All pods on nodes, but for those of the group itself."""
        units: list[Unit] = []
        whole: dict[str, Unit] = {}
        nodes = self._cycle.nodes
        for row in nodes.alive.nonzero()[0].tolist():
            for pod in nodes.info(row).pods.values():
                key = pod.group_key
                group = self._objects.get(PodGroup, key) if key else None
                if key == self._cycle.key:
                    continue
                if group is None or not group.spec.is_disrupted_whole:
                    units.append(Unit(pod.priority, [pod]))
                elif key in whole:
                    whole[key].pods.append(pod)
                else:
                    unit = whole[key] = Unit(group.spec.priority or 0, [pod])
                    units.append(unit)
        return units


def split_units(
    units: Sequence[Unit], budgets: Sequence[PodDisruptionBudget]
) -> tuple[list[Unit], list[Unit]]:
    """Units whose eviction breaks a budget, and the others; budgets are spent in this order."""
    selectors = [compile_selector(budget.spec.selector) for budget in budgets]
    left = [budget.status.disruptions_allowed for budget in budgets]
    violating: list[Unit] = []
    others: list[Unit] = []
    for unit in units:
        breaks = False
        for pod in unit.pods:
            for n, budget in enumerate(budgets):
                if protects(budget, selectors[n], pod):
                    left[n] -= 1
                    if left[n] < 0:
                        breaks = True
                        break
        (violating if breaks else others).append(unit)
    return violating, others
