"""The allocator: which devices the claims of a pod get on one node.

A depth-first search over claims, requests, and the devices of a request in their order: the first
solution is taken, so earlier requests get the earliest devices.  Mirrors `allocator_incubating.go`
of upstream's `dynamic-resource-allocation/structured`, in what is found and in what fails.  The
plugin asks per node (`NodeSearch.run`); what is found there is written out by `results`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, NamedTuple

from stowplan.objects.devices import ALL_DEVICES, EXACT_COUNT
from stowplan.plugins.dynamic_resources.capacity import Amounts, amounts_taken
from stowplan.plugins.dynamic_resources.claim_cache import HeldDevices
from stowplan.plugins.dynamic_resources.constraints import Constraint, make_constraint
from stowplan.plugins.dynamic_resources.counters import PoolCounters
from stowplan.plugins.dynamic_resources.demand import Demand
from stowplan.plugins.dynamic_resources.device_entry import DeviceEntry, DeviceId
from stowplan.plugins.dynamic_resources.pool import Candidate, Pool
from stowplan.plugins.dynamic_resources.requests import (
    RESULTS_MAX,
    AllocationError,
    Ask,
    ClaimAsk,
)
from stowplan.plugins.dynamic_resources.tolerations import all_tolerated
from stowplan.state.node_info import NodeInfo


class TimedOut(Exception):
    """The search took more steps than it may."""


class _End(Enum):
    FOUND = auto()
    FAILED = auto()
    LIMIT = auto()
    """The claim would have more devices than it can: alternatives with fewer may do."""


_Step = Generator[Any, _End, _End]
"""Yields steps inside it."""


def run_nested(first: _Step) -> _End:
    """Run a step and those inside it, however deep."""
    steps = [first]
    end: Any = None
    while steps:
        try:
            # A generator that has not begun takes None.
            steps.append(steps[-1].send(end))
            end = None
        except StopIteration as stop:
            steps.pop()
            end = stop.value
    assert isinstance(end, _End)
    return end


class Choice(NamedTuple):
    """A device for a request."""

    ask: Ask
    entry: DeviceEntry
    amounts: Amounts | None
    """What is taken of a device that may be shared; None of any other."""
    is_counted: bool = False
    """Whether it takes from counters, too."""


Choices = list[list[Choice]]
"""Per claim, in the order of choice."""


@dataclass(slots=True, eq=False)
class _Task:
    """An `Ask` on this node."""

    ask: Ask
    count: int
    everything: list[Candidate] | None = None
    """All that match, where all are asked for."""


@dataclass(slots=True, eq=False)
class _ClaimTask:
    claim: ClaimAsk
    number: int
    requests: list[list[_Task]]
    constraints: list[Constraint]
    chosen: list[Choice] = field(default_factory=list)


class NodeSearch:
    """One search, on one node."""

    def __init__(
        self, node: NodeInfo, pools: Sequence[Pool], held: HeldDevices, steps_max: int
    ) -> None:
        self._node = node
        self._pools = pools
        self._held = held
        self._steps_left = steps_max
        self._candidates = [
            Candidate(entry, pool) for pool in pools if pool.is_usable for entry in pool.devices
        ]
        self._claims: list[_ClaimTask] = []
        self._taken: set[DeviceId] = set()
        self._taken_by: set[tuple[int, DeviceId]] = set()
        """The same, with the number of the claim."""
        self._consumed: dict[DeviceId, dict[str, int]] = {}
        self._counters: dict[int, PoolCounters] = {}

    @property
    def has_invalid_pool(self) -> bool:
        return any(pool.is_invalid for pool in self._pools)

    def run(self, claims: Sequence[ClaimAsk]) -> Choices | None:
        """What the claims get; None if not all of them get something.

        Raises `AllocationError` or `TimedOut`.
        """
        self._claims = [self._prepare(number, claim) for number, claim in enumerate(claims)]
        if not self._may_suffice() or run_nested(self._claim(0)) is not _End.FOUND:
            return None
        return [task.chosen for task in self._claims]

    # -- before the search ------------------------------------------------------------------

    def _prepare(self, number: int, claim: ClaimAsk) -> _ClaimTask:
        requests = [[self._task(ask) for ask in asks] for asks in claim.requests]
        total = sum(min((task.count for task in tasks), default=0) for tasks in requests)
        if total > RESULTS_MAX:
            raise AllocationError(
                f"claim {claim.key}: number of requested devices {total} "
                f"exceeds the claim limit of {RESULTS_MAX}"
            )
        constraints: list[Constraint] = []
        for position, written in enumerate(claim.constraints):
            constraint = make_constraint(written)
            if constraint is None:
                raise AllocationError(
                    f"claim {claim.key}, constraint #{position}: "
                    "empty constraint (unsupported constraint type?)"
                )
            constraints.append(constraint)
        return _ClaimTask(claim, number, requests, constraints)

    def _task(self, ask: Ask) -> _Task:
        mode = ask.ask.mode
        if mode == EXACT_COUNT:
            return _Task(ask, ask.count)
        where = f"claim {ask.claim_key}, request {ask.bare_name}"
        if mode != ALL_DEVICES:
            raise AllocationError(f"{where}: unsupported count mode {mode}")
        found: list[Candidate] = []
        for pool in self._pools:
            if not pool.is_usable:
                state = "being updated" if pool.is_incomplete else "invalid"
                raise AllocationError(
                    f"{where}: asks for all devices, "
                    f"but resource pool {pool.name} is currently {state}"
                )
            found += [
                Candidate(entry, pool)
                for entry in pool.devices
                if self._selectable(ask, entry) and self._amounts(ask, entry) is not None
            ]
        return _Task(ask, len(found), found)

    def _may_suffice(self) -> bool:
        demand = Demand(self._node, self._candidates, self._held, self._counters_of)
        return demand.can_be_met([(it.claim.requests, it.constraints) for it in self._claims])

    # -- the search -------------------------------------------------------------------------
    #
    # Each step is a generator that yields the steps inside it and is sent how they ended: a pod
    # may ask for more devices than Python nests calls.

    def _claim(self, number: int) -> _Step:
        if number == len(self._claims):
            return _End.FOUND
        return (yield self._request(self._claims[number], 0))

    def _request(self, claim: _ClaimTask, number: int) -> _Step:
        if number == len(claim.requests):
            end = yield self._claim(claim.number + 1)
            return _End.FAILED if end is _End.LIMIT else end
        tasks = claim.requests[number]
        if len(tasks) == 1 and not tasks[0].ask.sub:
            return (yield self._devices(claim, number, tasks[0], 0, 0))
        all_limited = True
        for task in tasks:
            end = yield self._devices(claim, number, task, 0, 0)
            if end is _End.FOUND:
                return end
            all_limited = all_limited and end is _End.LIMIT
        return _End.LIMIT if all_limited else _End.FAILED

    def _devices(self, claim: _ClaimTask, number: int, task: _Task, have: int, start: int) -> _Step:
        """Find the rest of the devices of a request, from `start` on, and all that follows."""
        if task.everything is not None and not task.everything:
            return _End.FAILED
        if have == task.count:
            return (yield self._request(claim, number + 1))
        if len(claim.chosen) + task.count - have > RESULTS_MAX:
            return _End.LIMIT
        if task.everything is not None:
            return (yield self._next_of_all(claim, number, task, have))
        ask = task.ask
        for position in range(start, len(self._candidates)):
            candidate = self._candidates[position]
            entry = candidate.entry
            if self._is_in_use(claim, ask, entry) or not self._selectable(ask, entry):
                continue
            if self._amounts(ask, entry) is None or not self._take(claim, task, candidate):
                continue
            end = yield self._devices(claim, number, task, have + 1, position + 1)
            if end is _End.FOUND:
                return end
            self._give_back(claim, candidate)
            if end is _End.LIMIT:
                return end
        return _End.FAILED

    def _next_of_all(self, claim: _ClaimTask, number: int, task: _Task, have: int) -> _Step:
        assert task.everything is not None
        candidate = task.everything[have]
        if not self._take(claim, task, candidate):
            return _End.FAILED
        end = yield self._devices(claim, number, task, have + 1, 0)
        if end is not _End.FOUND:
            self._give_back(claim, candidate)
        return end

    # -- one device -------------------------------------------------------------------------

    def _is_in_use(self, claim: _ClaimTask, ask: Ask, entry: DeviceEntry) -> bool:
        if ask.is_admin:
            return (claim.number, entry.id) in self._taken_by
        return entry.id in self._held.dedicated or entry.id in self._taken

    def _selectable(self, ask: Ask, entry: DeviceEntry) -> bool:
        self._steps_left -= 1
        if self._steps_left < 0:
            raise TimedOut
        return ask.selects(entry) and (entry.places is None or entry.places.accept(self._node))

    def _amounts(self, ask: Ask, entry: DeviceEntry) -> Amounts | None:
        held, own = self._held.consumed.get(entry.id), self._consumed.get(entry.id)
        return amounts_taken(entry, ask.capacity, held, own)

    def _take(self, claim: _ClaimTask, task: _Task, candidate: Candidate) -> bool:
        """Give the device to the request, if it may have it."""
        ask, entry, device = task.ask, candidate.entry, candidate.entry.id
        if not (ask.is_admin and entry.is_shareable) and self._is_in_use(claim, ask, entry):
            return False
        counted = self._counts(entry)
        if counted and not self._counters_of(candidate.pool).take(entry):
            return False
        if not all_tolerated(entry.taints, ask.tolerations) or not self._agree(claim, task, entry):
            if counted:
                self._counters_of(candidate.pool).give_back(entry)
            return False
        amounts = self._amounts(ask, entry)
        if amounts is None:
            self._disagree(claim.constraints, ask)
            if counted:
                self._counters_of(candidate.pool).give_back(entry)
            return False
        if entry.is_shareable:
            consumed = self._consumed.setdefault(device, {})
            for name, amount in amounts.items():
                consumed[name] = consumed.get(name, 0) + amount.nanos
        else:
            self._taken.add(device)
            self._taken_by.add((claim.number, device))
        shared = amounts if entry.is_shareable else None
        claim.chosen.append(Choice(ask, entry, shared, counted))
        return True

    def _give_back(self, claim: _ClaimTask, candidate: Candidate) -> None:
        """Undo the last `_take`."""
        ask, entry, amounts, is_counted = claim.chosen.pop()
        device = entry.id
        if amounts is None:
            self._taken_by.discard((claim.number, device))
            if not any((task.number, device) in self._taken_by for task in self._claims):
                self._taken.discard(device)
        else:
            self._unconsume(device, amounts)
        self._disagree(claim.constraints, ask)
        if is_counted:
            self._counters_of(candidate.pool).give_back(entry)

    def _unconsume(self, device: DeviceId, amounts: Amounts) -> None:
        consumed = self._consumed[device]
        for name, amount in amounts.items():
            consumed[name] -= amount.nanos
        if not any(it.entry.id == device for task in self._claims for it in task.chosen):
            del self._consumed[device]

    def _agree(self, claim: _ClaimTask, task: _Task, entry: DeviceEntry) -> bool:
        ask = task.ask
        for position, constraint in enumerate(claim.constraints):
            if not constraint.add(ask.request, ask.sub, entry):
                self._disagree(claim.constraints[:position], ask)
                if task.everything is not None:
                    raise AllocationError(
                        f"claim {claim.claim.key}, request {ask.bare_name}: cannot add device "
                        f"{entry.name} because a claim constraint would not be satisfied"
                    )
                return False
        return True

    def _disagree(self, constraints: Sequence[Constraint], ask: Ask) -> None:
        for constraint in constraints:
            constraint.remove(ask.request, ask.sub)

    # -- counters ---------------------------------------------------------------------------

    def _counts(self, entry: DeviceEntry) -> bool:
        """Whether taking the device takes from counters: the first part of a shared one does."""
        if not entry.consumes:
            return False
        if not entry.is_shareable:
            return True
        return entry.id not in self._held.consumed and entry.id not in self._consumed

    def _counters_of(self, pool: Pool) -> PoolCounters:
        found = self._counters.get(id(pool))
        if found is None:
            found = self._counters[id(pool)] = PoolCounters(pool, self._held)
        return found
