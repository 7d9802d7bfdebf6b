"""Which devices a node can have: slices put together into pools.

A pool is what all slices of one driver and pool name in their newest generation say together; while
some of them are missing, nothing of it is used.  Pools of the same content share a `PoolForm`, so
that what follows from the content is worked out once.  Mirrors `pools_incubating.go` of upstream's
`dynamic-resource-allocation/structured`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice

from stowplan.objects.devices import ResourceSlice
from stowplan.plugins.dynamic_resources.device_entry import (
    Counters,
    DeviceContent,
    DeviceEntry,
    PoolId,
    SliceContent,
    SliceEntry,
)
from stowplan.state.node_info import NodeInfo
from stowplan.state.object_index import ObjectIndex

_LOG_MAX = 4096

_FORMS_MAX = 4096

_Contents = tuple[SliceContent, ...]


class PoolForm:
    """What pools of one content have in common, whatever they are called."""

    __slots__ = ("counters", "goes_last", "has_places", "is_incomplete", "is_invalid")

    def __init__(self, relevant: _Contents, others: _Contents, *, is_incomplete: bool) -> None:
        devices, rest = _devices_in(relevant), _devices_in(others)
        sets = [it for content in (*relevant, *others) for it in content.counter_sets]
        self.counters: Counters = dict(sets)
        """What the pool's counter sets hold."""
        self.is_incomplete = is_incomplete
        self.is_invalid = not is_incomplete and (
            len({it.device.name for it in devices}) < len(devices)
            or len(self.counters) < len(sets)
            or not all(_are_known(it.consumes, self.counters) for it in (*devices, *rest))
        )
        self.goes_last = any(it.device.binding_conditions is not None for it in devices)
        self.has_places = any(it.places is not None for it in devices)
        """Whether it is up to each device which nodes can have it."""


class Pool:
    __slots__ = ("_devices", "_others", "_relevant", "_rest", "form", "id")

    def __init__(
        self,
        pool_id: PoolId,
        form: PoolForm,
        relevant: tuple[SliceEntry, ...],
        rest: tuple[SliceEntry, ...],
    ) -> None:
        self.id = pool_id
        self.form = form
        self._relevant, self._rest = relevant, rest
        self._devices: tuple[DeviceEntry, ...] | None = None
        self._others: tuple[DeviceEntry, ...] | None = None

    @property
    def name(self) -> str:
        return "/".join(self.id)

    @property
    def is_incomplete(self) -> bool:
        return self.form.is_incomplete

    @property
    def is_invalid(self) -> bool:
        return self.form.is_invalid

    @property
    def counters(self) -> Counters:
        return self.form.counters

    @property
    def devices(self) -> tuple[DeviceEntry, ...]:
        """In the order they are tried; only those of slices that concern the node."""
        if self._devices is None:
            self._devices = tuple(_devices_of(self._relevant))
        return self._devices

    @property
    def others(self) -> tuple[DeviceEntry, ...]:
        """Devices of slices that do not: they count where counters are shared."""
        if self._others is None:
            self._others = tuple(_devices_of(self._rest))
        return self._others


class Slices:
    """All slices of the cluster, read once each."""

    def __init__(self, objects: ObjectIndex) -> None:
        self._objects = objects
        self._all = objects.all(ResourceSlice)
        self._entries: dict[str, SliceEntry] = {}
        self._seen = -1
        self._of_node: dict[str, list[SliceEntry]] = {}
        self._of_any: list[SliceEntry] = []
        """Those that are not of one node, or that hold counters."""
        self._of_pool: dict[PoolId, list[SliceEntry]] = {}
        self._pools: dict[str, tuple[object, list[Pool]]] = {}
        """Node -> the object that it was, and its pools."""
        self._nodes_with: dict[PoolId, set[str]] = {}
        self._forms: dict[tuple[_Contents, _Contents, bool], PoolForm] = {}
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
                self._put(key, known, None if thing is None else SliceEntry(thing))

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
        self._change_all()

    def _put(self, key: str, old: SliceEntry | None, new: SliceEntry | None) -> None:
        """Exchange a slice, where it stood if it is of the same node and pool."""
        before = list(self._lists_of(old)) if old is not None else []
        after = list(self._lists_of(new)) if new is not None else []
        self._change(it for entries in (*before, *after) for it in entries)
        for entries in before:
            assert old is not None
            if new is not None and any(entries is it for it in after):
                entries[entries.index(old)] = new
            else:
                entries.remove(old)
        for entries in after:
            assert new is not None
            if not any(entries is it for it in before):
                entries.append(new)
        if new is None:
            del self._entries[key]
        else:
            self._entries[key] = new
            self._change((new,))

    def _lists_of(self, entry: SliceEntry) -> Iterator[list[SliceEntry]]:
        yield self._of_pool.setdefault(entry.id, [])
        yield self._of_node.setdefault(entry.node_name, []) if entry.is_local else self._of_any

    def _change(self, entries: Iterable[SliceEntry]) -> None:
        """What concerns these slices, or those of the same pool, is to be looked at again."""
        for entry in entries:
            if not entry.is_local:
                self._change_all()
                return
            self._pools.pop(entry.node_name, None)
            self.version += 1
            self._log.append(entry.node_name)

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
        """What the node can have devices from, in the order in which they are tried."""
        known = self._pools.get(node.name)
        if known is None or known[0] is not node.node:
            known = self._pools[node.name] = (node.node, self._find(node))
            for pool in known[1]:
                self._nodes_with.setdefault(pool.id, set()).add(node.name)
        return known[1]

    def nodes_with(self, pool_id: PoolId) -> Iterable[str]:
        """Among the nodes whose pools were asked for, those that have this one, or had it."""
        return self._nodes_with.get(pool_id, ())

    def _find(self, node: NodeInfo) -> list[Pool]:
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
        return sorted(pools, key=lambda pool: pool.form.goes_last)

    def _pool(self, pool_id: PoolId, relevant: list[SliceEntry]) -> Pool | None:
        """None for one that is obsolete here."""
        in_order = tuple(sorted(relevant, key=lambda entry: entry.name))
        # Where slices disagree about their number, the first by name is right.
        generation, wanted = in_order[0].generation, in_order[0].slice_count
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
                return Pool(pool_id, self._form((), (), is_incomplete=True), (), ())
        form = self._form(_contents_of(in_order), _contents_of(others), is_incomplete=False)
        return Pool(pool_id, form, in_order, tuple(others))

    def _form(self, relevant: _Contents, others: _Contents, *, is_incomplete: bool) -> PoolForm:
        key = (relevant, others, is_incomplete)
        found = self._forms.get(key)
        if found is None:
            if len(self._forms) >= _FORMS_MAX:
                self._forms.clear()
            found = self._forms[key] = PoolForm(relevant, others, is_incomplete=is_incomplete)
        return found


def _contents_of(entries: Iterable[SliceEntry]) -> _Contents:
    return tuple(entry.content for entry in entries)


def _devices_in(contents: _Contents) -> list[DeviceContent]:
    return [device for content in contents for device in content.devices]


def _devices_of(entries: Iterable[SliceEntry]) -> Iterator[DeviceEntry]:
    return (device for entry in entries for device in entry.devices)


def _are_known(consumed: Counters | None, counters: Counters) -> bool:
    if not consumed:
        return True
    return all(
        name in counters and counters[name].keys() >= amounts.keys()
        for name, amounts in consumed.items()
    )
