"""Slices put together into pools: as the rules say, for each node by itself, from all slices.

The plain reading of the rules is here; what `Slices` keeps must be the same after any history.
"""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.objects.devices import ResourceSlice
from stowplan.plugins.dynamic_resources.pools import Slices
from tests.builders import World, node
from tests.plugins.device_objects import DRIVER, JSON, devices, resource_slice

NODES = ("a", "b", "c")
POOLS = ("p", "q", "a")

Plain = tuple[str, str, tuple[str, ...]]
"""A pool: its name, its state, the slices whose devices can be had."""


def concerns(thing: ResourceSlice, name: str) -> bool:
    spec = thing.spec
    if spec.shared_counters or spec.all_nodes:
        return True
    if spec.per_device_node_selection:
        return any(it.node_name == name for it in spec.devices or ())
    return spec.node_name == name


def plain_pools(slices: list[ResourceSlice], name: str) -> list[Plain]:
    """What a node can have, in order; nothing is left out."""
    found = []
    for pool in sorted({it.spec.pool.name for it in slices}):
        every = sorted(
            (it for it in slices if it.spec.pool.name == pool), key=lambda it: it.metadata.name
        )
        here = [it for it in every if concerns(it, name)]
        if not here:
            continue
        newest = max(it.spec.pool.generation for it in here)
        here = [it for it in here if it.spec.pool.generation == newest]
        same = [it for it in every if it.spec.pool.generation == newest]
        wanted = here[0].spec.pool.resource_slice_count
        if len(here) != wanted:
            if any(it.spec.pool.generation > newest for it in every):
                continue
            if len(same) != wanted:
                found.append((pool, "incomplete", ()))
                continue
        else:
            same = here
        state = "invalid" if is_invalid(here, same) else "usable"
        with_devices = tuple(it.metadata.name for it in here if it.spec.devices)
        found.append((pool, state, with_devices if state == "usable" else ()))
    return found


def is_invalid(here: list[ResourceSlice], same: list[ResourceSlice]) -> bool:
    names = [device.name for it in here for device in it.spec.devices or ()]
    sets = [one.name for it in same for one in it.spec.shared_counters or ()]
    consumed = {
        one.counter_set
        for it in same
        for device in it.spec.devices or ()
        for one in device.consumes_counters or ()
    }
    return len(set(names)) < len(names) or len(set(sets)) < len(sets) or not consumed <= {*sets}


def seen(pools: list[Plain]) -> tuple[list[Plain], str, bool]:
    """All that a search sees: usable pools, the first of the others, whether one is invalid."""
    usable = [it for it in pools if it[1] == "usable" and it[2]]
    broken = [(name, state) for name, state, _ in pools if state != "usable"]
    return usable, str(broken[:1]), any(state == "invalid" for _, state in broken)


def kept_pools(slices: Slices, world: World, name: str) -> list[Plain]:
    found = []
    for pool in slices.pools(world.table.info(world.table.row_of[name])):
        state = "incomplete" if pool.is_incomplete else "invalid" if pool.is_invalid else "usable"
        names = dict.fromkeys(it.slice.name for it in pool.devices)
        found.append((pool.id[1], state, tuple(names) if state == "usable" else ()))
    return found


def draw(random: Random, name: str) -> ResourceSlice:
    pool = {
        "name": random.choice(POOLS),
        "generation": random.choice([1, 1, 1, 2]),
        "resourceSliceCount": random.choice([1, 2, 2, 3]),
    }
    if random.random() < 0.4:
        counters = [{"name": random.choice("sst"), "counters": {"n": {"value": "2"}}}]
        where = {"nodeName": random.choice(NODES)}
        return resource_slice(name, [], pool=pool, sharedCounters=counters, devices=None, **where)
    consumes: JSON = {"consumesCounters": [{"counterSet": "s", "counters": {"n": {"value": "1"}}}]}
    offered = [
        {**it, "name": f"{random.choice([name, 'twice'])}-{it['name']}"}
        for it in devices(2, **random.choice([{}, consumes]))
    ]
    kind = random.choice(["local", "local", "all", "each"])
    if kind == "local":
        return resource_slice(name, offered, pool=pool, nodeName=random.choice(NODES))
    if kind == "all":
        return resource_slice(name, offered, pool=pool, allNodes=True)
    placed = [{**it, "nodeName": random.choice(NODES)} for it in offered]
    return resource_slice(name, placed, pool=pool, allNodes=None, perDeviceNodeSelection=True)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_pools_are_what_the_plain_rules_make_of_all_slices(seed: int) -> None:
    random = Random(seed)
    world = World(*map(node, NODES))
    slices, there = Slices(world.handle.objects), dict[str, ResourceSlice]()
    versions = {name: seen([]) for name in NODES}

    for _ in range(12):
        before, key = slices.version, str(random.randrange(5))
        if key in there and random.random() < 0.3:
            world.objects.remove(there.pop(key))
        else:
            there[key] = draw(random, key)
            world.add(there[key])
        slices.catch_up()
        changed = slices.changed_since(before)
        for name in NODES:
            expected = seen(plain_pools([*there.values()], name))
            assert seen(kept_pools(slices, world, name)) == expected
            assert changed is None or name in changed or versions[name] == expected
            versions[name] = expected


def test_a_device_concerns_those_who_can_have_it_or_share_its_counters() -> None:
    def published(*, counted: bool) -> Slices:
        pool = {"name": "p", "generation": 1, "resourceSliceCount": 3}
        counters = [{"name": "s", "counters": {"n": {"value": "2"}}}]
        kind = {"consumesCounters": [{"counterSet": "s", "counters": {"n": {"value": "1"}}}]}
        world = World(*map(node, NODES))
        for name in ("a", "b"):
            offered = [{"name": f"gpu-{name}", **(kind if counted else {})}]
            world.add(resource_slice(name, offered, pool=pool))
        rest = {"sharedCounters": counters} if counted else {}
        world.add(resource_slice("c", [], pool=pool, devices=None, **rest))
        slices = Slices(world.handle.objects)
        slices.catch_up()
        for row in range(len(NODES)):
            slices.pools(world.table.info(row))
        return slices

    assert published(counted=False).nodes_with((DRIVER, "p", "gpu-a")) == {"a"}
    # The third node has counters to show for it, but no device.
    assert published(counted=True).nodes_with((DRIVER, "p", "gpu-a")) == {"a", "b"}
