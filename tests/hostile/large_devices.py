"""Large claims, slices and classes: one for every list and map that they have.

Larger than an API server lets through, where it has a limit: what is read from files has none.
Left out is what is a search by its nature (devices that must agree in something, many claims for
the same devices): steps are counted there, and `filterTimeout` ends it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stowplan.objects.base import KubeObject
from stowplan.objects.devices import DeviceClass, ResourceClaim, ResourceSlice
from tests.hostile.large_objects import NODE_COUNT, Json, Large, Shape

DRIVER = "gpu.example.com"


def _class(k: int, name: str = "", **spec: Any) -> KubeObject:
    text = f'device.driver == "{DRIVER}"'
    body = {"selectors": [{"cel": {"expression": text}}], **spec}
    metadata = {"name": name or f"gpu-{k}"}
    return msgspec.convert({"metadata": metadata, "spec": body}, DeviceClass)


def _slice(name: str, devices: list[Json], **spec: Any) -> KubeObject:
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    body = {"driver": DRIVER, "allNodes": True, "pool": pool, "devices": devices, **spec}
    return msgspec.convert({"metadata": {"name": name}, "spec": body}, ResourceSlice)


def _claim(name: str, k: int, requests: list[Json], status: Any = None, **devices: Any) -> Any:
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}-{k}",
        "resourceVersion": "1",
    }
    body = {"metadata": metadata, "spec": {"devices": {"requests": requests, **devices}}}
    return msgspec.convert({**body, "status": status or {}}, ResourceClaim)


def _ask(k: int, name: str = "r", **fields: Any) -> Json:
    return {"name": name, "exactly": {"deviceClassName": f"gpu-{k}", "count": 1, **fields}}


def _wants(*names: str) -> Json:
    return {"resourceClaims": [{"name": it, "resourceClaimName": it} for it in names]}


def _devices(k: int, count: int = 2, **fields: Any) -> list[Json]:
    return [{"name": f"d-{k}-{i}", **fields} for i in range(count)]


def _one(
    k: int, *requests: Json, devices: list[Json] | None = None, status: Any = None, **more: Any
) -> Large:
    """A pod with one claim, and devices to be had everywhere."""
    name = f"claim-{k}"
    there = [_class(k), _slice(f"s-{k}", devices or _devices(k))]
    claim = _claim(name, k, list(requests) or [_ask(k)], status, **more)
    return Large(_wants(name), objects=[*there, claim])


def _selector(text: str) -> Json:
    return {"cel": {"expression": text}}


def _results(k: int, n: int) -> list[Json]:
    return [
        {"request": "r", "driver": DRIVER, "pool": f"s-{k}", "device": f"x-{i}"} for i in range(n)
    ]


def _held(k: int, n: int, **fields: Any) -> Json:
    return {"allocation": {"devices": {"results": _results(k, n)}}, **fields}


def _reservations(k: int, n: int) -> list[Json]:
    return [{"resource": "pods", "name": f"o-{i}", "uid": f"o-{k}-{i}"} for i in range(n)]


def _many_claims(n: int, k: int) -> Large:
    claims = [_claim(f"c-{k}-{i}", k, [_ask(k)], _held(k, 1)) for i in range(n)]
    names = [it.metadata.name for it in claims]
    return Large(_wants(*names), objects=[_class(k), *claims])


def _slices_of_a_pool(n: int, k: int) -> Large:
    large = _one(k)
    pool = {"name": f"p-{k}", "generation": 1, "resourceSliceCount": n}
    large.objects += [_slice(f"more-{k}-{i:04}", [{"name": f"m-{i}"}], pool=pool) for i in range(n)]
    return large


def _slices_of_a_node(n: int, k: int) -> Large:
    large = _one(k)
    for i in range(n):
        pool = {"name": f"p-{k}-{i}", "generation": 1, "resourceSliceCount": 1}
        where = {"allNodes": None, "nodeName": f"n{i % NODE_COUNT}"}
        large.objects.append(_slice(f"more-{k}-{i:04}", [{"name": "m"}], pool=pool, **where))
    return large


def _counters(n: int, k: int) -> Large:
    amounts = {f"c-{i}": {"value": "10"} for i in range(n)}
    pool = {"name": f"s-{k}", "generation": 1, "resourceSliceCount": 2}
    uses = [{"counterSet": "card", "counters": {f"c-{i}": {"value": "1"} for i in range(n)}}]
    sets = [{"name": "card", "counters": amounts}]
    return Large(
        _wants(f"claim-{k}"),
        objects=[
            _class(k),
            _slice(f"s-{k}-counters", [], pool=pool, sharedCounters=sets),
            _slice(f"s-{k}", _devices(k, consumesCounters=uses), pool=pool),
            _claim(f"claim-{k}", k, [_ask(k)]),
        ],
    )


def _foreign_claims(n: int, k: int) -> Large:
    large = _one(k)
    large.objects += [_claim(f"f-{k}-{i}", k, [_ask(k)], _held(k, 1)) for i in range(n)]
    return large


def _classes(n: int, k: int) -> Large:
    large = _one(k)
    large.objects += [
        _class(k, f"more-{k}-{i}", extendedResourceName=f"example.com/r-{k}-{i}") for i in range(n)
    ]
    return large


def _requests(n: int, k: int) -> Large:
    """For devices that there are none of: more than 32 are an error before any search."""
    none = {"selectors": [_selector("false")], "allocationMode": "All", "count": 0}
    return _one(k, *(_ask(k, f"r-{i}", **none) for i in range(n)))


def _alternatives(n: int, k: int) -> Large:
    subs = [{"name": f"s-{i}", "deviceClassName": f"gpu-{k}", "count": 2} for i in range(n)]
    return _one(k, {"name": "r", "firstAvailable": subs}, devices=_devices(k, 1))


def _config(n: int, k: int) -> Large:
    opaque = {"opaque": {"driver": DRIVER, "parameters": {"z": 1, "a": None}}}
    return _one(k, config=[opaque] * n)


DEVICES: dict[str, Shape] = {
    "claims of a pod": _many_claims,
    "claims of others": _foreign_claims,
    "requests": _requests,
    "alternatives": _alternatives,
    "selectors": lambda n, k: _one(
        k, _ask(k, selectors=[_selector(f"true || {i} == {k}") for i in range(n)])
    ),
    # Short terms: 10,240 bytes are the limit.
    "a long expression": lambda n, k: _one(
        k, _ask(k, selectors=[_selector("||".join(f"{i}<0" for i in range(n)))])
    ),
    "a long list in an expression": lambda n, k: _one(
        k, _ask(k, selectors=[_selector(f"device.driver in {[str(i) for i in range(n)]}")])
    ),
    "constraints": lambda n, k: _one(
        k, constraints=[{"matchAttribute": f"example.com/a-{i}"} for i in range(n)]
    ),
    "configuration": _config,
    "tolerations": lambda n, k: _one(
        k, _ask(k, tolerations=[{"key": f"t-{i}", "operator": "Exists"} for i in range(n)])
    ),
    "capacities wanted": lambda n, k: _one(
        k, _ask(k, capacity={"requests": {f"c-{i}": "1" for i in range(n)}})
    ),
    "results": lambda n, k: _one(k, status=_held(k, n)),
    # Beyond the limit of 256 at every size: each attempt fails, and is made again.
    "reservations": lambda n, k: _one(k, status=_held(k, 1, reservedFor=_reservations(k, n + 256))),
    "reports of drivers": lambda n, k: _one(
        k,
        status=_held(
            k,
            1,
            devices=[{"driver": DRIVER, "pool": "p", "device": f"x-{i}"} for i in range(n)],
        ),
    ),
    "devices": lambda n, k: _one(k, devices=_devices(k, n)),
    "devices that nobody wants": lambda n, k: _one(
        k, _ask(k, selectors=[_selector("false")]), devices=_devices(k, n)
    ),
    "attributes": lambda n, k: _one(
        k, devices=_devices(k, attributes={f"a-{i}": {"int": i} for i in range(n)})
    ),
    "capacities": lambda n, k: _one(
        k, devices=_devices(k, capacity={f"c-{i}": {"value": "1"} for i in range(n)})
    ),
    "taints": lambda n, k: _one(
        k,
        devices=_devices(k, taints=[{"key": f"t-{i}", "effect": "NoSchedule"} for i in range(n)]),
    ),
    "binding conditions": lambda n, k: _one(
        k, devices=_devices(k, bindingConditions=[f"c-{i}" for i in range(n)])
    ),
    "counters": _counters,
    "slices of a pool": _slices_of_a_pool,
    "slices of nodes": _slices_of_a_node,
    "classes": _classes,
}
