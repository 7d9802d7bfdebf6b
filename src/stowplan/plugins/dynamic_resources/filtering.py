"""Filter: can the pod have its claims on this node, and which devices would it get there?

All nodes at once (`on_nodes`) by what is kept per offer of devices; one node (`on_node`) from
scratch, which also finds the words where a search cannot even be made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from stowplan.framework.status import NodeMask, Rows
from stowplan.objects.devices import DeviceClass, ResourceClaim
from stowplan.plugins._shared.device_classes import ResourceClasses
from stowplan.plugins._shared.node_selection import selector_mask
from stowplan.plugins._shared.rows import row_count
from stowplan.plugins.dynamic_resources.allocator import Choices, NodeSearch, TimedOut
from stowplan.plugins.dynamic_resources.attempt import Attempt, OwnClaim
from stowplan.plugins.dynamic_resources.binding_conditions import Readiness, readiness
from stowplan.plugins.dynamic_resources.claim_cache import ClaimCache
from stowplan.plugins.dynamic_resources.device_column import DeviceColumn
from stowplan.plugins.dynamic_resources.explaining import unmet_requests
from stowplan.plugins.dynamic_resources.extended_resources import (
    SPECIAL_NAME,
    SpecialClaim,
    special_claim_for,
)
from stowplan.plugins.dynamic_resources.group_room import GroupRoom
from stowplan.plugins.dynamic_resources.kept_searches import (
    FoundOnRows,
    KeptSearch,
    KeptSearches,
    OnNode,
    Outcome,
    Part,
    Why,
)
from stowplan.plugins.dynamic_resources.needed_resources import (
    NeededResources,
    needed_on,
    wanted_by,
)
from stowplan.plugins.dynamic_resources.pool import Pool
from stowplan.plugins.dynamic_resources.pools import Slices
from stowplan.plugins.dynamic_resources.requests import AllocationError, ClaimAsk, read_claim
from stowplan.plugins.dynamic_resources.scoring import points_of_choices
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.object_index import ObjectIndex
from stowplan.state.pod_info import PodInfo

CANNOT_ALLOCATE = "cannot allocate all claims"
INVALID_POOLS = "invalid resource pools were encountered"
NOT_AVAILABLE = "resourceclaim not available on the node"
LEFT_OVER = "cannot schedule extended resource claim"
CANNOT_FIT = "cannot fit resource"
REASONS = (CANNOT_ALLOCATE, INVALID_POOLS, NOT_AVAILABLE, LEFT_OVER, CANNOT_FIT)
_BIT = {reason: 1 << number for number, reason in enumerate(REASONS)}

STEPS_PER_SECOND = 100_000
"""Devices looked at: what `filterTimeout` is counted in, so that equal runs give equal results."""

_UNLIMITED = 2**62


class SearchTimedOut(AllocationError):
    """Another node would most likely take as long, and the attempt has failed anyway."""


class DeviceFilter:
    def __init__(
        self,
        claims: ClaimCache,
        slices: Slices,
        resources: ResourceClasses,
        classes: Mapping[str, DeviceClass],
        objects: ObjectIndex,
        now: Callable[[], float],
        timeouts_s: tuple[float, float],
    ) -> None:
        """`timeouts_s` are that of the search on one node and that of binding conditions."""
        self._claims = claims
        self._slices = slices
        self._resources = resources
        self._classes = classes
        self._now = now
        timeout_s, self._binding_timeout_s = timeouts_s
        self._column = DeviceColumn(claims, slices)
        self._kept = KeptSearches(self._column, classes, objects)
        self.group_room = GroupRoom(claims, slices, self._column)
        self._needed = NeededResources(resources)
        self._steps_max = int(timeout_s * STEPS_PER_SECOND) if timeout_s else _UNLIMITED

    # -- all nodes --------------------------------------------------------------------------

    def on_nodes(
        self, attempt: Attempt, pod: PodInfo, nodes: NodeTable, rows: Rows | slice
    ) -> tuple[Why | None, dict[str, str]]:
        """Per row the bit of the reason against it (None: all pass), and the errors by node."""
        self._column.catch_up(nodes)
        try:
            part_of, parts = self._parts(attempt, pod, nodes)
            why = self._search_all(part_of, parts, nodes, rows)
        except AllocationError:
            # As it concerns this pod, and in words of its own.
            return self._one_by_one(attempt, pod, nodes, rows)
        why = self._available(attempt, nodes, rows, why)
        if attempt.needs_devices:
            attempt.found = FoundOnRows(nodes, self._slices.pools, parts, part_of, (rows, why))
        return why, {}

    def _one_by_one(
        self, attempt: Attempt, pod: PodInfo, nodes: NodeTable, rows: Rows | slice
    ) -> tuple[Why, dict[str, str]]:
        numbers = range(nodes.size)[rows] if isinstance(rows, slice) else rows.tolist()
        why, errors = np.zeros(len(numbers), np.uint32), {}
        for position, row in enumerate(numbers):
            node = nodes.infos[row]
            if node is None:
                continue
            try:
                reason = self.on_node(attempt, pod, node)
                why[position] = 0 if reason is None else _BIT[reason]
            except SearchTimedOut as problem:
                return why, {node.name: str(problem)}
            except AllocationError as problem:
                errors[node.name] = str(problem)
        return why, errors

    def _parts(
        self, attempt: Attempt, pod: PodInfo, nodes: NodeTable
    ) -> tuple[list[int] | None, list[Part]]:
        """Per row the number of its part (None: there is but one), and the parts."""
        if not attempt.claims[-1].is_special:
            return None, [self._part(attempt, None)]
        if _is_left_over(attempt):
            return None, [Part(_BIT[LEFT_OVER])]
        groups = self._needed.groups_for(pod, nodes)
        parts = []
        for needed in groups.needed:
            if needed is None:
                parts.append(Part(_BIT[CANNOT_FIT]))
            elif not needed and len(attempt.claims) == 1:
                parts.append(Part())
            else:
                parts.append(self._part(attempt, self._special(attempt, pod, needed)[0]))
        return groups.of_row, parts

    def _part(self, attempt: Attempt, special: SpecialClaim | None) -> Part:
        if not attempt.needs_devices:
            return Part()
        own = (attempt.claims[number] for number in attempt.pending)
        claims = [
            special.claim if it.is_special and special is not None else it.claim for it in own
        ]
        return Part(search=self._kept.of(claims), special=special)

    def _search_all(
        self, part_of: list[int] | None, parts: list[Part], nodes: NodeTable, rows: Rows | slice
    ) -> Why | None:
        if part_of is None:
            return self._why_of(parts[0], nodes, rows)
        numbers = np.array(part_of, np.intp)[rows]
        every = np.arange(nodes.size)[rows]
        why = np.zeros(len(every), np.uint32)
        for number, part in enumerate(parts):
            of_part = numbers == number
            if of_part.any():
                found = self._why_of(part, nodes, every[of_part])
                why[of_part] = 0 if found is None else found
        return why if why.any() else None

    def _why_of(self, part: Part, nodes: NodeTable, rows: Rows | slice) -> Why | None:
        search = part.search
        if search is None:
            return np.full(row_count(nodes, rows), part.why, np.uint32) if part.why else None
        asked = None if isinstance(rows, slice) else rows.tolist()
        why = search.why(asked, partial(self._outcome, search, nodes))
        if search.all_passed:
            return None
        found: Why = why[rows]
        return found.copy() if isinstance(rows, slice) else found

    def _outcome(self, search: KeptSearch, nodes: NodeTable, row: int) -> Outcome:
        asks = search.asks
        if isinstance(asks, AllocationError):
            raise asks
        node = nodes.info(row)
        found = self._search(asks, node)
        if isinstance(found, str):
            return Outcome(_BIT[found], [], 0)
        pools = self._slices.pools(node)
        return Outcome(
            0, _placed(found, pools), points_of_choices((it.claim for it in asks), found)
        )

    def _available(
        self, attempt: Attempt, nodes: NodeTable, rows: Rows | slice, why: Why | None
    ) -> Why | None:
        """With what speaks against nodes where claims have their devices elsewhere."""
        missing: NodeMask | None = None
        for number, own in enumerate(attempt.claims):
            there = self._places(own, nodes, rows) if own.is_allocated else None
            if there is None:
                continue
            absent = ~there & _alive(nodes, rows)
            if why is not None:
                absent &= why == 0
            if absent.any():
                attempt.unavailable.add(number)
                missing = absent if missing is None else missing | absent
        if missing is None:
            return why
        bits = missing * np.uint32(_BIT[NOT_AVAILABLE])
        return bits if why is None else why | bits

    def _places(self, own: OwnClaim, nodes: NodeTable, rows: Rows | slice) -> NodeMask | None:
        """Where an allocated claim can be used; None: everywhere."""
        if not self._is_usable(own):
            return np.zeros(row_count(nodes, rows), np.bool_)
        return None if own.places is None else selector_mask(nodes, own.places, rows)

    # -- one node ---------------------------------------------------------------------------

    def on_node(self, attempt: Attempt, pod: PodInfo, node: NodeInfo) -> str | None:
        """The reason against it, one of `REASONS`; `AllocationError` when that cannot be said.

        What is found is noted.
        """
        self._slices.catch_up()
        special: SpecialClaim | None = None
        asks: ClaimAsk | AllocationError | None = None
        if attempt.claims[-1].is_special:
            if _is_left_over(attempt):
                return LEFT_OVER
            resources = needed_on(node, wanted_by(pod), self._resources.by_resource)
            if resources is None:
                return CANNOT_FIT
            if not resources and len(attempt.claims) == 1:
                return None
            special, asks = self._special(attempt, pod, resources)
        unavailable = [
            number
            for number, own in enumerate(attempt.claims)
            if own.is_allocated and not self._is_available(own, node)
        ]
        choices: Choices | None = None
        if attempt.needs_devices:
            own = (attempt.claims[number] for number in attempt.pending)
            wanted = [asks if it.is_special else self._asks(it) for it in own]
            found = self._search(_readable(wanted), node)
            if isinstance(found, str):
                return found
            choices = found
        if unavailable:
            attempt.unavailable.update(unavailable)
            return NOT_AVAILABLE
        attempt.nodes[node.name] = OnNode(choices, special)
        return None

    def _asks(self, own: OwnClaim) -> ClaimAsk | AllocationError:
        if own.asks is None:
            own.asks = self._read(own.claim)
        return own.asks

    def _read(self, claim: ResourceClaim) -> ClaimAsk | AllocationError:
        try:
            return read_claim(claim, self._classes)
        except AllocationError as problem:
            return problem

    def _is_available(self, own: OwnClaim, node: NodeInfo) -> bool:
        if own.places is not None and not own.places.matches(node.labels, node.name):
            return False
        return self._is_usable(own)

    def _is_usable(self, own: OwnClaim) -> bool:
        state, _ = readiness(own.claim, self._now(), self._binding_timeout_s)
        return state not in (Readiness.FAILED, Readiness.TIMED_OUT)

    def _search(self, claims: list[ClaimAsk], node: NodeInfo) -> Choices | str:
        pools = self._slices.pools(node)
        search = NodeSearch(node, pools, self._claims.held, self._steps_max)
        try:
            choices = search.run(claims)
        except TimedOut:
            raise SearchTimedOut(
                f"node {node.name}: timed out trying to allocate devices"
            ) from None
        if choices is not None:
            return choices
        return INVALID_POOLS if search.has_invalid_pool else CANNOT_ALLOCATE

    # -- for whoever asks why ---------------------------------------------------------------

    def unmet(self, attempt: Attempt, nodes: NodeTable) -> list[dict[str, Any]]:
        """Which requests of the claims no node has devices for; nothing in a closed cluster."""
        if not vars(nodes):
            return []
        asks = [
            self._asks(own) for own in attempt.claims if not own.is_allocated and not own.is_special
        ]
        asks += [it for _, it in attempt.special.values()]
        claims = [it for it in asks if isinstance(it, ClaimAsk)]
        self._slices.catch_up()
        there = [info for info in nodes.infos if info is not None]
        return unmet_requests(claims, there, self._slices, self._claims.held)

    # -- extended resources -----------------------------------------------------------------

    def _special(
        self, attempt: Attempt, pod: PodInfo, resources: frozenset[str]
    ) -> tuple[SpecialClaim, ClaimAsk | AllocationError]:
        found = attempt.special.get(resources)
        if found is None:
            by_resource, claim = self._resources.by_resource, attempt.claims[-1].claim
            special = special_claim_for(pod.pod, claim, resources, by_resource)
            found = attempt.special[resources] = (special, self._read(special.claim))
        return found


def _is_left_over(attempt: Attempt) -> bool:
    """Whether an earlier attempt left a claim for extended resources behind."""
    special = attempt.claims[-1].claim
    return special.metadata.name != SPECIAL_NAME and bool(special.spec.devices.requests)


def _readable(wanted: list[ClaimAsk | AllocationError | None]) -> list[ClaimAsk]:
    claims: list[ClaimAsk] = []
    for asks in wanted:
        if isinstance(asks, AllocationError):
            raise asks
        assert asks is not None, "a claim without allocation was read"
        claims.append(asks)
    return claims


def _placed(choices: Choices, pools: list[Pool]) -> list[list[tuple[Any, int, int]]]:
    """The choices, with the number of the pool and that of the device in it."""
    where = {
        id(entry): (number, position)
        for number, pool in enumerate(pools)
        for position, entry in enumerate(pool.devices)
    }
    return [[(choice, *where[id(choice.entry)]) for choice in of_claim] for of_claim in choices]


def _alive(nodes: NodeTable, rows: Rows | slice) -> NodeMask:
    alive: NodeMask = nodes.alive[rows]
    return alive
