"""A driver of devices that are not there: GPUs for nodes that say how many they have.

Annotations of a node say so: `stowplan/gpus: "8"`, and if it matters `stowplan/gpu-model` and
`stowplan/gpu-memory`.  The driver publishes them as a ResourceSlice that belongs to the node and
goes with it, and a DeviceClass that stands for all of them, by name or as an extended resource.
`stowplan up --gpus` writes the annotations; in a file of nodes anybody can.
"""

from __future__ import annotations

from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from msgspec import to_builtins

from stowplan.apiserver.controllers.calls import Calls
from stowplan.apiserver.controllers.shared import Shared
from stowplan.objects.api import Create, Delete, Update
from stowplan.objects.base import KubeObject
from stowplan.objects.devices import ResourceSlice
from stowplan.objects.kinds import DEVICE_CLASS, NODE, RESOURCE_SLICE
from stowplan.objects.node import Node
from stowplan.objects.quantity import QuantityError, canonical
from stowplan.objects.workload_pods import owner_reference

GPUS = "stowplan/gpus"
MODEL = "stowplan/gpu-model"
MEMORY = "stowplan/gpu-memory"
DRIVER = "gpu.stowplan.dev"
GPUS_MAX = 128
"""As many as a slice can hold."""
CLASS: dict[str, Any] = {
    "metadata": {"name": DRIVER},
    "spec": {
        "selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}],
        "extendedResourceName": "stowplan.dev/gpu",
    },
}


class DeviceDriver:
    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self.queue = shared.queue("device driver", self.sync)
        self.calls = Calls(shared, self.queue)
        shared.listen(NODE, self._node_changed)
        shared.listen(RESOURCE_SLICE, self._slice_changed)

    def _node_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        """A node that goes takes its slice with it, which belongs to it."""
        if new is None:
            return
        before = None if old is None else old.metadata.annotations
        if (new.metadata.annotations or before) and before != new.metadata.annotations:
            self.queue.add(new.name)

    def _slice_changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        """What anybody else makes of a slice is put right."""
        some = new if new is not None else old
        if isinstance(some, ResourceSlice) and some.spec.driver == DRIVER:
            self.queue.add(some.spec.node_name or "")

    def sync(self, name: str) -> None:
        node = self._shared.get(NODE, name)
        if not isinstance(node, Node) or not self.calls.settled(name):
            return
        known = self._shared.get(RESOURCE_SLICE, slice_name(name))
        wanted = devices_of(node)
        if not wanted:
            if isinstance(known, ResourceSlice) and known.spec.driver == DRIVER:
                self.calls.send(name, Delete(RESOURCE_SLICE, "", known.name, uid=known.uid))
        elif not isinstance(known, ResourceSlice):
            if self._shared.get(DEVICE_CLASS, DRIVER) is None:
                self.calls.send(name, Create(DEVICE_CLASS, "", CLASS))
            self.calls.send(name, Create(RESOURCE_SLICE, "", _slice(node, wanted, generation=1)))
        elif to_builtins(known.spec).get("devices") != wanted:
            generation = known.spec.pool.generation + 1
            body = _slice(node, wanted, generation)
            body["metadata"]["resourceVersion"] = known.metadata.resource_version
            self.calls.send(name, Update(RESOURCE_SLICE, "", known.name, body))


def slice_name(node: str) -> str:
    return f"{node}-{DRIVER}"


def devices_of(node: Node) -> list[dict[str, Any]]:
    """The devices of a node that says how many it has; none where that is no number."""
    said = node.metadata.annotations or {}
    count = said.get(GPUS, "0")
    try:
        memory = canonical(said.get(MEMORY, "80Gi"))
    except QuantityError:
        return []
    return [
        {
            "name": f"gpu-{number}",
            "attributes": {
                "index": {"int": number},
                "uuid": {"string": f"GPU-{uuid5(NAMESPACE_DNS, f'{number}.{node.name}')}"},
                "model": {"string": said.get(MODEL, "S80")[:64]},
                "driverVersion": {"version": "1.0.0"},
            },
            "capacity": {"memory": {"value": memory}},
        }
        for number in range(min(int(count), GPUS_MAX) if count.isdecimal() else 0)
    ]


def _slice(node: Node, devices: list[dict[str, Any]], generation: int) -> dict[str, Any]:
    return {
        "metadata": {"name": slice_name(node.name), "ownerReferences": [owner_reference(node)]},
        "spec": {
            "driver": DRIVER,
            "nodeName": node.name,
            "pool": {"name": node.name, "generation": generation, "resourceSliceCount": 1},
            "devices": devices,
        },
    }
