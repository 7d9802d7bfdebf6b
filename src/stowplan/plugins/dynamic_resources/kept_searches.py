"""What searches found, kept for claims alike: one search for all nodes that offer the same.

Replicas have claims of the same content, and each takes devices of one node.  So the next pod's
answer is the last one's but for that node, which now offers what others offered before it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from stowplan.framework.status import Rows, Scores
from stowplan.objects.devices import DeviceClass, ResourceClaim
from stowplan.plugins.dynamic_resources.allocator import Choice, Choices
from stowplan.plugins.dynamic_resources.device_column import NO_NODE, DeviceColumn, Numbers
from stowplan.plugins.dynamic_resources.extended_resources import SpecialClaim
from stowplan.plugins.dynamic_resources.pool import Pool
from stowplan.plugins.dynamic_resources.requests import AllocationError, ClaimAsk, read_claim
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.object_index import ObjectIndex
from stowplan.state.row_follower import FEW

KEPT_MAX = 64
"""Demands remembered: one for each sort of pod that waits."""

_UNKNOWN = np.full(1, 2**32 - 1, np.uint32)

_encode = msgspec.json.Encoder(order="deterministic").encode

Why = NDArray[np.uint32]


@dataclass(slots=True, eq=False)
class OnNode:
    """What was found on one node where the pod can run."""

    choices: Choices | None
    """Per claim that had no allocation, in their order; None where nothing had to be found."""
    special: SpecialClaim | None = None


_Place = tuple[Choice, int, int]
"""A choice, the number of the pool on the node, and that of the device in it."""


@dataclass(slots=True, eq=False)
class Outcome:
    """What a search found, on whichever of the nodes that offer the same."""

    why: int
    """The bit of the reason against them; 0: there is none."""
    places: list[list[_Place]]
    points: int
    """What requests with alternatives make of it."""

    def on(self, pools: Sequence[Pool]) -> Choices:
        """The devices of the node that has these pools."""
        return [
            [choice._replace(entry=pools[pool].devices[n]) for choice, pool, n in places]
            for places in self.places
        ]


_NOTHING = Outcome(0, [], 0)
_NO_POINTS: Scores = np.zeros(1, np.int64)

_Values = TypeVar("_Values", Why, Scores)


def _by_number(values: Mapping[int, int], numbers: Numbers, other: _Values) -> _Values:
    """Per row the value of its number; `other` where that has none."""
    of = other.repeat(int(numbers.max(initial=0)) + 1)
    for number, value in values.items():
        if number < len(of):
            of[number] = value
    return of[numbers]


class KeptSearch:
    """Of claims with this content, by offer and by row of the node table."""

    def __init__(self, column: DeviceColumn, asks: list[ClaimAsk] | AllocationError) -> None:
        self._column = column
        self.asks = asks
        """Of the first claims that had this content; or why they cannot be read."""
        self._generation = self._version = -1
        self._outcomes: dict[int, Outcome] = {NO_NODE: _NOTHING}
        """By number of the offer."""
        self._why: Why = np.zeros(0, np.uint32)
        self._unknown: set[int] = set()
        """Rows of offers that nobody has searched."""
        self._refused_count = 0
        """Rows with a reason against them, unknown ones included."""

    def why(self, rows: list[int] | None, decide: Callable[[int], Outcome]) -> Why:
        """Per row the bit of the reason against it, or 0; true for these rows (None: for all).

        `decide` searches on the node of a row; what it raises is its own affair.
        """
        self._catch_up()
        if self._unknown:
            asked = self._unknown if rows is None else self._unknown.intersection(rows)
            self._decide_all(sorted(asked), decide)
        return self._why

    @property
    def all_passed(self) -> bool:
        return not self._refused_count

    def outcome(self, row: int) -> Outcome | None:
        return self._outcomes.get(self._column.numbers.item(row))

    def points(self, rows: Rows) -> Scores:
        """Of rows that passed."""
        points = {number: outcome.points for number, outcome in self._outcomes.items()}
        return _by_number(points, self._column.numbers[rows], _NO_POINTS)

    def _catch_up(self) -> None:
        column = self._column
        changed = column.changed_since(self._version)
        if column.generation != self._generation:
            self._outcomes, changed = {NO_NODE: _NOTHING}, None
        self._generation, self._version = column.generation, column.version
        if changed is None:
            self._look_at_all()
            return
        for row in changed:
            outcome = self._outcomes.get(column.numbers.item(row))
            self._refused_count -= bool(self._why[row])
            if outcome is None:
                self._why[row] = _UNKNOWN[0]
                self._unknown.add(row)
            else:
                self._why[row] = outcome.why
                self._unknown.discard(row)
            self._refused_count += bool(self._why[row])

    def _look_at_all(self) -> None:
        why = {number: outcome.why for number, outcome in self._outcomes.items()}
        self._why = _by_number(why, self._column.numbers, _UNKNOWN)
        self._unknown = set((self._why == _UNKNOWN).nonzero()[0].tolist())
        self._refused_count = int(np.count_nonzero(self._why))

    def _decide_all(self, rows: list[int], decide: Callable[[int], Outcome]) -> None:
        """One search per offer, then the rows of all that offer the same."""
        numbers = self._column.numbers
        for row in rows:
            number = numbers.item(row)
            if number not in self._outcomes:
                self._outcomes[number] = decide(row)
        if len(self._unknown) > FEW:
            self._look_at_all()
            return
        for row in [*self._unknown]:
            outcome = self._outcomes.get(numbers.item(row))
            if outcome is not None:
                self._unknown.discard(row)
                self._why[row] = outcome.why
                self._refused_count -= not outcome.why


@dataclass(slots=True, eq=False)
class Part:
    """Nodes on which the same is asked for."""

    why: int = 0
    """The bit of the reason against all of them."""
    search: KeptSearch | None = None
    """None where nothing has to be found."""
    special: SpecialClaim | None = None


@dataclass(slots=True, eq=False)
class FoundOnRows:
    """What was found on the rows of the table, until something changes."""

    nodes: NodeTable
    pools_of: Callable[[NodeInfo], Sequence[Pool]]
    parts: Sequence[Part]
    part_of: Sequence[int] | None
    """Per row the number of its part; None: there is one."""
    verdict: tuple[Rows | slice, Why | None]
    """The rows that were looked at, and what speaks against each; None: nothing."""

    def on(self, name: str) -> OnNode | None:
        row = self.nodes.row_of.get(name)
        found = None if row is None else self._at(row)
        return None if found is None else _on_node(*found)

    def _at(self, row: int) -> tuple[Outcome, Sequence[Pool], SpecialClaim | None] | None:
        part = self.parts[0 if self.part_of is None else self.part_of[row]]
        outcome = None if part.search is None else part.search.outcome(row)
        node = self.nodes.infos[row]
        if outcome is None or outcome.why or node is None:
            return None
        return outcome, self.pools_of(node), part.special

    def points(self, rows: Rows) -> Scores:
        search = self.parts[0].search
        if self.part_of is None and search is not None:
            return search.points(rows)
        found = (self._at(row) for row in rows.tolist())
        return np.array([0 if it is None else it[0].points for it in found], np.int64)

    def hold(self) -> Callable[[], dict[str, OnNode]]:
        """By name, whatever becomes of the rows: most of it is never looked at."""
        names, (rows, why) = self.nodes.names, self.verdict
        asked: Rows = np.arange(self.nodes.size)[rows]
        passed = asked if why is None else asked[why == 0]
        held = [(names[row], found) for row in passed.tolist() if (found := self._at(row))]
        return lambda: {name: _on_node(*found) for name, found in held}


def _on_node(outcome: Outcome, pools: Sequence[Pool], special: SpecialClaim | None) -> OnNode:
    return OnNode(outcome.on(pools), special)


class KeptSearches:
    def __init__(
        self, column: DeviceColumn, classes: Mapping[str, DeviceClass], objects: ObjectIndex
    ) -> None:
        self._column = column
        self._classes = classes
        self._objects = objects
        self._kept: OrderedDict[tuple[int, bytes], KeptSearch] = OrderedDict()

    def of(self, claims: Sequence[ResourceClaim]) -> KeptSearch:
        """For claims that have nothing allocated; they are read as the classes are now."""
        content = _encode([claim.spec.devices for claim in claims])
        key = (self._objects.version(DeviceClass), content)
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = KeptSearch(self._column, self._read(claims))
            if len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return found

    def _read(self, claims: Sequence[ResourceClaim]) -> list[ClaimAsk] | AllocationError:
        try:
            return [read_claim(claim, self._classes) for claim in claims]
        except AllocationError as problem:
            return problem
