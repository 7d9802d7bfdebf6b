"""A group that is deleted stays until nobody needs it."""

from __future__ import annotations

import pytest

from stowplan.objects.api import Delete
from stowplan.objects.kinds import POD, POD_GROUP
from stowplan.objects.pod_groups import GENERIC_WORKLOAD
from tests.apiserver.controllers.world import World
from tests.apiserver.things import create, names, pod_data


@pytest.fixture
def world() -> World:
    world = World(gates=frozenset({GENERIC_WORKLOAD}))
    policy = {"gang": {"minCount": 2}}
    create(
        world.store, POD_GROUP, {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": policy}}
    )
    for name in ("a", "b"):
        create(world.store, POD, pod_data(name, schedulingGroup={"podGroupName": "g"}))
    create(world.store, POD, pod_data("other", schedulingGroup={"podGroupName": "h"}))
    world.run()
    return world


def test_it_goes_with_its_last_member(world: World) -> None:
    world.store.execute(Delete(POD_GROUP, "default", "g"))
    world.run()
    assert names(world.store, POD_GROUP) == ["g"]
    world.store.execute(Delete(POD, "default", "a", grace_period_seconds=0))
    world.run()
    assert names(world.store, POD_GROUP) == ["g"]
    world.store.execute(Delete(POD, "default", "b", grace_period_seconds=0))
    world.run()
    assert names(world.store, POD_GROUP) == []


def test_it_stays_without_members(world: World) -> None:
    for name in ("a", "b"):
        world.store.execute(Delete(POD, "default", name, grace_period_seconds=0))
    world.run()
    assert names(world.store, POD_GROUP) == ["g"]
    world.store.execute(Delete(POD_GROUP, "default", "g"))
    world.run()
    assert names(world.store, POD_GROUP) == []
