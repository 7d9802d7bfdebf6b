"""What must hold for groups, whatever goes wrong: looked at where they are decided on and bound.

A gang is decided on as a whole: when its first binding is made, enough members have a
node or are on their way to one.  A group within a topology is decided on in one domain.  A group
that is disrupted whole is evicted whole.  Who belongs together is what the informers showed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from stowplan.core.machine import Machine
from stowplan.core.preemption import Preemption
from stowplan.framework.runtime import Framework
from stowplan.objects.api import Bind, Request
from stowplan.objects.pod_groups import PodGroup
from stowplan.queue import QueuedGroup, QueuedPod
from stowplan.state.groups import GroupedCache, GroupState
from stowplan.state.pod_info import PodInfo

if TYPE_CHECKING:
    from tests.simulation.process import Process


class GroupChecks:
    """Stands between one machine and what decides on its groups."""

    def __init__(self, process: Process) -> None:
        self._process = process
        machine = process.machine
        assert machine.groups is not None
        self._search, self._prepare = machine.groups.search, machine.failure.prepare_group
        machine.groups.search = self.search  # type: ignore[method-assign]
        machine.failure.prepare_group = self.prepare  # type: ignore[method-assign]
        self._ask = machine.stepper.ask
        machine.stepper.ask = self.ask  # type: ignore[method-assign]
        self._undecided = ""
        """The group that is being decided on; as soon as its first member is bound, others may
        fail."""
        self._sent: set[str] = set()
        """Uids of members whose binding was sent in the attempt that is under way."""

    def search(
        self, framework: Framework, entry: QueuedGroup, members: Sequence[QueuedPod]
    ) -> Generator[Any, Any, Any]:
        self._process.notes.begin_group(members)
        self._undecided = entry.group
        return (yield from self._search(framework, entry, members))

    def prepare(
        self, framework: Framework, member: PodInfo, group: PodGroup, victims: list[PodInfo]
    ) -> Preemption:
        evicted = {victim.uid for victim in victims}
        for key in {victim.group_key for victim in victims if victim.kind.is_member}:
            other = self._object(key)
            if other is None or not other.spec.is_disrupted_whole:
                continue
            there = [pod for pod in self._state(key).scheduled() if self._is_there(pod)]
            left = [pod.key for pod in there if pod.uid not in evicted]
            if left:
                self._process.problems.append(f"{group.key} evicts {key}, but not {left}")
        return self._prepare(framework, member, group, victims)

    def decided(self, pod: PodInfo, node: str) -> None:
        """A member has a node; all of them that found one are counted there."""
        if not node or pod.group_key != self._undecided or not pod.kind.is_member:
            return
        self._undecided = ""
        group, state = self._object(pod.group_key), self._state(pod.group_key)
        if group is None:
            return
        if state.scheduled_count < group.spec.min_count:
            found = f"{state.scheduled_count} of {group.spec.min_count}"
            self._process.problems.append(f"{group.key} is to be bound with {found}")
        if group.spec.topology_key and self._process.world.weather.topology:
            domains = {self._domain(group, it) for it in state.scheduled()}
            if len(domains) != 1 or None in domains:
                self._process.problems.append(f"{group.key} is spread over {domains}")

    def ask(self, request: Request, asker: Any) -> None:
        """Looks at bindings as they are decided on: where events were held back, for an extender
        had been asked, they are told of before the bindings leave."""
        if isinstance(request, Bind):
            self._bound(request)
        self._ask(request, asker)

    def _bound(self, bind: Bind) -> None:
        known = self._process.machine.cache.pod(bind.uid)
        if known is None or not known.kind.is_member or bind.uid in self._sent:
            return  # One that is sent again was decided on with the others.
        self._sent.add(bind.uid)
        group, state = self._object(known.group_key), self._state(known.group_key)
        if group is not None and state.scheduled_count < group.spec.min_count:
            found = f"{state.scheduled_count} of {group.spec.min_count}"
            self._process.problems.append(f"{bind.name} is bound with {found} of its gang")

    def ended(self, uid: str) -> None:
        self._sent.discard(uid)

    def _object(self, key: str) -> PodGroup | None:
        return self._process.machine.objects.get(PodGroup, key)

    def _state(self, key: str) -> GroupState:
        cache = self._process.machine.cache
        assert isinstance(cache, GroupedCache)
        return cache.groups.of(key)

    def _is_there(self, pod: PodInfo) -> bool:
        """Whether the pod's node is: those whose node has gone go with it."""
        info = self._process.machine.cache.nodes.get(pod.node_name)
        return info is not None and info.node is not None

    def _domain(self, group: PodGroup, pod: PodInfo) -> str | None:
        info = self._process.machine.cache.nodes.get(pod.node_name)
        return None if info is None else info.labels.get(group.spec.topology_key)


def group_problems(machine: Machine) -> Iterable[str]:
    """Members are counted as the informers showed them, and as they are assumed."""
    cache = machine.cache
    if not isinstance(cache, GroupedCache):
        return
    expected: dict[str, dict[str, set[str]]] = {}

    def count(pod: PodInfo, where: str) -> None:
        places = ("waiting", "assumed", "assigned")
        state = expected.setdefault(pod.group_key, {place: set() for place in places})
        state[where].add(pod.uid)

    for info in machine.pods.values():
        if info.kind.is_member and not info.node_name and machine.is_ours(info.pod):
            count(info, "waiting")
    for uid in cache.pod_uids():
        info = cache.pod(uid)
        if info is not None and info.kind.is_member:
            count(info, "assumed" if cache.is_assumed(uid) else "assigned")
    for key in {*expected, *cache.groups._states}:
        state = cache.groups.of(key)
        for place, uids in expected.get(key, {}).items():
            if {*getattr(state, place)} != uids:
                yield f"{place} of {key} are {[*getattr(state, place)]}, should be {[*uids]}"
        if key not in expected:
            yield f"{key} is remembered, and has no members"
