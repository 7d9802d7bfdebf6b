"""Which devices a node can have: slices put together into pools.

A pool is what all slices of one driver and pool name in their newest generation say together; while
some of them are missing, nothing of it is used.  Mirrors `pools_incubating.go` of upstream's
`dynamic-resource-allocation/structured`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from stowplan.objects.devices import ResourceSlice
from stowplan.plugins.dynamic_resources.device_entry import (
    Counters,
    DeviceEntry,
    PoolId,
    SliceEntry,
)
from stowplan.state.node_info import NodeInfo
from stowplan.state.object_index import ObjectIndex


@dataclass(slots=True, eq=False)
class Pool:
    id: PoolId
    is_incomplete: bool = False
    is_invalid: bool = False
    devices: tuple[DeviceEntry, ...] = ()
    """In the order they are tried; only those of slices that concern the node."""
    others: tuple[DeviceEntry, ...] = ()
    """Devices of slices that do not: they count where counters are shared."""
    counters: Counters = field(default_factory=dict)
    """What the pool's counter sets hold."""

    @property
    def name(self) -> str:
        return "/".join(self.id)

    @property
    def goes_last(self) -> bool:
        return any(it.device.binding_conditions is not None for it in self.devices)


class Slices:
    """All slices of the cluster, read once each."""

    def __init__(self, objects: ObjectIndex) -> None:
        self._objects = objects
        self._all = objects.all(ResourceSlice)
        self._entries: dict[str, SliceEntry] = {}
        self._version = -1
        self._of_node: dict[str, list[SliceEntry]] = {}
        self._of_any: list[SliceEntry] = []
        """Those that are not of one node, or that hold counters."""
        self._of_pool: dict[PoolId, list[SliceEntry]] = {}

    @property
    def version(self) -> int:
        return self._objects.version(ResourceSlice)

    def catch_up(self) -> None:
        version = self.version
        if version == self._version:
            return
        self._version = version
        before, self._entries = self._entries, {}
        for key, thing in self._all.items():
            known = before.get(key)
            fresh = known is None or known.object is not thing
            self._entries[key] = SliceEntry(thing) if known is None or fresh else known
        self._of_node, self._of_any, self._of_pool = {}, [], {}
        for entry in self._entries.values():
            self._of_pool.setdefault(entry.id, []).append(entry)
            if entry.node_name and not entry.counter_sets:
                self._of_node.setdefault(entry.node_name, []).append(entry)
            else:
                self._of_any.append(entry)

    def pools(self, node: NodeInfo) -> list[Pool]:
        """What the node can have devices from, in the order in which they are tried."""
        found: dict[PoolId, list[SliceEntry]] = {}
        for entry in (*self._of_node.get(node.name, ()), *self._of_any):
            if not entry.is_relevant(node):
                continue
            known = found.setdefault(entry.id, [])
            if known and entry.generation > known[0].generation:
                known.clear()
            if not known or entry.generation == known[0].generation:
                known.append(entry)
        pools = [
            pool
            for pool_id in sorted(found)
            if (pool := self._pool(pool_id, found[pool_id])) is not None
        ]
        return sorted(pools, key=lambda pool: pool.goes_last)

    def _pool(self, pool_id: PoolId, relevant: list[SliceEntry]) -> Pool | None:
        """None for one that is obsolete here."""
        generation, wanted = relevant[0].generation, relevant[0].slice_count
        others: list[SliceEntry] = []
        if len(relevant) != wanted:
            known = self._of_pool[pool_id]
            if any(entry.generation > generation for entry in known):
                return None
            others = [
                entry
                for entry in known
                if entry.generation == generation and not any(entry is it for it in relevant)
            ]
            if len(relevant) + len(others) != wanted:
                return Pool(pool_id, is_incomplete=True)
        return _complete(pool_id, relevant, others)


def _complete(pool_id: PoolId, relevant: list[SliceEntry], others: list[SliceEntry]) -> Pool:
    relevant = sorted(relevant, key=lambda entry: entry.name)
    sets = [it for entry in (*relevant, *others) for it in entry.counter_sets]
    counters: Counters = dict(sets)
    devices = _devices_of(relevant)
    pool = Pool(pool_id, devices=devices, others=_devices_of(others), counters=counters)
    pool.is_invalid = (
        len({it.id for it in devices}) < len(devices)
        or len(counters) < len(sets)
        or not all(_are_known(it.consumes, counters) for it in (*devices, *pool.others))
    )
    return pool


def _devices_of(entries: Iterable[SliceEntry]) -> tuple[DeviceEntry, ...]:
    return tuple(device for entry in entries for device in entry.devices)


def _are_known(consumed: Counters | None, counters: Counters) -> bool:
    if not consumed:
        return True
    return all(
        name in counters and counters[name].keys() >= amounts.keys()
        for name, amounts in consumed.items()
    )
