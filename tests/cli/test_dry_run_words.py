"""`stowplan dry-run` on manifests as somebody types them, and what it shows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from stowplan.cli import main
from tests.world.things import deployment, node, pod


def run(folder: Path, objects: list[Any], *arguments: str) -> Result:
    path = folder / "cluster.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    return CliRunner().invoke(main, ["dry-run", "-f", str(path), *arguments])


@pytest.mark.parametrize(
    ("wrong", "path", "meant"),
    [
        ({"nodeselector": {"a": "b"}}, "spec.nodeselector", "nodeSelector"),
        ({"toleration": []}, "spec.toleration", "tolerations"),
        (
            {"containers": [{"name": "c", "resource": {"requests": {"cpu": "1"}}}]},
            "spec.containers[0].resource",
            "resources",
        ),
    ],
    ids=["nodeselector", "toleration", "resource"],
)
def test_a_field_that_does_not_exist_is_refused_with_what_was_meant(
    tmp_path: Path, wrong: Any, path: str, meant: str
) -> None:
    made = pod("p")
    made["spec"] |= wrong

    result = run(tmp_path, [node("a"), made])

    assert result.exit_code == 2
    assert f"Pod default/p: unknown field '{path}'" in result.stderr
    assert f"did you mean '{meant}'?" in result.stderr
    assert not result.stdout
    assert run(tmp_path, [node("a"), made], "--lenient").exit_code == 0


def test_an_object_of_an_api_server_may_have_fields_we_do_not_know(tmp_path: Path) -> None:
    made = pod("p")
    made["metadata"]["uid"] = "u"
    made["spec"]["fieldOfTheNextVersion"] = 1

    assert run(tmp_path, [node("a"), made]).exit_code == 0


def test_doubles_and_empty_workloads_are_noted(tmp_path: Path) -> None:
    result = run(tmp_path, [node("a"), pod("p"), pod("p"), deployment("web", 0)])

    assert "note: given twice, taken once: Pod default/p" in result.stderr
    assert "note: makes no pods: Deployment default/web" in result.stderr


def test_one_pod_can_be_shown(tmp_path: Path) -> None:
    objects = [node("a"), pod("p"), pod("q")]

    shown = run(tmp_path, objects, "--pod", "q", "--seed", "1").stdout

    assert "default/q" in shown
    assert "default/p" not in shown
    wrong = run(tmp_path, objects, "--pod", "default/r")
    assert wrong.exit_code == 2
    assert "did you mean" in wrong.stderr


def test_wide_shows_amounts(tmp_path: Path) -> None:
    lines = run(tmp_path, [node("a"), pod("p", "1500m")], "-o", "wide").stdout.splitlines()

    assert lines[0].split() == ["POD", "NODE", "SCORE", "CPU", "MEMORY", "OTHERS"]
    assert lines[1].split()[3] == "1.5"


def test_chance_is_named_unless_there_is_a_seed(tmp_path: Path) -> None:
    objects = [node("a"), node("b"), pod("p")]

    assert "by chance" in run(tmp_path, objects).stdout
    assert "by chance" not in run(tmp_path, objects, "--seed", "1").stdout
    assert "by chance" not in run(tmp_path, objects, "--tie-break", "name").stdout


@pytest.mark.slow
def test_a_closed_pipe_is_no_failure(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump_all([node("a"), *(pod(f"p{n}") for n in range(300))]))
    command = [sys.executable, "-m", "stowplan", "dry-run", "-f", str(path), "-o", "json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        complaint = process.stderr.read()

    assert process.returncode == 0
    assert complaint == b""
