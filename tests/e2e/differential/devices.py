"""Claims, classes and slices: the values that their fields are tried with, and their statuses.

As `vocabulary`, for the kinds of resource.k8s.io: `python -m tests.e2e.differential --devices` asks
both servers about nothing else.
"""

from __future__ import annotations

from typing import Any

from tests.e2e.differential.vocabulary import (
    COUNTS,
    LABEL_MAPS,
    NAMES,
    NODE_TERMS,
    PLAIN,
    QUANTITIES,
    TRIED,
    Data,
    Path,
)

PLURALS = ("resourceclaims", "resourceclaimtemplates", "resourceslices", "deviceclasses")
DRIVER = "example.com"
_DRIVERS: tuple[Any, ...] = ("example.com", "Example.COM", "", "bad_", "x" * 64, "a..b", 7)
_TIME = "2020-01-01T00:00:00Z"

_MEMORY = "device.capacity['example.com'].memory"
_NESTED = "device.attributes['c'].all(m, device.attributes['d'].all(n, k == l && m == n))"
_EXPRESSIONS = (
    "device.driver == 'example.com'",
    f"device.attributes['a'].model == 'a' && {_MEMORY}.compareTo(quantity('1Gi')) > 0",
    "has(device.attributes['example.com'].model)",
    "device.allowMultipleAllocations == true",
    "device.attributes['x'].version.isGreaterThan(semver('1.0.0'))",
    "true",
    "1",
    "'x'",
    "device",
    "device.nope",
    "nope == 1",
    "device.driver ==",
    "",
    "device.driver == 1",
    "device.attributes['a'].b.matches('(')",
    "device.driver.matches('[a-z]+')",
    "[1,2,3].all(x, [1,2,3].all(y, x == y))",
    " || ".join(["device.driver.contains('abc')"] * 50),
    f"device.attributes['a'].all(k, device.attributes['b'].all(l, {_NESTED}))",
    "x" * 10241,
    "'" + "x" * 10250 + "' == device.driver",
)  # fmt: skip
SELECTORS: tuple[Any, ...] = (
    *([{"cel": {"expression": text}}] for text in _EXPRESSIONS),
    [],
    [{}],
    [{"cel": {}}],
    [{"cel": None}],
    [{"cel": {"expression": "true"}}] * 32,
    [{"cel": {"expression": "true"}}] * 33,
    [{"cel": {"expression": 1}}],
)
_TOLERATIONS: tuple[Any, ...] = (
    [{"key": "k", "value": "v", "effect": "NoSchedule"}],
    [{"key": "k", "operator": "Exists"}],
    [{"operator": "Exists"}],
    [{"key": "k", "operator": "Exists", "value": "v"}],
    [{"key": "k", "operator": "Equal", "value": "bad value!"}],
    [{"key": "bad key"}],
    [{"key": "k", "operator": "Like"}],
    [{"key": "k", "effect": "PreferNoSchedule"}],
    [{"key": "k", "effect": "None", "tolerationSeconds": 5}],
    [{"key": "k", "effect": "NoExecute", "tolerationSeconds": -1}],
    [{}],
    [{"key": f"k{n}"} for n in range(17)],
)
_PARAMETERS: tuple[Any, ...] = ({"a": 1}, {}, [1], "x", None, 7, {"a": "x" * 10240})
_CONFIGS: tuple[Any, ...] = (
    *([{"opaque": {"driver": DRIVER, "parameters": it}}] for it in _PARAMETERS),
    *([{"opaque": {"driver": it, "parameters": {"a": 1}}}] for it in _DRIVERS),
    [{}],
    [{"opaque": {}}],
    [{"opaque": {"driver": DRIVER}}],
    [{"opaque": {"driver": DRIVER, "parameters": {"a": 1}}}] * 33,
)
_REFERENCES: tuple[Any, ...] = (
    ["r"], ["r", "r"], ["missing"], ["r/s"], ["r/s/t"], ["Bad_"], [""], [], ["r/"], ["r"] * 33,
)  # fmt: skip
_QUALIFIED: tuple[Any, ...] = (
    "example.com/model", "model", "", "/model", "example.com/", "a/b/c", "Bad_/model", "bad-/x",
    "example.com/bad-id", "x" * 33, "example.com/" + "x" * 33, "y" * 64 + "/x", "1x", 7,
)  # fmt: skip
_ASK = {"deviceClassName": "gpu"}
_SUB = {"name": "s", **_ASK}
_REQUESTS: tuple[Any, ...] = (
    [],
    None,
    [{"name": "r"}],
    [{"name": "r", "exactly": _ASK}, {"name": "r", "exactly": _ASK}],
    [{"name": f"r{n}", "exactly": _ASK} for n in range(32)],
    [{"name": f"r{n}", "exactly": _ASK} for n in range(33)],
    *([{"name": name, "exactly": _ASK}] for name in NAMES),
    *([{"name": "r", "exactly": {"deviceClassName": name}}] for name in NAMES),
    *([{"name": "r", "exactly": {**_ASK, "count": it}}] for it in COUNTS),
    *([{"name": "r", "exactly": {**_ASK, "selectors": it}}] for it in SELECTORS),
    *([{"name": "r", "exactly": {**_ASK, "tolerations": it}}] for it in _TOLERATIONS),
    [{"name": "r", "exactly": {**_ASK, "allocationMode": "All"}}],
    [{"name": "r", "exactly": {**_ASK, "allocationMode": "All", "count": 2}}],
    [{"name": "r", "exactly": {**_ASK, "allocationMode": "Some"}}],
    [{"name": "r", "exactly": {**_ASK, "allocationMode": ""}}],
    [{"name": "r", "exactly": {**_ASK, "adminAccess": True}}],
    [{"name": "r", "exactly": {**_ASK, "adminAccess": False}}],
    [{"name": "r", "exactly": {**_ASK, "capacity": {"requests": {"memory": "1Gi"}}}}],
    [{"name": "r", "exactly": {**_ASK, "capacity": {"requests": {"bad-": "1Gi"}}}}],
    [{"name": "r", "exactly": {}}],
    [{"name": "r", "exactly": _ASK, "firstAvailable": [_SUB]}],
    [{"name": "r", "firstAvailable": [_SUB]}],
    [{"name": "r", "firstAvailable": []}],
    [{"name": "r", "firstAvailable": [_SUB, _SUB]}],
    [{"name": "r", "firstAvailable": [{**_SUB, "name": f"s{n}"} for n in range(9)]}],
    [{"name": "r", "firstAvailable": [{**_SUB, "count": 0, "allocationMode": "All"}]}],
    [{"name": "r", "firstAvailable": [{**_SUB, "count": 5, "allocationMode": "All"}]}],
    [{"name": "r", "firstAvailable": [{**_SUB, "deviceClassName": ""}]}],
    [{"name": "r", "firstAvailable": [{**_SUB, "name": "Bad_"}]}],
    *([{"name": "r", "firstAvailable": [{**_SUB, "selectors": it}]}] for it in SELECTORS[:16]),
    *([{"name": "r", "firstAvailable": [{**_SUB, "tolerations": it}]}] for it in _TOLERATIONS),
)
_CLAIM: dict[Path, tuple[Any, ...]] = {
    ("requests",): _REQUESTS,
    ("constraints",): (
        *([{"requests": it, "matchAttribute": "example.com/model"}] for it in _REFERENCES),
        *([{"matchAttribute": it}] for it in _QUALIFIED),
        *([{"distinctAttribute": it}] for it in _QUALIFIED),
        [{}],
        [{"matchAttribute": "a/b", "distinctAttribute": "a/b"}],
        [{"matchAttribute": "a/b"}] * 33,
    ),
    ("config",): (
        *([{**it[0], "requests": ["r"]}] for it in _CONFIGS),
        *([{**_CONFIGS[0][0], "requests": it}] for it in _REFERENCES),
    ),
}

_DEVICE: Data = {"name": "d"}
_VALUES: tuple[Any, ...] = (
    {"string": "x"}, {"string": "x" * 64}, {"string": "x" * 65}, {"int": 5}, {"bool": False}, {},
    {"version": "1.2.3"}, {"version": "1.2"}, {"version": "v1.2.3"}, {"version": "1.2.3-a.1+b"},
    {"version": "01.2.3"}, {"string": "x", "int": 1}, {"int": "5"}, None, {"strings": ["a"]},
    {"int": 1, "strings": ["a"]},
    {"version": "1.0.0-" + "x" * 64}, {"int": 2**63},
)  # fmt: skip
_POLICIES: tuple[Any, ...] = (
    {"default": "1"},
    {},
    {"default": "1", "validValues": ["1", "2"]},
    {"default": "3", "validValues": ["1", "2"]},
    {"validValues": ["1", "2"]},
    {"default": "1", "validValues": ["2", "1"]},
    {"default": "1", "validValues": ["1", "1"]},
    {"default": "1", "validValues": ["1", "100"]},
    {"default": "1", "validValues": [str(n) for n in range(1, 12)]},
    {"default": "1", "validRange": {"min": "1"}},
    {"default": "1", "validRange": {}},
    {"validRange": {"min": "1"}},
    {"default": "1", "validRange": {"min": "2"}},
    {"default": "1", "validRange": {"min": "100"}},
    {"default": "4", "validRange": {"min": "1", "max": "3"}},
    {"default": "2", "validRange": {"min": "5", "max": "3"}},
    {"default": "2", "validRange": {"min": "1", "max": "100"}},
    {"default": "3", "validRange": {"min": "1", "max": "5", "step": "2"}},
    {"default": "2", "validRange": {"min": "1", "max": "6", "step": "2"}},
    {"default": "2", "validRange": {"min": "1", "step": "50"}},
    {"default": "1", "validValues": ["1"], "validRange": {"min": "1"}},
)
_TAINTS: tuple[Any, ...] = (
    [{"key": "k", "value": "v", "effect": "NoSchedule", "timeAdded": _TIME}],
    [{"key": "k", "effect": "NoExecute", "timeAdded": _TIME}],
    [{"key": "k", "effect": "None", "timeAdded": _TIME}],
    [{"key": "k", "effect": "NoSchedule"}],
    [{"key": "k", "effect": "PreferNoSchedule"}],
    [{"key": "k"}],
    [{"key": "", "effect": "NoSchedule"}],
    [{"key": "bad key", "effect": "NoSchedule"}],
    [{"key": "k", "value": "bad value!", "effect": "NoSchedule"}],
    [{"key": f"k{n}", "effect": "NoSchedule", "timeAdded": _TIME} for n in range(17)],
)
_COUNTERS: tuple[Any, ...] = (
    {"memory": {"value": "1Gi"}},
    {},
    None,
    {"Bad_": {"value": "1"}},
    {"m": {"value": "x"}},
    {"m": {}},
    {f"c{n}": {"value": "1"} for n in range(33)},
)
_CONSUMES: tuple[Any, ...] = (
    *([{"counterSet": "s", "counters": it}] for it in _COUNTERS),
    [{"counterSet": "s", "counters": _COUNTERS[0]}] * 2,
    [{"counterSet": f"s{n}", "counters": _COUNTERS[0]} for n in range(3)],
    [{"counters": _COUNTERS[0]}],
    [{"counterSet": "Bad_", "counters": _COUNTERS[0]}],
)
_BINDING: tuple[Any, ...] = (
    {"bindingConditions": ["a"], "bindingFailureConditions": ["b"]},
    {"bindingConditions": ["a"]},
    {"bindingFailureConditions": ["b"]},
    {"bindingConditions": ["a", "a"], "bindingFailureConditions": ["b", "b"]},
    {"bindingConditions": ["a"], "bindingFailureConditions": ["a"]},
    {"bindingConditions": ["bad key"], "bindingFailureConditions": ["b"]},
    {"bindingConditions": list("abcde"), "bindingFailureConditions": ["z"]},
    {"bindingConditions": ["a"], "bindingFailureConditions": list("bcdef")},
    {"bindsToNode": True},
)
_SHARED = {"allowMultipleAllocations": True}
_DEVICES: tuple[Any, ...] = (
    [],
    None,
    [{}],
    [_DEVICE, _DEVICE],
    [{"name": f"d{n}"} for n in range(128)],
    [{"name": f"d{n}"} for n in range(129)],
    [{"name": f"d{n}", "taints": _TAINTS[0]} for n in range(64)],
    [{"name": f"d{n}", "taints": _TAINTS[0]} for n in range(65)],
    *([{"name": name}] for name in NAMES),
    *([{**_DEVICE, "attributes": {"a": it}}] for it in _VALUES),
    *([{**_DEVICE, "attributes": {str(it): {"int": 1}}}] for it in _QUALIFIED),
    [{**_DEVICE, "attributes": {f"a{n}": {"int": n} for n in range(33)}}],
    *([{**_DEVICE, "capacity": {"m": {"value": it}}}] for it in QUANTITIES),
    *([{**_DEVICE, "capacity": {str(it): {"value": "1"}}}] for it in _QUALIFIED),
    *(
        [{**_DEVICE, **_SHARED, "capacity": {"m": {"value": "10", "requestPolicy": it}}}]
        for it in _POLICIES
    ),
    [{**_DEVICE, "capacity": {"m": {"value": "10", "requestPolicy": {"default": "1"}}}}],
    *([{**_DEVICE, "taints": it}] for it in _TAINTS),
    *([{**_DEVICE, "consumesCounters": it}] for it in _CONSUMES),
    *([{**_DEVICE, **it}] for it in _BINDING),
    [{**_DEVICE, "nodeName": "n"}],
    [{**_DEVICE, "allNodes": True}],
    [{**_DEVICE, "nodeAllocatableResourceMappings": {"cpu": {"capacityKey": "m"}}}],
)
_SELECTOR = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}
_PLACES: tuple[Any, ...] = (
    {"nodeName": ""},
    {"nodeName": "Bad_"},
    {"nodeName": None, "allNodes": True},
    {"nodeName": None, "allNodes": False},
    {"nodeName": None},
    {"nodeName": "n", "allNodes": True},
    {"nodeName": None, "nodeSelector": _SELECTOR},
    {"nodeName": None, "nodeSelector": {}},
    *({"nodeName": None, "nodeSelector": {"nodeSelectorTerms": it}} for it in NODE_TERMS),
    {"nodeName": None, "nodeSelector": {"nodeSelectorTerms": _SELECTOR["nodeSelectorTerms"] * 2}},
    {"nodeName": None, "perDeviceNodeSelection": True},
    {"nodeName": None, "perDeviceNodeSelection": False},
    *(
        {"nodeName": None, "perDeviceNodeSelection": True, "devices": [{**_DEVICE, **it}]}
        for it in (
            {"nodeName": "n"},
            {"nodeName": ""},
            {"allNodes": True},
            {"allNodes": False},
            {"nodeSelector": _SELECTOR},
            {"nodeName": "n", "allNodes": True},
            {},
        )
    ),
    {"devices": None, "sharedCounters": [{"name": "s", "counters": _COUNTERS[0]}]},
    {"sharedCounters": [{"name": "s", "counters": _COUNTERS[0]}]},
    *({"devices": None, "sharedCounters": [{"name": "s", "counters": it}]} for it in _COUNTERS),
    {"devices": None, "sharedCounters": [{"name": "s", "counters": _COUNTERS[0]}] * 2},
    {"devices": None, "sharedCounters": [{"counters": _COUNTERS[0]}]},
    {"devices": None, "sharedCounters": [{"name": "Bad_", "counters": _COUNTERS[0]}]},
    {
        "devices": None,
        "sharedCounters": [{"name": f"s{n}", "counters": _COUNTERS[0]} for n in range(9)],
    },
)
_SPEC = PLAIN["resourceslices"]["spec"]
_SLICE: dict[Path, tuple[Any, ...]] = {
    ("driver",): _DRIVERS,
    ("nodeName",): ("n", "m", "", "Bad_", None),
    ("pool",): (
        {"name": "n", "resourceSliceCount": 2, "generation": 3},
        {"name": "n", "resourceSliceCount": 0},
        {"name": "n", "resourceSliceCount": -1, "generation": -1},
        {"name": "", "resourceSliceCount": 1},
        {"name": "a/b.c/d", "resourceSliceCount": 1},
        {"name": "a//b", "resourceSliceCount": 1},
        {"name": "Bad_", "resourceSliceCount": 1},
        {"name": "x" * 254, "resourceSliceCount": 1},
        {},
        None,
    ),
    ("devices",): _DEVICES,
}


def _in(prefix: Path, fields: dict[Path, tuple[Any, ...]]) -> dict[Path, tuple[Any, ...]]:
    return {(*prefix, *path): values for path, values in fields.items()}


TRIED["resourceclaims"] |= _in(("spec", "devices"), _CLAIM)
TRIED["resourceclaimtemplates"] |= {
    **_in(("spec", "spec", "devices"), _CLAIM),
    ("spec", "metadata"): (
        {"labels": {"a": "b"}, "annotations": {"c": "d"}},
        *({"labels": it} for it in LABEL_MAPS),
        {"name": "x"},
    ),
}
TRIED["deviceclasses"] |= {
    ("spec", "selectors"): SELECTORS,
    ("spec", "config"): _CONFIGS,
    ("spec", "extendedResourceName"): ("example.com/gpu", "gpu", "", "cpu", "kubernetes.io/x", 7),
}
TRIED["resourceslices"] |= {
    **_in(("spec",), _SLICE),
    ("spec",): tuple({**_SPEC, **it} for it in _PLACES),
}

_RESULT: Data = {"request": "r", "driver": DRIVER, "pool": "p", "device": "d"}
_CONSUMER = {"resource": "pods", "name": "p", "uid": "u"}
_SHARE = "0b5b6c0a-7e4c-4d0a-8a58-0123456789ab"


def _allocated(**changes: Any) -> Data:
    return {"allocation": {"devices": {"results": [{**_RESULT, **changes}]}}}


def _with(**status: Any) -> Data:
    return {**_allocated(), **status}


def _said(**changes: Any) -> Data:
    return _with(devices=[{"driver": DRIVER, "pool": "p", "device": "d", **changes}])


_CONDITION = {"type": "Ready", "status": "True", "reason": "Why", "lastTransitionTime": _TIME}
CLAIM_STATUSES: tuple[Data, ...] = (
    *[_allocated()] * 6,
    *[_with(reservedFor=[_CONSUMER])] * 3,
    {},
    {"allocation": None},
    {"allocation": {}},
    {"allocation": None, "reservedFor": [_CONSUMER]},
    _with(reservedFor=[_CONSUMER, _CONSUMER]),
    _with(reservedFor=[{**_CONSUMER, "uid": f"u{n}"} for n in range(256)]),
    _with(reservedFor=[{**_CONSUMER, "uid": f"u{n}"} for n in range(257)]),
    _with(reservedFor=[{}]),
    _with(reservedFor=[{**_CONSUMER, "apiGroup": "g"}]),
    _allocated(adminAccess=True),
    *(_allocated(request=it) for it in ("", "missing", "r/s", "r/s/t", "Bad_")),
    *(_allocated(driver=it) for it in _DRIVERS),
    *(_allocated(pool=it) for it in ("", "a/b", "Bad_", "x" * 254)),
    *(_allocated(device=it) for it in NAMES),
    *(_allocated(shareID=it) for it in (_SHARE, _SHARE.upper(), "x", "", f"{{{_SHARE}}}")),
    *(_allocated(**it) for it in _BINDING[:-1]),
    _allocated(tolerations=[{"key": "k"}]),
    _allocated(consumedCapacity={"memory": "1024Mi"}),
    {"allocation": {"devices": {"results": [_RESULT] * 33}}},
    {"allocation": {"devices": {"results": [_RESULT]}, "nodeSelector": _SELECTOR}},
    {"allocation": {"devices": {"results": [_RESULT]}, "nodeSelector": {}}},
    {"allocation": {"devices": {"results": [_RESULT]}, "allocationTimestamp": _TIME}},
    *(
        {"allocation": {"devices": {"results": [_RESULT], "config": [{**_CONFIGS[0][0], **it}]}}}
        for it in (
            {"source": "FromClaim"},
            {"source": "FromClass", "requests": ["r"]},
            {"source": "Elsewhere"},
            {},
            {"source": "FromClaim", "requests": ["missing"]},
        )
    ),
    _said(),
    _said(device="other"),
    _said(driver="", pool="", device=""),
    _said(shareID=_SHARE),
    _said(conditions=[_CONDITION]),
    _said(conditions=[_CONDITION, _CONDITION]),
    _said(conditions=[{"type": "Ready"}]),
    _said(conditions=[{**_CONDITION, "reason": "bad reason", "status": "Perhaps"}]),
    _said(conditions=[{**_CONDITION, "type": f"T{n}"} for n in range(9)]),
    *(_said(data=it) for it in _PARAMETERS),
    _said(networkData={"interfaceName": "eth0", "ips": ["10.9.8.7/24"], "hardwareAddress": "a"}),
    _said(networkData={"interfaceName": "x" * 257, "hardwareAddress": "x" * 129}),
    *(
        _said(networkData={"ips": it})
        for it in (["10.9.8.7"], ["x"], ["010.1.1.1/8"], ["2001:DB8::1/64"], ["1.1.1.1/8"] * 2,
                   [f"1.1.1.{n}/8" for n in range(17)])
    ),
    _with(devices=[{"driver": DRIVER, "pool": "p", "device": "d"}] * 2),
)  # fmt: skip
