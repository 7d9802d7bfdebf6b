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


def in_zone(name: str, cpu: str, zone: str) -> Any:
    made = node(name, cpu=cpu)
    made["metadata"]["labels"] = {"topology.kubernetes.io/zone": zone}
    return made


def test_who_of_a_gang_had_a_place_and_who_had_none(tmp_path: Path) -> None:
    result = ask(tmp_path, "dry-run", "-f", GANG, "--seed", "1")

    section = result.stdout.split("\n\n")[1].splitlines()
    assert section[0] == "group default/training needs 4 of its 4 pods; 2 had a place:"
    assert [line.endswith("had a place on node-1") for line in section[1:]] == [True, True, False]
    assert section[3].endswith(": 0/1 nodes are available: 1 Insufficient cpu.")
    assert result.stdout.count("waits for its group") == 2
    assert result.stdout.count("does not fit") == 2
    assert "nodes are available for" not in result.stdout


def test_the_domain_that_came_closest(tmp_path: Path) -> None:
    """zone-a has room for three of four.  zone-b is larger, and zone-d as large, but tainted."""
    nodes = [
        in_zone("a-1", "8", "zone-a"),
        in_zone("a-2", "4", "zone-a"),
        in_zone("b-1", "32", "zone-b"),
        in_zone("c-1", "8", "zone-c"),
        in_zone("d-1", "8", "zone-d"),
        in_zone("d-2", "4", "zone-d"),
    ]
    for closed in (nodes[2], nodes[4]):
        closed["spec"] = {"taints": [{"key": "closed", "effect": "NoSchedule"}]}
    zone = str(EXAMPLES / "zone.yaml")
    for seed in "1234":
        result = ask(tmp_path, "dry-run", "-f", zone, "--seed", seed, nodes=nodes)
        assert "TopologyAwareWorkloadScheduling, WorkloadAwarePreemption" in result.stderr
        assert "topology.kubernetes.io/zone=zone-a came closest: 3 of 4" in result.stdout
        assert ": 0/2 nodes are available: 2 Insufficient cpu." in result.stdout

    told = ask(tmp_path, "dry-run", "-f", zone, "--seed", "1", "-o", "json", nodes=nodes)
    (group,) = json.loads(told.stdout)["groups"]
    assert (group["name"], group["needed"], group["members"]) == ("default/serving", 4, 4)
    assert {*group["placed"].values()} == {"a-1", "a-2"}
    assert len(group["unplaced"]) == 1
    assert group["topology"]["closest"] == "zone-a"
    assert group["topology"]["placed"]["zone-a"] == 3


def test_json_of_members_names_their_group_and_yaml_says_the_same(tmp_path: Path) -> None:
    words = ("dry-run", "-f", GANG, "--seed", "1", "-o")
    data = json.loads(ask(tmp_path, *words, "json").stdout)
    told = {"name": "default/training", "needed": 4, "members": 4, "scheduled": 0, "placed": 2}
    assert [each["group"] for each in data["decisions"]] == [told] * 4
    assert yaml.safe_load(ask(tmp_path, *words, "yaml").stdout) == data

    placed = json.loads(ask(tmp_path, *words, "json", nodes=[node("large", cpu="16")]).stdout)
    assert [each["group"]["placed"] for each in placed["decisions"]] == [4] * 4
    assert "groups" not in placed


def test_why_says_what_the_gang_lacks_and_proves_a_fix(tmp_path: Path) -> None:
    result = ask(tmp_path, "why", "job/training", "-f", GANG)

    assert result.exit_code == 1
    assert "has no node: its group was not placed" in result.stdout
    assert "Its group default/training needs 4 of its 4 pods; 2 had a place:" in result.stdout
    assert "1. add a node like node-1" in result.stdout


def test_names_of_a_group_are_text(tmp_path: Path) -> None:
    """A dump may hold names that no API server would take; none of them steers a terminal."""
    objects = [*yaml.safe_load_all(Path(GANG).read_text())]
    name = "evil\x1b[2J\u202e"
    objects[0]["metadata"]["name"] = name
    objects[1]["spec"]["template"]["spec"]["schedulingGroup"]["podGroupName"] = name
    path = tmp_path / "gang.json"
    path.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": objects}))
    for words in (("dry-run",), ("why", "job/training"), ("dry-run", "-o", "json")):
        result = ask(tmp_path, words[0], *words[1:], "-f", str(path))
        assert "\x1b" not in result.output
        assert "\u202e" not in result.output
        assert "evil" in result.output


@pytest.mark.slow
def test_a_large_gang_is_told_how_many_nodes_it_lacks(tmp_path: Path) -> None:
    """Nine pods, two to a node: four more nodes, whichever member is asked about."""
    group, job = yaml.safe_load_all(Path(GANG).read_text())
    group["spec"]["schedulingPolicy"]["gang"]["minCount"] = 9
    job["spec"] |= {"parallelism": 9, "completions": 9}
    nodes = [node("node-1", cpu="8"), group, job]

    overview = ask(tmp_path, "why", "-o", "json", nodes=nodes)
    (told,) = json.loads(overview.stdout)["pending"]
    assert told["message"] == "group default/training needs 9 of its 9 pods; 2 had a place"
    assert (told["fix"]["title"], told["helps"]) == ("add 4 nodes like node-1", 9)
    for pod in (told["pods"][0], told["pods"][-1]):
        answer = json.loads(ask(tmp_path, "why", pod, "-o", "json", nodes=nodes).stdout)
        best, *others = (fix["title"] for fix in answer["fixes"])
        assert best == "add 4 nodes like node-1"
        # Which two go first is chance; with fewer members than it asks for the others still wait.
        assert set(others) <= {"let the group default/training need 2 pods instead of 9"}
        assert len(answer["group"]["placed"]) == 2


@pytest.mark.parametrize("nodes", [[], [node("node-1", cpu="32")]], ids=["no node", "a node"])
def test_a_gang_with_too_few_pods(tmp_path: Path, nodes: list[Any]) -> None:
    group, job = yaml.safe_load_all(Path(GANG).read_text())
    job["spec"] |= {"parallelism": 3, "completions": 3}

    result = ask(tmp_path, "why", "job/training", nodes=[*nodes, group, job])

    assert result.exit_code == 1
    assert "group default/training needs 4, and has 3 pods" in result.stdout
