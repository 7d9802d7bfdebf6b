"""Devices as the allocator sees them: what slices say alike is read once.

What is parsed here (amounts, counters, taints, which nodes a device can be had from) and what
selectors say of a device depend on the content of the slice alone.  The nodes of a cluster are of
few makes, so slices with the same content share all that: `SliceContent`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from stowplan import cel
from stowplan.objects.devices import (
    CapacityRequestPolicy,
    CounterConsumption,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceTaint,
    ResourceSlice,
    ResourceSliceSpec,
)
from stowplan.objects.node_selector import CompiledNodeSelector, compile_node_selector
from stowplan.objects.pod import NodeSelector
from stowplan.objects.quantity import parse_quantity
from stowplan.objects.taints import HARD_EFFECTS
from stowplan.state.node_info import NodeInfo

DeviceId = tuple[str, str, str]
"""Driver, pool, device."""

PoolId = tuple[str, str]
"""Driver, pool."""

Selected = bool | tuple[int, str]
"""What a list of selectors says: yes, no, or which of them failed, and how."""

Counters = dict[str, dict[str, int]]
"""Counter set -> counter -> nanos."""


class Capacity:
    """One capacity of a device, in nanos."""

    __slots__ = ("policy", "text", "value")

    def __init__(self, capacity: DeviceCapacity) -> None:
        self.value = parse_quantity(capacity.value)
        self.text = str(capacity.value)
        self.policy: CapacityRequestPolicy | None = capacity.request_policy


class Places:
    """Where something can be had: on one node, on those that a selector takes, or on all."""

    __slots__ = ("node_name", "selector", "written")

    def __init__(
        self, node_name: str | None, selector: NodeSelector | None, *, everywhere: bool | None
    ) -> None:
        self.node_name = node_name or ""
        self.written = None if everywhere or self.node_name else selector
        compiled = compile_node_selector(self.written)
        if compiled is None and not everywhere:
            compiled = CompiledNodeSelector(())
        self.selector: CompiledNodeSelector | None = compiled
        """None: all nodes.  Not asked where there is a name."""

    def accept(self, node: NodeInfo) -> bool:
        if self.node_name:
            return self.node_name == node.name
        return self.selector is None or self.selector.matches(node.labels, node.name)


class DeviceContent:
    """A device, wherever it is."""

    __slots__ = (
        "capacity",
        "consumes",
        "device",
        "is_shareable",
        "places",
        "seen",
        "selected",
        "taints",
    )

    def __init__(self, device: Device, spec: ResourceSliceSpec) -> None:
        self.device = device
        self.is_shareable = bool(device.allow_multiple_allocations)
        self.places = (
            Places(device.node_name, device.node_selector, everywhere=device.all_nodes)
            if spec.per_device_node_selection
            else None
        )
        """Its own, where the slice leaves it to its devices."""
        self.consumes = _consumed(device.consumes_counters)
        self.capacity = {name: Capacity(it) for name, it in (device.capacity or {}).items()}
        self.taints: tuple[DeviceTaint, ...] = tuple(
            taint for taint in device.taints or () if taint.effect in HARD_EFFECTS
        )
        self.seen = cel.Device(
            spec.driver,
            {name: _value(attribute) for name, attribute in (device.attributes or {}).items()},
            {name: it.value for name, it in (device.capacity or {}).items()},
            self.is_shareable,
        )
        self.selected: dict[tuple[str, ...], Selected] = {}


class DeviceEntry:
    """A device of one slice."""

    __slots__ = (
        "capacity",
        "consumes",
        "content",
        "device",
        "id",
        "is_shareable",
        "places",
        "slice",
        "taints",
    )

    def __init__(self, content: DeviceContent, of: SliceEntry) -> None:
        self.content = content
        self.slice = of
        self.device = content.device
        self.id: DeviceId = (*of.id, content.device.name)
        self.is_shareable = content.is_shareable
        self.places = content.places
        self.consumes = content.consumes
        self.capacity = content.capacity
        self.taints = content.taints

    @property
    def name(self) -> str:
        """As errors have it."""
        return "/".join(self.id)

    def selected_by(self, expressions: tuple[str, ...]) -> Selected:
        """Whether all of them take the device; they are asked in order, up to the first no."""
        known = self.content.selected.get(expressions)
        if known is None:
            known = self.content.selected[expressions] = self._ask(expressions)
        return known

    def _ask(self, expressions: tuple[str, ...]) -> Selected:
        for number, text in enumerate(expressions):
            try:
                expression = cel.compile_expression(text)
            except cel.CompileError as problem:
                return number, f"CEL compile error: {problem.details}"
            try:
                if not expression.matches(self.content.seen):
                    return False
            except cel.EvaluationError as problem:
                return number, f"CEL runtime error: {problem}"
        return True

    def attribute(self, name: str) -> DeviceAttribute | None:
        """By its full name; one without a domain is in its driver's."""
        attributes = self.device.attributes
        if not attributes:
            return None
        found = attributes.get(name)
        if found is None:
            domain, _, short = name.partition("/")
            if domain == self.id[0]:
                found = attributes.get(short)
        return found


class SliceContent:
    """What slices with the same driver, devices and counters share."""

    __slots__ = ("__weakref__", "_devices", "counter_sets", "counts", "spec")

    def __init__(self, spec: ResourceSliceSpec) -> None:
        self.spec = spec
        """Of any one of them."""
        self.counter_sets = tuple(
            (it.name, {name: parse_quantity(c.value) for name, c in (it.counters or {}).items()})
            for it in spec.shared_counters or ()
        )
        self.counts = bool(self.counter_sets) or any(
            device.consumes_counters for device in spec.devices or ()
        )
        """Whether it has to do with counters."""
        self._devices: tuple[DeviceContent, ...] | None = None

    @property
    def devices(self) -> tuple[DeviceContent, ...]:
        found = self._devices
        if found is None:
            found = tuple(DeviceContent(device, self.spec) for device in self.spec.devices or ())
            self._devices = found
        return found


_contents: WeakValueDictionary[bytes, SliceContent] = WeakValueDictionary()
_encode = msgspec.json.Encoder(order="deterministic").encode


def _content_of(spec: ResourceSliceSpec) -> SliceContent:
    """The one that all slices with this content share."""
    by_device = bool(spec.per_device_node_selection)
    key = _encode((spec.driver, by_device, spec.devices, spec.shared_counters))
    found = _contents.get(key)
    if found is None:
        found = _contents[key] = SliceContent(spec)
    return found


class SliceEntry:
    """A slice, with its devices read when they are first looked at."""

    __slots__ = (
        "_devices",
        "content",
        "counter_sets",
        "generation",
        "id",
        "object",
        "places",
        "slice_count",
    )

    def __init__(self, thing: ResourceSlice) -> None:
        spec = thing.spec
        self.object = thing
        self.id: PoolId = (spec.driver, spec.pool.name)
        self.generation = spec.pool.generation
        self.slice_count = spec.pool.resource_slice_count
        self.places = (
            None
            if spec.per_device_node_selection
            else Places(spec.node_name, spec.node_selector, everywhere=spec.all_nodes)
        )
        self.content = _content_of(spec)
        self.counter_sets = self.content.counter_sets
        self._devices: tuple[DeviceEntry, ...] | None = None

    @property
    def name(self) -> str:
        return self.object.metadata.name

    @property
    def node_name(self) -> str:
        return self.object.spec.node_name or ""

    @property
    def is_local(self) -> bool:
        """Whether it is for one node, and no other has to know of it."""
        return bool(self.node_name) and not self.counter_sets

    @property
    def only_counts(self) -> bool:
        """Whether it has counters for devices of other slices, and none of its own."""
        return bool(self.counter_sets) and not self.object.spec.devices

    @property
    def devices(self) -> tuple[DeviceEntry, ...]:
        found = self._devices
        if found is None:
            found = tuple(DeviceEntry(device, self) for device in self.content.devices)
            self._devices = found
        return found

    def is_relevant(self, node: NodeInfo) -> bool:
        if self.counter_sets:
            return True
        if self.places is not None:
            return self.places.accept(node)
        devices = self.content.devices
        return any(it.places is not None and it.places.accept(node) for it in devices)


def _consumed(consumptions: list[CounterConsumption] | None) -> Counters | None:
    if not consumptions:
        return None
    return {
        it.counter_set: {name: parse_quantity(c.value) for name, c in (it.counters or {}).items()}
        for it in consumptions
    }


def _value(attribute: DeviceAttribute) -> Any:
    if attribute.version is not None:
        return cel.Version(attribute.version)
    for value in (attribute.string, attribute.int_value, attribute.bool_value):
        if value is not None:
            return value
    return None


def attribute_value(attribute: DeviceAttribute) -> tuple[str, Any] | None:
    """Type and value, to be compared: values of different types are never equal."""
    values: Mapping[str, Any] = {
        "string": attribute.string,
        "int": attribute.int_value,
        "bool": attribute.bool_value,
        "version": attribute.version,
    }
    return next(((name, value) for name, value in values.items() if value is not None), None)
