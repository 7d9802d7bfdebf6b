"""Demand is compared with what there is before any search: it finds what the plain search finds.

Over random clusters with all that a claim can ask for; and where trying all ways would take ages.
"""

from __future__ import annotations

from random import Random
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.plugins.dynamic_resources import DynamicResources
from stowplan.plugins.dynamic_resources.demand import Demand
from stowplan.plugins.dynamic_resources.filtering import CANNOT_ALLOCATE
from tests.builders import World, info, node
from tests.plugins.device_objects import (
    DRIVER,
    JSON,
    claim,
    claiming,
    device_class,
    devices,
    request,
    resource_slice,
)

ATTRIBUTES = ("model", "numa")
COUNTERS = ("a", "b")


class Drawing:
    """A node with a few pools, devices that others hold, and claims of one pod."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = World(device_class(), node("a", labels={"rack": "x"}))
        self.names: list[str] = []
        self.offered: list[tuple[str, JSON]] = []
        self.shares = self.random.choice([0.0, 0.0, 0.3, 0.8])
        """How many devices may be shared."""
        for number in range(self.random.choice([1, 1, 2, 3])):
            self.publish(f"pool-{number}")
        for number, (pool, device) in enumerate(self.offered):
            if self.random.random() < 0.2:
                self.hold(f"held-{number}", pool, device)
        for number in range(self.random.choice([1, 1, 2])):
            self.ask(f"c{number}")

    def one_in(self, count: int) -> bool:
        return self.random.randrange(count) == 0

    # -- what there is ----------------------------------------------------------------------

    def publish(self, name: str) -> None:
        counted = self.one_in(2)
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1 + counted}
        if counted:
            counters = {it: {"value": str(self.random.randint(1, 4))} for it in COUNTERS}
            sets = [{"name": "s", "counters": counters}]
            spec = {"pool": pool, "sharedCounters": sets, "devices": None, "nodeName": "a"}
            self.world.add(resource_slice(f"{name}-s", [], **spec))
        made = [self.device(number, counted=counted) for number in range(self.random.randint(1, 4))]
        self.offered += [(name, it) for it in made]
        self.world.add(resource_slice(name, made, pool=pool, nodeName="a"))

    def device(self, number: int, *, counted: bool) -> JSON:
        attributes: JSON = {
            it: {"int": self.random.randint(0, 1)} for it in ATTRIBUTES if not self.one_in(12)
        }
        made: JSON = {"name": f"gpu-{number}", "attributes": attributes}
        if self.random.random() < self.shares:
            made["allowMultipleAllocations"] = True
            made["capacity"] = {"memory": {"value": "8Gi"}}
        elif self.one_in(2):
            made["capacity"] = {"memory": {"value": "4Gi"}}
        if self.one_in(10):
            made["taints"] = [{"key": "k", "effect": "NoSchedule"}]
        if counted and not self.one_in(4):
            taken = {it: {"value": str(self.random.randint(0, 2))} for it in COUNTERS}
            made["consumesCounters"] = [{"counterSet": "s", "counters": taken}]
        return made

    def hold(self, name: str, pool: str, device: JSON) -> None:
        result: JSON = {"request": "r", "driver": DRIVER, "pool": pool, "device": device["name"]}
        if device.get("allowMultipleAllocations"):
            result |= {"shareID": name, "consumedCapacity": {"memory": "2Gi"}}
        self.world.add(claim(name, status={"allocation": {"devices": {"results": [result]}}}))

    # -- what is asked for ------------------------------------------------------------------

    def ask(self, name: str) -> None:
        requests = [self.request(f"r{number}") for number in range(self.random.randint(1, 3))]
        constraints = [self.constraint(requests) for _ in range(self.random.choice([0, 0, 1, 2]))]
        self.world.add(claim(name, *requests, constraints=constraints))
        self.names.append(name)

    def request(self, name: str) -> JSON:
        if self.one_in(2):
            subs = [{"name": f"s{n}", **self.exactly()} for n in range(self.random.randint(1, 3))]
            return {"name": name, "firstAvailable": subs}
        exactly = self.exactly()
        if self.one_in(8):
            exactly["adminAccess"] = True
        return {"name": name, "exactly": exactly}

    def exactly(self) -> JSON:
        made: JSON = {"deviceClassName": "gpu", "count": self.random.choice([1, 1, 1, 2, 3])}
        if self.one_in(8):
            made |= {"allocationMode": "All", "count": 0}
        if self.one_in(2):
            attribute, value = self.random.choice(ATTRIBUTES), self.random.randint(0, 1)
            there = f'"{attribute}" in device.attributes["{DRIVER}"] && '
            careful = "" if self.one_in(8) else there
            text = f'{careful}device.attributes["{DRIVER}"].{attribute} == {value}'
            made["selectors"] = [{"cel": {"expression": text}}]
        if self.one_in(4) or (self.shares and not self.one_in(4)):
            made["capacity"] = {
                "requests": {"memory": self.random.choice(["2Gi", "2Gi", "4Gi", "6Gi"])}
            }
        if self.one_in(3):
            made["tolerations"] = [{"operator": "Exists"}]
        return made

    def constraint(self, requests: list[JSON]) -> JSON:
        names = [it["name"] for it in requests]
        for one in requests:
            if "firstAvailable" in one and self.one_in(2):
                names.remove(one["name"])
                names.append(f"{one['name']}/{self.random.choice(one['firstAvailable'])['name']}")
        chosen = [] if self.one_in(4) else [name for name in names if not self.one_in(4)]
        kind = self.random.choice(["matchAttribute", "matchAttribute", "distinctAttribute"])
        return {"requests": chosen, kind: f"{DRIVER}/{self.random.choice(ATTRIBUTES)}"}


def found_on(world: World, names: list[str]) -> Any:
    """The reason against the node, or what each claim gets there."""
    asked, cycle, own = DynamicResources(None, world.handle), world.cycle(), info(claiming(*names))
    assert asked.pre_filter(cycle, own) is None
    status = asked.filter_node(cycle, own, world.table.info(0))
    details = cycle.details()
    assert details is not None
    return (status and (status.code, status.reasons)) or details["nodeAllocations"]()


@settings(max_examples=600, deadline=None)
@given(st.integers(0, 2**32))
def test_a_search_that_is_cut_short_finds_what_the_plain_one_finds(seed: int) -> None:
    drawn = Drawing(seed)

    quick = found_on(drawn.world, drawn.names)
    with mock.patch.object(Demand, "can_be_met", return_value=True):
        plain = found_on(drawn.world, drawn.names)

    assert quick == plain


# -- where trying all ways would take ages ----------------------------------------------------


def counted_world(offered: list[JSON], *, left: int) -> World:
    """One node with these devices, and two counters of so much."""
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 2}
    counters = {name: {"value": str(left)} for name in COUNTERS}
    sets = [{"name": "s", "counters": counters}]
    counting = resource_slice("b", [], pool=pool, nodeName="a", sharedCounters=sets, devices=None)
    slices = (counting, resource_slice("a", offered, pool=pool))
    return World(device_class(), node("a"), *slices)


def consuming(amounts: dict[str, int]) -> list[JSON]:
    values = {name: {"value": str(amount)} for name, amount in amounts.items()}
    return [{"counterSet": "s", "counters": values}]


def typed(count: int, of_each: int) -> list[JSON]:
    return [
        {"name": f"gpu-{n}", "attributes": {"model": {"int": n // of_each}}} for n in range(count)
    ]


MODEL = f"{DRIVER}/model"
ALIKE = [{"requests": [], "matchAttribute": MODEL}]
OF_ONE_MODEL = {"selectors": [{"cel": {"expression": f'device.attributes["{DRIVER}"].model == 0'}}]}

TOO_MUCH: dict[str, tuple[World, list[JSON], list[JSON]]] = {
    "each takes 2 of 20: ten fit, not eleven": (
        counted_world(devices(40, consumesCounters=consuming({"a": 2})), left=20),
        [request("r", 11)],
        [],
    ),
    "thirteen of each model, fourteen wanted": (
        World(device_class(), node("a"), resource_slice("a", typed(39, 13))),
        [request("r", 7), request("s", 7)],
        ALIKE,
    ),
    "two requests for one model, and enough of the others": (
        World(device_class(), node("a"), resource_slice("a", typed(39, 13))),
        [request("r", 7, **OF_ONE_MODEL), request("s", 7, **OF_ONE_MODEL), request("t", 5)],
        [],
    ),
    "tainted": (
        World(
            device_class(),
            node("a"),
            resource_slice(
                "a", [*devices(24), {"name": "x", "taints": [{"key": "k", "effect": "NoSchedule"}]}]
            ),
        ),
        [request("r", 12), request("s", 13)],
        [],
    ),
}


@pytest.mark.parametrize("case", TOO_MUCH)
def test_too_much_is_refused_without_a_search(case: str) -> None:
    world, requests, constraints = TOO_MUCH[case]
    world.add(claim("c", *requests, constraints=constraints))
    steps: list[int] = []

    def looked(self: Any, *_: Any) -> bool:
        steps.append(1)
        return True

    with mock.patch("stowplan.plugins.dynamic_resources.allocator.NodeSearch._selectable", looked):
        _, reasons = found_on(world, ["c"])

    assert reasons == (CANNOT_ALLOCATE,)
    assert not steps


def test_an_alternative_that_need_not_agree_is_enough() -> None:
    def model(number: int) -> JSON:
        text = f'device.attributes["{DRIVER}"].model == {number}'
        return {"deviceClassName": "gpu", "selectors": [{"cel": {"expression": text}}]}

    liked = [{"name": "big", **model(5)}, {"name": "small", **model(1)}]
    requests = [{"name": "r", "firstAvailable": liked}, {"name": "s", "exactly": model(0)}]
    alike = [{"requests": ["r/big", "s"], "matchAttribute": MODEL}]
    world = World(device_class(), node("a"), resource_slice("a", typed(2, 1)))
    world.add(claim("c", *requests, constraints=alike))

    there = found_on(world, ["c"])

    assert there == {"a": {"c": [f"r/small={DRIVER}/a/gpu-1", f"s={DRIVER}/a/gpu-0"]}}
