"""A sweep runs every combination under its own name, and names what is wrong by its place."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stowplan as sp
from stowplan.errors import InputError
from stowplan.sim.sweep import Variant, axes_of, grid
from stowplan.sim.transform import resize, resize_nodes
from tests.sim.making import node_template, pod_template, trace

INF = math.inf
STRATEGIES = ["LeastAllocated", "MostAllocated"]


def accept(config: Any) -> None:
    """Nothing is wrong with it."""


def one_node(name: str) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": name, "pool": "a"}
    return {**node_template(), "metadata": {"name": name, "labels": labels}}


def test_the_grid_has_every_combination_the_first_values_first() -> None:
    found = grid(
        {
            "weights": {"NodeResourcesFit": [1, 0]},
            "arguments": {"NodeResourcesFit": {"scoringStrategy.type": STRATEGIES}},
            "thresholds": {"percentageOfNodesToScore": [100]},
            "nodes": [2, 4],
        },
        {"default": None},
        accept,
    )  # fmt: skip

    assert len(found) == 8
    first, *_, last = found
    assert first == ("NodeResourcesFit=1,type=LeastAllocated,percentageOfNodesToScore=100,nodes=2")
    assert found[last] == Variant(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "percentageOfNodesToScore": 100,
            "profiles": [
                {
                    "plugins": {
                        "score": {"enabled": [], "disabled": [{"name": "NodeResourcesFit"}]}
                    },
                    "pluginConfig": [
                        {
                            "name": "NodeResourcesFit",
                            "args": {"scoringStrategy": {"type": "MostAllocated"}},
                        }
                    ],
                }
            ],
        },
        4,
    )


def test_each_configuration_is_varied_and_none_is_changed() -> None:
    own = {"name": "NodeAffinity", "weight": 7}
    mine = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {"schedulerName": "one", "plugins": {"score": {"enabled": [dict(own)]}}},
            {"schedulerName": "two"},
        ],
    }  # fmt: skip

    found = grid({"weights": {"NodeAffinity": [3, 9]}}, {"default": None, "mine": mine}, accept)

    assert [*found] == [
        "default,NodeAffinity=3", "default,NodeAffinity=9",
        "mine,NodeAffinity=3", "mine,NodeAffinity=9",
    ]  # fmt: skip
    profiles = found["mine,NodeAffinity=9"].config["profiles"]
    weights = [profile["plugins"]["score"]["enabled"] for profile in profiles]
    assert weights == [[{"name": "NodeAffinity", "weight": 9}]] * 2
    assert mine["profiles"] == [
        {"schedulerName": "one", "plugins": {"score": {"enabled": [own]}}},
        {"schedulerName": "two"},
    ]


def test_what_is_varied_makes_the_difference_that_it_should() -> None:
    """Four pods of one core each: packed they need one node of four, spread all that there are."""
    made = trace([(float(n), INF, 0) for n in range(4)], templates=[pod_template("1")], nodes=1)

    result = sp.simulate(
        made,
        sweep={
            "arguments": {"NodeResourcesFit": {"scoringStrategy.type": STRATEGIES}},
            "weights": {"NodeResourcesBalancedAllocation": [0]},
            "nodes": [2, 4],
        },
        until=60,
        samples=5,
    )

    used = {run.config: run.series["nodes.in_use"][-1] for run in result.runs}
    there = {run.config: run.series["nodes"][-1] for run in result.runs}
    balanced = "NodeResourcesBalancedAllocation=0"
    assert used == {
        f"type=LeastAllocated,{balanced},nodes=2": 2,
        f"type=LeastAllocated,{balanced},nodes=4": 4,
        f"type=MostAllocated,{balanced},nodes=2": 1,
        f"type=MostAllocated,{balanced},nodes=4": 1,
    }
    assert [*there.values()] == [2, 4, 2, 4]


@pytest.mark.slow
def test_a_sweep_gives_the_same_with_any_number_of_workers(tmp_path: Path) -> None:
    made = trace([(float(n), 40.0, 0) for n in range(8)], nodes=2)
    file = tmp_path / "sweep.yaml"
    file.write_text("weights: {NodeResourcesFit: [1, 5]}\nnodes: [1, 3]\n")

    one, two = (
        sp.simulate(made, sweep=file, seeds=2, samples=5, workers=workers) for workers in (1, 2)
    )

    assert len(one.runs) == 8
    assert one.summary() == two.summary()


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 30), st.integers(1, 90))
def test_clusters_have_the_size_that_was_asked_for(before: int, wanted: int) -> None:
    resized = resize(trace([(0.0, INF, 0)], nodes=before), wanted)
    nodes = resize_nodes([one_node(f"n{n}") for n in range(before)], wanted)

    assert resized.node_count == wanted == len(set(resized.node_names))
    names = [node["metadata"]["name"] for node in nodes]
    assert len(set(names)) == wanted
    assert names == [node["metadata"]["labels"]["kubernetes.io/hostname"] for node in nodes]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "is no single document"),
        ("- nodes", "is no mapping"),
        ("{}", "varies nothing"),
        ("wieghts: {A: [1]}", "'wieghts' cannot be varied"),
        ("weights: {NodeResourcesFit: 5}", "weights.NodeResourcesFit: is no list of values"),
        ("weights: {NodeResourcesFit: [1, 101]}", "weights.NodeResourcesFit[1]: 101 is no weight"),
        ("weights: {NodeResourcesFit: [1, yes]}", "weights.NodeResourcesFit[1]: True is no weight"),
        ("weights: {NodeResourcesFit: [1, 1]}", "weights.NodeResourcesFit[1]: 1 comes twice"),
        ("weights: {Nope: [1]}", "weights.Nope[0]: "),
        ("thresholds: {percentage: [1]}", "thresholds: 'percentage' cannot be varied"),
        ("thresholds: {percentageOfNodesToScore: [5, 101]}", "percentageOfNodesToScore[1]: "),
        ("arguments: {NodeResourcesFit: {scoringStrategy.typ: [A]}}", "scoringStrategy.typ[0]: "),
        ("arguments: {NodeResourcesFit: {a..b: [A]}}", "'a..b' is no field"),
        ("nodes: [0]", "nodes[0]: 0 is no number of nodes"),
        ("nodes: [3]\n---\nnodes: [4]", "is no single document"),
        (f"nodes: {[*range(1, 1002)]}", "nodes: is no list of values"),
        (f"nodes: {[*range(1, 50)]}\nweights: {{A: {[*range(50)]}}}", "comes to 2450 combinations"),
    ],
)
def test_what_is_wrong_is_named_by_file_and_field(tmp_path: Path, text: str, line: str) -> None:
    file = tmp_path / "sweep.yaml"
    file.write_text(text)

    with pytest.raises(InputError) as found:
        sp.simulate(trace([(0.0, 1.0, 0)]), sweep=file)

    assert str(found.value).startswith(str(file))
    assert line in str(found.value)


def test_a_value_with_parts_is_called_by_its_number() -> None:
    (axis,) = axes_of({"arguments": {"NodeResourcesFit": {"scoringStrategy": [{"a": 1}]}}}, "x")

    assert axis.values == ({"a": 1},)
    names = [*grid({"arguments": {"P": {"x": [{"a": 1}, "b"]}}}, {"default": None}, accept)]
    assert names == ["x=#1", "x=b"]
