"""ImageLocality: images that are there already, weighed by size and by how common they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.framework.plugin import ProfilePlugins
from stowplan.framework.runtime import Framework
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod
from stowplan.plugins.image_locality import ImageLocality
from stowplan.plugins.priority_sort import PrioritySort
from tests.builders import World, info, node, pod
from tests.plugins.asking import scores

MI = 1024 * 1024


def holding(name: str, **images: int) -> Node:
    """Images by name (`:latest` is added) with their size in Mi."""
    listed = [
        {"names": [f"{image}:latest"], "sizeBytes": size * MI} for image, size in images.items()
    ]
    return node(name, status={"images": listed})


def running(*images: str, init: tuple[str, ...] = (), volumes: tuple[str, ...] = ()) -> Pod:
    return pod(
        spec={
            "containers": [{"name": f"c{n}", "image": image} for n, image in enumerate(images)],
            "initContainers": [{"name": f"i{n}", "image": image} for n, image in enumerate(init)],
            "volumes": [
                {"name": f"v{n}", "image": {"reference": v}} for n, v in enumerate(volumes)
            ],
        }
    )


def scored(world: World, wanting: Pod) -> dict[str, int] | None:
    return scores(ImageLocality(None, world.handle), world, wanting)


FOUR = ("a", "b", "c", "d")


@pytest.mark.parametrize(
    ("holders", "size", "wanting", "expected"),
    [
        pytest.param("ab", 500, running("app"), 23, id="half-of-the-nodes"),
        pytest.param("ab", 500, running("app", "app"), 24, id="two-containers"),
        pytest.param("ab", 500, running("app", init=("app",)), 24, id="init-containers-count"),
        pytest.param("a", 40, running("app"), 0, id="too-small-to-matter"),
        pytest.param("abcd", 1500, running("app"), 100, id="no-more-than-the-most"),
        pytest.param("ab", 500, running("app:latest"), 23, id="tagged"),
        pytest.param("ab", 500, running("app:v1"), 0, id="another-tag"),
        pytest.param("ab", 500, running("x/app"), 0, id="another-image"),
        pytest.param("ab", 500, running("app", volumes=("app",)), 48, id="volumes-add-no-maximum"),
    ],
)
def test_examples(holders: str, size: int, wanting: Pod, expected: int) -> None:
    world = World(*(holding(n, app=size) if n in holders else node(n) for n in FOUR))

    assert scored(world, wanting) == {n: expected if n in holders else 0 for n in FOUR}


def test_the_first_nodes_word_on_the_size_stands() -> None:
    world = World(holding("a", app=500), holding("b", app=900))

    assert scored(world, running("app")) == {"a": 48, "b": 48}


def test_signature_follows_the_number_of_nodes_where_an_image_is_there() -> None:
    world = World(holding("a", app=500))
    plugin = ImageLocality(None, world.handle)
    here, nowhere = info(running("app")), info(running("db"))

    before = plugin.signature(here), plugin.signature(nowhere)
    world.add(node("b"))
    after = plugin.signature(here), plugin.signature(nowhere)

    assert before[0] != after[0]
    assert before[1] == after[1]
    assert plugin.signature(info(running("app", "app"))) != after[0]


def test_kept_scores_follow_the_number_of_nodes() -> None:
    world = World(holding("a", app=500))
    plugins = ProfilePlugins(
        PrioritySort(),
        score=(ImageLocality(None, world.handle),),
        weights={"ImageLocality": 1},
    )
    framework = Framework("default", plugins, world.handle)
    wanting = info(running("app"))

    def score_of_a() -> int:
        cycle = world.cycle()
        framework.pre_filter(cycle, wanting)
        found = framework.find_feasible(cycle, wanting)
        board = framework.score(cycle, wanting, found, np.flatnonzero(found.mask))
        return int(board.total[0])

    assert score_of_a() == 48
    world.add(node("b"))
    assert score_of_a() == 23


NAMES = ["app", "db", "web"]


@given(
    st.lists(st.dictionaries(st.sampled_from(NAMES), st.integers(1, 3000)), min_size=1, max_size=4),
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=4),
)
def test_same_answer_as_the_definition(nodes: list[dict[str, int]], images: list[str]) -> None:
    world = World(*(holding(f"n{n}", **held) for n, held in enumerate(nodes)))

    found = scored(world, running(*images))

    def score(held: dict[str, Any]) -> int:
        total = 0
        for image in images:
            if image in held:
                size = next(other[image] for other in nodes if image in other) * MI
                share = sum(image in other for other in nodes) / len(nodes)
                total += int(float(size) * share)
        most = 1000 * MI * len(images)
        clamped = min(max(total, 23 * MI), most)
        return 100 * (clamped - 23 * MI) // (most - 23 * MI)

    # A node's own entry counts the nodes that had the image when it was copied: here, all.
    assert found is not None
    assert list(found.values()) == [score(held) for held in nodes]
