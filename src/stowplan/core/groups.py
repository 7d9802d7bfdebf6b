"""Groups in the machine: a group comes from the queue, is decided on, and handed on as a whole.

`core.machine` calls `GroupCycles.search` for an entry of the queue that is a group, and `submit`
with what came of it (`core.schedule_group`): either those that found a node are bound, or all of
them go back to the queue, each told why.  The group's own condition is `core.group_status`,
evicting others for a whole group `core.group_preemption`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from stowplan.core.attempts import Failed, GroupEnded
from stowplan.core.binding import pre_flight
from stowplan.core.decision import Decision
from stowplan.core.failure import Failure
from stowplan.core.group_outcome import GroupOutcome
from stowplan.core.group_preemption import GroupPreemption
from stowplan.core.group_status import GroupConditions
from stowplan.core.placements import GroupAlgorithm
from stowplan.core.preemption import Preemption
from stowplan.core.schedule_group import (
    UNSCHEDULABLE,
    GroupAttempt,
    GroupScheduler,
    Member,
    rejected,
)
from stowplan.core.schedule_one import Attempt
from stowplan.core.together import GANG_PLUGIN, Together
from stowplan.framework.errors import PluginFailed
from stowplan.framework.events import Action, ClusterEvent
from stowplan.framework.groups import GroupCycle
from stowplan.framework.plugin import Nominate
from stowplan.framework.runtime import Framework
from stowplan.framework.status import Code, Status
from stowplan.objects.base import KubeObject
from stowplan.objects.pod_groups import (
    GANG_SCHEDULING,
    GROUP_VERSIONS,
    TOPOLOGY_AWARE,
    WORKLOAD_AWARE_PREEMPTION,
    GroupVersion,
    PodGroup,
)
from stowplan.queue import GroupedQueue, QueuedGroup, QueuedPod
from stowplan.state.groups import GroupedCache
from stowplan.state.pod_info import PodInfo, PodKind

if TYPE_CHECKING:
    from stowplan.core.machine import Machine


_EVICTS = "DefaultPreemption"


class GroupCycles:
    def __init__(self, machine: Machine, version: GroupVersion = GROUP_VERSIONS[-1]) -> None:
        self._machine = machine
        self.conditions = GroupConditions(machine, version)
        self._together: dict[str, Together] = {}
        """Gangs whose members wait for each other before they are bound."""

    # -- before the decision ----------------------------------------------------------------

    def members_of(self, entry: QueuedGroup) -> list[QueuedPod]:
        """The members to be decided on, in order: not those that are leaving or have a node."""
        machine = self._machine
        found = []
        for queued in entry.in_order():
            info = queued.info
            leaving = info.pod.metadata.deletion_timestamp is not None
            if leaving or machine.cache.is_assumed(info.uid):
                if leaving:
                    note = f"skip schedule deleting pod: {info.key}"
                    machine.record(info.pod, "Warning", "FailedScheduling", "Scheduling", note)
                machine.queue.done(info.uid)
            else:
                found.append(queued)
        return found

    def mixed_profiles(self, members: Sequence[QueuedPod]) -> str:
        """What is wrong with the members' profiles; empty if they have one."""
        first = members[0].profile
        other = next((queued.profile for queued in members if queued.profile != first), first)
        if other == first:
            return ""
        return (
            "all pods in a single pod group should have the same .spec.schedulerName set, "
            f'got: "{other}" and "{first}"'
        )

    def search(
        self, framework: Framework, entry: QueuedGroup, members: Sequence[QueuedPod]
    ) -> Generator[Any, Any, GroupAttempt]:
        machine = self._machine
        algorithm = GroupAlgorithm.of(machine.algorithm)
        scheduler, cycle = self._scheduler(framework, algorithm, entry.group, members)
        result = yield from scheduler.search()
        wants_room = result.status is not None and result.status.is_rejected
        if wants_room and WORKLOAD_AWARE_PREEMPTION in machine.config.features:
            yield from GroupPreemption(framework, machine.cache, scheduler, cycle).make_room(result)
        machine.algorithm.start_index = algorithm.start_index
        return result

    def try_domain(
        self, framework: Framework, key: str, members: Sequence[QueuedPod], value: str
    ) -> Generator[Any, Any, GroupOutcome]:
        """What would come of the group in one domain; nothing remains of it."""
        algorithm = GroupAlgorithm.of(self._machine.algorithm)
        scheduler, _ = self._scheduler(framework, algorithm, key, members)
        return self._outcome(key, (yield from scheduler.search_within(value)))

    def _scheduler(
        self,
        framework: Framework,
        algorithm: GroupAlgorithm,
        key: str,
        members: Sequence[QueuedPod],
    ) -> tuple[GroupScheduler, GroupCycle]:
        machine, cache = self._machine, self._machine.cache
        assert isinstance(cache, GroupedCache)
        machine.table.refresh(cache)
        cycle = GroupCycle(
            key,
            machine.objects.get(PodGroup, key),
            tuple(queued.info for queued in members),
            cache.groups.of(key),
            machine.table,
        )
        by_placement = TOPOLOGY_AWARE in machine.config.features
        return (
            GroupScheduler(framework, cache, algorithm, cycle, members, by_placement=by_placement),
            cycle,
        )

    # -- after it ---------------------------------------------------------------------------

    def submit(
        self,
        framework: Framework,
        entry: QueuedGroup,
        members: Sequence[QueuedPod],
        result: GroupAttempt,
        times: tuple[float, float],
    ) -> None:
        """Bind those that have a node if the group has enough; all others go back to the queue."""
        machine = self._machine
        machine.report(result.problems)
        failures: list[tuple[QueuedPod, Failure]] = []
        preemptions: list[Preemption] = []
        shown = {member.queued.info.uid: member for member in result.members}
        outcome = self._outcome(entry.group, result)
        held = self._held_places(members)
        together: Together | None = None
        if result.status is None:
            together = self._bind_together(framework, entry.group, result.members)
        for queued in members:
            member = shown.get(queued.info.uid)
            if member is not None and result.status is None and member.attempt.assumed is not None:
                member.attempt.decision.group = outcome
                self._bind(framework, member, times)
                continue
            failure = _failure(queued, member, result)
            failure.decision.group = outcome
            failures.append((queued, failure))
            self._note(queued, failure, 0.0 if member is None else member.seconds)
            if member is not None and result.is_possible:
                tried = member.refused or member.attempt
                preemption = machine.failure.prepare(framework, tried, queued.info)
                if preemption is not None:
                    preemptions.append(preemption)
        if together is not None:
            together.started()
        if result.victims:
            group = machine.objects.get(PodGroup, entry.group)
            assert group is not None, entry.group
            preemptions.append(
                machine.failure.prepare_group(framework, members[0].info, group, result.victims)
            )
        machine.failure.handle_group(entry, failures, _rejectors(framework, result))
        self._hold_places(members, result)
        self._tell_of_places(held, members)
        for preemption in preemptions:
            machine.failure.preempt(preemption)
        self.conditions.write(entry.group, result)
        self._count(framework, entry, result, times)

    def _outcome(self, key: str, result: GroupAttempt) -> GroupOutcome:
        """What members are told of the group, before any of them is bound."""
        machine = self._machine
        assert isinstance(machine.cache, GroupedCache)
        group, state = machine.objects.get(PodGroup, key), machine.cache.groups.of(key)
        is_gang = GANG_SCHEDULING in machine.config.features
        placed, unplaced = _places(result.members)
        topology_key = ""
        if group is not None and TOPOLOGY_AWARE in machine.config.features:
            topology_key = group.spec.topology_key
        return GroupOutcome(
            key,
            group.spec.min_count if group is not None and is_gang else 0,
            state.count,
            state.scheduled_count - sum(m.queued.info.uid in state.assumed for m in result.members),
            result.status is None,
            placed,
            unplaced,
            topology_key,
            result.placement.name if result.placement is not None else "",
            result.domains,
        )

    def _hold_places(self, members: Sequence[QueuedPod], result: GroupAttempt) -> None:
        """Keep those who replace the victims from taking their places while the group backs off.

        Members that found a node without the victims gone are nominated to it, and their statuses
        say so; the places that the group needs besides are for the others.  Upstream holds none
        for them, and tries again at once.
        """
        nominator = self._machine.queue.nominator
        held = Counter(result.places.values())
        held.subtract(nominator.node_of.get(it.info.uid, "") for it in members)
        left = iter([*(+held).elements()])
        for queued in members:
            if queued.info.uid in result.places and queued.info.uid not in nominator.node_of:
                nominator.add(queued.info, Nominate(next(left, "")))

    def _held_places(self, members: Sequence[QueuedPod]) -> list[tuple[str, PodInfo]]:
        """The nodes that are kept for members whose statuses do not say so."""
        node_of = self._machine.queue.nominator.node_of
        return [
            (node, info)
            for info in (queued.info for queued in members)
            if (node := node_of.get(info.uid)) and node != info.pod.status.nominated_node_name
        ]

    def _tell_of_places(
        self, held: list[tuple[str, PodInfo]], members: Sequence[QueuedPod]
    ) -> None:
        """What was kept for members, and is neither taken nor kept now, others may have.

        Where a status says that a place is kept, its next change tells them.
        """
        if not held:
            return
        machine, places = self._machine, Counter[tuple[str | None, PodKind]]()
        for info in (queued.info for queued in members):
            assumed = machine.cache.pod(info.uid)
            node = machine.queue.nominator.node_of.get(info.uid)
            places[node if assumed is None else assumed.node_name, info.kind] += 1
        for node, info in held:
            if places[node, info.kind]:
                places[node, info.kind] -= 1
            else:
                self._free([(node, info)])

    def held_back(self, plugin: str, members: Sequence[QueuedPod]) -> None:
        """A gate closed for members that wait, so that nobody knows when they are tried again.

        What is kept for them, others may have; but not while their own victims leave.
        """
        held = [] if plugin == _EVICTS else self._held_places(members)
        for _, info in held:
            self._machine.queue.nominator.delete(info.uid)
        if held:
            # The queue hears of it once it is done with what closed the gate.
            stepper = self._machine.stepper
            stepper.at(stepper.now_s, partial(self._free, held))

    def _free(self, held: list[tuple[str, PodInfo]]) -> None:
        for node, info in held:
            self._machine.changes.nomination_freed(info, node)

    def _bind_together(
        self, framework: Framework, key: str, members: list[Member]
    ) -> Together | None:
        """See that a gang is not bound in part because some members fail at Permit or PreBind."""
        machine, group = self._machine, self._machine.objects.get(PodGroup, key)
        attempts = {m.attempt.assumed.uid: m.attempt for m in members if m.attempt.assumed}
        for attempt in attempts.values():
            # The gang is complete: nobody waits for the others any more.
            attempt.waits.pop(GANG_PLUGIN, None)
        is_gang = any(getattr(p, "name", "") == GANG_PLUGIN for p in framework.plugins.permit)
        if group is None or not is_gang:
            return None
        unready = {uid for uid, attempt in attempts.items() if _has_to_wait(attempt)}
        together = self._together.get(key)
        if together is not None and not together.is_over:
            together.join(unready)
        elif unready:
            spare_count = partial(self._spare_count, group)
            together = self._together[key] = Together(machine.waiting, spare_count, {*unready})
        else:
            self._together.pop(key, None)
            return None
        for uid, attempt in attempts.items():
            attempt.together = together
            if uid not in unready:
                attempt.waits |= together.wait_at_permit(uid)
        return together

    def _spare_count(self, group: PodGroup) -> int:
        """How many more of a gang than it needs have a node, or are on their way to one."""
        machine = self._machine
        assert isinstance(machine.cache, GroupedCache)
        known = machine.objects.get(PodGroup, group.key) or group
        return machine.cache.groups.of(group.key).scheduled_count - known.spec.min_count

    def _bind(self, framework: Framework, member: Member, times: tuple[float, float]) -> None:
        machine, attempt, queued = self._machine, member.attempt, member.queued
        machine.log.begin(queued, machine.now_s)
        machine.log.decided(queued, attempt.decision, machine.now_s, member.seconds)
        machine.queue.nominator.delete(queued.info.uid)
        machine.activate(attempt)
        machine.bindings.start(framework, queued, attempt, *times)

    def _note(self, queued: QueuedPod, failure: Failure, seconds: float) -> None:
        machine = self._machine
        machine.log.begin(queued, machine.now_s)
        machine.log.decided(queued, failure.decision, machine.now_s, seconds)
        machine.log.failed(Failed(queued, failure.decision, failure.status, seconds), machine.now_s)

    def fail(self, entry: QueuedGroup, members: Sequence[QueuedPod], problem: str) -> None:
        """Nothing was decided: something is wrong with the group as a whole."""
        status = Status(Code.ERROR, (problem,))
        failures = [(queued, _told(queued, None, status, Nominate(""))) for queued in members]
        for queued, failure in failures:
            self._note(queued, failure, 0.0)
        held = self._held_places(members)
        self._machine.failure.handle_group(entry, failures, frozenset())
        self._tell_of_places(held, members)

    def _count(
        self,
        framework: Framework,
        entry: QueuedGroup,
        result: GroupAttempt,
        times: tuple[float, float],
    ) -> None:
        machine = self._machine
        begun_s, decided_s = times
        label = "scheduled"
        if result.is_error:
            label = "error"
        elif result.status is not None:
            label = "waiting_on_preemption" if result.is_preempting else "unschedulable"
        seconds = machine.clock() - begun_s
        ended = GroupEnded(entry.group, framework.profile, label, seconds, decided_s - begun_s)
        machine.log.group_ended(ended, machine.now_s)

    # -- what happens meanwhile -------------------------------------------------------------

    @property
    def queue(self) -> GroupedQueue:
        queue = self._machine.queue
        assert isinstance(queue, GroupedQueue)
        return queue

    def arrived(self, pods: Sequence[PodInfo]) -> None:
        """Pods without a node are there: before the queue hears of them."""
        cache = self._machine.cache
        assert isinstance(cache, GroupedCache)
        cache.groups.waits(pods)

    def priority_of(self, key: str) -> int | None:
        """What the group has in the queue in place of its members' priorities, if anything."""
        machine = self._machine
        if WORKLOAD_AWARE_PREEMPTION not in machine.config.features:
            return None
        group = machine.objects.get(PodGroup, key)
        return None if group is None else group.spec.priority

    def left(self, pod: PodInfo) -> None:
        """A pod is there no more, with or without a node."""
        cache = self._machine.cache
        assert isinstance(cache, GroupedCache)
        cache.groups.gone(pod)

    def member_changed(self, event: ClusterEvent, pod: PodInfo) -> None:
        """A member got a node from somebody else, or was taken off its node."""
        if pod.kind.is_member:
            self.queue.group_changed(pod.group_key, event, None, pod.pod)

    def object_changed(self, event: ClusterEvent, old: KubeObject | None, group: PodGroup) -> None:
        if event.action is Action.DELETE:
            self.conditions.gone(group)
            self._together.pop(group.key, None)
            self.queue.group_deleted(group.key)
        else:
            self.conditions.shown(group)
            self.queue.group_changed(group.key, event, old, group)


def _rejectors(framework: Framework, result: GroupAttempt) -> frozenset[str]:
    """Whose events may help the group, besides those of the members' own rejectors."""
    rejectors = frozenset(result.rejectors)
    if result.status is None or not result.status.is_rejected:
        return rejectors
    for member in result.members:
        attempt = member.attempt
        named = attempt.unschedulable_plugins or attempt.pending_plugins
        if attempt.status is not None and not named:
            # There is no node at all.  No plugin would hear of one, so the group is tried again
            # and again, as a pod of its own is.
            return rejectors
    return rejectors | ({GANG_PLUGIN} & framework.plugins.instances.keys())


def _has_to_wait(attempt: Attempt) -> bool:
    """Whether Permit keeps the pod, or there is something to do for it at PreBind."""
    pod = attempt.assumed
    assert pod is not None
    if attempt.cycle.plan.outline.pre_bind:
        try:
            attempt.pre_flight = pre_flight(attempt.cycle, pod, pod.node_name)
        except PluginFailed as failure:
            attempt.pre_flight = failure
    return bool(attempt.waits or attempt.pre_flight)


def _places(members: Sequence[Member]) -> tuple[dict[str, str], dict[str, str]]:
    """Who had a place where, and who had none, and why."""
    placed, unplaced = {}, {}
    for member in members:
        pod, assumed = member.queued.info.key, member.attempt.assumed
        if assumed is not None and member.refused is None:
            placed[pod] = assumed.node_name
        else:
            decision = (member.refused or member.attempt).decision
            unplaced[pod] = decision.message or decision.error
    return placed, unplaced


def _failure(queued: QueuedPod, member: Member | None, result: GroupAttempt) -> Failure:
    """What a member that is not bound is told."""
    status, clear = result.status, Nominate("")
    if status is None:
        assert member is not None
        return Failure.of(member.attempt)
    if not status.is_rejected:
        own = None if member is None else member.attempt.status
        if member is not None and own is not None and not own.is_rejected:
            return Failure.of(member.attempt)
        return _told(queued, member, status, clear)
    if member is None:
        return _told(queued, member, status, clear)
    if member.attempt.assumed is None:
        return Failure.of(member.attempt)
    if not result.is_preempting:
        told = [text for text in (UNSCHEDULABLE, member.permit_message) if text]
        return _told(queued, member, rejected(*told), clear)
    if member.refused is not None:
        return Failure.of(member.refused)
    return _told(queued, member, status, Nominate(member.attempt.decision.node))


def _told(queued: QueuedPod, member: Member | None, status: Status, nominate: Nominate) -> Failure:
    decision = Decision(queued.info.key, nominated_node=nominate.node)
    if member is not None:
        decided = member.attempt.decision
        decision.node_count, decision.feasible_count = decided.node_count, decided.feasible_count
        decision.explanation = decided.explanation
    if status.is_rejected:
        decision.message = status.message
    else:
        decision.error = status.message
    return Failure(status, decision, nominate)
