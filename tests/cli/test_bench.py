"""`stowplan bench`, as a user types and reads it."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from stowplan.cli import main
from tests.bench.test_results import FIELDS

SMALL = ("SchedulingBasic/5Nodes", "--pods", "12")

OWN = """
- name: Mine
  workloadTemplate:
  - {opcode: createNodes, countParam: $initNodes}
  - {opcode: createPods, countParam: $measurePods, collectMetrics: true}
  workloads:
  - {name: tiny, params: {initNodes: 2, measurePods: 3}}
"""


def bench(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["bench", *arguments])


def test_json_is_what_others_read() -> None:
    answer = bench(*SMALL, "-o", "json")

    assert answer.exit_code == 0
    (result,) = json.loads(answer.stdout)["results"]
    assert set(result) == FIELDS
    assert result["workload"] == "SchedulingBasic/5Nodes"
    assert (result["nodes"], result["init_pods"], result["pods"]) == (5, 5, 12)


def test_sizes_can_be_chosen() -> None:
    answer = bench(
        "SchedulingBasic", "--nodes", "3", "--init-pods", "2", "--pods", "4", "-o", "json"
    )

    (result,) = json.loads(answer.stdout)["results"]
    assert (result["nodes"], result["init_pods"], result["pods"]) == (3, 2, 4)


def test_text_has_a_table_and_what_its_columns_mean() -> None:
    answer = bench(*SMALL)

    assert answer.exit_code == 0
    title, line, *rest = answer.stdout.splitlines()
    assert title.split()[:5] == ["WORKLOAD", "NODES", "INIT", "PODS", "PODS/S"]
    assert line.split()[:4] == ["SchedulingBasic/5Nodes", "5", "5", "12"]
    assert any(text.startswith("PODS/S: from the first pod created") for text in rest)
    assert any("12 scheduled" in text for text in rest)


def test_workloads_of_one_s_own(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(OWN)

    answer = bench("--file", str(file), "-o", "json")

    (result,) = json.loads(answer.stdout)["results"]
    assert (result["workload"], result["pods"]) == ("Mine/tiny", 3)


def test_a_list_of_what_there_is(tmp_path: Path) -> None:
    answer = bench("--list")

    assert answer.exit_code == 0
    lines = answer.stdout.splitlines()
    (basic,) = (line for line in lines if line.startswith("SchedulingBasic/5000Nodes_10000Pods "))
    assert basic.split()[1:3] == ["performance", "8,000"]
    assert "initNodes=5000" in basic
    assert any(line.startswith("StartUp/5000Nodes_50000Pods") for line in lines)
    file = tmp_path / "own.yaml"
    file.write_text(OWN)
    assert [
        line.split()[0] for line in bench("--list", "--file", str(file)).stdout.splitlines()
    ] == [
        "WORKLOAD",
        "Mine/tiny",
    ]


def test_comparing_with_an_earlier_result(tmp_path: Path) -> None:
    file = tmp_path / "before.json"
    earlier = json.loads(bench(*SMALL, "-o", "json").stdout)
    earlier["results"][0]["pods_per_s"] = 0.001
    file.write_text(json.dumps(earlier))

    answer = bench(*SMALL, "--compare", str(file))

    assert answer.exit_code == 0
    compared = answer.stdout.splitlines()[-2].split()
    assert compared[0] == "SchedulingBasic/5Nodes"
    assert float(compared[3].replace(",", "")) > 1000


def test_comparing_with_something_else_says_so(tmp_path: Path) -> None:
    file = tmp_path / "before.json"
    file.write_text('{"results": []}')

    answer = bench(*SMALL, "--compare", str(file))

    assert answer.exit_code == 0
    assert "none of these workloads" in answer.stdout


def test_a_flame_graph_is_written(tmp_path: Path) -> None:
    file = tmp_path / "flame.svg"

    answer = bench(*SMALL, "--profile", str(file))

    assert answer.exit_code == 0
    assert ET.parse(file).getroot().tag.endswith("svg")


@pytest.mark.slow
def test_several_workloads_run_each_in_a_process_of_its_own() -> None:
    answer = bench("SchedulingBasic/5Nodes", "TopologySpreading/5Nodes", "-o", "json")

    assert answer.exit_code == 0
    results = json.loads(answer.stdout)["results"]
    assert [result["workload"] for result in results] == [
        "SchedulingBasic/5Nodes",
        "TopologySpreading/5Nodes",
    ]


def test_help_shows_how() -> None:
    answer = bench("--help")

    assert "Examples:" in answer.stdout
    assert "stowplan bench SchedulingBasic" in answer.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("SchedulingBasics",), "no workload 'SchedulingBasics'"),
        (("SchedulingBasic/7Nodes",), "no workload 'SchedulingBasic/7Nodes'"),
        (("StartUp/many",), "no workload 'StartUp/many'"),
        (("SchedulingDaemonset", "--init-pods", "3"), "has no parameter 'initPods'"),
        (("SchedulingBasic", "--nodes", "0"), "--nodes"),
        (("SchedulingBasic", "--file", "none.yaml"), "none.yaml"),
        (("SchedulingBasic", "--compare", "none.json"), "none.json"),
        (("SchedulingBasic", "PreemptionBasic", "--profile", "x.svg"), "single workload"),
        (("SchedulingBasic", "-o", "xml"), "xml"),
        (("StartUp", "--cluster", "kubeconfig"), "embedded cluster only"),
    ],
)
def test_wrong_input_is_one_line_and_code_2(arguments: tuple[str, ...], words: str) -> None:
    answer = bench(*arguments)

    assert answer.exit_code == 2
    assert answer.stdout == ""
    first, *rest = answer.stderr.strip().splitlines()
    assert first.startswith("error: ")
    assert words in first
    assert all(line.startswith("  hint: ") for line in rest)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- {name: Mine}", "own.yaml: Mine"),
        (OWN.replace("createNodes", "createUnicorns"), "createUnicorns"),
        (OWN.replace("measurePods: 3", "measurePods: 3, more: 4"), "'more'"),
        ("{", "own.yaml"),
    ],
)
def test_a_wrong_file_is_named_with_the_place(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(text)

    answer = bench("--file", str(file))

    assert answer.exit_code == 2
    first = answer.stderr.splitlines()[0]
    assert first.startswith("error: ")
    assert words in first


def test_a_narrow_terminal_gets_the_columns_that_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stowplan.cli._output.terminal_width", lambda: 80)

    answer = bench(*SMALL)

    title, line, note, *_ = answer.stdout.splitlines()
    assert max(len(title), len(line)) <= 80
    assert {"WORKLOAD", "PODS/S", "P99"} <= set(title.split())
    assert note.startswith("No room for KUBE-SCHEDULER, KEPT")
