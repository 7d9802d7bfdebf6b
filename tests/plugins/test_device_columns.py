"""Devices as columns: what is kept for all nodes is what searching each node from scratch finds.

Over random histories of slices, claims, classes and nodes; and at the limits of what may be asked.
"""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.config.duration import Duration
from stowplan.framework.errors import PluginFailed
from stowplan.framework.status import Code
from stowplan.objects.base import KubeObject
from stowplan.objects.devices import ResourceClaim
from stowplan.objects.pod import Pod
from stowplan.plugins.dynamic_resources import DynamicResources
from stowplan.plugins.dynamic_resources.filtering import CANNOT_ALLOCATE, DeviceFilter
from tests.builders import World, info, node
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

NODES = ("a", "b", "c")
GPU = "example.com/gpu"
MODEL = f"{DRIVER}/model"


def plugin(world: World, filter_s: int = 10) -> DynamicResources:
    given = {"filter_timeout": Duration.of_seconds(filter_s), "binding_timeout": None}
    return DynamicResources(SimpleNamespace(**given), world.handle)


# -- one history, lived through and looked at from scratch -----------------------------------

BIG = {"selectors": [{"cel": {"expression": f'device.attributes["{DRIVER}"].model == "big"'}}]}
BAD = {"selectors": [{"cel": {"expression": f'device.attributes["{DRIVER}"].none == "big"'}}]}
SHAPES: dict[str, list[JSON]] = {
    "one": [request()],
    "two": [request(count=2)],
    "both": [request(), request("s")],
    "all": [request(allocationMode="All", count=0)],
    "part": [request(capacity={"requests": {"memory": "4Gi"}})],
    "big": [request(**BIG)],
    "tolerant": [request(tolerations=[{"operator": "Exists"}])],
    "failing": [request(**BAD)],
    "liked": [
        {
            "name": "r",
            "firstAvailable": [
                {"name": "two", "deviceClassName": "gpu", "count": 2},
                {"name": "one", "deviceClassName": "gpu", "count": 1},
            ],
        }
    ],
}
KINDS: list[JSON] = [
    {},
    {},
    {},
    {"capacity": {"memory": {"value": "8Gi"}}, "allowMultipleAllocations": True},
    {"attributes": {"model": {"string": "big"}}, "capacity": {"memory": {"value": "8Gi"}}},
    {"taints": [{"key": "k", "effect": "NoSchedule"}]},
    {"consumesCounters": [{"counterSet": "s", "counters": {"n": {"value": "1"}}}]},
]


STEPS = [
    *("take", "take", "take", "free", "delete", "go", "come"),
    *("publish", "retire", "publish_counted", "publish_part", "retire_part"),
]
SHARED = "shared"
"""A pool that all nodes have a part of, some with counters that belong to all of them."""


class History:
    """What happens to a cluster, and what a plugin that lived through it makes of it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.counts = self.random.random() < 0.5
        """Whether the nodes share counters."""
        self.shapes: dict[str, list[JSON]] = {}
        self.objects: dict[str, KubeObject] = {}
        self.world = World()
        self.put(device_class(extendedResourceName=GPU))
        self.put(resource_slice("net", devices(1), allNodes=True))
        for name in NODES:
            self.come(name)
            self.publish(name)
            if self.random.random() < 0.8:
                self.publish_part(name)
        self.lived = plugin(self.world)

    def put(self, thing: KubeObject) -> None:
        self.objects[f"{type(thing).__name__} {thing.key}"] = thing
        self.world.add(thing)

    def drop(self, thing: KubeObject) -> None:
        del self.objects[f"{type(thing).__name__} {thing.key}"]
        self.world.objects.remove(thing)

    def come(self, name: str) -> None:
        offered = {GPU: "1"} if self.random.random() < 0.5 else {}
        self.put(node(name, labels={"rack": self.random.choice("xy")}, allocatable=offered))

    def go(self, name: str) -> None:
        thing = self.objects.pop(f"Node {name}", None)
        if thing is not None:
            self.world.cache.remove_node(name)
            self.world.table.refresh(self.world.cache)

    def publish(self, name: str) -> None:
        """A new generation of the pool: one slice, or two that belong together."""
        generation, count = self.random.randint(1, 3), self.random.choice([0, 3, 3, 4])
        kind, slice_count = (
            self.random.choice(KINDS),
            self.random.choice([1] * 5 + [2]),
        )
        pool = {"name": name, "generation": generation, "resourceSliceCount": slice_count}
        where, offered = self.places(), devices(count, **kind)
        if "perDeviceNodeSelection" in where:
            offered = [{**it, "nodeName": self.random.choice(NODES)} for it in offered]
        self.put(resource_slice(name, offered, pool=pool, **where))
        if slice_count == 2 and self.random.random() < 0.5:
            more = resource_slice(f"{name}2", [], pool=pool, nodeName=name)
            self.put(more)

    def publish_counted(self, name: str) -> None:
        """Partitions and the counters that they share, together or one without the other."""
        generation, sets = self.random.randint(1, 2), self.random.choice(["s", "s", "s", "t"])
        pool = {"name": name, "generation": generation, "resourceSliceCount": 2}
        if self.random.random() < 0.9:
            offered = devices(3, **KINDS[-1])
            self.put(resource_slice(name, offered, pool=pool))
        if self.random.random() < 0.9:
            counters = [{"name": sets, "counters": {"n": {"value": "2"}}}]
            counting = resource_slice(
                f"{name}2", [], pool=pool, nodeName=name, sharedCounters=counters, devices=None
            )
            self.put(counting)

    def publish_part(self, name: str) -> None:
        """One slice of a pool that needs one of each node, and mostly counters for all."""
        generation = self.random.choice([1, 1, 1, 2])
        pool = {"name": SHARED, "generation": generation, "resourceSliceCount": len(NODES) + 1}
        kind = KINDS[-1] if self.counts and self.random.random() < 0.5 else KINDS[0]
        offered = [{"name": f"{name}-{it['name']}", **kind} for it in devices(2)]
        self.put(resource_slice(f"{SHARED}-{name}", offered, pool=pool, nodeName=name))
        counters = [{"name": "s", "counters": {"n": {"value": "3"}}}]
        rest: JSON = {"sharedCounters": counters} if self.counts else {}
        last = {"pool": pool, "nodeName": name, "devices": None, **rest}
        self.put(resource_slice(f"{SHARED}-last", [], **last))

    def retire_part(self, name: str) -> None:
        thing = self.objects.get(f"ResourceSlice slice-{SHARED}-{name}")
        if thing is not None:
            self.drop(thing)

    def places(self) -> JSON:
        """Mostly one node; or some, or each device its own."""
        which = self.random.randint(0, 7)
        if which == 0:
            terms = [{"matchExpressions": [{"key": "rack", "operator": "In", "values": ["x"]}]}]
            return {"allNodes": None, "nodeSelector": {"nodeSelectorTerms": terms}}
        return {"allNodes": None, "perDeviceNodeSelection": True} if which == 1 else {}

    def claims(self, *, held: bool) -> list[ResourceClaim]:
        found = [it for it in self.objects.values() if isinstance(it, ResourceClaim)]
        return [it for it in found if (it.status.allocation is not None) == held]

    def write(self, name: str, status: JSON | None) -> None:
        """As a watch shows it: newer than before."""
        known = self.objects.get(f"ResourceClaim default/{name}")
        version = int(known.metadata.resource_version) if known is not None else 0
        shape = self.random.choice(["one", "two", *SHAPES]) if known is None else ""
        asked = self.shapes.setdefault(name, SHAPES.get(shape, []))
        self.put(claim(name, *asked, status=status, resourceVersion=f"{version + 1}"))

    def step(self, number: int) -> None:
        name = self.random.choice(NODES)
        what = self.random.choice(STEPS)
        if what == "take":
            device, pool = f"gpu-{self.random.randint(0, 2)}", name
            if self.random.random() < 0.3:
                device, pool = f"{name}-{device}", SHARED
            self.write(f"h{number}", allocated(device, node=pool))
        elif what in ("publish", "publish_counted", "publish_part", "retire_part"):
            getattr(self, what)(name)
        elif what == "retire" and f"ResourceSlice slice-{name}" in self.objects:
            self.drop(self.objects[f"ResourceSlice slice-{name}"])
        elif what == "go":
            self.go(name)
        elif what == "come":
            self.come(name)
        elif held := self.claims(held=True):
            thing = self.random.choice(held)
            if what == "free":
                self.write(thing.metadata.name, None)
            else:
                self.drop(thing)

    def asking(self, number: int) -> Pod:
        """A pod with claims of its own, one that others hold already, or for a resource."""
        wants = {GPU: "1"} if self.random.randint(0, 3) == 0 else {}
        own = [f"c{number}-{n}" for n in range(self.random.randint(0 if wants else 1, 2))]
        for name in own:
            self.write(name, None)
        held = [it.metadata.name for it in self.claims(held=True)]
        if held and self.random.random() < 0.5:
            own.append(self.random.choice(held))
        return claiming(*own, name=f"p{number}", requests=wants)

    def from_scratch(self) -> World:
        return World(*self.objects.values())


def answers(asked: DynamicResources, world: World, asking: Pod, *, by_node: bool) -> Any:
    """Per node the reasons against it, or its score and what each claim would get; or why not."""
    cycle, own, table = world.cycle(), info(asking), world.table
    status = asked.pre_filter(cycle, own)
    if status is not None:
        return status
    statuses = {}
    try:
        if by_node:
            for name, row in table.row_of.items():
                statuses[name] = asked.filter_node(cycle, own, table.info(row))
                if statuses[name] is not None and statuses[name].code is Code.ERROR:
                    return "an error"
        else:
            verdict = asked.filter_nodes(cycle, own, table, slice(0, table.size))
            statuses = {name: verdict.status(row) for name, row in table.row_of.items()}
    except PluginFailed:
        return "an error"
    details = cycle.details()
    there = details["nodeAllocations"]() if details is not None else {}
    attempt = cycle.data[asked.name]
    return {
        name: (asked.score_node(cycle, own, table.info(table.row_of[name])), there.get(name))
        if status is None
        else status.reasons
        for name, status in statuses.items()
    }, sorted(attempt.unavailable)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_columns_say_what_searching_node_by_node_from_scratch_says(seed: int) -> None:
    history = History(seed)
    for number in range(16):
        history.step(number)
        asking = history.asking(number)
        lived = answers(history.lived, history.world, asking, by_node=False)
        world = history.from_scratch()
        assert lived == answers(plugin(world), world, asking, by_node=True)


# -- how often is searched -------------------------------------------------------------------


def searches(monkeypatch: Any) -> list[str]:
    """The nodes that are searched from now on."""
    found: list[str] = []
    search = DeviceFilter._search

    def counted(self: DeviceFilter, claims: Any, on: Any) -> Any:
        found.append(on.name)
        return search(self, claims, on)

    monkeypatch.setattr(DeviceFilter, "_search", counted)
    return found


def test_nodes_that_offer_the_same_are_searched_once(monkeypatch: Any) -> None:
    names = [f"n{number}" for number in range(40)]
    world = World(device_class(), *map(node, names))
    world.add(*(resource_slice(name, devices(8)) for name in names))
    asked, searched = plugin(world), searches(monkeypatch)

    for number in range(16):
        world.add(claim(f"c{number}"))
        cycle, own = world.cycle(), info(claiming(f"c{number}", name=f"p{number}"))
        assert asked.pre_filter(cycle, own) is None
        asked.filter_nodes(cycle, own, world.table, slice(0, 40))
        assert asked.reserve(cycle, own, names[number % 2]) is None

    # Eight devices free, seven, six ... down to none, whichever node has them.
    assert len(searched) == 9


# -- limits ----------------------------------------------------------------------------------


def found_on(world: World, *claims: str, filter_s: int = 10) -> Any:
    asked, cycle, own = plugin(world, filter_s), world.cycle(), info(claiming(*claims))
    assert asked.pre_filter(cycle, own) is None
    status = asked.filter_node(cycle, own, world.table.info(0))
    details = cycle.details()
    assert details is not None
    return status, details["nodeAllocations"]()


def test_as_many_requests_as_claims_can_have_do_not_exhaust_the_stack() -> None:
    count = 40
    world = World(device_class(), node("a"))
    for n in range(count):
        pool = {"name": f"p{n:02}", "generation": 1, "resourceSliceCount": 1}
        world.add(resource_slice(f"a{n}", devices(32), pool=pool, nodeName="a"))
        world.add(claim(f"c{n}", *(request(f"r{k}") for k in range(32))))
    names = [f"c{n}" for n in range(count)]

    status, there = found_on(world, *names)

    assert status is None
    assert sum(map(len, there["a"].values())) == 32 * count


def test_too_few_devices_are_not_searched_for_all_ways_to_choose_among_them() -> None:
    world = World(device_class(), node("a"), resource_slice("a", devices(40)))
    hopeless = request("z", selectors=[{"cel": {"expression": "false"}}])
    world.add(claim("c", *(request(f"r{n}", 5) for n in range(4)), hopeless))
    world.add(claim("d", *(request(f"r{n}", 5) for n in range(6))), claim("e", request("r", 11)))

    # One request finds nothing; and both together want one device more than there are.
    for names in (["c"], ["d", "e"]):
        status, _ = found_on(world, *names)
        assert status is not None
        assert status.reasons == (CANNOT_ALLOCATE,)


def test_a_search_that_takes_too_many_steps_ends_the_attempt_at_the_first_node() -> None:
    # There are three models, so four that differ are not found, however others are chosen.
    models = [
        {"name": f"gpu-{n}", "attributes": {"model": {"string": str(n // 10)}}} for n in range(30)
    ]
    world = World(device_class(), *map(node, NODES))
    world.add(*(resource_slice(name, models) for name in NODES))
    differing = [f"z{n}" for n in range(4)]
    wanted = [*(request(f"r{n}", 5) for n in range(4)), *map(request, differing)]
    constraints = [{"requests": differing, "distinctAttribute": MODEL}]
    world.add(claim("c", *wanted, constraints=constraints))
    asked, cycle, own = plugin(world, filter_s=1), world.cycle(), info(claiming("c"))
    assert asked.pre_filter(cycle, own) is None

    with pytest.raises(PluginFailed, match="node a: timed out trying to allocate devices"):
        asked.filter_nodes(cycle, own, world.table, slice(0, len(NODES)))

    details = cycle.details()
    assert details is not None
    assert list(details["errors"]()) == ["a"]
