"""Whether there can be enough devices on a node, seen before any search (`allocator`).

What is free, matches and has counters left is counted, and compared with what is asked for.  Where
that is too little, all ways to choose among too few devices need not be tried.  "Yes" promises
nothing.  Where a search might end with an error, only the search can say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from stowplan.objects.devices import ALL_DEVICES
from stowplan.plugins.dynamic_resources.capacity import amounts_taken
from stowplan.plugins.dynamic_resources.claim_cache import HeldDevices
from stowplan.plugins.dynamic_resources.constraints import Constraint, Match
from stowplan.plugins.dynamic_resources.counters import PoolCounters
from stowplan.plugins.dynamic_resources.device_entry import DeviceEntry
from stowplan.plugins.dynamic_resources.pool import Candidate, Pool
from stowplan.plugins.dynamic_resources.requests import Ask
from stowplan.plugins.dynamic_resources.tolerations import all_tolerated
from stowplan.state.node_info import NodeInfo

_UNLIMITED = 2**62

Numbers = frozenset[int]
"""Candidates, by their place in the list."""


class _Want(NamedTuple):
    """So many of these are needed; a request may have several such alternatives."""

    needed: int
    fitting: Numbers


class Demand:
    """Of the claims of a pod, on one node."""

    def __init__(
        self,
        node: NodeInfo,
        candidates: Sequence[Candidate],
        held: HeldDevices,
        counters_of: Callable[[Pool], PoolCounters],
    ) -> None:
        """`counters_of` says what is left of the counters of a pool."""
        self._node = node
        self._candidates = candidates
        self._held = held
        self._counters_of = counters_of
        self._known: dict[tuple[tuple[str, ...], tuple[str, ...]], Numbers | None] = {}
        """By selectors and attributes, what is fitting for requests that say no more."""

    def can_be_met(self, claims: Sequence[tuple[list[list[Ask]], Sequence[Constraint]]]) -> bool:
        every: list[_Want] = []
        for requests, constraints in claims:
            wants: list[list[_Want]] = []
            for asks in requests:
                possible = self._possible(asks, constraints)
                if possible is None:
                    return True
                wants.append(possible)
            if not all(wants) or not self._can_agree(requests, wants, constraints):
                return False
            every += [_either(possible) for possible in wants]
        return self._are_enough(every)

    # -- one request ------------------------------------------------------------------------

    def _possible(
        self, asks: Sequence[Ask], constraints: Sequence[Constraint]
    ) -> list[_Want] | None:
        """The alternatives that there may be enough devices for; None where only a search knows."""
        possible = []
        for ask in asks:
            if ask.is_admin or ask.ask.mode == ALL_DEVICES:
                return None
            fitting = self._fitting(ask, constraints)
            if fitting is None:
                return None
            if self._most(fitting) >= ask.count:
                possible.append(_Want(ask.count, fitting))
        return possible

    def _fitting(self, ask: Ask, constraints: Sequence[Constraint]) -> Numbers | None:
        """The candidates that it could have if it were alone; None where a selector fails."""
        attributes = [it.attribute for it in constraints if it.concerns(ask.request, ask.sub)]
        if ask.capacity or ask.tolerations:
            return self._find(ask, attributes)
        key = (ask.selectors, tuple(attributes))
        if key not in self._known:
            self._known[key] = self._find(ask, attributes)
        return self._known[key]

    def _find(self, ask: Ask, attributes: Sequence[str]) -> Numbers | None:
        found = []
        dedicated, selectors = self._held.dedicated, ask.selectors
        for number, (entry, pool) in enumerate(self._candidates):
            if entry.id in dedicated:
                continue
            selected = entry.selected_by(selectors)
            if selected is True:
                if self._fits(ask, entry, pool) and all(map(entry.attribute, attributes)):
                    found.append(number)
            elif selected is not False:
                return None
        return frozenset(found)

    def _fits(self, ask: Ask, entry: DeviceEntry, pool: Pool) -> bool:
        if entry.places is not None and not entry.places.accept(self._node):
            return False
        if not all_tolerated(entry.taints, ask.tolerations):
            return False
        if entry.consumes and not entry.is_shareable and not self._counters_of(pool).have(entry):
            return False
        if ask.capacity is None and not entry.is_shareable:
            return True
        return amounts_taken(entry, ask.capacity, self._held.consumed.get(entry.id)) is not None

    # -- several ----------------------------------------------------------------------------

    def _are_enough(self, wants: Sequence[_Want]) -> bool:
        """Whether those who can have only certain devices want no more than there are of them."""
        wanted: dict[Numbers, int] = {}
        for count, fitting in wants:
            wanted[fitting] = wanted.get(fitting, 0) + count
        for devices in {*wanted, frozenset[int]().union(*wanted)}:
            count = sum(count for fitting, count in wanted.items() if fitting <= devices)
            if count > self._most(devices):
                return False
        return True

    def _can_agree(
        self,
        requests: Sequence[Sequence[Ask]],
        wants: Sequence[list[_Want]],
        constraints: Sequence[Constraint],
    ) -> bool:
        """Whether devices with the same value suffice, where all must have the same."""
        for constraint in constraints:
            if not isinstance(constraint, Match):
                continue
            concerned = [
                [self._by_value(want, constraint) for want in possible]
                for asks, possible in zip(requests, wants, strict=True)
                if all(constraint.concerns(ask.request, ask.sub) for ask in asks)
            ]
            if concerned and not self._have_value(concerned):
                return False
        return True

    def _have_value(self, concerned: Sequence[list[dict[object, _Want]]]) -> bool:
        values = {value for by_value in concerned[0] for value in by_value}
        for value in values:
            of_value = [
                [
                    want
                    for by_value in alternatives
                    if (want := by_value.get(value)) and self._most(want.fitting) >= want.needed
                ]
                for alternatives in concerned
            ]
            if all(of_value) and self._are_enough([_either(wants) for wants in of_value]):
                return True
        return False

    def _by_value(self, want: _Want, constraint: Match) -> dict[object, _Want]:
        numbers: dict[object, list[int]] = {}
        for number in want.fitting:
            value = constraint.value(self._candidates[number].entry)
            numbers.setdefault(value, []).append(number)
        return {value: _Want(want.needed, frozenset(those)) for value, those in numbers.items()}

    def _most(self, numbers: Iterable[int]) -> int:
        """As many of these, or fewer, can be had together."""
        count = 0
        counted: dict[int, tuple[Pool, list[DeviceEntry]]] = {}
        for number in numbers:
            entry, pool = self._candidates[number]
            if entry.is_shareable:
                return _UNLIMITED
            if entry.consumes:
                counted.setdefault(id(pool), (pool, []))[1].append(entry)
            else:
                count += 1
        return count + sum(self._counters_of(pool).most(those) for pool, those in counted.values())


def _either(alternatives: Sequence[_Want]) -> _Want:
    """What is wanted at least, whichever of them it will be."""
    if len(alternatives) == 1:
        return alternatives[0]
    union = frozenset[int]().union(*(want.fitting for want in alternatives))
    return _Want(min(want.needed for want in alternatives), union)
