"""Counters that devices of one pool share: what is left of them, and what a search takes.

Partitions of one device consume from the same counter sets, so that taking one rules others out.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import accumulate

from stowplan.plugins.dynamic_resources.claim_cache import HeldDevices
from stowplan.plugins.dynamic_resources.device_entry import Counters, DeviceEntry
from stowplan.plugins.dynamic_resources.pool import Pool

_NOTHING: dict[str, int] = {}


class PoolCounters:
    """Of one pool, during one search."""

    def __init__(self, pool: Pool, held: HeldDevices) -> None:
        self._left: Counters = {name: dict(values) for name, values in pool.counters.items()}
        for entry in (*pool.devices, *pool.others):
            if entry.consumes and held.is_used(entry.id):
                self._add(entry, -1)

    def have(self, entry: DeviceEntry) -> bool:
        """Whether it could be taken."""
        wanted = entry.consumes or {}
        return not any(
            wanted.get(name, _NOTHING).get(counter, 0) > left
            for name, values in self._left.items()
            for counter, left in values.items()
        )

    def most(self, entries: Collection[DeviceEntry]) -> int:
        """As many of these, or fewer, can be taken together: by each counter for itself."""
        count = len(entries)
        for name, values in self._left.items():
            for counter, left in values.items():
                wanted = sorted((it.consumes or {}).get(name, {}).get(counter, 0) for it in entries)
                count = min(count, sum(total <= left for total in accumulate(wanted)))
        return count

    def take(self, entry: DeviceEntry) -> bool:
        """False, and nothing taken, if any counter of the pool would then be exceeded.

        Any: where others hold more than there is, nothing that counts can be had.
        """
        self._add(entry, -1)
        if all(left >= 0 for values in self._left.values() for left in values.values()):
            return True
        self._add(entry, 1)
        return False

    def give_back(self, entry: DeviceEntry) -> None:
        self._add(entry, 1)

    def _add(self, entry: DeviceEntry, times: int) -> None:
        for name, amounts in (entry.consumes or {}).items():
            values = self._left[name]
            for counter, amount in amounts.items():
                values[counter] += times * amount
