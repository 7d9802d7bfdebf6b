"""Bugs to plant, each as one small change to the real code: the simulation must find every one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import stowplan.core.binding
from stowplan.cluster.informer import Informer
from stowplan.cluster.leader_election import LeaderElector
from stowplan.cluster.reflector import Reflector
from stowplan.core.group_preemption import GroupPreemption
from stowplan.core.groups import GroupCycles
from stowplan.core.messages import Call, Effect
from stowplan.core.placements import GroupAlgorithm
from stowplan.core.schedule_group import GroupAttempt, GroupScheduler, Member
from stowplan.core.together import GANG_PLUGIN
from stowplan.framework.events import Action
from stowplan.objects.api import Bind
from stowplan.plugins.dynamic_resources.binding import ClaimBinding
from stowplan.plugins.dynamic_resources.claim_cache import ClaimCache
from stowplan.plugins.gang_scheduling import GangScheduling
from stowplan.queue.backoff import BackoffQueue
from stowplan.queue.nominator import Nominator
from stowplan.queue.scheduling_queue import SchedulingQueue
from stowplan.runtime.driver import Driver
from stowplan.state.cache import Cache
from stowplan.state.changes import CacheChange
from stowplan.state.node_info import NodeInfo

Plant = Callable[[pytest.MonkeyPatch], None]


def forgotten_unreserve(patch: pytest.MonkeyPatch) -> None:
    """After a binding failed, plugins are not told to give back what they took."""
    patch.setattr(stowplan.core.binding, "unreserve", lambda *_: ())


def missed_wake_up(patch: pytest.MonkeyPatch) -> None:
    """Pods that wait for room do not hear that a pod has gone."""
    move_all = SchedulingQueue.move_all

    def deaf(self: SchedulingQueue, event: Any, *args: Any, **kwargs: Any) -> None:
        if event.action != Action.DELETE:
            move_all(self, event, *args, **kwargs)

    patch.setattr(SchedulingQueue, "move_all", deaf)


def stuck_backoff(patch: pytest.MonkeyPatch) -> None:
    """Pods never come out of backoff."""
    patch.setattr(BackoffQueue, "next_completion_s", lambda *_: None)
    patch.setattr(BackoffQueue, "pop_completed", lambda *_: [])
    patch.setattr(BackoffQueue, "rejected_count", 0)


def double_bind(patch: pytest.MonkeyPatch) -> None:
    """Every binding is sent again, in case the first one was lost."""
    carry_out = Driver._carry_out

    def twice(self: Driver, effects: list[Effect]) -> None:
        again = [e for e in effects if isinstance(e, Call) and isinstance(e.request, Bind)]
        carry_out(self, [*effects, *again])

    patch.setattr(Driver, "_carry_out", twice)


def lost_answer_is_failure(patch: pytest.MonkeyPatch) -> None:
    """A binding whose answer is lost is taken for one that failed."""
    patch.setattr(stowplan.core.binding, "is_unsure", lambda answer: False)


def lost_watch_event(patch: pytest.MonkeyPatch) -> None:
    """One event in a hundred gets lost on its way through the informer."""
    apply = Informer.apply

    def forgetful(self: Informer, events: Any) -> None:
        apply(self, [event for event in events if int(event.resource_version) % 100 != 42])

    patch.setattr(Informer, "apply", forgetful)


def watch_skips_ahead(patch: pytest.MonkeyPatch) -> None:
    """A history that is gone is not listed again: the watch goes on with what comes next."""
    patch.setattr(Reflector, "_begin_list", _watch_from_now(Reflector._begin_list))


def _watch_from_now(begin_list: Callable[[Reflector], None]) -> Callable[[Reflector], None]:
    def begin(self: Reflector) -> None:
        if not self.resource_version:
            begin_list(self)
            return
        self.resource_version = self._cluster.store.resource_version  # type: ignore[attr-defined]
        self._begin_watch()

    return begin


def nomination_kept(patch: pytest.MonkeyPatch) -> None:
    """A pod that got its node is still counted as one for whom room is being made."""
    patch.setattr(Nominator, "delete", lambda *_: None)


def cache_does_not_forget(patch: pytest.MonkeyPatch) -> None:
    """A pod whose binding failed still takes up its room."""
    patch.setattr(Cache, "forget_pod", lambda *_: None)


def lease_not_respected(patch: pytest.MonkeyPatch) -> None:
    """Whoever asks for the lease takes it."""
    patch.setattr(LeaderElector, "_is_valid", lambda *_: False)


def follower_schedules(patch: pytest.MonkeyPatch) -> None:
    """A replica that does not lead decides all the same."""
    patch.setattr(Driver, "active", property(lambda _: True, lambda *_: None))


def deadline_ignored(patch: pytest.MonkeyPatch) -> None:
    """A leader that cannot renew its lease stays in office."""
    patch.setattr(LeaderElector, "_watch_deadline", lambda *_: None)
    patch.setattr(LeaderElector, "_lose", lambda *_: None)


def sums_not_lowered(patch: pytest.MonkeyPatch) -> None:
    """A pod that leaves a node does not give back what it requested."""

    def remove_pod(self: NodeInfo, info: Any) -> None:
        del self.pods[info.uid]

    patch.setattr(NodeInfo, "remove_pod", remove_pod)


def table_misses_changes(patch: pytest.MonkeyPatch) -> None:
    """The node table does not hear of pods that leave."""
    take_changes = Cache.take_changes

    def some(self: Cache) -> list[Any]:
        return [change for change in take_changes(self) if change[0] is not CacheChange.POD_REMOVED]

    patch.setattr(Cache, "take_changes", some)


def double_allocation(patch: pytest.MonkeyPatch) -> None:
    """Devices that are being written into a claim are given to the next one as well."""
    count = ClaimCache._count

    def blind(self: ClaimCache, uid: str) -> None:
        under_way, self._in_flight = self._in_flight, {}
        count(self, uid)
        self._in_flight = under_way

    patch.setattr(ClaimCache, "_count", blind)


def forgotten_release(patch: pytest.MonkeyPatch) -> None:
    """What was kept for a claim is kept when nothing came of it."""
    patch.setattr(ClaimCache, "end", lambda *_: False)


def forgotten_reservation(patch: pytest.MonkeyPatch) -> None:
    """After a binding failed, its claims stay reserved and its special claim stays."""
    patch.setattr(ClaimBinding, "undo", lambda *_: None)


def half_bound_gang(patch: pytest.MonkeyPatch) -> None:
    """Members of a gang are bound as soon as they are ready, whatever becomes of the others."""
    patch.setattr(GroupCycles, "_bind_together", _without_waiting)


def _without_waiting(self: GroupCycles, framework: Any, key: str, members: list[Member]) -> None:
    for member in members:
        member.attempt.waits.pop(GANG_PLUGIN, None)


def gang_of_one(patch: pytest.MonkeyPatch) -> None:
    """A gang is taken for complete with its first member."""
    patch.setattr(GangScheduling, "permit", lambda *_: None)


def leaked_group_reservation(patch: pytest.MonkeyPatch) -> None:
    """The first member of a group that did not fit keeps what it reserved."""
    undo = GroupScheduler.undo

    def forgetful(self: GroupScheduler, attempt: GroupAttempt) -> None:
        for member in attempt.members[:1]:
            if (assumed := member.attempt.assumed) is not None:
                self._cache.forget_pod(assumed)
                member.attempt.assumed = None
        undo(self, attempt)

    patch.setattr(GroupScheduler, "undo", forgetful)


def split_domain(patch: pytest.MonkeyPatch) -> None:
    """A group with a topology goes wherever there is room."""
    patch.setattr(GroupAlgorithm, "narrow", lambda *_: None)


def split_victims(patch: pytest.MonkeyPatch) -> None:
    """Of a group that is disrupted whole only one pod is evicted."""
    search = GroupPreemption._search

    def one_each(self: GroupPreemption, result: GroupAttempt) -> Any:
        found = yield from search(self, result)
        if isinstance(found, list):
            found = [*{pod.group_key or pod.uid: pod for pod in found}.values()]
        return found

    patch.setattr(GroupPreemption, "_search", one_each)


PLANTS: tuple[Plant, ...] = (
    forgotten_unreserve,
    missed_wake_up,
    stuck_backoff,
    double_bind,
    lost_answer_is_failure,
    lost_watch_event,
    watch_skips_ahead,
    nomination_kept,
    cache_does_not_forget,
    lease_not_respected,
    follower_schedules,
    deadline_ignored,
    sums_not_lowered,
    table_misses_changes,
    double_allocation,
    forgotten_release,
    forgotten_reservation,
    half_bound_gang,
    gang_of_one,
    leaked_group_reservation,
    split_domain,
    split_victims,
)
