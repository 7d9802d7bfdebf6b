"""For how many members of a group there are devices, whichever of them they would get.

No search: free devices are counted, and compared with how many each member needs of its own at
least.  So a placement with too few need not be tried.  "Enough" promises nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from stowplan.framework.status import Rows
from stowplan.objects.devices import ALL_DEVICES, DeviceRequest, ResourceClaim
from stowplan.plugins.dynamic_resources.claim_cache import ClaimCache
from stowplan.plugins.dynamic_resources.device_column import DeviceColumn
from stowplan.plugins.dynamic_resources.pools import Slices
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable

_UNLIMITED = 2**62


class GroupRoom:
    def __init__(self, claims: ClaimCache, slices: Slices, column: DeviceColumn) -> None:
        self._claims = claims
        self._slices = slices
        self._column = column
        self._free: dict[int, int] = {}
        """How many devices are free where nodes offer the same, by the number of the offer."""
        self._generation = -1

    def most_members(self, nodes: NodeTable, rows: Rows, needed: int) -> int:
        """Of those that need so many devices each, on these nodes."""
        column = self._column
        column.catch_up(nodes)
        if self._generation != column.generation:
            self._free, self._generation = {}, column.generation
        numbers = column.numbers[rows].tolist()
        row_of = dict(zip(numbers, rows.tolist(), strict=True))
        for number in row_of.keys() - self._free.keys():
            self._free[number] = self._count(nodes.infos[row_of[number]])
        return sum(
            times * (self._free[number] // needed) for number, times in Counter(numbers).items()
        )

    def _count(self, node: NodeInfo | None) -> int:
        count, dedicated = 0, self._claims.held.dedicated
        for pool in self._slices.pools(node) if node is not None else ():
            for entry in pool.devices if pool.is_usable else ():
                if entry.is_shareable:
                    return _UNLIMITED
                count += entry.id not in dedicated
        return count


def devices_needed(members: Sequence[Sequence[ResourceClaim]]) -> int:
    """How many devices each member needs for itself at least, by the claims of each.

    What several of them share, or has devices already, is not counted.
    """
    users = Counter(key for claims in members for key in {claim.key for claim in claims})
    return min(_at_least(claim for claim in claims if users[claim.key] == 1) for claims in members)


def _at_least(claims: Iterable[ResourceClaim]) -> int:
    return sum(
        _fewest(request)
        for claim in claims
        if claim.status.allocation is None
        for request in claim.spec.devices.requests or ()
    )


def _fewest(request: DeviceRequest) -> int:
    asks = [request.exactly] if request.exactly is not None else request.first_available or ()
    if any(ask.allocation_mode == ALL_DEVICES for ask in asks):
        return 0
    if request.exactly is not None and request.exactly.admin_access:
        return 0
    return min((ask.count or 1 for ask in asks), default=0)
