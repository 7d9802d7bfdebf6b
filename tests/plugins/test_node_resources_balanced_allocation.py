"""NodeResourcesBalancedAllocation rates how a pod changes the balance of a node."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.objects.pod import Pod
from stowplan.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from tests.builders import World, info, node, pod
from tests.plugins.asking import scores

GPU = "nvidia.com/gpu"
EPHEMERAL = "ephemeral-storage"


def balanced(world: World, *resources: str) -> NodeResourcesBalancedAllocation:
    given = SimpleNamespace(resources=[SimpleNamespace(name=name, weight=1) for name in resources])
    return NodeResourcesBalancedAllocation(given if resources else None, world.handle)


def one_node(running: Pod | None = None, **allocatable: Any) -> World:
    world = World(node("n", cpu="4", memory="8Gi", allocatable=allocatable))
    return world if running is None else world.add(running)


LOPSIDED = pod(node="n", cpu="1", memory="4Gi")


@pytest.mark.parametrize(
    ("running", "wanting", "expected"),
    [
        pytest.param(LOPSIDED, pod(cpu="1"), 81, id="evens-out"),
        pytest.param(LOPSIDED, pod(memory="2Gi"), 69, id="makes-it-worse"),
        pytest.param(None, pod(cpu="1", memory="2Gi"), 75, id="as-balanced-as-before"),
        pytest.param(None, pod(cpu="99", memory=1), 50, id="no-worse-than-that"),
    ],
)
def test_examples(running: Pod | None, wanting: Pod, expected: int) -> None:
    world = one_node(running)

    assert scores(balanced(world), world, wanting) == {"n": expected}


def test_a_pod_that_requests_none_of_the_resources_is_not_rated() -> None:
    world = one_node()

    assert scores(balanced(world), world, pod()) is None
    assert scores(balanced(world), world, pod(cpu=0, requests={GPU: 1})) is None
    assert scores(balanced(world, "cpu", GPU), world, pod(requests={GPU: 1})) is not None


def test_pod_level_requests_count() -> None:
    world = one_node(LOPSIDED)
    pod_level = pod(cpu="4", spec={"resources": {"requests": {"cpu": "1"}}})

    assert scores(balanced(world), world, pod_level) == {"n": 81}


def test_three_resources_and_nodes_that_lack_one() -> None:
    world = World(
        node("gpu", cpu="4", memory="8Gi", allocatable={GPU: 4}),
        node("none", cpu="4", memory="8Gi"),
    )
    plugin = balanced(world, "cpu", "memory", GPU)

    found = scores(plugin, world, pod(cpu="1", memory="2Gi", requests={GPU: 4}))

    # Shares 0.25, 0.25 and 1 deviate by 0.354; where there is no GPU, nothing changes.
    assert found == {"gpu": (150 + 64 - 100) // 2, "none": 75}


def test_what_a_node_was_before_follows_its_pods() -> None:
    world = World(*(node(f"n{n}", cpu="4", memory="8Gi") for n in range(20)))
    plugin, wanting = balanced(world), pod(cpu="1", memory="1Gi")
    assert scores(plugin, world, wanting) == {f"n{n}": 71 for n in range(20)}

    for first, last in ((0, 1), (1, 11), (11, 20)):
        world.add(*(pod(node=f"n{n}", cpu="1", memory="4Gi") for n in range(first, last)))
        found = scores(plugin, world, wanting)
        assert found == {f"n{n}": 78 if n < last else 71 for n in range(20)}
    world.add(*(node(f"n{n}", cpu="4", memory="8Gi") for n in range(20, 90)))
    world.cache.remove_node("n3")
    world.table.refresh(world.cache)
    assert len(scores(plugin, world, wanting) or ()) == 89


def test_signature_is_the_request_for_the_configured_resources() -> None:
    plugin = balanced(World(), "cpu", GPU)

    def signature(wanting: Pod) -> Any:
        return plugin.signature(info(wanting))

    assert signature(pod("a", cpu=1)) == signature(pod("b", cpu="1000m", memory="9Gi"))
    assert signature(pod(cpu=1)) != signature(pod(cpu=1, requests={GPU: 1}))


amounts = {
    "cpu": st.sampled_from([0, "100m", "700m", 1, 3]),
    "memory": st.sampled_from([0, 1, "1Gi", "3Gi"]),
    EPHEMERAL: st.sampled_from([0, "1Gi", "7Gi"]),
    GPU: st.integers(0, 3),
}
requests = st.fixed_dictionaries({}, optional=amounts)
choices = st.lists(st.sampled_from([*amounts, "pods", "foo"]), max_size=4, unique=True)


@given(
    st.lists(st.tuples(requests, st.lists(requests, max_size=2)), min_size=1, max_size=4),
    requests,
    choices,
)
def test_same_answers_as_the_definition(
    nodes: list[tuple[dict[str, Any], list[dict[str, Any]]]],
    wanted: dict[str, Any],
    resources: list[str],
) -> None:
    world = World()
    for n, (has, running) in enumerate(nodes):
        world.add(node(f"n{n}", cpu=0, memory=0, allocatable=has))
        world.add(*(pod(node=f"n{n}", requests=taken) for taken in running))
    wanting = pod(requests=wanted)

    found = scores(balanced(world, *resources), world, wanting)

    asked = info(wanting).kind.requests
    names = resources or ["cpu", "memory"]
    if not any(asked.get(name, 0) for name in names):
        assert found is None
        return
    assert found is not None
    for name, row in world.table.row_of.items():
        state = world.table.info(row)
        after = balance(state, names, asked, asked)
        before = balance(state, names, asked, {})
        assert found[name] == 50 + (50 + after - before) // 2


def balance(state: Any, names: list[str], asked: dict[str, int], added: dict[str, int]) -> int:
    shares = []
    for name in names:
        capacity = state.allocatable.get(name, 0)
        left_out = name == "pods" or (name == GPU and not asked.get(name, 0))
        if capacity and not left_out:
            shares.append(min(1.0, (state.requested.get(name, 0) + added.get(name, 0)) / capacity))
    if len(shares) < 2:
        deviation = 0.0
    elif len(shares) == 2:
        deviation = abs(shares[0] - shares[1]) / 2
    else:
        mean = 0.0
        for share in shares:
            mean += share
        mean /= len(shares)
        squares = 0.0
        for share in shares:
            squares += (share - mean) ** 2
        deviation = math.sqrt(squares / len(shares))
    return int((1 - deviation) * 100)
