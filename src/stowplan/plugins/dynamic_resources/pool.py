"""A pool on a node: what all slices of one driver and pool name in their newest generation say.

While some of them are missing, nothing of it is used.  Pools of the same content share a
`PoolForm`, so that what follows from the content is worked out once.  Mirrors
`pools_incubating.go` of upstream's `dynamic-resource-allocation/structured`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple
from weakref import WeakValueDictionary

from stowplan.plugins.dynamic_resources.device_entry import (
    Counters,
    DeviceContent,
    DeviceEntry,
    PoolId,
    SliceContent,
    SliceEntry,
)

_Contents = tuple[SliceContent, ...]


class PoolForm:
    """What pools of one content have in common, whatever they are called."""

    __slots__ = (
        "__weakref__",
        "counters",
        "goes_last",
        "has_places",
        "is_incomplete",
        "is_invalid",
    )

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
    __slots__ = ("_devices", "_names", "_others", "_relevant", "_rest", "form", "id", "is_part")

    def __init__(
        self,
        pool_id: PoolId,
        form: PoolForm,
        relevant: Sequence[SliceEntry],
        rest: Sequence[SliceEntry],
        *,
        is_part: bool,
    ) -> None:
        self.id = pool_id
        self.form = form
        self.is_part = is_part
        """Whether the node has but some of its devices, and the others do not concern it."""
        self._relevant, self._rest = relevant, rest
        self._devices: tuple[DeviceEntry, ...] | None = None
        self._others: tuple[DeviceEntry, ...] | None = None
        self._names: frozenset[str] | None = None

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
    def is_usable(self) -> bool:
        return not (self.form.is_incomplete or self.form.is_invalid)

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

    @property
    def device_names(self) -> frozenset[str]:
        if self._names is None:
            self._names = frozenset(it.device.name for it in self.devices)
        return self._names


class Candidate(NamedTuple):
    """A device that a search may take, and where it is counted."""

    entry: DeviceEntry
    pool: Pool


class PoolSlices:
    """All slices of one pool, of whichever generation, and what they are on a node."""

    def __init__(self, pool_id: PoolId) -> None:
        self.id = pool_id
        self.entries: list[SliceEntry] = []
        self._newest: list[SliceEntry] | None = None

    def changed(self) -> None:
        self._newest = None

    @property
    def newest(self) -> list[SliceEntry]:
        """Of the highest generation, by name."""
        if self._newest is None:
            self._newest = _newest_of(self.entries)
        return self._newest

    def counting(self) -> list[SliceEntry]:
        """Slices that hold counters and nothing else: they concern all nodes."""
        return [entry for entry in self.entries if entry.only_counts]

    def on(self, relevant: Iterable[SliceEntry], forms: Forms) -> Pool | None:
        """What it is where these slices concern the node; None for one that is obsolete there."""
        in_order = _newest_of(relevant)
        # Where slices disagree about their number, the first by name is right.
        generation, wanted = in_order[0].generation, in_order[0].slice_count
        others: list[SliceEntry] = []
        if len(in_order) != wanted:
            newest = self.newest
            if newest[0].generation > generation:
                return None
            if len(newest) != wanted:
                return Pool(self.id, forms.of((), (), is_incomplete=True), (), (), is_part=False)
            here = {id(entry) for entry in in_order}
            others = [entry for entry in newest if id(entry) not in here]
        is_part = bool(others) and not any(it.content.counts for it in (*in_order, *others))
        if is_part:
            others = []
        form = forms.of(_contents_of(in_order), _contents_of(others), is_incomplete=False)
        return Pool(self.id, form, in_order, others, is_part=is_part)


class Forms:
    """The forms of pools that there are."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[tuple[_Contents, _Contents, bool], PoolForm] = (
            WeakValueDictionary()
        )

    def of(self, relevant: _Contents, others: _Contents, *, is_incomplete: bool) -> PoolForm:
        key = (relevant, others, is_incomplete)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = PoolForm(relevant, others, is_incomplete=is_incomplete)
        return found


def _newest_of(entries: Iterable[SliceEntry]) -> list[SliceEntry]:
    every = list(entries)
    generation = max(entry.generation for entry in every)
    newest = [entry for entry in every if entry.generation == generation]
    return sorted(newest, key=lambda entry: entry.name)


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
