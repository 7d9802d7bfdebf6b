"""`stowplan plugins` lists what a configuration may name."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner

from stowplan.cli import main
from stowplan.plugins import IN_TREE


def listed() -> dict[str, dict[str, Any]]:
    result = CliRunner().invoke(main, ["plugins", "-o", "json"])
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
