"""Simulated GPUs: published for nodes that say how many they have."""

from __future__ import annotations

from typing import Any

import pytest

from stowplan.objects.kinds import DEVICE_CLASS, NODE, RESOURCE_SLICE
from tests.apiserver.controllers.world import Data, World
from tests.apiserver.things import delete, names, patch

SLICE = "g-gpu.stowplan.dev"


def gpu_node(**annotations: str) -> Data:
    said = {f"stowplan/{name.replace('_', '-')}": text for name, text in annotations.items()}
    return {"metadata": {"name": "g", "annotations": said}}


def slices(world: World) -> list[str]:
    return names(world.store, RESOURCE_SLICE)


def test_a_slice_and_a_class(world: World) -> None:
    node = world.create(NODE, gpu_node(gpus="2", gpu_model="X1", gpu_memory="40960Mi"))
    world.run(5.0)

    made = world.get(RESOURCE_SLICE, SLICE)
    assert made["metadata"]["ownerReferences"][0]["uid"] == node.uid
    spec: dict[str, Any] = made["spec"]
    assert (spec["driver"], spec["nodeName"]) == ("gpu.stowplan.dev", "g")
    assert spec["pool"] == {"name": "g", "generation": 1, "resourceSliceCount": 1}
    assert [it["name"] for it in spec["devices"]] == ["gpu-0", "gpu-1"]
    attributes = [it["attributes"] for it in spec["devices"]]
    assert [it["index"]["int"] for it in attributes] == [0, 1]
    assert {it["model"]["string"] for it in attributes} == {"X1"}
    assert len({it["uuid"]["string"] for it in attributes}) == 2
    assert {it["capacity"]["memory"]["value"] for it in spec["devices"]} == {"40Gi"}
    described = world.get(DEVICE_CLASS, "gpu.stowplan.dev")["spec"]
    assert described["extendedResourceName"] == "stowplan.dev/gpu"


def test_a_node_takes_its_slice_with_it(world: World) -> None:
    world.create(NODE, gpu_node(gpus="2"))
    assert slices(world) == [SLICE]

    delete(world.store, NODE, "g")
    world.run()
    assert slices(world) == []


def test_a_node_that_changes_its_mind(world: World) -> None:
    world.create(NODE, gpu_node(gpus="2"))
    patch(world.store, NODE, "g", {"metadata": {"annotations": {"stowplan/gpus": "3"}}})
    world.run(5.0)
    spec = world.get(RESOURCE_SLICE, SLICE)["spec"]
    assert (len(spec["devices"]), spec["pool"]["generation"]) == (3, 2)

    patch(world.store, NODE, "g", {"metadata": {"annotations": {"stowplan/gpus": None}}})
    world.run(5.0)
    assert slices(world) == []


def test_what_others_make_of_a_slice_is_put_right(world: World) -> None:
    world.create(NODE, gpu_node(gpus="2"))
    delete(world.store, RESOURCE_SLICE, SLICE)
    world.run(5.0)
    assert slices(world) == [SLICE]

    patch(world.store, RESOURCE_SLICE, SLICE, {"spec": {"devices": []}}, "merge")
    world.run(5.0)
    assert len(world.get(RESOURCE_SLICE, SLICE)["spec"]["devices"]) == 2


@pytest.mark.parametrize(
    "said", [{}, {"gpus": "0"}, {"gpus": "many"}, {"gpus": "1", "gpu_memory": "much"}]
)
def test_nodes_without(world: World, said: dict[str, str]) -> None:
    world.create(NODE, gpu_node(**said))

    assert slices(world) == []
