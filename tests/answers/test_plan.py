"""`plan`: counts are exact, nodes that are bought or drained were tried, bounds hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

import stowplan as sp
from stowplan.answers import packing
from stowplan.errors import InputError
from tests.answers.building import ZONE, Data, node, pod, taint
from tests.answers.test_why import run, written
from tests.world.things import deployment

POOL = "karpenter.sh/nodepool"


def cluster(*objects: Data) -> sp.Cluster:
    return sp.Cluster.from_dump([*objects], tie_break="name")


def small(price: float = 1.0, **more: object) -> Data:
    return {"name": "small", "price": price, "cpu": 4, "memory": "8Gi", **more}


def large(price: float = 3.0, **more: object) -> Data:
    return {"name": "large", "price": price, "cpu": 16, "memory": "32Gi", **more}


def budget(**spec: object) -> Data:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }


def owned(data: Data, owner: str) -> Data:
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": f"u-{owner}",
                 "controller": True}  # fmt: skip
    data["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    data["metadata"] |= {"ownerReferences": [reference], "labels": {"app": owner}}
    return data


# -- capacity -------------------------------------------------------------------------------


def test_as_many_fit_as_there_is_room_for_and_each_pool_says_what_runs_out() -> None:
    answer = cluster(
        node("a", cpu="4", labels={POOL: "thin"}),
        node("b", cpu="100", pods="7", labels={POOL: "fat"}),
        pod("p", cpu="1", on="a"),
    ).plan("capacity", "p")

    assert answer.count == 3 + 7
    pools = {pool.name: (pool.placed, pool.runs_out) for pool in answer.pools}
    assert pools == {"thin": (3, "cpu"), "fat": (7, "pods")}
    assert answer
    assert not answer.is_limit


@pytest.mark.slow
def test_thousands_are_counted_and_a_limit_says_so() -> None:
    nodes = [node(f"n{n}", cpu="64", pods="500") for n in range(20)]

    answer = cluster(*nodes, pod("p", cpu="500m", on="n0")).plan("capacity", "p")
    limited = cluster(*nodes, pod("p", cpu="500m", on="n0")).plan("capacity", "p", limit=100)

    assert answer.count == 20 * 128 - 1
    assert (limited.count, limited.is_limit) == (100, True)


def test_whole_mixes_are_counted(tmp_path: Path) -> None:
    web, db = deployment("web", 2, "1"), deployment("db", 1, "3")
    path = tmp_path / "mix.yaml"
    path.write_text(yaml.safe_dump_all([web, db]))
    nodes = [node(f"n{n}", cpu="8") for n in range(3)]

    answer = cluster(*nodes).plan("capacity", pod_file=str(path))

    # Each node takes 5 cores of one mix and 3 of another; the third db of a node has no room.
    assert answer.mix == {"Deployment default/web": 2, "Deployment default/db": 1}
    assert answer.count == 4
    assert answer.to_dict()["pods"] == 12


def test_spread_and_taints_count_as_they_do_for_the_scheduler() -> None:
    term = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    spread = pod("p", cpu="1", labels={"app": "web"}, topologySpreadConstraints=[term])
    objects = [
        node("a", cpu="2", zone="one"),
        node("b", cpu="40", zone="two"),
        node("c", taints=[taint("x")]),
    ]

    answer = cluster(*objects, {**spread, "spec": {**spread["spec"], "nodeName": "a"}}).plan(
        "capacity", "p"
    )

    assert answer.count == 1 + 3
    assert "node(s) didn't match pod topology spread constraints" in answer.message


def test_nobody_is_evicted_to_make_room() -> None:
    objects = [node("a", cpu="2"), pod("old", cpu="2", on="a"), pod("p", cpu="1", priority=9)]

    answer = cluster(*objects).plan("capacity", "p")

    # The pod itself waits and evicts the old one; copies of it evict nobody.
    assert answer.count == 1


@pytest.mark.parametrize(
    ("words", "problem"),
    [((), "more of what"), (("nobody",), "no Pod"), (("p=x",), "no number of pods")],
)
def test_a_wrong_question_is_said(words: tuple[str, ...], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        cluster(node("a"), pod("p", on="a")).plan("capacity", words)


def test_pools_are_told_by_a_label_of_your_own() -> None:
    objects = [node("a", labels={"team": "x"}), node("b", labels={"team": "y"}), pod("p", on="a")]

    answer = cluster(*objects).plan("capacity", "p", pool_label="team")

    assert [pool.name for pool in answer.pools] == ["x", "y"]
    with pytest.raises(InputError, match="no node has the label"):
        cluster(*objects).plan("capacity", "p", pool_label="nope")


# -- nodes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pods", "types", "nodes", "price"),
    [
        ([("3", 4)], [small(), large()], {"large": 1}, 3.0),
        ([("3", 1)], [small(), large()], {"small": 1}, 1.0),
        ([("3", 6)], [small(), large()], {"large": 1, "small": 1}, 4.0),
        ([("5", 1), ("1", 3)], [small(), large()], {"large": 1}, 3.0),
        ([("2", 4)], [small(), large(9.0)], {"small": 2}, 2.0),
        ([("3", 2)], [small(max=1), large()], {"large": 1}, 3.0),
    ],
    ids=str,
)
def test_the_cheapest_nodes_are_found_and_the_bound_meets_them(
    pods: list[tuple[str, int]], types: list[Data], nodes: dict[str, int], price: float
) -> None:
    waiting = [pod(f"p{cpu}-{n}", cpu) for cpu, count in pods for n in range(count)]

    answer = cluster(node("full", cpu="0"), *waiting).plan("nodes", types)

    assert answer
    assert (answer.nodes, answer.price) == (nodes, price)
    assert set(answer.placed) == {f"default/{each['metadata']['name']}" for each in waiting}
    assert answer.bound == pytest.approx(price)
    assert answer.gap == pytest.approx(0.0)


def test_labels_taints_zones_and_daemons_count_as_for_the_scheduler() -> None:
    daemons = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {
                "metadata": {"labels": {"app": "agent"}},
                "spec": {"containers": [{"name": "c", "image": "i",
                                         "resources": {"requests": {"cpu": "2"}}}]},
            },
        },
    }  # fmt: skip
    types = [small(taints=["team=ml:NoSchedule"]), large(labels={"disk": "ssd"}, zones=["x", "y"])]
    waiting = [pod(f"p{n}", "7", nodeSelector={"disk": "ssd", ZONE: "y"}) for n in range(3)]

    answer = cluster(node("full", cpu="2"), daemons, *waiting).plan("nodes", types)

    # The agent leaves 14 of 16 cores: two pods a node.
    assert answer.nodes == {"large in y": 2}


def test_pods_that_no_type_takes_are_named() -> None:
    answer = cluster(node("full", cpu="0"), pod("p", "40"), pod("q", "1")).plan("nodes", [small()])

    assert not answer
    assert answer.nodes == {"small": 1}
    assert list(answer.without) == ["default/p"]
    assert "Insufficient cpu" in answer.without["default/p"]


def test_without_a_solver_the_bound_is_weaker_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "find_spec", lambda name: None)

    answer = cluster(node("full", cpu="0"), *[pod(f"p{n}", "3") for n in range(4)]).plan(
        "nodes", [small(), large()]
    )

    assert answer.price == 3.0
    assert 0 < answer.bound <= 3.0
    assert "stowplan[plan]" in answer.method


@pytest.mark.parametrize(
    ("types", "problem"),
    [
        ([], "no list"),
        ([{"name": "a", "cpu": 1, "memory": "1Gi"}], "price is None"),
        ([{"name": "a", "price": 1, "cpu": 1}], "no memory"),
        ([{"name": "a", "price": 1, "cpus": 1}], "no field 'cpus'"),
        ([{"name": "a", "price": 1, "cpu": "x", "memory": "1Gi"}], "cpu"),
        ([small(), small()], "twice"),
        ([small(max=-1)], "max is -1"),
        ([{"name": "a", "price": 1, "like": "nobody"}], "no Node 'nobody'"),
    ],
)
def test_a_wrong_file_of_types_is_refused_with_its_place(types: list[Data], problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        cluster(node("a"), pod()).plan("nodes", types)


# -- consolidate ----------------------------------------------------------------------------


def spread_out(count: int, cpu: str = "1") -> list[Data]:
    nodes = [node(f"n{n}") for n in range(count)]
    pods = [owned(pod(f"web-{n}", cpu, on=f"n{n}"), "web") for n in range(count)]
    return [*nodes, *pods]


def test_nodes_go_one_after_the_other_and_every_pod_has_a_place() -> None:
    answer = cluster(*spread_out(8)).plan("consolidate")

    assert len(answer.steps) == 6
    assert (answer.cost, answer.cost_after, answer.bound.price) == (8, 2, 2)
    for step in answer.steps:
        assert len(step.placed) == len(step.evicted)
        assert step.node not in step.placed.values()
        assert step.saved["cpu"] == 4000


def test_each_step_holds_on_a_cluster_of_its_own() -> None:
    objects = [*(node(f"n{n}") for n in range(4)), deployment("web", 6, "1")]
    world = cluster(*objects)
    world.run()
    answer = world.plan("consolidate")

    for step in answer.steps:
        assert world.drain(step.node) == {}
        assert not world.pods(pending=True)
        world.delete(step.node, "Node")
    assert len(answer.steps) == 2


@pytest.mark.slow
def test_budgets_bare_pods_and_kept_nodes_stay() -> None:
    held = cluster(*spread_out(3), budget(maxUnavailable=0)).plan("consolidate")
    bare = cluster(node("a"), node("b"), pod("alone", on="a"), pod("lone", on="b")).plan(
        "consolidate"
    )
    head = node("head", labels={"node-role.kubernetes.io/control-plane": ""})
    kept = cluster(*spread_out(2), head).plan("consolidate", keep=["n0"])

    assert not held
    assert all("cannot be evicted" in why for why in held.kept.values())
    assert not bare
    assert "no owner would make it again" in bare.kept["a"]
    assert [step.node for step in kept.steps] == ["n1"]


def test_a_budget_that_lets_one_go_at_a_time_lets_all_go() -> None:
    one = cluster(*(node(f"n{n}") for n in range(4)), deployment("web", 6, "1"),
                  budget(maxUnavailable=1))  # fmt: skip
    status = {"disruptionsAllowed": 1, "currentHealthy": 4, "desiredHealthy": 3, "expectedPods": 4}
    least = cluster(*spread_out(4), budget(minAvailable=3) | {"status": status})

    assert len(one.plan("consolidate").steps) == 2
    # Their owner is not shown: what it would do is done for it.
    assert len(least.plan("consolidate").steps) == 3


def test_prices_say_what_is_saved() -> None:
    labels = {"node.kubernetes.io/instance-type": "small"}
    objects = [node("a", labels=labels), node("b", labels=labels),
               owned(pod("web-1", on="a"), "web")]  # fmt: skip

    answer = cluster(*objects).plan("consolidate", types=[small(2.5)])

    assert [(step.node, step.price) for step in answer.steps] == [("b", 2.5)]
    assert (answer.cost, answer.cost_after, answer.bound.price) == (5.0, 2.5, 2.5)


# -- the command ----------------------------------------------------------------------------


def test_the_commands_answer_as_text_and_json(tmp_path: Path) -> None:
    path = written(
        tmp_path, [node("a"), node("b"), owned(pod("web-1", on="a"), "web"), pod("p", "9")]
    )
    types = tmp_path / "types.yaml"
    types.write_text(yaml.safe_dump({"types": [large()]}))

    capacity = run("plan", "capacity", "web-1", "-f", path, "-o", "json")
    nodes = run("plan", "nodes", "-f", path, "--types", str(types))
    drains = run("plan", "consolidate", "-f", path, "-o", "yaml")
    short = run("plan", "capacity", "web-1", "-f", path, "--at-least", "50")

    assert json.loads(capacity[1])["count"] == 7
    assert "1 node for 3" in nodes[1]
    assert yaml.safe_load(drains[1])["steps"][0]["drain"] == "b"
    assert [each[0] for each in (capacity, nodes, drains, short)] == [0, 0, 0, 1]
