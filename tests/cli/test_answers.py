"""What all commands that answer questions have in common, each tried on all of them."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

import stowplan as sp
from stowplan.cli import main
from stowplan.cli._output import working

EXAMPLES = Path(__file__).parents[2] / "examples"
TYPES = str(EXAMPLES / "plan" / "types.yaml")
MOST = str(EXAMPLES / "plan" / "most-allocated.yaml")
DRY_RUN, HALF_EMPTY = str(EXAMPLES / "dry-run"), str(EXAMPLES / "plan" / "half-empty.yaml")

KEPT = ["node-a", "node-b", "gpu-1"]

QUESTIONS: dict[str, tuple[list[str], int, Callable[[sp.Cluster], Any]]] = {
    "why": (["why", "training", "-f", DRY_RUN], 1, lambda c: c.why("training")),
    "why all": (["why", "-f", DRY_RUN], 1, lambda c: c.why()),
    "why not there": (
        ["why", "urgent", "--node", "gpu-1", "-f", DRY_RUN],
        0,
        lambda c: c.why("urgent", node="gpu-1"),
    ),
    "what-if": (
        ["what-if", "--drain", "node-a", "-f", HALF_EMPTY],
        0,
        lambda c: c.what_if(drain=["node-a"]),
    ),
    "what-if no": (
        ["what-if", "--scale", "deploy/web=50", "-f", DRY_RUN],
        1,
        lambda c: c.what_if(scale=["deploy/web=50"]),
    ),
    "plan capacity": (
        ["plan", "capacity", "deploy/web", "-f", DRY_RUN],
        0,
        lambda c: c.plan("capacity", "deploy/web"),
    ),
    "plan capacity no": (
        ["plan", "capacity", "deploy/web", "--at-least", "50", "-f", DRY_RUN],
        1,
        lambda c: c.plan("capacity", "deploy/web", at_least=50),
    ),
    "plan nodes": (
        ["plan", "nodes", "--types", TYPES, "-f", DRY_RUN],
        0,
        lambda c: c.plan("nodes", TYPES),
    ),
    "plan consolidate": (
        ["plan", "consolidate", "-f", HALF_EMPTY],
        0,
        lambda c: c.plan("consolidate"),
    ),
    "plan consolidate no": (
        ["plan", "consolidate", "-f", DRY_RUN, *(f"--keep={name}" for name in KEPT)],
        1,
        lambda c: c.plan("consolidate", keep=KEPT),
    ),
    "compare": (
        ["compare", "--new-seed", "2", "-f", HALF_EMPTY],
        0,
        lambda c: c.compare(new_seed=2),
    ),
    "compare no": (
        ["compare", "--new-seed", "2", "--fail-if", "pending >= base", "-f", HALF_EMPTY],
        1,
        lambda c: c.compare(new_seed=2, fail_if=["pending >= base"]),
    ),
}
"""Words, the exit status, and the same question in Python."""

PLUGIN = """
class Nowhere:
    name = "Nowhere"

    def __init__(self, args, handle):
        pass

    def score_node(self, cycle, pod, node):
        return 0
"""


def ask(words: list[str], *more: str, columns: int = 80) -> Result:
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(main, [*words, *more])


every = pytest.mark.parametrize("question", QUESTIONS)


@every
def test_text_fits_and_the_exit_status_says_yes_or_no(question: str) -> None:
    words, status, _ = QUESTIONS[question]
    for columns in (60, 80):
        result = ask(words, columns=columns)
        assert result.exit_code == status, result.stderr
        long = [line for line in result.stdout.splitlines() if len(line) > columns]
        # Lines are broken between words, and a word that is too long has its line for itself.
        assert all(len(line.split()) == 1 for line in long), long
        assert "\x1b" not in result.stdout


@every
def test_data_and_the_face_say_the_same(question: str) -> None:
    words, status, in_python = QUESTIONS[question]
    as_json, as_yaml = ask(words, "-o", "json"), ask(words, "-o", "yaml")
    assert as_json.exit_code == as_yaml.exit_code == status
    told = json.loads(as_json.stdout)
    assert yaml.safe_load(as_yaml.stdout) == told
    with sp.Cluster.from_dump(words[words.index("-f") + 1]) as cluster:
        answer = in_python(cluster)
        assert json.loads(json.dumps(answer.to_dict())) == told
        assert bool(answer) == (status == 0)


@every
def test_configuration_plugins_and_seed_are_heard(question: str, tmp_path: Path) -> None:
    words, _, _ = QUESTIONS[question]
    plugin, config = tmp_path / "mine.py", tmp_path / "config.yaml"
    plugin.write_text(PLUGIN)
    profile = {"plugins": {"score": {"enabled": [{"name": "Nowhere"}]}}}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config.write_text(json.dumps({**kind, "profiles": [profile]}))

    unknown = ask(words, "--config", str(config))
    assert (unknown.exit_code, "Nowhere" in unknown.stderr) == (2, True), unknown.stderr
    known = ask(words, "--config", str(config), "--plugin-path", str(plugin), "--seed", "3")
    assert known.exit_code in (0, 1), known.stderr
    assert ask(words, "--seed", "three").exit_code == 2


@every
def test_wrong_use_is_told(question: str) -> None:
    words, _, _ = QUESTIONS[question]
    result = ask([*words[: words.index("-f")], "-f", "no-such-file.yaml"])
    assert result.exit_code == 2
    assert result.stderr.startswith("error:")
    assert ask(words, "-o", "xml").exit_code == 2


def test_a_snapshot_is_saved_and_asked(tmp_path: Path) -> None:
    words = ["snapshot", "--anonymise", "-f", DRY_RUN]
    path = tmp_path / "bug.json"
    result = ask(words, "-o", str(path), "--seed", "1")
    assert (result.exit_code, result.stdout) == (0, "")
    with sp.Cluster.from_dump(DRY_RUN) as cluster:
        cluster.snapshot(tmp_path / "same.json", anonymise=True)
    assert json.loads(path.read_text()) == json.loads((tmp_path / "same.json").read_text())
    assert len(json.loads(ask(["why", "-f", str(path)], "-o", "json").stdout)["pending"]) == 1
    assert ask(words).exit_code == 2


# -- a sign of life -------------------------------------------------------------------------

SLOW = """
import time
from stowplan.cli import _output
_output.PATIENCE_S = 0.2
with _output.working("asking...") as tell:
    tell("trial 1 of 48")
    time.sleep({seconds})
print("done")
"""


def on_a_terminal(seconds: float, **environment: str) -> str:
    """What a terminal is sent on stderr."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", **environment}
    env = {name: value for name, value in env.items() if value or name != "NO_COLOR"}
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW.format(seconds=seconds)],
        env=env,
        stderr=theirs,
        stdout=subprocess.DEVNULL,
    )
    process.wait(30)
    os.close(theirs)
    sent = b""
    try:
        while chunk := os.read(ours, 4096):
            sent += chunk
    except OSError:
        pass
    finally:
        os.close(ours)
    return sent.decode()


def test_what_takes_its_time_says_how_far_it_is() -> None:
    assert on_a_terminal(0.0, NO_COLOR="") == ""
    moving = on_a_terminal(0.8, NO_COLOR="")
    assert "trial 1 of 48" in moving
    assert "\x1b[" in moving
    for plain in ({"NO_COLOR": "1"}, {"TERM": "dumb", "NO_COLOR": ""}):
        assert on_a_terminal(0.8, **plain) == "asking... trial 1 of 48\r\n"


def test_a_pipe_is_sent_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with working("asking…") as tell:
        tell("trial 1 of 48")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("why", "default/training: trial 1 of at most 48"),
        ("what-if", "deciding again"),
        ("plan capacity", "0 fit"),
        ("plan nodes", "trial 1 of 60"),
        ("compare", "seed 1 of 1"),
    ],
)
def test_every_question_tells_how_far_it_is(
    question: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[str] = []
    words, _, _ = QUESTIONS[question]
    command = {"why": "why", "what-if": "what_if", "compare": "compare"}.get(question, "plan")
    asked = getattr(sp.Cluster, command)

    def listening(cluster: sp.Cluster, *args: Any, **options: Any) -> Any:
        return asked(cluster, *args, **{**options, "tell": heard.append})

    monkeypatch.setattr(sp.Cluster, command, listening)
    ask(words)
    assert told in heard, heard
