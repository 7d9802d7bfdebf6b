"""`stowplan plugins` lists what a configuration may name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from stowplan.cli import main
from stowplan.plugins import IN_TREE


def listed(*args: str) -> dict[str, dict[str, Any]]:
    result = CliRunner().invoke(main, ["plugins", "-o", "json", *args])
    assert result.exit_code == 0
    return {entry["name"]: entry for entry in json.loads(result.stdout)["plugins"]}


def test_every_plugin_is_listed_and_described() -> None:
    entries = listed()

    assert list(entries) == sorted(IN_TREE)
    assert all(entry["description"] and entry["extensionPoints"] for entry in entries.values())


def test_an_entry() -> None:
    assert listed()["TaintToleration"] == {
        "name": "TaintToleration",
        "extensionPoints": ["filter", "preScore", "score"],
        "defaultWeight": 3,
        "inDefaultProfile": True,
        "description": "keep a pod off nodes whose taints it does not tolerate",
    }


def test_a_plugin_outside_the_default_profile() -> None:
    entry = listed()["QOSSort"]

    assert not entry["inDefaultProfile"]
    assert entry["defaultWeight"] is None


def test_the_table() -> None:
    result = CliRunner().invoke(main, ["plugins"])

    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert lines[0] == (
        "PLUGIN                           DEFAULT  WEIGHT  WHAT IT DOES [EXTENSION POINTS]"
    )
    assert (
        "NodeName                         yes           -  "
        "a pod that names its node goes there or nowhere [filter]"
    ) in lines


def test_a_plugin_of_ones_own() -> None:
    file = Path(__file__).parents[2] / "examples" / "plugins" / "team_nodes.py"

    entries = listed("--plugin-path", str(file))

    assert set(entries) == {*IN_TREE, "TeamNodes"}
    assert entries["TeamNodes"] == {
        "name": "TeamNodes",
        "extensionPoints": ["filter"],
        "defaultWeight": None,
        "inDefaultProfile": False,
        "description": "a node that belongs to a team runs that team's pods only",
    }
