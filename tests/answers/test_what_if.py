"""`what-if`: every change, and what it does to others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

import stowplan as sp
from stowplan.errors import InputError
from tests.answers.building import Data, node, pod
from tests.answers.test_why import run, written
from tests.world.things import deployment


def web(replicas: int = 2, cpu: str = "1") -> Data:
    return deployment("web", replicas, cpu)


def cluster(*objects: Data) -> sp.Cluster:
    return sp.Cluster.from_dump([*objects], tie_break="name")


def test_more_nodes_place_who_waits() -> None:
    answer = cluster(node("a"), pod(cpu="4"), pod("q", cpu="4")).what_if(add_nodes=1, like="a")

    assert answer.diff.nodes_added == ("a-new-1",)
    assert list(answer.diff.placed.values()) == ["a-new-1"]
    assert (answer.pending_before, answer.pending_after) == (1, 0)
    assert answer


def test_a_node_file_and_manifests_are_applied(tmp_path: Path) -> None:
    nodes, pods = tmp_path / "n.yaml", tmp_path / "p.yaml"
    nodes.write_text(yaml.safe_dump(node("b")))
    pods.write_text(yaml.safe_dump(pod(nodeSelector={"kubernetes.io/hostname": "b"})))

    answer = cluster(node("a")).what_if(node_file=str(nodes), apply=str(pods))

    assert answer.diff.placed == {"default/p": "b"}


def test_a_drain_moves_replicas_and_says_what_a_budget_forbids() -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}},
    }
    free = cluster(node("a"), node("b"), web()).what_if(drain=["a"])
    held = cluster(node("a"), node("b"), web(), budget).what_if(drain=["a"])

    assert free
    assert set(free.diff.placed.values()) == {"b"}
    assert len(free.diff.evicted) == len(free.diff.placed)
    assert not held
    assert held.blocked
    assert not held.diff.evicted


def test_a_removed_node_takes_its_pods_with_it() -> None:
    answer = cluster(node("a"), pod(on="a")).what_if(remove=["a"])

    assert answer.diff.nodes_removed == ("a",)
    assert answer.diff.evicted == {"default/p": "a"}


def test_cordon_taint_and_label() -> None:
    objects = node("a"), web(1)
    selected = pod(nodeSelector={"disk": "ssd"})

    assert cluster(*objects).what_if(cordon=["a"], scale=["deploy/web=2"]).diff.pending
    assert (
        cluster(*objects).what_if(taint=["a:x=y:NoSchedule"], scale=["deploy/web=2"]).diff.pending
    )
    assert cluster(node("a"), selected).what_if(label=["a:disk=ssd"]).diff.placed
    evicted = cluster(*objects).what_if(taint=["a:x=y:NoExecute"])
    assert evicted.diff.evicted
    assert evicted.diff.pending


def test_scale_set_and_delete() -> None:
    objects = node("a"), web(2)

    assert len(cluster(*objects).what_if(scale=["deploy/web=4"]).diff.placed) == 2
    smaller = cluster(*objects).what_if(set=["deploy/web:requests.cpu=500m"])
    assert smaller.after["all nodes"]["cpu"] == (1000, 4000)
    assert smaller.before["all nodes"]["cpu"] == (2000, 4000)
    assert len(cluster(*objects).what_if(delete=["deploy/web"]).diff.evicted) == 2
    larger = cluster(node("a"), pod(on="a")).what_if(set=["p:requests.cpu=9"])
    assert list(larger.diff.pending) == ["default/p"]


def test_another_configuration() -> None:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"filter": {"disabled": [{"name": "TaintToleration"}]}}}],
    }
    tainted = node("a", taints=[{"key": "x", "effect": "NoSchedule"}])

    assert cluster(tainted, pod()).what_if(config=config).diff.placed == {"default/p": "a"}


def test_who_is_evicted_to_make_room() -> None:
    low, high = pod("low", "4", on="a"), pod(cpu="4", priority=5)

    answer = cluster(node("a"), low).what_if(apply=[
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
         "metadata": {"name": "high"}, "value": 5},
        {**high, "spec": {**high["spec"], "priority": None, "priorityClassName": "high"}},
    ])  # fmt: skip

    assert answer.preempted == {"default/low": "default/p"}


@pytest.mark.parametrize(
    "change",
    [
        {"add_nodes": 1},
        {"scale": ["web=2"]},
        {"scale": ["deploy/web=many"]},
        {"taint": ["a"]},
        {"taint": ["a:x=y:Never"]},
        {"set": ["deploy/web:image=x"]},
        {"set": ["deploy/web:requests.cpu=much"]},
        {"drain": ["z"]},
        {"delete": ["nobody"]},
    ],
    ids=str,
)
def test_a_wrong_change_is_refused(change: Data) -> None:
    with pytest.raises(InputError):
        cluster(node("a"), web()).what_if(**change)


def test_the_command(tmp_path: Path) -> None:
    path = written(tmp_path, [node("a"), node("b"), web(3, "2")])

    code, text, _ = run("what-if", "-f", path, "--drain", "a", columns=60)
    assert code == 1
    assert "pending now (1):" in text
    assert max(map(len, text.splitlines())) <= 60
    code, text, _ = run("what-if", "-f", path, "--add-nodes", "1", "--like", "a", "-o", "json")
    assert code == 0
    assert json.loads(text)["nodesAdded"] == ["a-new-1"]
    assert run("what-if", "-f", path, "--like")[0] == 2


def test_manifests_after_the_cluster_are_applied_and_others_are_the_cluster(tmp_path: Path) -> None:
    dump, new, more = tmp_path / "c.yaml", tmp_path / "new.yaml", tmp_path / "more.yaml"
    dump.write_text(yaml.safe_dump_all([node("a")]))
    new.write_text(yaml.safe_dump(pod()))
    more.write_text(yaml.safe_dump(pod("old", on="a")))

    applied = run("what-if", "-f", str(dump), "-f", str(more), "-f", str(new), "-o", "json")
    named = run("what-if", "-f", str(dump), "-f", str(more), "--apply", str(new), "-o", "json")

    assert json.loads(applied[1])["placed"] == {"default/p": "a"}
    assert applied == named


def test_a_configuration_alone_is_the_change(tmp_path: Path) -> None:
    path = written(tmp_path, [node("a", unschedulable=True), pod()])
    config = tmp_path / "config.yaml"
    off = [{"name": "NodeUnschedulable"}, {"name": "TaintToleration"}]
    config.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "profiles": [{"plugins": {"multiPoint": {"disabled": off}}}],
            }
        )
    )

    alone = json.loads(run("what-if", "-f", path, "--config", str(config), "-o", "json")[1])
    both = json.loads(
        run("what-if", "-f", path, "--config", str(config), "--label", "a:x=y", "-o", "json")[1]
    )

    assert alone["placed"] == {"default/p": "a"}
    assert both["before"]["pending"] == both["after"]["pending"] == 0
