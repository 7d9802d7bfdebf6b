"""Names, messages, files of others: nothing in them reaches a terminal, table or JSON as it is."""

from __future__ import annotations

import ast
import json
import os
import pty
import re
import select
import subprocess
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from stowplan.cli import main
from stowplan.cli._output import Column, table_lines

EVIL = "a\x1b]0;owned\x07\x1b[2J\x9b31m\x85b\nnote: forged\r\x7f\u202egnp\u2028c"


def unsafe(text: str) -> list[str]:
    """Controls (Cc), marks that turn text around (Cf), and separators of lines (Zl, Zp)."""
    return [
        c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp", "Cs") and c != "\n"
    ]


def assert_safe(answer: Result) -> None:
    for text in (answer.stdout, answer.stderr):
        assert not unsafe(text), unsafe(text)
        assert not any(line.startswith("note: forged") for line in text.splitlines())


def write(path: Path, *objects: dict[str, Any]) -> str:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
    return str(path)


def node(name: str) -> dict[str, Any]:
    taint = {"key": EVIL, "value": EVIL, "effect": "NoSchedule"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {EVIL: EVIL}},
        "spec": {"taints": [taint]} if name.startswith("tainted") else {},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    }


def pod(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": EVIL, "resources": {"requests": {"cpu": spec.pop("cpu", "1")}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": EVIL, "annotations": {EVIL: EVIL}},
        "spec": {"containers": [container], **spec},
    }


@pytest.mark.parametrize("output", ["text", "json"])
def test_dry_run(tmp_path: Path, output: str) -> None:
    file = write(
        tmp_path / "objects.json",
        node(f"node-{EVIL}"),
        node("tainted"),
        pod(f"fits-{EVIL}"),
        pod(f"large-{EVIL}", cpu="64"),
        pod(f"gated-{EVIL}", schedulingGates=[{"name": EVIL}]),
        pod(f"foreign-{EVIL}", schedulerName=EVIL),
    )

    answer = CliRunner().invoke(main, ["dry-run", "-f", file, "-o", output])

    assert_safe(answer)
    if output == "json" and answer.stdout:
        pods = {decision["pod"] for decision in json.loads(answer.stdout)["decisions"]}
        assert f"{EVIL}/fits-{EVIL}" in pods, "JSON says what it is"
    else:
        assert "\\x1b" in answer.output


@pytest.mark.parametrize(
    "arguments",
    [
        ["dry-run", "-f", EVIL],
        ["dry-run", "--config", EVIL, "-f", "-"],
        ["dry-run", "-f", "-", "--tie-break", EVIL],
        ["plugins", "--plugin-path", EVIL],
        ["bench", EVIL],
        ["bench", "--file", EVIL],
        ["run", "--config", EVIL],
        ["run", "--kubeconfig", EVIL],
        ["run", "--vmodule", EVIL],
        ["up", "--data", f"/dev/null/{EVIL}"],
        ["up", "--token-file", EVIL],
        [EVIL],
    ],
    ids=lambda arguments: " ".join(arguments[:2]).encode("ascii", "backslashreplace").decode(),
)
@pytest.mark.parametrize("verbose", [False, True])
def test_complaints(arguments: list[str], verbose: bool) -> None:
    more = ["--verbose"] if verbose and len(arguments) > 1 else []

    answer = CliRunner().invoke(main, [*arguments, *more])

    assert answer.exit_code not in (0, 70), answer.output
    assert answer.stderr
    assert_safe(answer)


@pytest.mark.parametrize("output", ["text", "json"])
def test_plugins(tmp_path: Path, output: str) -> None:
    source = f'"""What {EVIL!r} does."""\n'.replace("\\", "\\")
    source += (
        f"class Evil:\n    name = {EVIL!r}\n    def filter_node(self, cycle, pod, node): ...\n"
    )
    (tmp_path / "evil.py").write_text(source)

    answer = CliRunner().invoke(main, ["plugins", "--plugin-path", str(tmp_path), "-o", output])

    assert_safe(answer)


@pytest.mark.parametrize("arguments", [["--list"], ["-o", "text"], ["-o", "json"]])
def test_bench(tmp_path: Path, arguments: list[str]) -> None:
    workload = {
        "name": f"Mine{EVIL}",
        "workloadTemplate": [
            {"opcode": "createNodes", "count": 2},
            {"opcode": "createPods", "count": 3, "collectMetrics": True},
        ],
        "workloads": [{"name": f"tiny{EVIL}", "params": {}, "labels": [EVIL]}],
    }
    file = tmp_path / "workloads.yaml"
    file.write_text(json.dumps([workload]))

    answer = CliRunner().invoke(main, ["bench", "--file", str(file), *arguments])

    assert_safe(answer)


def test_tables_and_their_widths() -> None:
    lines = list(table_lines([Column("POD"), Column("NODE")], [["a\x1b\n", "n"]]))

    assert lines == ["POD      NODE", "a\\x1b\\n  n"]


def test_every_command_prints_through_one_door() -> None:
    folder = Path(__file__).parents[2] / "src/stowplan/cli"
    found = []
    for path in sorted(folder.glob("*.py")):
        if path.name == "_output.py":
            continue
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call):
                name = ast.unparse(call.func)
                if name in ("print", "click.echo", "click.secho") or re.match(
                    r"sys\.std.*\.write", name
                ):
                    found.append(f"{path.name}:{call.lineno} {name}")
    assert not found


# -- on a terminal --------------------------------------------------------------------------


def on_a_terminal(columns: int, *arguments: str, **environment: str) -> str:
    """What a terminal of this width is sent, on both streams."""
    ours, theirs = pty.openpty()
    variables = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm", **environment}
    process = subprocess.Popen(
        [sys.executable, "-c", "from stowplan.cli import main; main()", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=variables,
    )
    os.close(theirs)
    sent = b""
    while True:
        ready, _, _ = select.select([ours], [], [], 60)
        try:
            piece = os.read(ours, 65536) if ready else b""
        except OSError:
            piece = b""
        if not piece:
            break
        sent += piece
    process.wait()
    os.close(ours)
    return sent.decode()


@pytest.mark.slow
@pytest.mark.parametrize(
    "environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=["NO_COLOR", "dumb"]
)
@pytest.mark.parametrize("command", [["plugins"], ["dry-run", "-f", "nowhere"], ["nonsense"]])
def test_colours_are_not_sent_to_who_wants_none(
    command: list[str], environment: dict[str, str]
) -> None:
    plain = on_a_terminal(80, *command)
    asked = on_a_terminal(80, *command, **environment)

    colour = re.compile("\x1b\\[[0-9;]*m")
    assert colour.search(plain), "there is nothing to take away"
    assert not colour.search(asked)
    if "TERM" in environment:
        assert "\x1b" not in asked


@pytest.mark.slow
@pytest.mark.parametrize("columns", [60, 80])
def test_the_demo_does_not_scroll(columns: int) -> None:
    sent = on_a_terminal(columns, "demo", "--nodes", "30", "--pods", "200")

    lines = [piece for line in sent.split("\n") for piece in line.split("\r")]
    plain = [line.replace("\x1b[1m", "").replace("\x1b[0m", "") for line in lines]
    assert any(line.startswith("Scheduled ") for line in plain)
    assert max(map(len, plain)) <= columns


@pytest.mark.slow
def test_the_demo_moves_no_cursor_on_a_dumb_terminal() -> None:
    sent = on_a_terminal(80, "demo", "--nodes", "30", "--pods", "200", TERM="dumb")

    assert "\x1b" not in sent
    assert "\r" not in sent.replace("\r\n", "\n")


@pytest.mark.slow
@pytest.mark.parametrize("columns", [60, 80])
def test_tables_do_not_break_words(columns: int) -> None:
    sent = on_a_terminal(columns, "plugins", NO_COLOR="1").replace("\r\n", "\n")
    whole = CliRunner().invoke(main, ["plugins"]).stdout

    assert max(map(len, sent.splitlines())) <= columns
    assert sent.split() == whole.split()
