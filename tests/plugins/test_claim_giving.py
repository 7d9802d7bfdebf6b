"""DynamicResources from Filter to Reserve: which claims stand in the way, which are given back, and
what is written about configuration and places.  spec/dra.md, 6, 7.9, 8 and 10."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from stowplan.errors import ApiError, Forbidden
from stowplan.framework.status import Code, Status, error, unresolvable
from stowplan.objects.api import Delete, Get, Patch
from stowplan.objects.devices import Allocation, ResourceClaim, ResourceSlice
from stowplan.objects.pod import Pod
from stowplan.plugins.dynamic_resources import DynamicResources
from tests.builders import World, info, node, pod
from tests.plugins.device_objects import (
    DRIVER,
    JSON,
    allocated,
    claim,
    claiming,
    device_class,
    devices,
    request,
    resource_slice,
)
from tests.plugins.test_claim_writes import driven

NOT_AVAILABLE = "resourceclaim not available on the node"


def on_node(name: str) -> JSON:
    only = {"key": "metadata.name", "operator": "In", "values": [name]}
    return {"nodeSelectorTerms": [{"matchFields": [only]}]}


def held_on(name: str, *, reserved: tuple[str, ...] = (), **fields: Any) -> JSON:
    """The status of a claim whose device is on a node."""
    status = allocated("gpu-0", node=name, **fields)
    status["allocation"]["nodeSelector"] = on_node(name)
    status["reservedFor"] = [{"resource": "pods", "name": it, "uid": it} for it in reserved]
    return status


def plugin(world: World) -> DynamicResources:
    return DynamicResources(None, world.handle)


def tried(world: World, asking: Pod) -> tuple[DynamicResources, Any, list[str]]:
    """After Filter: the plugin, the cycle, and per node the reason against it."""
    asked, cycle, own = plugin(world), world.cycle(), info(asking)
    assert asked.pre_filter(cycle, own) is None
    nodes = map(world.table.info, range(world.table.size))
    statuses = [asked.filter_node(cycle, own, it) for it in nodes]
    return asked, cycle, ["" if it is None else it.reasons[0] for it in statuses]


def given_back(world: World, asking: Pod, *answers: Any) -> tuple[str, list[Any]]:
    """What PostFilter says when the pod fits nowhere, and what it asks for."""
    asked, cycle, reasons = tried(world, asking)
    assert all(reasons)
    cycle.statuses = None
    (result, status), requests = driven(asked.post_filter(cycle, info(asking)), *answers)
    assert result is None
    refused = any(isinstance(it, ApiError) for it in answers)
    assert status.code is (Code.ERROR if refused else Code.UNSCHEDULABLE)
    return status.reasons[0], requests


ME = claiming("c", name="me", metadata={"uid": "me"})


@pytest.mark.parametrize(
    ("reserved", "is_given_back"),
    [((), True), (("me",), True), (("other",), False), (("me", "other"), False)],
)
def test_a_claim_that_keeps_its_only_pod_off_all_nodes_is_given_back(
    reserved: tuple[str, ...], is_given_back: bool
) -> None:
    held = claim("c", status=held_on("gone", reserved=reserved))
    world = World(device_class(), node("a"), held)
    if not is_given_back:
        assert given_back(world, ME) == ("still not schedulable", [])
        return

    said, [asked] = given_back(world, ME, claim("c"))
    assert said == "deallocation of ResourceClaim completed"
    assert isinstance(asked, Patch)
    assert (asked.patch_type, asked.subresource, asked.name) == ("merge", "status", "c")
    assert asked.body["metadata"] == {"uid": "uid-c", "resourceVersion": "1"}
    assert asked.body["status"] == {"allocation": None, "reservedFor": None}


def test_what_drivers_said_goes_with_it_and_only_one_claim_at_a_time() -> None:
    said_of = {"devices": [{"driver": DRIVER, "pool": "gone", "device": "gpu-0"}]}
    both = [claim(name, status={**held_on("gone"), **said_of}) for name in ("c", "d")]
    world = World(device_class(), node("a"), *both)

    _, [asked] = given_back(world, claiming("c", "d"), claim("c"))
    assert asked.body["status"] == {"allocation": None, "reservedFor": None, "devices": None}


def test_a_claim_that_is_no_obstacle_anywhere_is_kept() -> None:
    """It is elsewhere that the pod fails: what its second claim wants, nobody has."""
    kept = claim("c", status=held_on("a"))
    world = World(device_class(), node("a"), node("b"), kept, claim("d", request(count=1)))

    _, _, reasons = tried(world, claiming("c", "d"))
    assert reasons == ["cannot allocate all claims"] * 2
    assert given_back(world, claiming("c", "d")) == ("still not schedulable", [])


def test_a_server_that_refuses_is_an_error() -> None:
    world = World(device_class(), node("a"), claim("c", status=held_on("gone")))

    assert given_back(world, ME, Forbidden("not you"))[0] == "not you"


def test_a_pod_without_claims_has_none_to_give_back() -> None:
    world = World(node("a"))
    asked, cycle = plugin(world), world.cycle()
    asked.pre_filter(cycle, info(pod("p")))
    cycle.statuses = None

    (_, status), requests = driven(asked.post_filter(cycle, info(pod("p"))))
    assert (status.reasons, requests) == (("no new claims to deallocate",), [])


GPU = "example.com/gpu"
WANTS = pod("me", requests={GPU: "1"}, metadata={"uid": "me"})
MINE = {"apiVersion": "v1", "kind": "Pod", "name": "me", "uid": "me", "controller": True}
SPECIAL = {
    "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
    "ownerReferences": [MINE],
}


def test_a_claim_left_over_from_an_earlier_attempt_is_deleted() -> None:
    left = claim("left", **SPECIAL)
    world = World(device_class(extendedResourceName=GPU), node("a"), left)
    _, _, reasons = tried(world, WANTS)
    assert reasons == ["cannot schedule extended resource claim"]

    said, asked = given_back(world, WANTS, left, None)
    assert said == "deletion of ResourceClaim completed"
    assert [type(it) for it in asked] == [Get, Delete]
    assert {(it.namespace, it.name) for it in asked} == {("default", "left")}
    assert given_back(world, WANTS, Forbidden("not you"))[0] == "not you"


def test_a_pod_goes_where_all_its_claims_can_be_used() -> None:
    held = [claim(name, status=held_on(name)) for name in ("a", "b")]
    world = World(device_class(), node("a"), node("b"), node("c"), *held)
    asking = claiming("a", "b")
    asked, cycle, reasons = tried(world, asking)

    assert reasons == [NOT_AVAILABLE] * 3
    verdict = asked.filter_nodes(cycle, info(asking), world.table, slice(0, 3))
    assert [verdict.status(row) for row in range(3)] == [unresolvable(NOT_AVAILABLE)] * 3


def test_an_allocation_whose_places_cannot_be_read_is_an_error() -> None:
    status = held_on("a")
    wrong = {"key": "zone", "operator": "Sometimes", "values": ["a"]}
    status["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [{"matchExpressions": [wrong]}]}
    world = World(device_class(), node("a"), claim("c", status=status))

    found = plugin(world).pre_filter(world.cycle(), info(claiming("c")))
    assert isinstance(found, Status)
    assert found.code is Code.ERROR
    assert "Sometimes" in found.reasons[0]


@pytest.mark.parametrize(
    ("asks", "code", "text"),
    [
        (request("r"), None, ""),
        (request("r", deviceClassName="x"), "UU", "request r: device class x does not exist"),
        (request("r", deviceClassName=""), "E", "request r: unsupported request type"),
        ({"name": "r"}, "UU", "resource claim default/c, request r: unknown request type"),
        (
            {"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "gpu"},
                                             {"name": "t", "deviceClassName": "x"}]},
            "UU",
            "request r/t: device class x does not exist",
        ),
        (
            {"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": ""}]},
            "E",
            "request r/s: unsupported request type",
        ),
    ],
)  # fmt: skip
def test_requests_for_what_there_is_not(asks: JSON, code: str | None, text: str) -> None:
    world = World(device_class(), node("a"), claim("first"), claim("c", request("q"), asks))

    found = plugin(world).pre_filter(world.cycle(), info(claiming("first", "c")))
    expected = {"UU": unresolvable(text), "E": error(text), None: None}[code]
    assert found == expected


# -- claims that wait for their driver ---------------------------------------------------------

CONDITIONS = {"bindingConditions": ["Ready"], "bindingFailureConditions": ["Broken"]}


def prepared(timestamp: str | None, **conditions: str) -> ResourceClaim:
    status = held_on("a", **CONDITIONS)
    if timestamp is not None:
        status["allocation"]["allocationTimestamp"] = timestamp
    about = {"driver": DRIVER, "pool": "a", "device": "gpu-0"}
    said = [{"type": name, "status": it} for name, it in conditions.items()]
    return claim("c", status={**status, "devices": [{**about, "conditions": said}]})


@pytest.mark.parametrize(
    ("held", "now_s", "reason"),
    [
        (prepared("1970-01-01T00:00:00Z"), 600.0, ""),
        (prepared("1970-01-01T00:00:00Z"), 600.5, NOT_AVAILABLE),
        (prepared(None), 6000.0, ""),
        (prepared("1970-01-01T00:00:00Z", Ready="True"), 6000.0, ""),
        (prepared("1970-01-01T00:00:00Z", Ready="False"), 6000.0, NOT_AVAILABLE),
        (prepared("1970-01-01T00:00:00Z", Ready="True", Broken="True"), 0.0, NOT_AVAILABLE),
        (prepared("1970-01-01T00:00:00Z", Broken="False"), 0.0, ""),
    ],
)
def test_a_claim_whose_devices_failed_or_are_late_is_of_no_use(
    held: ResourceClaim, now_s: float, reason: str
) -> None:
    world = World(device_class(), node("a"), held)
    world.handle.now = lambda: now_s

    asked, cycle, reasons = tried(world, claiming("c"))
    assert reasons == [reason]
    verdict = asked.filter_nodes(cycle, info(claiming("c")), world.table, slice(0, 1))
    whole = verdict.status(0)
    assert (() if whole is None else whole.reasons) == ((reason,) if reason else ())


# -- what is written ---------------------------------------------------------------------------


def allocation(world: World, asking: Pod, where: str) -> list[Allocation]:
    asked, cycle, _ = tried(world, asking)
    assert asked.reserve(cycle, info(asking), where) is None
    return list(cycle.data[asked.name].given.values())


def opaque(name: str, **fields: Any) -> JSON:
    return {"opaque": {"driver": DRIVER, "parameters": {"of": name}}, **fields}


def told(given: Allocation) -> list[tuple[str, str, tuple[str, ...]]]:
    return [
        (it["source"], it["opaque"]["parameters"]["of"], tuple(it.get("requests", ())))
        for it in given.devices.config or ()
    ]


def test_configuration_of_classes_comes_first_and_once() -> None:
    of_class = device_class("gpu", config=[opaque("class", requests=["ignored"])])
    other = device_class("other", config=[opaque("other class")])
    asks = [
        request("one"),
        request("two"),
        {"name": "three", "firstAvailable": [
            {"name": "no", "deviceClassName": "gpu", "count": 9},
            {"name": "yes", "deviceClassName": "other", "count": 1},
        ]},
    ]  # fmt: skip
    asked = claim("c", *asks)
    config = [
        opaque("all"),
        opaque("first", requests=["one"]),
        opaque("both", requests=["one", "two"]),
        opaque("alternative", requests=["three/yes"]),
        opaque("parent", requests=["three"]),
        opaque("nobody", requests=["three/no"]),
    ]
    wanted = replace(asked.spec.devices, config=config)
    asked = replace(asked, spec=replace(asked.spec, devices=wanted))
    world = World(of_class, other, node("a"), resource_slice("a", devices(3)), asked)

    [given] = allocation(world, claiming("c"), "a")
    assert [it.request for it in given.devices.results or ()] == ["one", "two", "three/yes"]
    assert told(given) == [
        ("FromClass", "class", ("one", "two")),
        ("FromClass", "other class", ("three/yes",)),
        ("FromClaim", "all", ()),
        ("FromClaim", "first", ("one",)),
        ("FromClaim", "both", ("one", "two")),
        ("FromClaim", "both", ("one", "two")),
        ("FromClaim", "alternative", ("three/yes",)),
        ("FromClaim", "parent", ("three",)),
    ]


def selecting(*terms: tuple[str, str, list[str]]) -> JSON:
    expressions = [{"key": key, "operator": how, "values": it} for key, how, it in terms]
    return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}


def shared_slice(name: str, number: int, where: JSON, **fields: Any) -> ResourceSlice:
    """A slice of its own pool, with one device."""
    one = [{"name": f"gpu-{number}", **fields}]
    return resource_slice(name, one, nodeName=None, **where)


ZONE_A, FAST = ("zone", "In", ["a"]), ("fast", "In", ["yes", "very"])
SAME_FAST = ("fast", "In", ["very", "yes"])


@pytest.mark.parametrize(
    ("slices", "places"),
    [
        ([shared_slice("s", 0, {"allNodes": True})], None),
        ([shared_slice("s", 0, selecting(ZONE_A, FAST))], [ZONE_A, FAST]),
        (
            [
                shared_slice("s", 0, selecting(ZONE_A, FAST)),
                shared_slice("t", 1, selecting(SAME_FAST, ("disk", "Exists", []))),
                shared_slice("u", 2, {"allNodes": True}),
            ],
            [ZONE_A, FAST, ("disk", "Exists", [])],
        ),
        (
            [
                shared_slice("s", 0, selecting(ZONE_A)),
                shared_slice("t", 1, {"allNodes": True}, bindsToNode=True),
            ],
            "here",
        ),
        ([shared_slice("s", 0, {"allNodes": True}), resource_slice("a", devices(1))], "here"),
    ],
    ids=["anywhere", "where the slice says", "where all say", "bound to the node", "of the node"],
)
def test_a_claim_can_be_used_wherever_all_its_devices_can(
    slices: list[ResourceSlice], places: Any
) -> None:
    world = World(device_class(), node("a", labels={"zone": "a", "fast": "yes", "disk": ""}))
    world.add(*slices, claim("c", request(count=len(slices))))

    [given] = allocation(world, claiming("c"), "a")
    selector = given.node_selector
    if places is None:
        assert selector is None
        return
    assert selector is not None
    [term] = selector.node_selector_terms or ()
    if places == "here":
        [only] = term.match_fields or ()
        assert (only.key, only.operator, only.values) == ("metadata.name", "In", ["a"])
        assert not term.match_expressions
    else:
        found = [(it.key, it.operator, it.values or []) for it in term.match_expressions or ()]
        assert found == places
        assert not term.match_fields
