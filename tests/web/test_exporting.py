"""The command line that a fork is exported as asks the same, and is told the same."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

import stowplan as sp
from stowplan.cli import main
from stowplan.web.asking import Ask
from stowplan.web.worlds import Worlds
from tests.web.test_page import pod
from tests.world.things import deployment

PARTS = ("moved", "placed", "pending", "gone", "blocked")

CORDON = {"verb": "cordon", "node": "node-1"}
TAINT = {"verb": "taint", "node": "node-3", "taint": "team=x:NoExecute"}
ADD = {"verb": "addNodes", "like": "node-1", "count": 2}
DRAIN = {"verb": "drain", "node": "node-4"}
SCALE = {"verb": "scale", "workload": "deployment/default/web", "replicas": 9}
APPLY = {"verb": "apply", "text": yaml.safe_dump(pod("new", "2"))}
EDIT = {"verb": "edit", "text": yaml.safe_dump(pod("big", "2"))}
WEIGH = {
    "verb": "weigh",
    "profile": "default-scheduler",
    "weights": {"NodeResourcesFit": 9, "PodTopologySpread": 0},
}

CHANGES: dict[str, list[dict[str, Any]]] = {
    "options": [CORDON, TAINT, ADD, SCALE, DRAIN],
    "one node twice": [CORDON, {"verb": "uncordon", "node": "node-1"}, SCALE],
    "nodes of two sorts": [ADD, {**ADD, "like": "node-3"}, EDIT],
    "files": [APPLY, EDIT, {"verb": "delete", "name": "default/small-1"}],
    "a node goes": [EDIT, {"verb": "remove", "node": "node-3"}, DRAIN],
    "weights": [WEIGH, SCALE],
    "weights and files": [WEIGH, APPLY, SCALE],
    "nothing": [],
}


def write_dump(path: Path) -> None:
    """Nodes and workloads; the rest is decided by who reads it, here and there."""
    with sp.Cluster() as made:
        made.add_nodes(4, cpu=4, zones=2)
        nodes = [made.get("Node", node.name) for node in made.nodes()]
    things = [*nodes, deployment("web", 4), pod("small-1"), pod("big", "64")]
    path.write_text(yaml.safe_dump_all(things))


def asked(worlds: Worlds, changes: list[dict[str, Any]], dump: Path) -> str:
    cluster = sp.Cluster.from_dump(str(dump))
    world = worlds.create(cluster)["id"]
    for change in changes:
        worlds.change(Ask((world,), body=change))
    return str(world)


def comparable(told: dict[str, Any]) -> dict[str, Any]:
    """Changes made one by one or all at once: replicas get other names, and equally good nodes."""
    names = {part: Counter(re.sub(r"-\w{5}$", "", pod) for pod in told[part]) for part in PARTS}
    whole = told["after"]["fill"]["all nodes"]
    nodes = [set(told[part]) for part in ("nodesAdded", "nodesRemoved")]
    return {**names, "nodes": nodes, "whole": whole, "pending": told["after"]["pending"]}


@pytest.mark.parametrize("name", CHANGES)
def test_the_command_is_told_the_same(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dump = tmp_path / "cluster.yaml"
    write_dump(dump)
    worlds = Worlds(("-f", "cluster.yaml"))
    world = asked(worlds, CHANGES[name], dump)
    here = worlds.difference(Ask((world,)))
    told = worlds.export(Ask((world,)))
    for file, text in told["files"].items():
        (tmp_path / file).write_text(text)
    monkeypatch.chdir(tmp_path)

    words = shlex.split(told["command"])
    result = CliRunner().invoke(main, [*words[1:], "-o", "json"])

    assert result.exit_code in (0, 1), result.output
    there = json.loads(result.stdout)
    assert words[:4] == ["stowplan", "what-if", "-f", "cluster.yaml"]
    assert bool(told["files"]) == (name not in ("options", "nothing")), told["command"]
    assert comparable(there) == comparable(here)


def test_a_fix_is_exported_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dump = tmp_path / "cluster.yaml"
    write_dump(dump)
    title = sp.Cluster.from_dump(str(dump)).why("default/big").fixes[0].title
    worlds = Worlds(("-f", "cluster.yaml"))
    world = asked(worlds, [{"verb": "fix", "pod": "default/big", "title": title}], dump)
    told = worlds.export(Ask((world,)))
    (tmp_path / f"{world}.yaml").write_text(told["files"][f"{world}.yaml"])
    monkeypatch.chdir(tmp_path)

    result = CliRunner().invoke(main, [*shlex.split(told["command"])[1:], "-o", "json"])

    assert json.loads(result.stdout)["placed"].keys() == {"default/big"}, result.output
