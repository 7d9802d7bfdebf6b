"""Devices as the allocator sees them: a slice is read once, when it comes.

What is parsed here (amounts, counters, taints, which nodes a device can be had from) and what
selectors say of a device depend on the slice alone, so both stay with it until it changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stowplan import cel
from stowplan.objects.devices import (
    CapacityRequestPolicy,
    CounterConsumption,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    DeviceTaint,
    ResourceSlice,
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


class DeviceEntry:
    """A device of one slice."""

    __slots__ = (
        "_selected",
        "capacity",
        "consumes",
        "device",
        "id",
        "is_shareable",
        "places",
        "seen",
        "slice",
        "taints",
    )

    def __init__(self, device: Device, of: SliceEntry) -> None:
        spec = of.object.spec
        self.device = device
        self.slice = of
        self.id: DeviceId = (spec.driver, spec.pool.name, device.name)
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
        self._selected: dict[tuple[str, ...], Selected] = {}

    @property
    def name(self) -> str:
        """As errors have it."""
        return "/".join(self.id)

    def selected_by(self, expressions: tuple[str, ...]) -> Selected:
        """Whether all of them take the device; they are asked in order, up to the first no."""
        known = self._selected.get(expressions)
        if known is None:
            known = self._selected[expressions] = self._ask(expressions)
        return known

    def _ask(self, expressions: tuple[str, ...]) -> Selected:
        for number, text in enumerate(expressions):
            try:
                expression = cel.compile_expression(text)
            except cel.CompileError as problem:
                return number, f"CEL compile error: {problem.details}"
            try:
                if not expression.matches(self.seen):
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


class SliceEntry:
    """A slice, with its devices read when they are first looked at."""

    __slots__ = ("_devices", "counter_sets", "generation", "id", "object", "places", "slice_count")

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
        self.counter_sets = tuple(
            (it.name, {name: parse_quantity(c.value) for name, c in (it.counters or {}).items()})
            for it in spec.shared_counters or ()
        )
        self._devices: tuple[DeviceEntry, ...] | None = None

    @property
    def name(self) -> str:
        return self.object.metadata.name

    @property
    def node_name(self) -> str:
        return self.object.spec.node_name or ""

    @property
    def devices(self) -> tuple[DeviceEntry, ...]:
        found = self._devices
        if found is None:
            found = tuple(DeviceEntry(device, self) for device in self.object.spec.devices or ())
            self._devices = found
        return found

    def is_relevant(self, node: NodeInfo) -> bool:
        if self.counter_sets:
            return True
        if self.places is not None:
            return self.places.accept(node)
        return any(it.places is not None and it.places.accept(node) for it in self.devices)


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
