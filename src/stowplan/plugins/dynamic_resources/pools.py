"""Which devices a node can have: all slices of the cluster, put together into pools (`pool`).

A slice with counters concerns all nodes, but all that most of them see of its pool is whether it
can be used: that is worked out once for all (`_put_aside`).  What changed is told node by node.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Iterator
from itertools import islice

from stowplan.objects.devices import ResourceSlice
from stowplan.plugins.dynamic_resources.device_entry import DeviceId, PoolId, SliceEntry
from stowplan.plugins.dynamic_resources.pool import Forms, Pool, PoolSlices
from stowplan.state.node_info import NodeInfo
from stowplan.state.object_index import ObjectIndex

_LOG_MAX = 4096


class Slices:
    """All slices of the cluster, read once each."""

    def __init__(self, objects: ObjectIndex) -> None:
        self._objects = objects
        self._all = objects.all(ResourceSlice)
        self._entries: dict[str, SliceEntry] = {}
        self._seen = -1
        self._of_node: dict[str, list[SliceEntry]] = {}
        self._of_any: list[SliceEntry] = []
        """Those with devices that are not of one node."""
        self._of_pool: dict[PoolId, PoolSlices] = {}
        self._broken: dict[PoolId, Pool] = {}
        """Pools with counters that cannot be used even by nodes which have no devices of them."""
        self._broken_in_order: tuple[list[Pool], list[Pool]] | None = None
        self._pools: dict[str, tuple[object, list[Pool]]] = {}
        """Node -> the object that it was, and its pools."""
        self._nodes_with: dict[PoolId | DeviceId, set[str]] = {}
        self._forms = Forms()
        self.version = 0
        """Grows with every node that may have other pools than before."""
        self._log: deque[str] = deque(maxlen=_LOG_MAX)
        self._all_changed = 0
        """The version at which all nodes may have had others."""

    # -- slices come and go -----------------------------------------------------------------

    def catch_up(self) -> None:
        version = self._objects.version(ResourceSlice)
        if version == self._seen:
            return
        changed = (
            self._objects.changed_since(ResourceSlice, self._seen) if self._seen >= 0 else None
        )
        self._seen = version
        if changed is None:
            self._read_all()
            return
        for key in dict.fromkeys(changed):
            thing, known = self._all.get(key), self._entries.get(key)
            if thing is not (None if known is None else known.object):
                self._exchange(key, known, None if thing is None else SliceEntry(thing))

    def _read_all(self) -> None:
        before, self._entries = self._entries, {}
        self._of_node, self._of_any, self._of_pool = {}, [], {}
        for key, thing in self._all.items():
            known = before.get(key)
            if known is None or known.object is not thing:
                known = SliceEntry(thing)
            self._entries[key] = known
            for entries in self._lists_of(known):
                entries.append(known)
        self._broken = {}
        for pool_id in self._of_pool:
            self._put_aside(pool_id)
        self._change_all()

    def _exchange(self, key: str, old: SliceEntry | None, new: SliceEntry | None) -> None:
        """Also what concerns other slices of the same pool is to be looked at again."""
        if old is not None:
            del self._entries[key]
            for entries in self._lists_of(old):
                entries.remove(old)
        if new is not None:
            self._entries[key] = new
            for entries in self._lists_of(new):
                entries.append(new)
        both = [entry for entry in (old, new) if entry is not None]
        for pool_id in {entry.id for entry in both}:
            slices = self._of_pool[pool_id]
            slices.changed()
            self._change((*both, *slices.entries))
            self._put_aside(pool_id)
            if not slices.entries:
                del self._of_pool[pool_id]

    def _lists_of(self, entry: SliceEntry) -> Iterator[list[SliceEntry]]:
        of_pool = self._of_pool.get(entry.id)
        if of_pool is None:
            of_pool = self._of_pool[entry.id] = PoolSlices(entry.id)
        yield of_pool.entries
        if entry.is_local:
            yield self._of_node.setdefault(entry.node_name, [])
        elif not entry.only_counts:
            yield self._of_any

    def _put_aside(self, pool_id: PoolId) -> None:
        """See whether nodes without devices of the pool have to know that it cannot be used."""
        slices = self._of_pool[pool_id]
        counting = slices.counting()
        pool = slices.on(counting, self._forms) if counting else None
        if pool is not None and not pool.is_usable:
            self._broken[pool_id] = pool
        elif self._broken.pop(pool_id, None) is None:
            return
        self._broken_in_order = None
        self._change_all()

    def _change(self, entries: Iterable[SliceEntry]) -> None:
        """What concerns these slices is to be looked at again."""
        for entry in entries:
            if entry.is_local:
                self._pools.pop(entry.node_name, None)
                self.version += 1
                self._log.append(entry.node_name)
            elif not entry.only_counts:
                self._change_all()
                return

    def _change_all(self) -> None:
        self._pools, self._nodes_with = {}, {}
        self.version += 1
        self._all_changed = self.version
        self._log.clear()

    def changed_since(self, version: int) -> list[str] | None:
        """Nodes whose pools may be others now; None: all of them."""
        count = self.version - version
        if version < self._all_changed or count > len(self._log):
            return None
        return list(islice(reversed(self._log), count))

    # -- pools ------------------------------------------------------------------------------

    def pools(self, node: NodeInfo) -> list[Pool]:
        """What the node can have devices from, in the order in which they are tried.

        Of pools that none can use, and of which it would not have any device, two at most.
        """
        known = self._pools.get(node.name)
        if known is None or known[0] is not node.node:
            known = self._pools[node.name] = (node.node, self._find(node))
            for pool in known[1]:
                for part in self._parts_of(pool):
                    self._nodes_with.setdefault(part, set()).add(node.name)
        return known[1]

    def _parts_of(self, pool: Pool) -> Iterable[PoolId | DeviceId]:
        """What of it concerns a node when it is taken or given back."""
        if not pool.is_usable:
            return ()
        return (it.id for it in pool.devices) if pool.is_part else (pool.id,)

    def nodes_with(self, device: DeviceId) -> set[str]:
        """Among the nodes whose pools were asked for, those that it concerns, or concerned."""
        of_pool = self._nodes_with.get(device[:2], set())
        return of_pool | self._nodes_with.get(device, set())

    def relevant(self, node: NodeInfo) -> Iterator[SliceEntry]:
        """All slices with devices for the node, of whichever generation."""
        every = (*self._of_node.get(node.name, ()), *self._of_any)
        return (entry for entry in every if entry.is_relevant(node))

    def _find(self, node: NodeInfo) -> list[Pool]:
        found: dict[PoolId, list[SliceEntry]] = {}
        for entry in self.relevant(node):
            found.setdefault(entry.id, []).append(entry)
        pools = list(self._broken_elsewhere(found))
        for pool_id, relevant in found.items():
            slices = self._of_pool[pool_id]
            pool = slices.on((*relevant, *slices.counting()), self._forms)
            if pool is not None:
                pools.append(pool)
        return sorted(pools, key=lambda pool: (pool.form.goes_last, pool.id))

    def _broken_elsewhere(self, own: Container[PoolId]) -> Iterator[Pool]:
        """The first one, where who asks for all devices ends, and the first invalid one.

        No search sees a difference between these and all of them.
        """
        if not self._broken:
            return
        if self._broken_in_order is None:
            broken = [self._broken[pool_id] for pool_id in sorted(self._broken)]
            self._broken_in_order = broken, [pool for pool in broken if pool.is_invalid]
        every, invalid = self._broken_in_order
        first = next((pool for pool in every if pool.id not in own), None)
        if first is not None:
            yield first
        other = next((pool for pool in invalid if pool.id not in own), None)
        if other is not None and other is not first:
            yield other
