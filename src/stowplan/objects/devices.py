"""Devices and who asks for them: resource.k8s.io/v1.

Drivers publish their devices in ResourceSlices, a DeviceClass says which devices it stands for, a
ResourceClaim asks for some and, once allocated, says which.  `objects.device_versions` turns older
versions of these into v1.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stowplan.objects.base import Condition, KubeObject, ObjectMeta, Quantity, Resources, Struct
from stowplan.objects.pod import NodeSelector

Configuration = dict[str, Any]
"""`requests`, `source` and what is meant for a driver (`opaque`): handed on, never looked into."""

EXACT_COUNT = "ExactCount"
ALL_DEVICES = "All"


class CELSelector(Struct, frozen=True):
    expression: str = ""


class DeviceSelector(Struct, frozen=True):
    cel: CELSelector | None = None


class DeviceToleration(Struct, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class CapacityRequirements(Struct, frozen=True):
    requests: Resources | None = None


class DeviceAsk(Struct, frozen=True):
    """What a request and an alternative of a prioritised list have in common."""

    device_class_name: str = ""
    selectors: list[DeviceSelector] | None = None
    allocation_mode: str = ""
    count: int = 0
    tolerations: list[DeviceToleration] | None = None
    capacity: CapacityRequirements | None = None

    @property
    def mode(self) -> str:
        return self.allocation_mode or EXACT_COUNT


class ExactDeviceRequest(DeviceAsk, frozen=True):
    admin_access: bool | None = None


class DeviceSubRequest(DeviceAsk, frozen=True):
    name: str = ""


class DeviceRequest(Struct, frozen=True):
    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: list[DeviceSubRequest] | None = None


class DeviceConstraint(Struct, frozen=True):
    requests: list[str] | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaim(Struct, frozen=True):
    requests: list[DeviceRequest] | None = None
    constraints: list[DeviceConstraint] | None = None
    config: list[Configuration] | None = None


class ResourceClaimSpec(Struct, frozen=True):
    devices: DeviceClaim = DeviceClaim()


class AllocatedDevice(Struct, frozen=True):
    """One device of an allocation: `DeviceRequestAllocationResult` upstream."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: list[DeviceToleration] | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: Resources | None = None


class DeviceAllocation(Struct, frozen=True):
    results: list[AllocatedDevice] | None = None
    config: list[Configuration] | None = None


class Allocation(Struct, frozen=True):
    devices: DeviceAllocation = DeviceAllocation()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class ConsumerReference(Struct, frozen=True):
    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class DeviceStatus(Struct, frozen=True):
    """What a driver says of a device that was allocated."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = msgspec.field(default=None, name="shareID")
    conditions: list[Condition] | None = None
    data: Any = None
    network_data: Any = None


class ResourceClaimStatus(Struct, frozen=True):
    allocation: Allocation | None = None
    reserved_for: list[ConsumerReference] | None = None
    devices: list[DeviceStatus] | None = None


class ResourceClaim(KubeObject, frozen=True):
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


class ResourceClaimTemplateSpec(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()


class ResourceClaimTemplate(KubeObject, frozen=True):
    spec: ResourceClaimTemplateSpec = ResourceClaimTemplateSpec()


class DeviceClassSpec(Struct, frozen=True):
    selectors: list[DeviceSelector] | None = None
    config: list[Configuration] | None = None
    extended_resource_name: str | None = None


class DeviceClass(KubeObject, frozen=True):
    spec: DeviceClassSpec = DeviceClassSpec()


class DeviceAttribute(Struct, frozen=True):
    """One of these."""

    string: str | None = None
    int_value: int | None = msgspec.field(default=None, name="int")
    bool_value: bool | None = msgspec.field(default=None, name="bool")
    version: str | None = None


class ValidRange(Struct, frozen=True):
    min: Quantity | None = None
    max: Quantity | None = None
    step: Quantity | None = None


class CapacityRequestPolicy(Struct, frozen=True):
    """Which amounts of a capacity can be had."""

    default: Quantity | None = None
    valid_values: list[Quantity] | None = None
    valid_range: ValidRange | None = None


class DeviceCapacity(Struct, frozen=True):
    value: Quantity = 0
    request_policy: CapacityRequestPolicy | None = None


class Counter(Struct, frozen=True):
    value: Quantity = 0


class CounterSet(Struct, frozen=True):
    name: str = ""
    counters: dict[str, Counter] | None = None


class CounterConsumption(Struct, frozen=True):
    counter_set: str = ""
    counters: dict[str, Counter] | None = None


class DeviceTaint(Struct, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class Device(Struct, frozen=True):
    name: str = ""
    attributes: dict[str, DeviceAttribute] | None = None
    capacity: dict[str, DeviceCapacity] | None = None
    consumes_counters: list[CounterConsumption] | None = None
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: list[DeviceTaint] | None = None
    binds_to_node: bool | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    allow_multiple_allocations: bool | None = None


class ResourcePool(Struct, frozen=True):
    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(Struct, frozen=True):
    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: list[Device] | None = None
    shared_counters: list[CounterSet] | None = None


class ResourceSlice(KubeObject, frozen=True):
    spec: ResourceSliceSpec = ResourceSliceSpec()
