"""NodeResourcesFit: who has room, how the shortage is worded, and how full a node would be."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stowplan.errors import ConfigError
from stowplan.framework.events import Action, Hint, Resource
from stowplan.framework.plugin import ProfilePlugins
from stowplan.framework.runtime import Framework
from stowplan.framework.status import unresolvable, unschedulable
from stowplan.objects.devices import DeviceClass
from stowplan.objects.node import Node
from stowplan.objects.pod import Pod
from stowplan.plugins.node_resources_fit import NodeResourcesFit
from stowplan.plugins.priority_sort import PrioritySort
from tests.builders import World, info, node, pod
from tests.plugins.asking import filtered, hint, reasons, scores

GPU, FPGA = "nvidia.com/gpu", "example.com/fpga"
GI = 2**30


def args(
    strategy: str = "LeastAllocated",
    resources: dict[str, int] | None = None,
    shape: list[tuple[int, int]] | None = None,
    ignored: tuple[str, ...] = (),
    groups: tuple[str, ...] = (),
) -> Any:
    weights = resources or {"cpu": 1, "memory": 1}
    points = [SimpleNamespace(utilization=u, score=s) for u, s in shape or ()]
    return SimpleNamespace(
        ignored_resources=list(ignored),
        ignored_resource_groups=list(groups),
        scoring_strategy=SimpleNamespace(
            type=strategy,
            resources=[SimpleNamespace(name=n, weight=w) for n, w in weights.items()],
            requested_to_capacity_ratio=SimpleNamespace(shape=points) if shape else None,
        ),
    )


def fit(world: World, given: Any = None) -> NodeResourcesFit:
    return NodeResourcesFit(given, world.handle)


def small(**allocatable: Any) -> Node:
    return node(
        "n",
        cpu="1",
        memory="1Gi",
        allocatable={k.replace("_", "-"): v for k, v in allocatable.items()},
    )


def answer(world: World, wanting: Pod, given: Any = None) -> Any:
    return filtered(fit(world, given), world, wanting)["n"]


@pytest.mark.parametrize(
    ("wanting", "expected"),
    [
        pytest.param(pod(cpu="500m"), None, id="exactly-enough"),
        pytest.param(pod(cpu="501m"), unschedulable("Insufficient cpu"), id="a-milli-short"),
        pytest.param(pod(cpu="1001m"), unresolvable("Insufficient cpu"), id="larger-than-the-node"),
        pytest.param(
            pod(cpu="600m", memory="600Mi"),
            unschedulable("Insufficient cpu", "Insufficient memory"),
            id="every-shortage",
        ),
        pytest.param(
            pod(cpu="600m", memory="2Gi"),
            unresolvable("Insufficient cpu", "Insufficient memory"),
            id="one-of-them-final",
        ),
        pytest.param(
            pod(requests={"ephemeral-storage": 1}),
            unresolvable("Insufficient ephemeral-storage"),
            id="storage-the-node-lacks",
        ),
        pytest.param(
            pod(requests={GPU: 1, FPGA: 1, "hugepages-2Mi": 1}),
            unresolvable(
                f"Insufficient {FPGA}", "Insufficient hugepages-2Mi", f"Insufficient {GPU}"
            ),
            id="named-resources-in-order",
        ),
        pytest.param(pod(cpu=0, requests={GPU: 0, "foo": 9}), None, id="zero-and-unknown-names"),
    ],
)
def test_filter(wanting: Pod, expected: Any) -> None:
    world = World(small(), pod(node="n", cpu="500m", memory="500Mi"))

    assert answer(world, wanting) == expected


def test_an_overcommitted_node_takes_a_pod_without_requests() -> None:
    world = World(small(), pod(node="n", cpu="9", memory="9Gi"))

    assert answer(world, pod()) is None
    assert answer(world, pod(memory=1)) == unschedulable("Insufficient memory")


def test_too_many_pods() -> None:
    world = World(node("n", pods=1), pod(node="n"))

    assert answer(world, pod()) == unschedulable("Too many pods")
    assert answer(world, pod(cpu="99")) == unresolvable("Too many pods", "Insufficient cpu")
    assert answer(World(node("n", pods=0)), pod()) == unschedulable("Too many pods")


def test_only_extended_resources_can_be_ignored() -> None:
    world = World(small())
    wanting = pod(requests={GPU: 1, FPGA: 1, "cpu": 9, "hugepages-2Mi": 1})
    ignoring = args(ignored=(GPU, "cpu", "hugepages-2Mi"), groups=("example.com",))

    assert reasons(fit(world, ignoring), world, wanting)["n"] == (
        "Insufficient cpu",
        "Insufficient hugepages-2Mi",
    )


def test_more_shortages_than_a_verdict_has_bits() -> None:
    world = World(small())
    wanting = info(pod(requests={f"example.com/r{n:02}": 1 for n in range(40)}))
    plugin = fit(world)

    verdict = plugin.filter_nodes(world.cycle(), wanting, world.table, slice(0, 1))
    status = plugin.filter_node(world.cycle(), wanting, world.table.info(0))

    assert verdict.status(0) == status
    assert status is not None
    assert len(status.reasons) == 31


def used(*, cpu: str = "1", memory: str = "2Gi") -> World:
    return World(node("n", cpu="4", memory="8Gi"), pod(node="n", cpu=cpu, memory=memory))


UP, DOWN = [(0, 0), (100, 10)], [(0, 10), (50, 2), (100, 0)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(None, 62, id="default"),
        pytest.param(args("LeastAllocated"), 62, id="least"),
        pytest.param(args("MostAllocated"), 37, id="most"),
        pytest.param(args("RequestedToCapacityRatio", shape=UP), 37, id="ratio"),
        pytest.param(args("RequestedToCapacityRatio", shape=DOWN), 41, id="cut-toward-zero"),
        pytest.param(args(resources={"cpu": 1, "foo": 9, "pods": 9}), 62, id="unknown-names"),
        pytest.param(args(resources={"cpu": 0, GPU: 50}), 62, id="not-requested-is-left-out"),
        pytest.param(args(resources={GPU: 50}), 0, id="nothing-to-rate"),
    ],
)
def test_score(given: Any, expected: int) -> None:
    world = used()

    assert scores(fit(world, given), world, pod(cpu="500m", memory="1Gi")) == {"n": expected}


def test_score_details() -> None:
    empty = World(node("n", cpu="4", memory="8Gi"))
    weighed = args(resources={"cpu": 1, "memory": 3})
    full = used(cpu="5", memory="5Gi")
    tight = pod(cpu="500m", memory="4Gi")
    ratio = args("RequestedToCapacityRatio", {"cpu": 1, "memory": 2}, [(0, 0), (50, 0), (100, 9)])

    assert scores(fit(empty), empty, pod()) == {"n": 97}
    assert scores(fit(used(), weighed), used(), tight) == {"n": 34}
    assert scores(fit(full), full, pod(cpu="1", memory="1Gi")) == {"n": 12}
    assert scores(fit(full, args("MostAllocated")), full, pod(cpu="1", memory="1Gi")) == {"n": 87}
    # cpu is at 37 %, which the curve rates 0, and so only memory weighs in.
    assert scores(fit(used(), ratio), used(), tight) == {"n": 45}


def test_the_pod_is_rated_with_defaults_per_container_and_without_pod_level_requests() -> None:
    empty = World(node("n", cpu="1", memory="2000Mi"))
    containers = [{"name": name} for name in "ab"]
    plain = pod(spec={"containers": containers})
    pod_level = {"requests": {"cpu": "1", "memory": "2000Mi"}}
    greedy = pod(spec={"containers": containers, "resources": pod_level})

    assert scores(fit(empty), empty, plain) == {"n": 80}
    assert scores(fit(empty), empty, greedy) == {"n": 80}
    assert answer(empty, greedy) is None
    assert answer(World(small()), greedy) == unresolvable("Insufficient memory")


def test_scalar_resources_are_rated_where_requested_and_present() -> None:
    with_gpu = node("n", cpu="4", memory="8Gi", allocatable={GPU: 4})
    world = World(with_gpu, node("m", cpu="4", memory="8Gi"), pod(node="n", requests={GPU: 1}))
    given = args("MostAllocated", {GPU: 1, "cpu": 1})

    found = scores(fit(world, given), world, pod(cpu=2, memory=0, requests={GPU: 2}))

    # 100m of the pod that runs there without a cpu request count too.
    assert found == {"n": (75 + 52) // 2, "m": 50}


def test_amounts_beyond_exact_floats() -> None:
    huge = 2**47 + 1
    world = World(node("n", cpu="4", allocatable={"ephemeral-storage": huge}))
    given = args("MostAllocated", {"ephemeral-storage": 1})

    for wanted in (huge - 1, huge, huge // 3 + 1):
        found = scores(fit(world, given), world, pod(requests={"ephemeral-storage": wanted}))
        assert found == {"n": wanted * 100 // huge}


@pytest.mark.parametrize("strategy", ["", "Best", "RequestedToCapacityRatio"])
def test_a_strategy_that_is_none_is_a_config_error(strategy: str) -> None:
    with pytest.raises(ConfigError, match="scoring strategy"):
        fit(World(), args(strategy))


def test_signature_is_what_is_checked_and_rated() -> None:
    plugin = fit(World(), args(ignored=(GPU,)))

    def signature(wanting: Pod) -> Any:
        return plugin.signature(info(wanting))

    same = {signature(pod("x", cpu="1000m", labels={"a": "b"})), signature(pod("y", cpu=1))}
    assert len(same) == 1
    assert signature(pod(cpu=1, requests={GPU: 3})) in same
    assert not same & {signature(pod(cpu=1, memory=0)), signature(pod(cpu=1, requests={FPGA: 1}))}


def test_pod_events() -> None:
    world = World()
    ours = pod(cpu=1, requests={GPU: 0})
    other = pod(node="n", cpu=3, memory="3Gi", requests={GPU: 2})

    def asking(less: dict[str, Any], on: str = "n") -> Pod:
        return replace(other, spec=pod(node=on, requests=less).spec)

    def changed(new: Pod | None, old: Pod = other) -> Any:
        action = Action.DELETE if new is None else Action.UPDATE_POD_SCALE_DOWN
        return hint(fit(world), Resource.POD, action, ours, old, new)

    everything = {"cpu": 3, "memory": "3Gi", GPU: 2}
    assert changed(None) == Hint.QUEUE
    assert changed(None, pod()) == Hint.SKIP
    assert changed(None, pod(status={"nominatedNodeName": "n"})) == Hint.QUEUE
    assert changed(ours) == Hint.QUEUE
    assert changed(asking({**everything, "cpu": 2})) == Hint.QUEUE
    assert changed(asking({**everything, "memory": 1})) == Hint.SKIP
    assert changed(asking({**everything, GPU: 1})) == Hint.SKIP
    assert changed(asking({}, on="")) == Hint.SKIP
    assert hint(fit(world), Resource.POD, Action.UPDATE_POD_LABEL, ours, other, other) is None


def test_node_events() -> None:
    world = World()
    ours = pod(cpu=1, memory="1Gi", requests={GPU: 1})

    def changed(new: Node, old: Node | None = None) -> Any:
        action = Action.ADD if old is None else Action.UPDATE_NODE_ALLOCATABLE
        return hint(fit(world), Resource.NODE, action, ours, old, new)

    good = node("n", cpu=1, memory="1Gi", pods=1, allocatable={GPU: 1, FPGA: 1})
    assert changed(good) == Hint.QUEUE
    assert changed(node("n", cpu=1, memory="1Gi", pods=0, allocatable={GPU: 1})) == Hint.SKIP
    assert changed(node("n", cpu=8, memory="8Gi")) == Hint.SKIP
    assert changed(good, good) == Hint.SKIP
    assert changed(good, node("n", cpu="900m", memory="1Gi", allocatable={GPU: 1})) == Hint.QUEUE
    assert changed(good, node("n", cpu=1, memory="1Gi", pods=1)) == Hint.QUEUE
    fewer_pods = node("n", cpu=1, memory="1Gi", pods=0, allocatable={GPU: 1})
    assert changed(good, fewer_pods) == Hint.QUEUE
    no_fpga = node("n", cpu=1, memory="1Gi", pods=1, allocatable={GPU: 1})
    assert changed(good, no_fpga) == Hint.SKIP


amounts = {
    "cpu": st.sampled_from([0, "50m", "900m", 1, 3]),
    "memory": st.sampled_from([0, 1, "100Mi", "1Gi", "3Gi"]),
    "ephemeral-storage": st.sampled_from([0, "1Gi", "200Ti"]),
    GPU: st.integers(0, 3),
    "hugepages-2Mi": st.sampled_from([0, "4Mi"]),
}
requests = st.fixed_dictionaries({}, optional=amounts)
shapes = st.lists(st.integers(0, 100), min_size=1, max_size=4, unique=True).flatmap(
    lambda us: st.tuples(*(st.tuples(st.just(u), st.integers(0, 10)) for u in sorted(us))).map(list)
)
strategies = st.builds(
    args,
    st.sampled_from(["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]),
    st.dictionaries(st.sampled_from([*amounts, "pods"]), st.integers(1, 100), min_size=1),
    shapes,
    st.sampled_from([(), (GPU,)]),
)


@given(
    st.lists(st.tuples(requests, st.lists(requests, max_size=3)), min_size=1, max_size=4),
    requests,
    strategies,
)
def test_same_answers_as_the_definition(
    nodes: list[tuple[dict[str, Any], list[dict[str, Any]]]], wanted: dict[str, Any], given: Any
) -> None:
    world = World()
    for n, (has, running) in enumerate(nodes):
        world.add(node(f"n{n}", cpu=0, memory=0, pods=2, allocatable=has))
        world.add(*(pod(node=f"n{n}", requests=taken) for taken in running))
    plugin, wanting = fit(world, given), pod(requests=wanted)

    found, scored = filtered(plugin, world, wanting), scores(plugin, world, wanting)

    for name, row in world.table.row_of.items():
        state = world.table.info(row)
        status = found[name]
        short = [
            resource
            for resource, amount in sorted(info(wanting).kind.requests.items())
            if resource not in given.ignored_resources
            and amount
            > max(0, state.allocatable.get(resource, 0) - state.requested.get(resource, 0))
        ]
        assert (status is None) == (not short and len(state.pods) < 2)
        if status is not None:
            told = [r.removeprefix("Insufficient ") for r in status.reasons if r != "Too many pods"]
            assert sorted(told) == short
        assert scored is not None
        assert scored[name] == expected_score(state, info(wanting).kind.fit_score_requests, given)


def expected_score(state: Any, wanted: dict[str, int], given: Any) -> int:
    strategy = given.scoring_strategy
    total = weights = 0
    for spec in strategy.resources:
        resource, amount = spec.name, wanted.get(spec.name, 0)
        capacity = state.allocatable.get(resource, 0)
        named = resource not in ("cpu", "memory", "ephemeral-storage")
        if resource == "pods" or not capacity or (named and not amount):
            continue
        taken = state.requested.get(resource, 0)
        if resource == "cpu":
            taken = state.nonzero_milli_cpu
        if resource == "memory":
            taken = state.nonzero_memory
        over = taken + amount > capacity
        percent = 100 if over else (taken + amount) * 100 // capacity
        if strategy.type == "LeastAllocated":
            score = 0 if over else (capacity - taken - amount) * 100 // capacity
        elif strategy.type == "MostAllocated":
            score = percent
        else:
            score = curve(strategy.requested_to_capacity_ratio.shape, percent)
            if score == 0:
                continue
        total += score * spec.weight
        weights += spec.weight
    if not weights:
        return 0
    if strategy.type == "RequestedToCapacityRatio":
        return math.floor(total / weights + 0.5)
    return total // weights


def curve(shape: list[Any], percent: int) -> int:
    for n, point in enumerate(shape):
        if percent <= point.utilization:
            if n == 0:
                return int(point.score * 10)
            before = shape[n - 1]
            rise = (point.score - before.score) * 10 * (percent - before.utilization)
            return int(
                before.score * 10 + math.trunc(rise / (point.utilization - before.utilization))
            )
    return int(shape[-1].score * 10)


def test_a_device_class_that_comes_later_is_seen_by_pods_asked_about_before() -> None:
    world = World(node("n"))
    fit = NodeResourcesFit(None, world.handle)
    plugins = ProfilePlugins(PrioritySort(), filter=(fit,))
    framework = Framework("default", plugins, world.handle)
    wanting = info(pod(requests={"example.com/gpu": 1}))

    def fits() -> bool:
        cycle = world.cycle()
        framework.pre_filter(cycle, wanting)
        return bool(framework.find_feasible(cycle, wanting).mask.any())

    assert not fits()
    data = {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu"}}
    world.objects.put(msgspec.convert(data, DeviceClass))
    framework.forget()  # As the machine does whenever a class changes.
    assert fits()
