"""A user's plugin in the one-node form gives what the same plugin gives for all nodes at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.core.decision import Decision
from stowplan.core.explanation import Explainer
from stowplan.framework.plugin import points_of
from stowplan.framework.reads import Reads
from stowplan.framework.status import Status, Verdict, unresolvable, unschedulable
from stowplan.objects.kinds import POD
from tests.builders import node, pod
from tests.core.harness import Cluster, make_plugin


def rating(name: str) -> int:
    """What both plugins below think of a node, by its number."""
    return int(name.rpartition("-")[2])


def filter_node(self: Any, cycle: Any, pod: Any, info: Any) -> Status | None:
    number = rating(info.name)
    if number % 3 == 0:
        return unschedulable("a multiple of three")
    return unresolvable("a multiple of five") if number % 5 == 0 else None


def filter_nodes(self: Any, cycle: Any, pod: Any, nodes: Any, rows: Any) -> Verdict:
    numbers = np.array([rating(name) if name else 1 for name in nodes.names])[rows]
    three, five = numbers % 3 == 0, (numbers % 5 == 0) & (numbers % 3 != 0)
    why = three.astype(np.uint32) | (five.astype(np.uint32) << np.uint32(1))
    return Verdict(("a multiple of three", "a multiple of five"), why, five)


def score_node(self: Any, cycle: Any, pod: Any, info: Any) -> int:
    return rating(info.name) % 101


def score_nodes(self: Any, cycle: Any, pod: Any, nodes: Any, rows: Any) -> Any:
    return np.array([rating(nodes.names[row]) if nodes.names[row] else 0 for row in _all(rows)])


def _all(rows: Any) -> Any:
    return range(*rows.indices(rows.stop)) if isinstance(rows, slice) else rows.tolist()


ONE = {"filter_node": filter_node, "score_node": score_node}
ALL = {**ONE, "filter_nodes": filter_nodes, "score_nodes": score_nodes}
SIGNED = {"reads": Reads.PODS, "signature": lambda self, pod: "the same for all pods"}
FORMS = {"one": ONE, "all": ALL, "one, kept": {**ONE, **SIGNED}, "all, kept": {**ALL, **SIGNED}}

PROFILE: dict[str, Any] = {
    "plugins": {
        "multiPoint": {
            "disabled": [{"name": "*"}],
            "enabled": [{"name": name} for name in ("PrioritySort", "DefaultBinder", "Mine")],
        }
    }
}


def decide(form: str, numbers: list[int]) -> list[Decision]:
    """The decisions on three pods; a node more comes before the last."""
    mine = make_plugin("Mine", **FORMS[form])
    cluster = Cluster(*[node(f"node-{n}") for n in numbers[1:]], plugins=(mine,), profile=PROFILE)
    cluster.machine.algorithm.explain = Explainer().explain
    cluster.add(pod("a"), pod("b"))
    cluster.add(node(f"node-{numbers[0]}"), pod("c"))
    found = [cluster.machine.decision_of(f"default/{name}") for name in "abc"]
    return [decision for decision in found if decision is not None]


def test_a_kept_answer_about_the_pods_on_a_node_follows_their_labels() -> None:
    """It may depend on anything about the node, so on labels that a pod is given later too."""

    def filter_node(self: Any, cycle: Any, pod: Any, info: Any) -> Status | None:
        shy = any("shy" in other.kind.labels for other in info.pods.values())
        return unschedulable("shy company") if shy else None

    mine = make_plugin("Mine", filter_node=filter_node, score_node=score_node, **SIGNED)
    nodes = (node("node-1"), node("node-2"), node("node-3"))
    cluster = Cluster(*nodes, plugins=(mine,), profile=PROFILE)
    cluster.add(pod("company", node="node-1"), pod("a"))

    cluster.patch(POD, "company", {"metadata": {"labels": {"shy": ""}}})
    cluster.add(pod("b"))

    found = [cluster.machine.decision_of(f"default/{name}") for name in "ab"]
    assert [d and (d.node, d.feasible_count) for d in found] == [("node-3", 3), ("node-3", 2)]


@settings(max_examples=25)
@given(st.lists(st.integers(1, 100), min_size=2, max_size=12, unique=True))
def test_every_form_of_a_plugin_decides_alike(numbers: list[int]) -> None:
    expected = [decision.to_dict() for decision in decide("one", numbers)]

    assert len(expected) == 3
    for form in ("all", "one, kept", "all, kept"):
        assert [decision.to_dict() for decision in decide(form, numbers)] == expected, form


def test_the_best_node_by_its_score_is_taken() -> None:
    [first, *_] = decide("one", [1, 7, 3, 9, 15, 8])

    assert (first.node, first.score) == ("node-8", 8)
    assert first.explanation is not None
    assert sorted(first.explanation.feasible) == ["node-7", "node-8"]


@pytest.mark.parametrize("kept", [True, False])
def test_more_reasons_than_there_are_bits_are_still_counted(kept: bool) -> None:
    """40 nodes with a reason each: the message has one for every node, if not all of them."""

    def refuse(self: Any, cycle: Any, pod: Any, info: Any) -> Status:
        return unschedulable(f"reason {info.name}")

    methods: dict[str, Any] = {"filter_node": refuse, **(SIGNED if kept else {})}
    nodes = [node(f"node-{n}") for n in range(40)]
    cluster = Cluster(*nodes, plugins=(make_plugin("Mine", **methods),), profile=PROFILE)

    cluster.add(pod("web"))

    decision = cluster.machine.decision_of("default/web")
    assert decision is not None
    assert sum(decision.reasons.values()) == 40
    assert decision.message.startswith("0/40 nodes are available: ")
    assert cluster.place("web") == "unschedulable"


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("count", [1, 2, 9])
def test_a_node_may_be_turned_down_without_a_reason(kept: bool, count: int) -> None:
    methods: dict[str, Any] = {
        "filter_node": lambda self, cycle, pod, info: unschedulable(),
        **(SIGNED if kept else {}),
    }
    nodes = [node(f"node-{n}") for n in range(count)]
    cluster = Cluster(*nodes, plugins=(make_plugin("Mine", **methods),), profile=PROFILE)

    cluster.add(pod("web"))
    cluster.add(node("late"), pod("next"))

    for name in ("web", "next"):
        decision = cluster.machine.decision_of(f"default/{name}")
        assert decision is not None
        assert decision.reasons == {}
        assert cluster.place(name) == "unschedulable"


@pytest.mark.parametrize(
    ("methods", "points"),
    [
        (["filter_node"], {"filter"}),
        (["filter_nodes"], {"filter"}),
        (["score_node", "normalize_scores"], {"score"}),
        (["reserve"], set()),
        (["reserve", "unreserve"], {"reserve"}),
        (["pre_bind"], set()),
        (["pre_bind", "pre_bind_pre_flight"], {"preBind"}),
        (["pre_enqueue", "pre_filter", "post_filter"], {"preEnqueue", "preFilter", "postFilter"}),
        (["permit", "bind", "post_bind", "pre_score"], {"permit", "bind", "postBind", "preScore"}),
        (["signature", "events_to_register"], set()),
    ],
    ids=lambda names: "+".join(sorted(names)) or "none",  # A set has no order of its own.
)
def test_a_plugin_is_at_the_points_whose_methods_it_has(
    methods: list[str], points: set[str]
) -> None:
    plugin = make_plugin("Mine", **dict.fromkeys(methods, filter_node))

    assert points_of(plugin) == points


def test_a_pod_that_cannot_be_ordered_comes_last_and_stops_nobody() -> None:
    def sort_key(self: Any, pod: Any, timestamp_s: float) -> str:
        if pod.key.endswith("odd"):
            raise ValueError("an odd pod")
        return str(pod.key)

    enabled = [{"name": name} for name in ("Mine", "DefaultBinder")]
    multi_point = {"disabled": [{"name": "*"}], "enabled": enabled}
    cluster = Cluster(
        node("node-1"),
        plugins=(make_plugin("Mine", sort_key=sort_key),),
        profile={"plugins": {"multiPoint": multi_point}},
    )

    cluster.add(pod("odd"), pod("b"), pod("a"))

    assert [name for name, _ in cluster.binds][-1] == "odd"
    assert {name for name, _ in cluster.binds} == {"a", "b", "odd"}


@pytest.mark.parametrize(
    "members",
    [
        {"score_node": lambda *_: 50.0, "reads": Reads.NODE},
        {"score_node": lambda *_: 50.0},
        {"score_nodes": lambda self, cycle, pod, nodes, rows: np.full(nodes.size, 50.0)[rows]},
        {
            "score_nodes": lambda self, cycle, pod, nodes, rows: np.full(
                nodes.size, 50, dtype=np.int32
            )[rows]
        },
    ],
    ids=["kept fractions", "fractions", "an array of fractions", "small numbers"],
)
def test_scores_may_be_numbers_of_any_sort(members: dict[str, Any]) -> None:
    members = {"score_node": lambda *_: 50, **members}
    cluster = Cluster(*(node(f"node-{n}") for n in range(3)), plugins=[make_plugin("M", **members)])

    for n in range(3):
        cluster.add(pod(f"web-{n}"))

    assert all(cluster.node_of(f"web-{n}") for n in range(3))
