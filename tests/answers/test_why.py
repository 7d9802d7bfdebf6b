"""`why` beside the puzzles: workloads, many pending pods, pods with a node, text, the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

import stowplan as sp
from stowplan.answers.patches import json_patch
from stowplan.apiserver.patch import apply_json_patch
from stowplan.cli import main
from tests.answers.building import Data, applied, node, pod, taint
from tests.world.things import deployment


def run(*arguments: str, columns: int = 80) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, list(arguments), env={"COLUMNS": str(columns)})
    return result.exit_code, result.stdout, result.stderr


def written(folder: Path, objects: list[Data]) -> str:
    path = folder / "cluster.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


def test_a_pod_of_a_workload_is_fixed_in_the_template() -> None:
    web = deployment("web", 3)
    web["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "sdd"}
    objects = [node("a", labels={"disk": "ssd"}), web]

    answer = sp.Cluster.from_dump(objects).why("deploy/web").to_dict()

    best = answer["fixes"][0]
    assert [change["kind"] for change in best["changes"]] == ["Deployment"]
    assert best["changes"][0]["patch"] == [
        {"op": "replace", "path": "/spec/template/spec/nodeSelector/disk", "value": "ssd"}
    ]
    again = sp.Cluster.from_dump(applied(objects, best))
    again.run()
    assert not again.pods(pending=True)


def test_other_pods_that_wait_do_not_make_a_fix_false() -> None:
    """What is proven holds with all of them undecided, as when one asks again."""
    rivals = [pod(f"rival-{n}", "2", priority=10) for n in range(2)]
    objects = [node("a"), node("b", unschedulable=True), *rivals, pod(cpu="3")]

    answer = sp.Cluster.from_dump(objects).why("p")

    assert not answer
    for fix in answer.fixes:
        again = sp.Cluster.from_dump(applied(objects, fix.to_dict())).why("p")
        assert again.node, fix.title


def test_how_many_nodes_it_takes_where_others_wait_before_it() -> None:
    objects = [node("a"), deployment("web", 30)]
    cluster = sp.Cluster.from_dump(objects)
    with cluster.fork() as world:
        world.run()
        last = world.queue()[-1].key

    best = cluster.why(last).fixes[0]

    assert len(best.create) == 7, "26 pods wait, and a node takes 4"


def test_a_workload_is_fixed_where_its_owner_says_so_also_without_manifests() -> None:
    with sp.Cluster(seed=1) as cluster:
        cluster.add_nodes(1, taints=["team=ml:NoSchedule"])
        cluster.apply(deployment("web", 1))
        cluster.run()

        best = cluster.why("deploy/web").fixes[0]

    assert [change["kind"] for change in best.changes] == ["Deployment"]


def test_nothing_that_does_not_work_is_called_a_fix() -> None:
    class Never:
        name = "Never"

        def __init__(self, args: object, handle: object) -> None:
            pass

        def filter_node(self, cycle: object, pod: object, node: object) -> object:
            return sp.plugin.unresolvable("never")

    cluster = sp.Cluster.from_dump([node("a"), pod()], plugins=[Never])

    answer = cluster.why("p")

    assert not answer.fixes
    assert [(cause.plugin, cause.reason) for cause in answer.causes] == [("Never", "never")]
    assert any("Nothing" in line for line in answer.lines())


def test_all_objections_to_a_node_are_known_not_only_the_first() -> None:
    cluster = sp.Cluster.from_dump([node("a", taints=[taint("x")]), pod(cpu="9")])

    found = cluster.objections("default/p")

    assert found.plugins == ("TaintToleration", "NodeResourcesFit")
    assert cluster.why("p").causes[0].alone == []


def test_amounts_and_near_misses_come_first() -> None:
    objects = [
        node("a", taints=[taint("x")]),
        node("b", "8", taints=[taint("x")]),
        node("c", "6"),
        pod("old", "2500m", on="c"),
        pod(cpu="8"),
    ]

    first = sp.Cluster.from_dump(objects).why("p").causes[0]

    assert (first.plugin, first.alone) == ("TaintToleration", ["b"])
    cause = next(c for c in sp.Cluster.from_dump(objects).why("p").causes if "Fit" in c.plugin)
    assert cause.detail == ("wants 8 cpu; the most free on one node is 4 (a); 0 have 8 in all")


def test_a_freed_pod_says_who_else_moves() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "u"}
    replica_set = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "rs", "uid": "u", "namespace": "default"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "x"}},
            "template": {
                "metadata": {"labels": {"app": "x"}},
                "spec": pod("t", "2")["spec"],
            },
        },
    }
    old = pod("old", "2", on="a", labels={"app": "x"})
    old["metadata"] |= {"uid": "o", "ownerReferences": [{**owner, "controller": True}]}
    only_a = {"kubernetes.io/hostname": "a"}
    objects = [node("a", "2"), node("b", "2"), replica_set, old, pod(cpu="2", nodeSelector=only_a)]

    answer = sp.Cluster.from_dump(objects).why("p", fixes=10)

    freed = next(fix for fix in answer.fixes if fix.delete)
    assert freed.node == "a"
    assert any("is placed on b" in text for text in freed.moves)


def test_why_not_another_node() -> None:
    objects = [node("a"), node("b"), pod("old", "3", on="b"), pod(on="a")]
    cluster = sp.Cluster.from_dump(objects)

    answer = cluster.why("p", node="b")

    assert answer.node == "a"
    own, other = answer.scores["total"]
    assert own > other
    assert answer.weight, "a preference would have tipped it"
    assert cluster.why("p", node="a").other == "a"
    turned_down = sp.Cluster.from_dump([node("a"), node("b", taints=[taint("x")]), pod()])
    assert "TaintToleration" in turned_down.why("p", node="b").reason


def test_all_pending_pods_by_cause() -> None:
    objects = [
        node("a", taints=[taint("x")]),
        *(pod(f"t{n}") for n in range(3)),
        pod("g", schedulingGates=[{"name": "a.io/b"}]),
    ]

    answer = sp.Cluster.from_dump(objects).why()

    assert [(len(group.pods), group.helps) for group in answer.groups] == [(3, 3), (1, 1)]
    assert not answer
    assert sp.Cluster.from_dump([node("a"), pod()]).why()


def test_a_decision_explains_itself() -> None:
    cluster = sp.Cluster.from_dump([node("a", taints=[taint("x")]), pod()])
    cluster.run()

    assert (
        cluster.decision("default/p").explain().fixes[0].title == "tolerate the taint x:NoSchedule"
    )


def test_where_it_stands_is_told_as_the_question_found_it() -> None:
    """Backoff begins at a second and doubles with each attempt that fails."""
    cluster = sp.Cluster.from_dump([node("a"), pod(cpu="9")])
    cluster.run()
    place = cluster.place("default/p")

    line = str(cluster.why("p")).splitlines()[1]

    assert 0 < place.backoff_s <= 2 ** (place.attempts - 1)
    assert line.endswith(f", {place.backoff_s:g} s of backoff left")


@pytest.mark.parametrize("columns", [80, 60])
def test_text_fits_and_is_plain(tmp_path: Path, columns: int) -> None:
    hostile = taint("x", "a")
    path = written(tmp_path, [node("a", taints=[hostile]), pod(cpu="9")])

    code, text, _ = run("why", "p", "-f", path, columns=columns)

    assert code == 1
    assert max(map(len, text.splitlines())) <= columns
    assert "\x1b" not in text
    assert "tolerate the taint x=a:NoSchedule" in " ".join(text.split())


def test_control_characters_never_reach_the_terminal(tmp_path: Path) -> None:
    path = written(
        tmp_path, [node("a", labels={"disk": "s\x1b[31m"}), pod(nodeSelector={"disk": "s"})]
    )

    for output in ("text", "json", "yaml"):
        _, text, _ = run("why", "p", "-f", path, "-o", output)
        assert "\x1b" not in text


def test_exit_codes(tmp_path: Path) -> None:
    path = written(tmp_path, [node("a"), pod()])

    assert run("why", "p", "-f", path)[0] == 0
    assert run("why", "-f", path)[0] == 0
    assert run("why", "q", "-f", path)[0] == 2
    assert run("why", "p")[0] == 2
    assert run("why", "p", "-f", path, "--kubeconfig", "x")[0] == 2


def test_json_has_the_promised_shape_and_yaml_says_the_same(tmp_path: Path) -> None:
    path = written(tmp_path, [node("a", taints=[taint("x")]), pod()])

    answer = json.loads(run("why", "p", "-f", path, "-o", "json")[1])

    assert set(answer) == {"pod", "node", "causes", "fixes"}
    assert {"plugin", "reason", "nodes"} <= set(answer["causes"][0])
    assert set(answer["fixes"][0]) == {
        *("title", "changes", "create", "delete", "node", "evicts", "proven")
    }
    assert yaml.safe_load(run("why", "p", "-f", path, "-o", "yaml")[1]) == answer


def test_write_fix_writes_manifests_with_which_the_pod_has_a_node(tmp_path: Path) -> None:
    path = written(tmp_path, [node("a", taints=[taint("x")])])
    own = tmp_path / "pod.yaml"
    own.write_text(yaml.safe_dump(pod()))
    folder = tmp_path / "fix"

    run("why", "p", "-f", path, "-f", str(own), "--write-fix", str(folder))

    assert [file.name for file in folder.iterdir()] == ["pod-p.yaml"]
    assert run("why", "p", "-f", path, "-f", str(folder))[0] == 0


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"a": {"b/c": 1}}, {"a": {"b/c": 2, "~": 3}}),
        ({"a": [1, 2, 3]}, {"a": [1, 3]}),
        ({"a": [1]}, {"a": [1, 2, 3]}),
        ({"a": [{"b": 1}, {"b": 2}]}, {"a": [{"b": 1}, {"b": 3}]}),
        ({"a": [1, 2]}, {"a": [3]}),
        ({"a": 1}, {}),
    ],
)
def test_patches_do_what_they_say(before: Data, after: Data) -> None:
    assert apply_json_patch(before, json_patch(before, after)) == after
