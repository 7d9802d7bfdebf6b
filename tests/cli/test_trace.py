"""`stowplan trace`: from a source to a file and on, with dirt said on stderr."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import stowplan as sp
from stowplan.cli import main


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["trace", *map(str, arguments)])


@pytest.mark.slow
def test_each_command_writes_a_trace_that_the_next_reads(tmp_path: Path) -> None:
    made, part, large = (tmp_path / f"{name}.stowtrace" for name in ("made", "part", "large"))

    said = run(
        "synthesise", "--from", "openb", "--nodes", 20, "--pods", 500, "--days", 2, "-o", made
    )
    assert said.output.startswith(f"{made}: 500 pods, 20 nodes, ")
    assert (
        run("cut", made, "--from", "1h", "--to", "1d", "--share", "0.5", "-o", part).exit_code == 0
    )
    assert run("scale", part, "2", "--jitter", "10m", "-o", large).exit_code == 0
    assert run("shuffle", large, "--seed", "7", "-o", large).exit_code == 0
    assert run("superpose", part, large, "--nodes", "first", "-o", made).exit_code == 0
    assert run("convert", made, "-o", tmp_path / "again.stowtrace").exit_code == 0

    counts = [sp.read_trace(path).pod_count for path in (part, large, made)]
    assert counts[1] == 2 * counts[0]
    assert counts[2] == 3 * counts[0]
    assert (tmp_path / "again.stowtrace").read_bytes() == made.read_bytes()


def test_inspect_says_what_a_trace_is_like() -> None:
    text, data = run("inspect", "openb"), run("inspect", "openb", "-o", "json")

    assert text.output.startswith("openb: 149 d, 1,523 nodes, 8,152 pods\n")
    assert json.loads(data.output)["pods"]["outcomes"] == {
        "succeeded": 192,
        "failed": 1870,
        "deleted": 6090,
    }


def test_dirt_is_said_on_stderr(tmp_path: Path) -> None:
    (tmp_path / "vm.csv").write_text(
        "vmId,tenantId,vmTypeId,priority,starttime,endtime\n1,1,10,0,2,1\n2,1,10,0,2,\x1b[31m\n"
    )
    (tmp_path / "vmType.csv").write_text("vmTypeId,core,memory,ssd,nic\n10,0.5,0.5,0,0\n")

    said = run("convert", tmp_path, "--mapping", "azure-2020", "-o", tmp_path / "a.stowtrace")

    assert said.exit_code == 0
    assert "note: 1 pods that end before they arrive: left out (vm.csv:2)\n" in said.stderr
    assert "note: 1 rows whose endtime is no number: left out (vm.csv:3: " in said.stderr
    assert "\x1b" not in said.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["inspect", "nowhere"], "error: nowhere: no such trace\n"),
        (["cut", "openb", "--from", "soon", "-o", "x"], "error: --from: 'soon' is no length"),
        (["scale", "openb", "0", "-o", "x"], "error: 0.0 is no factor\n"),
        (["inspect", "openb", "--table", "pods=x"], "error: tables without a mapping\n"),
        (["cut", "openb"], "error: missing option '-o' / '--output'\n"),
        (["eat"], "error: no command 'eat'\n"),
    ],
)
def test_a_wrong_question_is_one_line_and_a_hint(arguments: list[str], problem: str) -> None:
    said = run(*arguments)

    assert said.exit_code == 2
    assert said.stderr.startswith(problem)
    assert "  hint: " in said.stderr
