"""Every answer on a live cluster and on a dump of it: the same, and only read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from stowplan.cli import main
from tests.e2e.harness.cluster import ADMIN, Cluster
from tests.e2e.harness.objects import COLLECTIONS, ZONE, node, pod
from tests.e2e.harness.rights import READER, grant_reader
from tests.e2e.harness.world import World


def ask(*arguments: str) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(main, [*arguments, "-o", "json"])
    assert result.exit_code in (0, 1), result.stderr
    return result.exit_code, json.loads(result.stdout)


def test_the_same_answer_live_and_from_a_dump(
    cluster: Cluster, world: World, tmp_path: Path
) -> None:
    world.add_nodes(node("a"))
    world.create(pod("p", nodeSelector={"kubernetes.io/hostname": "aa"}))
    live = "--kubeconfig", str(cluster.kubeconfig(ADMIN))
    before = world.get("Pod", "p")

    code, told = ask("why", "p", *live)
    _, if_labelled = ask("what-if", *live, "--label", "a:kubernetes.io/hostname=aa")

    assert code == 1
    best = told["fixes"][0]
    assert best["changes"][0]["patch"] == [
        {"op": "replace", "path": "/spec/nodeSelector/kubernetes.io~1hostname", "value": "a"}
    ]
    assert if_labelled["placed"] == {f"{before['metadata']['namespace']}/p": "a"}
    items = [world.get("Node", "a"), before]
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    _, from_dump = ask("why", "p", "-f", str(dump))
    assert from_dump["fixes"][0]["changes"] == best["changes"]
    assert world.get("Pod", "p") == before, "it was only read"


TYPES = {"types": [{"name": "large", "price": 1.5, "cpu": 16, "memory": "64Gi"}]}
PACKED = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {"scoringStrategy": {"type": "MostAllocated"}},
                }
            ]
        }
    ],
}
REPLICA_SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1"}


def replica(number: int, on: str = "") -> dict[str, Any]:
    """One that somebody makes again when it is evicted."""
    made = pod(f"web-{number}", cpu="1", labels={"app": "web"}, **({"nodeName": on} if on else {}))
    made["metadata"]["ownerReferences"] = [{**REPLICA_SET, "controller": True}]
    return made


@pytest.fixture
def dump(world: World, tmp_path: Path) -> Path:
    """Three nodes, some replicas and a pod that is too large, as `kubectl get -o json` has them."""
    world.add_nodes(*(node(name, labels={ZONE: f"z{name}"}) for name in "abc"))
    world.create(replica(1, "a"), replica(2, "b"), replica(3), replica(4), pod("large", cpu="9"))
    items = [
        {"apiVersion": "v1", "kind": kind, **item}
        for kind in ("Node", "Pod")
        for item in world.api.items(COLLECTIONS[kind])
    ]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    (tmp_path / "types.yaml").write_text(json.dumps(TYPES))
    (tmp_path / "packed.yaml").write_text(json.dumps(PACKED))
    return path


def test_plans_and_comparisons_live_and_from_a_dump(cluster: Cluster, dump: Path) -> None:
    grant_reader(cluster)
    live = "--kubeconfig", str(cluster.kubeconfig(READER))
    folder = dump.parent

    def both(*words: str) -> tuple[int, dict[str, Any]]:
        """The answer of the live cluster, which is the dump's too."""
        told, from_dump = ask(*words, *live), ask(*words, "-f", str(dump))
        assert told == from_dump
        return told

    code, capacity = both("plan", "capacity", "web-1")
    # 12 cpu, of which 4 replicas have 4: those that wait are placed first.
    assert (code, capacity["count"]) == (0, 8), capacity
    code, nodes = both("plan", "nodes", "--types", str(folder / "types.yaml"))
    assert (code, nodes["nodes"], nodes["price"]) == (0, {"large": 1}, 1.5), nodes
    assert nodes["placed"]["default/large"].startswith("large")
    code, consolidation = both("plan", "consolidate")
    assert code == 0
    assert len(consolidation["steps"]) == 2, consolidation
    packed = str(folder / "packed.yaml")
    code, comparison = both("compare", "--config", packed, "--fail-if", "pending > base")
    assert (code, comparison["failed"]) == (0, []), comparison
    used = comparison["measures"]["nodes"]
    assert used["other"]["mean"] <= used["base"]["mean"]
    code, overview = both("why")
    assert (code, overview["pending"][0]["pods"]) == (1, ["default/large"])
    code, moved = both("what-if", "--drain", "a")
    assert code == 0, moved


def test_a_snapshot_of_a_live_cluster_is_asked(cluster: Cluster, dump: Path) -> None:
    grant_reader(cluster)
    live = "--kubeconfig", str(cluster.kubeconfig(READER))
    saved = dump.parent / "bug.json"
    for anonymise in ((), ("--anonymise",)):
        words = ["snapshot", "-o", str(saved), *anonymise, *live]
        result = CliRunner().invoke(main, words)
        assert (result.exit_code, result.stdout) == (0, ""), result.stderr
        _, overview = ask("why", "-f", str(saved))
        assert [len(group["pods"]) for group in overview["pending"]] == [1]
        assert ("large" in saved.read_text()) == (not anonymise)
