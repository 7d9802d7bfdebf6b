"""A group's scheduling cycle: the cycle of one pod for each member, kept or undone as a whole.

Members are decided on one after the other by `core.schedule_one`, each counted on its node before
the next, so that later ones see the earlier ones: resources, affinity, ports, volumes, claims.
What was reserved for a trial that is not kept is given back in reverse order (`undo`), and nothing
remains of it.  Where nodes have a topology, there is a trial for each placement, as far as need be.
`core.groups` calls it and hands on what came of it.  Mirrors kube-scheduler's
`schedule_one_podgroup.go`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from msgspec import Struct, field

from stowplan.core.decision import Decision
from stowplan.core.group_outcome import Domain, most_promising
from stowplan.core.placements import GroupAlgorithm, PlacementChoice
from stowplan.core.reserving import unreserve
from stowplan.core.schedule_one import Attempt, assume_and_reserve, schedule_one
from stowplan.framework.errors import PluginFailed, describe, point_failed
from stowplan.framework.groups import GroupCycle, PlacedGroup, Placement
from stowplan.framework.runtime import Framework
from stowplan.framework.status import Code, Status
from stowplan.queue import QueuedPod
from stowplan.state.cache import Cache
from stowplan.state.pod_info import PodInfo

UNSCHEDULABLE = "pod group is unschedulable"
WAITING_FOR_PREEMPTION = "pod group is waiting for preemption to complete"
NO_PLACEMENT = "no feasible placements found"
_ASKED_TO_WAIT = "one or more plugins asked to wait and no plugin rejected pod"


class Member(Struct):
    """What came of one member."""

    queued: QueuedPod
    attempt: Attempt
    """Assumed on a node, or why not."""
    seconds: float
    refused: Attempt | None = None
    """Why it fits nowhere, if it was counted on the node that preemption would free for it."""

    @property
    def permit_message(self) -> str:
        reasons = [wait.reason for wait in self.attempt.waits.values() if wait.reason]
        return ", ".join((*reasons, _ASKED_TO_WAIT)) if self.attempt.waits else ""


class GroupAttempt(Struct):
    """What came of a group."""

    members: list[Member] = field(default_factory=list)
    """In order; after an error, up to the one that it happened to."""
    status: Status | None = None
    """None: the group is scheduled, and those that found a node are counted there."""
    is_preempting: bool = False
    """It would fit once the victims of its members are gone."""
    rejectors: set[str] = field(default_factory=set)
    """Of the group itself, and of members in placements that are not shown."""
    problems: list[Exception] = field(default_factory=list)
    placement: Placement | None = None
    domains: tuple[Domain, ...] = ()
    """Where it was tried in vain, and where that was not worth a trial."""
    victims: list[PodInfo] = field(default_factory=list)
    """Whom the group as a whole evicts."""
    places: dict[str, str] = field(default_factory=dict)
    """Where members go once these are gone: uid -> node."""

    @property
    def is_possible(self) -> bool:
        return self.status is None or self.is_preempting

    @property
    def is_error(self) -> bool:
        return self.status is not None and not self.status.is_rejected

    @property
    def placed_count(self) -> int:
        return sum(member.attempt.assumed is not None for member in self.members)

    @property
    def free_count(self) -> int:
        """As `placed_count`, without those for whom somebody would have to go."""
        return self.placed_count - sum(member.refused is not None for member in self.members)


def rejected(*reasons: str) -> Status:
    return Status(Code.UNSCHEDULABLE, reasons)


class GroupScheduler:
    """One group's cycle."""

    def __init__(
        self,
        framework: Framework,
        cache: Cache,
        algorithm: GroupAlgorithm,
        cycle: GroupCycle,
        members: Sequence[QueuedPod],
        *,
        by_placement: bool,
    ) -> None:
        """`by_placement`: whether plugins say where the group may be placed."""
        self._framework = framework
        self._cache = cache
        self._algorithm = algorithm
        self._cycle = cycle
        self._members = members
        self._by_placement = by_placement

    def search(self, *, post_filters: bool = True) -> Generator[Any, Any, GroupAttempt]:
        """Find nodes for the members; what is found is counted on them, if it is enough."""
        self._algorithm.post_filters = post_filters
        try:
            if not self._by_placement:
                return (yield from self._kept_if_possible(None))
            return (yield from self._search_placements())
        except PluginFailed as failure:
            return GroupAttempt(status=failure.status, problems=[failure])
        finally:
            self._algorithm.narrow(self._cycle.nodes, None)

    def search_within(self, value: str) -> Generator[Any, Any, GroupAttempt]:
        """How the members would fare in the placement of that name; nothing is kept."""
        self._algorithm.post_filters = False
        try:
            placements = self._placements()
            known = () if isinstance(placements, Status) else placements
            placement = next((each for each in known if each.name == value), None)
            if placement is None:
                return GroupAttempt(status=rejected(NO_PLACEMENT))
            attempt = yield from self._try(placement)
            self.undo(attempt)
            return attempt
        finally:
            self._algorithm.narrow(self._cycle.nodes, None)

    def undo(self, attempt: GroupAttempt) -> None:
        """Give back all that the members hold, in reverse order."""
        for member in reversed(attempt.members):
            self._give_back(member, attempt)
        self._cycle.nodes.refresh(self._cache)

    def _give_back(self, member: Member, attempt: GroupAttempt) -> None:
        tried = member.attempt
        assumed = tried.assumed
        if assumed is not None:
            node = assumed.node_name
            attempt.problems += unreserve(self._framework, tried.cycle, assumed, node)
            self._cache.forget_pod(assumed)

    # -- on some nodes ----------------------------------------------------------------------

    def _kept_if_possible(self, placement: Placement | None) -> Generator[Any, Any, GroupAttempt]:
        attempt = yield from self._try(placement)
        if attempt.status is not None:
            self.undo(attempt)
        return attempt

    def _try(self, placement: Placement | None) -> Generator[Any, Any, GroupAttempt]:
        """The members, one after the other; those that found a node are counted there."""
        self._algorithm.narrow(self._cycle.nodes, placement)
        now = self._framework.recorder.now
        result = GroupAttempt(status=rejected(UNSCHEDULABLE), placement=placement)
        preempts = False
        for queued in self._members:
            started_s = now()
            member = yield from self._try_member(queued)
            member.seconds = now() - started_s
            result.members.append(member)
            attempt = member.attempt
            result.problems += attempt.problems
            if attempt.assumed is None:
                assert attempt.status is not None
                if attempt.status.is_rejected:
                    continue
                told = f"failed to schedule other pod from a pod group: {attempt.status.message}"
                result.status, result.is_preempting = Status(Code.ERROR, (told,)), False
                break
            preempts = preempts or member.refused is not None
            if not attempt.waits:
                result.is_preempting = preempts
                result.status = (
                    rejected(UNSCHEDULABLE, WAITING_FOR_PREEMPTION) if preempts else None
                )
        if result.status is None and preempts:
            self._withhold(result)
        return result

    def _withhold(self, result: GroupAttempt) -> None:
        """Of a group that is bound, leave out those whose places somebody else has still.

        They came after enough others, and Permit did not let them through at once.
        """
        for member in reversed(result.members):
            if member.refused is not None:
                self._give_back(member, result)
                member.attempt, member.refused = member.refused, None

    def _try_member(self, queued: QueuedPod) -> Generator[Any, Any, Member]:
        framework, pod = self._framework, queued.info
        attempt = yield from schedule_one(framework, self._cache, self._algorithm, pod)
        nominate = attempt.nominate
        if attempt.assumed is not None or nominate is None or not nominate.node:
            return Member(queued, attempt, 0.0)
        # Others of the group are to see it where preemption makes room for it.
        decision = Decision(pod.key, nominate.node, node_count=attempt.decision.node_count)
        placed = assume_and_reserve(framework, self._cache, attempt.cycle, pod, decision)
        return Member(queued, placed, 0.0, attempt if placed.assumed is not None else None)

    # -- placements -------------------------------------------------------------------------

    def _search_placements(self) -> Generator[Any, Any, GroupAttempt]:
        placements = self._placements()
        if isinstance(placements, Status):
            return GroupAttempt(status=placements)
        if not placements:
            names = {_name(plugin) for plugin in self._framework.plugins.placement_generate}
            return GroupAttempt(status=rejected(NO_PLACEMENT), rejectors=names)
        chosen = PlacementChoice(self._framework, self._cycle, placements)
        first: GroupAttempt | None = None
        possible: list[GroupAttempt] = []
        rejectors: set[str] = set()
        counts: dict[str, int] = {}
        while chosen.to_try:
            placement = chosen.to_try.pop(0)
            attempt = yield from self._try(placement)
            is_best = attempt.is_possible and chosen.is_best(attempt.placed_count)
            if is_best and not possible and attempt.status is None:
                return attempt
            counts[placement.name] = attempt.free_count
            self.undo(attempt)
            if attempt.is_error:
                return attempt
            for member in attempt.members:
                rejectors |= member.attempt.unschedulable_plugins
            if attempt.is_possible:
                possible.append(attempt)
            elif first is None:
                chosen.learn((tried.attempt.cycle, tried.queued.info) for tried in attempt.members)
            first = first or attempt
            if is_best:
                break
        if possible:
            best = chosen.best([_placed(tried) for tried in possible])
            return (yield from self._again(possible[best]))
        assert first is not None
        assert first.status is not None
        told = f"0/{len(placements)} placements are available, first placement status: "
        first.status = rejected(told + first.status.message)
        first.rejectors = rejectors | chosen.too_small
        first.domains = most_promising(chosen.bounds, counts)
        return first

    def _placements(self) -> list[Placement] | Status:
        """Where the group may go."""
        plugins, cycle = self._framework.plugins.placement_generate, self._cycle
        if not plugins:
            return [Placement("", cycle.nodes.alive.nonzero()[0])]
        (plugin,) = plugins
        recorder, label = self._framework.recorder, "Error"
        started_s = recorder.now()
        try:
            found = plugin.generate_placements(cycle)
            label = found.code.label if isinstance(found, Status) else "Success"
        except Exception as cause:
            raise point_failed(_name(plugin), "PlacementGenerate", describe(cause)) from cause
        finally:
            seconds = recorder.now() - started_s
            recorder.point("PlacementGenerate", self._framework.profile, label, seconds)
        if isinstance(found, Status):
            return found
        return [*found]

    def _again(self, attempt: GroupAttempt) -> Generator[Any, Any, GroupAttempt]:
        """Count the members where a trial that was undone had them, if the group fits now.

        What plugins set aside was found out as the members were decided on, each after the ones
        before it: where there was such, they are decided on once more.
        """
        if attempt.status is not None:
            return attempt
        if any(member.attempt.cycle.plan.outline.reserve for member in attempt.members):
            return (yield from self._kept_if_possible(attempt.placement))
        kept: list[Member] = []
        for member in attempt.members:
            if member.attempt.assumed is not None:
                member.attempt = self._assume_again(member)
                if member.attempt.assumed is None:
                    result = GroupAttempt(kept, member.attempt.status)
                    self.undo(result)
                    return result
            kept.append(member)
        return attempt

    def _assume_again(self, member: Member) -> Attempt:
        attempt = member.attempt
        return assume_and_reserve(
            self._framework, self._cache, attempt.cycle, member.queued.info, attempt.decision
        )


def _placed(attempt: GroupAttempt) -> PlacedGroup:
    assert attempt.placement is not None
    found = (member.attempt.assumed for member in attempt.members)
    nodes = {assumed.uid: assumed.node_name for assumed in found if assumed is not None}
    return PlacedGroup(attempt.placement, nodes)


def _name(plugin: Any) -> str:
    name: str = plugin.name
    return name
