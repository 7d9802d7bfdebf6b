"""A cluster as one object: what the issue's example does, and how wrong use is answered."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import stowplan as sp
from stowplan import plugin
from stowplan.errors import ConfigError, InputError, Invalid, PluginError
from tests.world.things import deployment, pod, workload


class OddNodes:
    """Only nodes with an odd number."""

    name = "OddNodes"

    def __init__(self, args: Any, handle: plugin.Handle) -> None:
        pass

    def filter_node(
        self, cycle: plugin.Cycle, pod: plugin.PodInfo, node: plugin.NodeInfo
    ) -> plugin.Status | None:
        return None if node.name[-1] in "13579" else plugin.unresolvable("node(s) were even")


def test_exactly_this_is_exported() -> None:
    assert sp.__all__ == [
        "Cluster",
        "Decision",
        "Diff",
        "Listing",
        "Remark",
        "Table",
        "__version__",
        "dry_run",
        "errors",
        "plugin",
        "read_trace",
        "shadow",
        "simulate",
    ]
    assert all(getattr(sp, name) is not None for name in sp.__all__)
    stub = Path(sp.__file__).with_suffix(".pyi").read_text()
    assert all(f'"{name}"' in stub for name in sp.__all__)


def test_nodes_and_a_deployment_run() -> None:
    with sp.Cluster(seed=1) as cluster:
        names = cluster.add_nodes(3, cpu="4", memory="8Gi", zones=3, labels={"pool": "a"})
        assert cluster.apply(deployment("web", 10)) == ["Deployment default/web"]
        cluster.run()

        assert names == ["node-1", "node-2", "node-3"]
        assert [len(cluster.pods()), len(cluster.pods(pending=True))] == [10, 0]
        assert {pod.status.phase for pod in cluster.pods()} == {"Running"}
        assert list(cluster.nodes().table["zone"]) == ["zone-a", "zone-b", "zone-c"]
        assert sum(cluster.nodes().table["pods"]) == 10
        assert {event.reason for event in cluster.events()} >= {"Scheduled", "SuccessfulCreate"}
        assert cluster.now == 0.0


def test_a_decision_has_its_tables() -> None:
    with sp.Cluster(plugins=[OddNodes], tie_break="name") as cluster:
        cluster.add_nodes(4, cpu="4")
        cluster.apply([pod("fits"), pod("huge", cpu="64")])
        cluster.run()
        fits, huge = cluster.decision("default/fits"), cluster.decision("default/huge")

        assert (fits.node, fits.message, bool(fits)) == ("node-1", "", True)
        assert fits.scores.index == ["node-1", "node-3"]
        total = sum(fits.scores[name] for name in fits.scores.columns if name != "total")
        assert (total == fits.scores["total"]).all()
        assert fits.score == fits.scores.at("node-1", "total")
        assert fits.rejected.row("node-2") == {
            "plugin": "OddNodes",
            "code": "UnschedulableAndUnresolvable",
            "reasons": ("node(s) were even",),
        }
        assert huge.message == ("0/4 nodes are available: 4 Insufficient cpu.")
        assert not huge
        assert [decision.attempt for decision in huge.history] == [1]


def test_tables_become_data_frames_where_there_are_any(monkeypatch: pytest.MonkeyPatch) -> None:
    table = sp.Table("node", ["a", "b"], {"score": np.array([1, 2])})
    frames = {name: ModuleType(name) for name in ("pandas", "polars")}
    for name, module in frames.items():
        module.DataFrame = lambda data, index=None: (data, index)  # type: ignore[attr-defined]
        module.Index = lambda values, name: (name, values)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, name, module)
    columns, index = table.to_pandas()
    assert (list(columns["score"]), index) == ([1, 2], ("node", ["a", "b"]))
    assert table.to_polars()[0]["node"] == ["a", "b"]
    for name in frames:
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(InputError, match=f"{name} is not installed\n  hint: `pip install"):
            getattr(table, f"to_{name}")()


def test_history_tells_how_the_verdict_changed() -> None:
    with sp.Cluster() as cluster:
        cluster.add_nodes(1, cpu="1")
        cluster.apply([pod("a"), pod("b")])
        cluster.run()
        cluster.run(seconds=60)
        cluster.add_nodes(1, cpu="1")
        cluster.run()

        first, second = cluster.decision("default/b").history
        assert (first.node, first.reasons) == ("", {"Insufficient cpu": 1})
        assert (second.node, second.time) == ("node-2", 60.0)


def test_time_passes_exactly_as_told_and_only_then() -> None:
    with sp.Cluster() as cluster:
        cluster.add_nodes(1)
        cluster.run(seconds=12.5)
        assert cluster.now == 12.5
        cluster.apply(pod("never", cpu="64"))
        cluster.run()
        assert cluster.now == 12.5


def test_it_runs_until_jobs_are_done() -> None:
    with sp.Cluster() as cluster:
        cluster.add_nodes(1)
        cluster.apply(workload("Job", "once", completions=3, parallelism=1))
        cluster.run()

        assert [pod.status.phase for pod in cluster.pods()] == ["Succeeded"] * 3
        assert cluster.get("Job", "default/once")["status"]["succeeded"] == 3
        assert 3.0 <= cluster.now < 10.0


def test_a_plugin_that_always_fails_does_not_keep_it_running() -> None:
    class Broken(OddNodes):
        name = "Broken"

        def filter_node(self, cycle: Any, pod: Any, node: Any) -> plugin.Status | None:
            raise RuntimeError("broken")

    with sp.Cluster(plugins=[Broken]) as cluster:
        cluster.add_nodes(1)
        cluster.apply(pod("p"))
        cluster.run()

        assert "broken" in cluster.decision("default/p").error
        assert cluster.now < 60.0


def test_preemption_deletes_drains_and_cordons() -> None:
    with sp.Cluster() as cluster:
        cluster.add_nodes(2, cpu="2")
        cluster.apply([pod("low", cpu="2"), deployment("web", 2, cpu="1")])
        cluster.run()
        cluster.apply(
            [
                {
                    "apiVersion": "scheduling.k8s.io/v1",
                    "kind": "PriorityClass",
                    "metadata": {"name": "urgent"},
                    "value": 1000,
                },
                pod("urgent", cpu="2", priorityClassName="urgent"),
            ]
        )
        cluster.run()
        first, last = cluster.decision("default/urgent").history
        assert (first.victims, last.node) == (("default/low",), first.nominated_node)
        assert "default/low" not in cluster.pods()

        (free,) = cluster.add_nodes(1, cpu="2", prefix="free")
        busy = next(pod.spec.node_name for pod in cluster.pods() if "web" in pod.name)
        assert cluster.drain(busy) == {}
        assert {pod.spec.node_name for pod in cluster.pods() if "web" in pod.name} == {free}
        assert cluster.nodes()[busy].spec.unschedulable
        cluster.uncordon(busy)
        cluster.delete("default/urgent")
        cluster.run()
        assert not cluster.nodes()[busy].spec.unschedulable
        assert "default/urgent" not in cluster.pods()


def test_a_drain_respects_budgets() -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
    }
    with sp.Cluster() as cluster:
        cluster.add_nodes(1, cpu="4")
        cluster.apply([budget, deployment("web", 2)])
        cluster.run()

        blocked = cluster.drain("node-1")

        assert set(blocked) == set(cluster.pods().keys)
        assert all("disruption budget" in why for why in blocked.values())


def test_objects_come_from_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(deployment("web", 2)))
    (tmp_path / "b.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
        "spec: {containers: [{name: c, image: app}]}\n"
    )
    with sp.Cluster() as cluster:
        assert cluster.apply(tmp_path) == ["Deployment default/web", "Pod default/p"]
        assert cluster.apply(str(tmp_path / "a.json")) == ["Deployment default/web"]


def test_a_storage_class_makes_volumes() -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    storage = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "fast"},
        "provisioner": "example.com/disk",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    with sp.Cluster() as cluster:
        cluster.add_nodes(2, zones=2)
        db = workload("StatefulSet", "db", replicas=2, volumeClaimTemplates=[claim])
        cluster.apply([storage, db])
        cluster.run()

        assert [pod.status.phase for pod in cluster.pods()] == ["Running", "Running"]
        assert len(cluster.objects("PersistentVolume")) == 2


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda c: c.apply("nowhere.yaml"), InputError, "nowhere.yaml: there is no such file"),
        (lambda c: c.apply({"kind": "Pod"}), InputError, "objects: `apiVersion` is missing"),
        (
            lambda c: c.apply({**pod("p"), "kind": "Pods"}),
            InputError,
            "objects: Pods default/p: there is no kind 'Pods' in 'v1'\n  hint: did you mean",
        ),
        (lambda c: c.apply(pod("P")), Invalid, 'objects: Pod "P" is invalid'),
        (lambda c: c.apply(pod("p", cpu="1x")), InputError, "objects: Pod default/p: spec.con"),
        (lambda c: c.decision("default/we-1"), InputError, "there is no Pod 'default/we-1'"),
        (lambda c: c.decision("web-1"), InputError, "there is no decision on 'web-1'"),
        (lambda c: c.cordon("node-11"), InputError, "there is no Node 'node-11'\n  hint: did you"),
        (lambda c: c.delete("web", "Deploymnt"), InputError, "there is no kind 'Deploymnt'\n  hi"),
        (lambda c: c.add_nodes(-1), InputError, "-1 is no number of nodes"),
        (lambda c: c.add_nodes(1, cpu="lots"), InputError, "add_nodes: status.capacity"),
        (lambda c: c.add_nodes(1, taints=["gpu"]), InputError, "add_nodes: taints: 'gpu' is no t"),
        (lambda c: c.add_nodes(1, like="x"), InputError, "there is no Node 'x'"),
        (lambda c: c.run(seconds=-1), InputError, "seconds is -1"),
        (lambda c: sp.Cluster(clock="fast"), InputError, "clock is 'fast'\n  hint: it may be"),
        (lambda c: sp.Cluster(plugins=[int]), InputError, "plugins: <class 'int'> is no plugin"),
        (lambda c: sp.Cluster("nowhere.yaml"), ConfigError, "open nowhere.yaml: no such file"),
        (lambda c: (c.close(), c.pods()), InputError, "this cluster is closed"),
    ],
)
def test_wrong_use_is_answered_with_one_clear_line(
    use: Any, error: type[Exception], message: str
) -> None:
    with sp.Cluster() as cluster:
        cluster.add_nodes(1)
        cluster.apply(pod("web-1"))
        with pytest.raises(error) as refused:
            use(cluster)

        assert str(refused.value).startswith(message)


def test_what_comes_from_the_cluster_is_shown_as_text() -> None:
    hostile = "<script>alert(1)</script>"
    with sp.Cluster() as cluster:
        cluster.add_nodes(1, cpu="1", labels={"zone": "a"}, taints=["team=x:NoSchedule"])
        cluster.apply({**pod("p"), "metadata": {"name": "p", "annotations": {"a": hostile}}})
        cluster.run()
        table = sp.Table(hostile, [hostile], {hostile: np.array([hostile])})

        shown = [cluster, cluster.decision("default/p"), cluster.pods(), cluster.events()]
        assert all("<table>" in thing._repr_html_() for thing in shown)
        assert hostile not in table._repr_html_()
        assert repr(cluster) == "<Cluster: 1 nodes, 1 pods, 1 pending, at 0 s>"
        assert repr(cluster.decision("default/p")).startswith(
            "<Decision: default/p has no node: 0/1 nodes are available: 1 node(s) had untolerated"
        )


class Failing:
    name = "Failing"

    def __init__(self, args: Any, handle: plugin.Handle) -> None:
        pass

    def filter_node(self, cycle: Any, pod: Any, node: Any) -> None:
        raise LookupError("no such team")


def test_in_a_strict_cluster_the_failure_of_a_plugin_ends_the_run() -> None:
    with sp.Cluster(plugins=[Failing], strict=True) as cluster:
        cluster.add_nodes(1)
        cluster.apply(pod("small", cpu="1"))
        with cluster.fork() as trial, pytest.raises(PluginError) as raised:
            trial.run()
        assert re.fullmatch(
            r"Failing failed in Filter: LookupError: no such team \(.*test_face\.py:\d+\)",
            str(raised.value),
        )
        assert isinstance(raised.value.__cause__, LookupError)
    with sp.Cluster(plugins=[Failing]) as cluster:
        cluster.add_nodes(1)
        cluster.apply(pod("small", cpu="1"))
        cluster.run(seconds=1)
        assert "no such team" in cluster.decision("default/small").message


def test_under_the_real_clock_the_same_happens_in_real_time() -> None:
    with sp.Cluster(clock="real") as cluster:
        before = time.time()
        cluster.add_nodes(1, cpu="4")
        cluster.apply([pod("small", cpu="1"), pod("huge", cpu="64")])
        cluster.run(seconds=0)
        cluster.run()

        assert before <= cluster.now <= time.time()
        assert cluster.decision("default/small").node == "node-1"
        assert not cluster.decision("default/huge")
        with cluster.fork() as trial:
            trial.add_nodes(1, cpu="64")
            trial.run()
            assert trial.diff(cluster).placed == {"default/huge": "node-2"}
            assert before <= trial.now <= time.time()
        assert [it.name for it in cluster.pods(pending=True)] == ["huge"]


def test_gpus_are_claimed_and_given_back() -> None:
    requests = [{"name": "gpus", "exactly": {"deviceClassName": "gpu.stowplan.dev", "count": 2}}]
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "two"},
        "spec": {"spec": {"devices": {"requests": requests}}},
    }
    claims = [{"name": "gpus", "resourceClaimTemplateName": "two"}]
    with sp.Cluster(seed=1) as cluster:
        cluster.add_nodes(2, gpus=2)
        web = deployment("web", 3)
        web["spec"]["template"]["spec"]["resourceClaims"] = claims
        cluster.apply([template, web])
        cluster.run()
        (waiting,) = cluster.pods(pending=True).keys
        assert cluster.decision(waiting).reasons == {"cannot allocate all claims": 2}

        with cluster.fork() as other:
            other.add_nodes(1, like="node-1")
            other.run()
            assert other.pods(pending=True).keys == []

        web["spec"]["replicas"] = 2
        cluster.apply(web)
        cluster.run()
        assert cluster.pods(pending=True).keys == []
        assert len(cluster.objects("ResourceClaim").keys) == 2

        with pytest.raises(InputError, match="number of GPUs"):
            cluster.add_nodes(1, gpus=129)


def test_a_job_of_a_dump_gets_its_pods_and_no_more() -> None:
    """It selects them by its uid, which a manifest does not say."""
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"parallelism": 2, "completions": 2, "template": template},
    }
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n"},
        "status": {"allocatable": {"cpu": "1", "pods": "10"}},
    }
    with sp.Cluster.from_dump([node, job]) as cluster:
        cluster.run()

        assert [pod.spec.node_name for pod in cluster.pods()] == ["n", "n"]
