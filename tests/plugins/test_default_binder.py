"""DefaultBinder asks for the binding of this very pod."""

from __future__ import annotations

from stowplan.objects.api import Bind
from stowplan.plugins.default_binder import DefaultBinder
from tests.builders import World, info, pod


def test_the_uid_is_part_of_the_request() -> None:
    world = World()
    web = pod("web", namespace="shop", metadata={"uid": "u-1"})

    request = DefaultBinder().bind(world.cycle(), info(web), "n1")

    assert request == Bind("shop", "web", "u-1", "n1")
