"""Groups on the command line: gates that are implied, and what is said of a group without room."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from stowplan.cli import main
from tests.world.things import node

EXAMPLES = Path(__file__).parents[2] / "examples" / "groups"
GANG = str(EXAMPLES / "gang.yaml")


def ask(folder: Path, *words: str, nodes: list[Any] | None = None) -> Result:
    path = folder / "nodes.yaml"
    path.write_text(yaml.safe_dump_all(nodes or [node("node-1", cpu="8")]))
    command, *rest = words
    return CliRunner().invoke(main, [command, "-f", str(path), *rest])


def test_an_input_with_groups_is_decided_with_their_gates(tmp_path: Path) -> None:
    result = ask(tmp_path, "dry-run", "-f", GANG, "--seed", "1")
    assert "note: the input has groups: decided with GenericWorkload, GangSch" in result.stderr
    assert "4 pods: 0 placed; 4 without a node" in result.stdout

    off = ask(tmp_path, "dry-run", "-f", GANG, "--seed", "1", "--feature-gates=GangScheduling=0")
    assert "the input has groups" not in off.stderr
    assert "4 pods: 2 placed; 2 without a node" in off.stdout


@pytest.mark.parametrize("command", ["dry-run", "why", "what-if"])
def test_gates_are_checked_as_those_of_run(tmp_path: Path, command: str) -> None:
    result = ask(tmp_path, command, "--feature-gates", "GangScheduling=true")
    assert result.exit_code == 2
    assert "GangScheduling is enabled, but depends on features" in result.stderr

    result = ask(tmp_path, command, "--feature-gates", "Gangs=true")
    assert result.exit_code == 2
    assert "unrecognized feature gate: Gangs" in result.stderr


def test_groups_among_what_is_applied_count_too(tmp_path: Path) -> None:
    result = ask(tmp_path, "what-if", "--apply", GANG, "-o", "json")
    assert "the input has groups" in result.stderr
    assert not json.loads(result.stdout)["placed"]


def test_another_configuration_keeps_the_gates(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    )
    result = ask(tmp_path, "what-if", "-f", GANG, "--new-config", str(config), "-o", "json")
    assert not json.loads(result.stdout)["placed"]
