"""Devices: slices for nodes, claims for them, and claims that are allocated beforehand.

They are put into the cluster as upstream's harness does it.  Whether pods that claim devices are
placed is the scheduler's business (see DynamicResources).  Called by `ops`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

from stowplan.apiserver.stored_kinds import STORED_KIND_BY_NAME
from stowplan.bench.making import Act, Claim, Device
from stowplan.bench.opcodes import AllocResourceClaims, CreateResourceClaims, CreateResourceDriver
from stowplan.bench.stage import Steps
from stowplan.errors import InputError
from stowplan.objects.api import Create, Patch
from stowplan.objects.base import KubeObject
from stowplan.objects.kinds import NODE

_API = "resource.k8s.io/v1"
RESOURCE_SLICE = STORED_KIND_BY_NAME[_API, "ResourceSlice"]
RESOURCE_CLAIM = STORED_KIND_BY_NAME[_API, "ResourceClaim"]

NUMA_NODES = 2
"""Devices are on these in turn."""


def create_resource_driver(act: Act, op: CreateResourceDriver) -> Steps[None]:
    """One slice per matching node, with so many devices."""
    nodes = [
        name
        for kind, name in act.stage.created
        if kind is NODE and fnmatchcase(name, op.nodes or "*")
    ]
    if not nodes:
        raise InputError(
            f"no node is called {op.nodes!r}", where=f"{act.workload.full_name}: {op.driver_name}"
        )
    slices = [_slice(op.driver_name, node, op.max_claims_per_node) for node in nodes]
    act.stage.created += [(RESOURCE_SLICE, each["metadata"]["name"]) for each in slices]
    yield from act.stage.send(Create(RESOURCE_SLICE, "", each) for each in slices)
    act.make.devices += [
        Device(op.driver_name, node, f"instance-{number}")
        for node in nodes
        for number in range(op.max_claims_per_node)
    ]


def _slice(driver: str, node: str, count: int) -> dict[str, Any]:
    return {
        "apiVersion": _API,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{driver}"},
        "spec": {
            "driver": driver,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [_device(number) for number in range(count)],
        },
    }


def _device(number: int) -> dict[str, Any]:
    return {
        "name": f"instance-{number}",
        "attributes": {
            "model": {"string": "A100"},
            "family": {"string": "GPU"},
            "driverVersion": {"version": "1.2.3"},
            "dra.example.com/numa": {"int": number % NUMA_NODES},
        },
        "capacity": {"memory": {"value": "1Gi"}},
    }


def create_resource_claims(act: Act, op: CreateResourceClaims) -> Steps[None]:
    yield from act.make.ensure_namespace(op.namespace)
    stencil = act.make.stencil(op.template_path)
    if stencil.kind is not RESOURCE_CLAIM:
        raise InputError(f"this is a {stencil.kind.name}, no ResourceClaim", where=op.template_path)
    bodies = [stencil.data(number, op.count) for number in range(op.count)]
    requests = [
        tuple(str(each.get("name")) for each in body["spec"]["devices"].get("requests", ()))
        for body in bodies
    ]
    # A cluster may answer in any order; all claims of a template ask for the same.
    asked = iter(requests)

    def note(things: Sequence[KubeObject | None]) -> None:
        act.make.claims += [
            Claim(op.namespace, thing.name, next(asked)) for thing in things if thing is not None
        ]

    yield from act.stage.send(
        (Create(RESOURCE_CLAIM, op.namespace, body) for body in bodies), on_answers=note
    )


def alloc_resource_claims(act: Act, op: AllocResourceClaims) -> Steps[None]:
    """Each claim of the namespace ("": of all) on a node taken at random that has room for it."""
    claims = [claim for claim in act.make.claims if op.namespace in ("", claim.namespace)]
    free: dict[str, list[Device]] = {}
    for device in act.make.devices:
        free.setdefault(device.node, []).append(device)
    yield from act.stage.send(_allocations(act, claims, free))
    taken = {id(claim) for claim in claims}
    act.make.claims[:] = [claim for claim in act.make.claims if id(claim) not in taken]
    act.make.devices[:] = [device for devices in free.values() for device in devices]


def _allocations(act: Act, claims: list[Claim], free: dict[str, list[Device]]) -> Iterator[Patch]:
    for claim in claims:
        count = len(claim.requests)
        nodes = [node for node, devices in free.items() if len(devices) >= count]
        if not nodes:
            raise InputError(
                f"no node has {count} free devices for the claim {claim.namespace}/{claim.name}",
                where=act.workload.full_name,
            )
        node = nodes[act.stage.random.randrange(len(nodes))]
        devices = [free[node].pop() for _ in range(count)]
        body = {"status": {"allocation": _allocation(claim, node, devices)}}
        yield Patch(RESOURCE_CLAIM, claim.namespace, claim.name, body, "merge", "status")


def _allocation(claim: Claim, node: str, devices: list[Device]) -> dict[str, Any]:
    results = [
        {"request": request, "driver": device.driver, "pool": device.node, "device": device.name}
        for request, device in zip(claim.requests, devices, strict=True)
    ]
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"devices": {"results": results}, "nodeSelector": selector}
