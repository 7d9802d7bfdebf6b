"""`stowplan dry-run`, as a user types and reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from stowplan.cli import main
from tests.conformance.compare import differences
from tests.conformance.run_golden import scenarios

NODES = """\
apiVersion: v1
kind: Node
metadata: {name: node-a, labels: {kubernetes.io/hostname: node-a}}
status: {allocatable: {cpu: 2, memory: 8Gi, pods: 110}}
---
apiVersion: v1
kind: Node
metadata: {name: node-b, labels: {kubernetes.io/hostname: node-b}}
spec: {taints: [{key: gpu, effect: NoSchedule}]}
status: {allocatable: {cpu: 2, memory: 8Gi, pods: 110}}
"""

PODS = """\
apiVersion: v1
kind: Pod
metadata: {name: batch, namespace: night}
spec: {nodeName: node-a, containers: [{name: c, resources: {requests: {cpu: 1500m}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: checkout}
spec: {priority: 100, containers: [{name: c, resources: {requests: {cpu: 1}}}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: huge}
spec:
  replicas: 5
  selector: {matchLabels: {app: huge}}
  template:
    metadata: {labels: {app: huge}}
    spec: {containers: [{name: c, resources: {requests: {cpu: 16}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: gated}
spec: {schedulingGates: [{name: example.com/quota}], containers: [{name: c}]}
---
apiVersion: v1
kind: Pod
metadata: {name: small}
spec: {containers: [{name: c, resources: {limits: {cpu: 500m}}}]}
"""

REPORT = """\
POD               NODE    SCORE
default/checkout  node-a    SCORE_1  evicts 1 pod
default/huge-0    -           -  does not fit
default/huge-1    -           -  does not fit
default/huge-2    -           -  does not fit
default/huge-3    -           -  does not fit
default/huge-4    -           -  does not fit
default/gated     -           -  waiting for scheduling gates: [example.com/quota]
default/small     node-a    SCORE_2

default/checkout evicts 1 pod from node-a first:
  night/batch

0/2 nodes are available for default/huge-0, default/huge-1, default/huge-2 and 2 more:
  1  Insufficient cpu
  1  node(s) had untolerated taint(s)
  preemption: 2 Preemption is not helpful for scheduling.

8 pods: 2 placed, evicting 1 pod; 5 without a node; 1 gated
Ties between nodes were broken by chance; `--seed N` repeats a run.
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    Path("nodes.yaml").write_text(NODES)
    Path("pods.yaml").write_text(PODS)

    def call(*arguments: str, stdin: str = "") -> Result:
        return CliRunner().invoke(main, ["dry-run", *arguments], input=stdin)

    return call


def test_the_report(run: Any) -> None:
    result = run("-f", "nodes.yaml", "-f", "pods.yaml")

    assert result.exit_code == 0
    assert result.stderr == ""
    scores = [row.split()[2] for row in result.stdout.splitlines() if " node-a " in row][:2]
    assert all(score.isdigit() for score in scores)
    expected = REPORT.replace("SCORE_1", scores[0]).replace("SCORE_2", scores[1])
    assert result.stdout == expected


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["-f", "nodes.yaml", "pods.yaml"], id="as-a-shell-expands-a-star"),
        pytest.param(["-f", "."], id="a-folder"),
        pytest.param(["-f", "nodes.yaml", "-f", "-"], id="standard-input"),
    ],
)
def test_ways_to_name_the_input(run: Any, arguments: list[str]) -> None:
    expected = run("-f", "nodes.yaml", "-f", "pods.yaml").stdout

    assert run(*arguments, stdin=PODS).stdout == expected


def test_json_and_yaml_mean_the_same(run: Any) -> None:
    yaml = run("-f", ".", "-o", "json", "--tie-break", "name")
    from stowplan.objects.manifests import read_manifests

    objects = [data for _, data in read_manifests(f"{NODES}---\n{PODS}".encode(), "")]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    stream = "\n".join(json.dumps(data) for data in objects)

    assert run("-f", "-", "-o", "json", "--tie-break", "name", stdin=listed).stdout == yaml.stdout
    assert run("-f", "-", "-o", "json", "--tie-break", "name", stdin=stream).stdout == yaml.stdout


def test_json_has_every_decision_in_full(run: Any) -> None:
    result = run("-f", "nodes.yaml", "-f", "pods.yaml", "-o", "json")

    data = json.loads(result.stdout)
    assert list(data) == ["decisions"]
    first, second, *_, last = data["decisions"]
    assert first == {
        "pod": "default/checkout",
        "feasible": [],
        "rejected": {
            "node-a": {
                "plugin": "NodeResourcesFit",
                "code": "Unschedulable",
                "reasons": ["Insufficient cpu"],
            },
            "node-b": {
                "plugin": "TaintToleration",
                "code": "UnschedulableAndUnresolvable",
                "reasons": ["node(s) had untolerated taint(s)"],
            },
        },
        "unschedulablePlugins": ["NodeResourcesFit", "TaintToleration"],
        "message": "0/2 nodes are available: 1 Insufficient cpu, "
        "1 node(s) had untolerated taint(s).",
        "nominatedNode": "node-a",
        "victims": ["night/batch"],
    }
    assert (second["pod"], second["feasible"], second["chosen"]) == (
        "default/checkout",
        ["node-a"],
        "node-a",
    )
    assert second["totals"] == {"node-a": sum(second["scores"]["node-a"].values())}
    assert last["pod"] == "default/small"
    assert len(data["decisions"]) == 9


@pytest.mark.parametrize("output", ["text", "json"])
def test_the_exit_code_can_tell_whether_all_pods_fit(run: Any, output: str) -> None:
    fits = NODES + "---\n" + PODS.rpartition("---\n")[2]

    assert run("-f", ".", "-o", output).exit_code == 0
    assert run("-f", ".", "-o", output, "--exit-code").exit_code == 1
    assert run("-f", "-", "-o", output, "--exit-code", stdin=fits).exit_code == 0


def test_a_pod_that_preempted_has_its_node_in_the_end(run: Any) -> None:
    checkout = "---\n".join([NODES, *PODS.split("---\n")[:2]])

    for output in ("text", "json"):
        assert run("-f", "-", "-o", output, "--exit-code", stdin=checkout).exit_code == 0


# -- remarks ---------------------------------------------------------------------------------


def test_no_pending_pods(run: Any) -> None:
    result = run("-f", "nodes.yaml", "-o", "json")

    assert result.exit_code == 0
    assert json.loads(result.stdout) == {"decisions": []}
    assert result.stderr.startswith("note: nothing to decide: there are no pods\n  hint: a pending")


def test_all_pods_have_a_node(run: Any) -> None:
    result = run("-f", "-", stdin=f"{NODES}---\n{PODS.partition('---')[0]}")

    assert result.stdout == ""
    assert result.stderr.startswith("note: nothing to decide: the only pod has a node\n")


def test_no_nodes(run: Any) -> None:
    result = run("-f", "-", stdin=PODS.rpartition("---\n")[2])

    assert result.exit_code == 0
    assert result.stderr == (
        "note: the input has no nodes\n  hint: add them, as `kubectl get nodes -o yaml`\n"
    )
    assert result.stdout == (
        "POD            NODE  SCORE\n"
        "default/small  -         -  does not fit\n"
        "\n"
        "0/0 nodes are available for default/small:\n"
        "  no nodes available to schedule pods\n"
        "\n"
        "1 pod: 0 placed; 1 without a node\n"
    )


def test_pods_on_nodes_that_are_not_there(run: Any) -> None:
    result = run(
        "-f",
        ".",
        "-f",
        "-",
        stdin=PODS.partition("---")[0]
        .replace("node-a", "node-x")
        .replace("name: batch", "name: lost"),
    )

    assert result.stderr == "note: 1 pod on nodes that are not in the input: node-x\n"


def test_pods_of_other_schedulers(run: Any) -> None:
    other = "---\n".join(
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\n"
        f"spec: {{schedulerName: {scheduler}, containers: [{{name: c}}]}}\n"
        for name, scheduler in (("a", "volcano"), ("b", "default-schedular"))
    )

    result = run("-f", "nodes.yaml", "-f", "-", stdin=other)

    assert result.stdout == ""
    assert result.stderr == (
        "note: no profile is for scheduler 'volcano', so not decided: default/a\n"
        "  hint: there are profiles for: default-scheduler\n"
        "note: no profile is for scheduler 'default-schedular', so not decided: default/b\n"
        "  hint: did you mean 'default-scheduler'?\n"
    )


CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
"""


def test_extenders_are_not_called(run: Any) -> None:
    extender = "extenders: [{urlPrefix: 'http://extender.example', filterVerb: filter}]\n"
    Path("config").write_text(CONFIG + extender)

    result = run("-f", ".", "--config", "config", "-o", "json")

    assert result.stderr == (
        "note: extenders are not called in a dry run: http://extender.example\n"
    )
    assert json.loads(result.stdout)["decisions"]


# -- wrong input -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        pytest.param([], "", "no file is given\n  hint: name one with `-f FILE`", id="no-file"),
        pytest.param(
            ["-f", "node.yaml"],
            "",
            "node.yaml: there is no such file\n  hint: did you mean 'nodes.yaml'?",
            id="misspelled-file",
        ),
        pytest.param(["-f", "empty"], "", "empty: no file in it ends with .json, .y", id="folder"),
        pytest.param(["-f", "-"], " \n", "standard input: the file is empty", id="empty"),
        pytest.param(
            ["-f", "-", "-f", "-"], "", "-: standard input can be read only once", id="twice"
        ),
        pytest.param(
            ["-f", "-"],
            "NAME   READY\nweb-1  1/1\n",
            "standard input:1: no Kubernetes objects\n  hint: this looks like a table; ask kube",
            id="a-table",
        ),
        pytest.param(
            ["-f", "-"],
            NODES + "---\n- 1\n",
            "standard input:12: found [1]\n  hint: a Kubernetes object is a mapping",
            id="no-object",
        ),
        pytest.param(["-f", "-"], "{", "standard input:1: not readable as JSON: ", id="half-json"),
        pytest.param(
            ["-f", "-"], "a: b: c", "standard input:1: not readable as YAML: ", id="bad-yaml"
        ),
        pytest.param(
            ["-f", "-"],
            "kind: Pod\n\tapiVersion: v1\n",
            "standard input:2: not readable as YAML: while scanning a plain scalar, found a tab "
            "character that violates indentation\n  hint: YAML indents with blanks",
            id="tab",
        ),
        pytest.param(
            ["-f", "-"],
            "\x00\x01\x02",
            "standard input: not readable as YAML: unacceptable character #x0000: control "
            "characters are not allowed\n  hint: is it a text file, in UTF-8?\n",
            id="binary",
        ),
        pytest.param(
            ["-f", "-"],
            NODES.replace("name: node-a", "name: n"),
            "standard input: Node (no name): metadata.name: expected `str`, got `bool`\n"
            "  hint: put the value in quotes",
            id="a-word-that-is-no-text",
        ),
        pytest.param(
            ["-f", "nodes.yaml", "-f", "-"],
            PODS.replace("cpu: 500m", "cpu: 500 m"),
            "standard input: Pod default/small: spec.containers[0].resources.limits.cpu: ",
            id="bad-quantity",
        ),
        pytest.param(
            ["-f", ".", "-f", "-"],
            NODES.replace("cpu: 2", "cpu: 4"),
            "standard input: Node node-a: the object comes twice, and the two differ\n"
            "  hint: the other one is in nodes.yaml; keep one of them",
            id="two-that-differ",
        ),
        pytest.param(
            ["-f", ".", "--config", "nodes.yaml"], "", "nodes.yaml:1, apiVersion: ", id="config"
        ),
        pytest.param(
            ["-f", ".", "--tie-break", "nam"],
            "",
            "invalid value for '--tie-break': 'nam'",
            id="tie",
        ),
        pytest.param(["-f", ".", "--seed", "x"], "", "invalid value for '--seed': 'x'", id="seed"),
    ],
)
def test_wrong_input_is_refused_and_nothing_decided(
    run: Any, arguments: list[str], stdin: str, message: str
) -> None:
    Path("empty").mkdir()

    result = run(*arguments, stdin=stdin)

    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"error: {message}")
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("verbose", [False, True])
def test_a_plugin_that_fails_says_where_and_with_verbose_how(run: Any, verbose: bool) -> None:
    Path("fragile.py").write_text(
        "class Fragile:\n    name = 'Fragile'\n    def __init__(self, args, handle): ...\n"
        "    def filter_node(self, cycle, pod, node):\n        return {}[pod.key]\n"
    )
    config = "profiles: [{plugins: {filter: {enabled: [{name: Fragile}]}}}]\n"
    Path("config.yaml").write_text(CONFIG + config)
    node = (
        "{apiVersion: v1, kind: Node, metadata: {name: node-1}, status: {allocatable: {pods: 9}}}"
    )
    pod = "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c}]}}"
    Path("objects.yaml").write_text(f"{node}\n---\n{pod}\n")
    flags = ["-f", "objects.yaml", "--config", "config.yaml", "--plugin-path", "fragile.py"]

    result = run(*flags, *(["--verbose"] if verbose else []))

    place = Path("fragile.py").resolve()
    assert (
        f"running \"Fragile\" filter plugin: KeyError: 'default/web' ({place}:5)" in result.stdout
    )
    assert ("Traceback" in result.stderr) == verbose


def test_a_misspelled_plugin(run: Any) -> None:
    score = "profiles: [{plugins: {score: {enabled: [{name: NodeResourceFit}]}}}]\n"
    Path("config").write_text(CONFIG + score)

    result = run("-f", ".", "--config", "config")

    assert result.exit_code == 2
    assert result.stderr.endswith("hint: did you mean 'NodeResourcesFit'?\n")


# -- the same as kube-scheduler --------------------------------------------------------------


@pytest.mark.parametrize("family", ["configured", "preemption", "volumes"])
def test_golden_scenarios(run: Any, family: str) -> None:
    for scenario, _ in zip(scenarios(family), range(2), strict=False):
        arguments = ["-f", "-", "-o", "json", "--tie-break", "name"]
        if scenario["config"]:
            Path("config.json").write_text(json.dumps(scenario["config"]))
            arguments += ["--config", "config.json"]

        result = run(*arguments, stdin=json.dumps(scenario["cluster"]))

        assert result.exit_code == 0
        decisions = json.loads(result.stdout)["decisions"]
        assert differences(scenario["expected"], decisions) == [], scenario["name"]
