"""The command line: quick to start, and every error is one line with an exit code."""

from __future__ import annotations

import json
import subprocess
import sys
import types

import click
import pytest
from click.testing import CliRunner, Result

import stowplan
from stowplan.cli import COMMANDS, main
from stowplan.cli._lazy import LazyGroup
from stowplan.errors import ConfigError

every_command = pytest.mark.parametrize("name", COMMANDS)


def test_help_lists_every_command_and_shows_examples() -> None:
    result = CliRunner().invoke(main, ["--help"])

    assert result.exit_code == 0
    assert "Examples:" in result.output
    for name, told in COMMANDS.items():
        assert name in result.output
        assert told.split()[0] in result.output


@every_command
def test_a_command_loads_and_its_help_shows_examples(name: str) -> None:
    result = CliRunner().invoke(main, [name, "--help"])

    assert result.exit_code == 0, result.output
    assert "Example" in result.output, f"stowplan {name} --help: show examples"
    assert "--verbose" in result.output


@every_command
def test_a_wrong_flag_is_one_line_and_a_hint(name: str) -> None:
    result = CliRunner().invoke(main, [name, "--no-such-flag"])

    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert f"`stowplan {name} --help`" in result.stderr
    assert "Traceback" not in result.stderr


def test_help_does_not_load_what_it_does_not_need() -> None:
    script = """
import json, sys
from stowplan.cli import main
main(["--help"], standalone_mode=False)
print(json.dumps(sorted({"numpy", "aiohttp", "rich", "msgspec", "yaml"} & set(sys.modules))))
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert json.loads(run.stdout.splitlines()[-1]) == []


def test_a_scheduler_lists_before_it_loads_what_serves_its_port() -> None:
    """It takes a third of the start to load: the API server is asked first."""
    script = """
import sys
import stowplan.cli.run, stowplan.cli._run_page, stowplan.runtime.live
print("aiohttp" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert run.stdout == "False\n"


def test_version() -> None:
    result = CliRunner().invoke(main, ["--version"])

    assert result.output == f"stowplan {stowplan.__version__}\n"


def test_no_command_shows_help() -> None:
    result = CliRunner().invoke(main, [])

    assert result.exit_code == 2
    assert "Usage:" in result.stderr


def test_an_unknown_command_is_named() -> None:
    result = CliRunner().invoke(main, ["frobnicate"])

    assert result.exit_code == 2
    assert result.stderr.startswith("error: no command 'frobnicate'\n  hint: ")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch):
    """Runs a small `stowplan` whose command `act` calls what the test gives it."""

    def invoke(action, *args: str) -> Result:
        module = types.ModuleType("stowplan.cli.act")
        module.act = click.command("act", help="Act.")(action)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        return CliRunner().invoke(LazyGroup(name="stowplan", lazy={"act": "Act."}), args)

    return invoke


def fails_by_configuration() -> None:
    raise ConfigError("unknown plugin 'Fit'", where="a.yaml:14", hint="did you mean 'NodeFit'?")


def test_our_errors_are_worded_and_coded(run) -> None:
    result = run(fails_by_configuration, "act")

    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr == (
        "error: a.yaml:14: unknown plugin 'Fit'\n  hint: did you mean 'NodeFit'?\n"
    )


@pytest.mark.parametrize("args", [("--verbose", "act"), ("act", "--verbose")])
def test_verbose_adds_the_traceback_wherever_it_stands(run, args: tuple[str, ...]) -> None:
    result = run(fails_by_configuration, *args)

    assert result.exit_code == 2
    assert result.stderr.startswith("Traceback")
    assert "\nerror: a.yaml:14" in result.stderr


def test_a_missing_file_is_the_users_to_fix(run, tmp_path) -> None:
    path = tmp_path / "none.yaml"

    result = run(lambda: path.read_text(), "act")

    assert result.exit_code == 2
    assert result.stderr == f"error: {path}: No such file or directory\n"


def test_an_unreachable_server_is_an_api_failure(run) -> None:
    def refused() -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    result = run(refused, "act")

    assert result.exit_code == 3
    assert result.stderr == "error: Connection refused\n"


def test_a_bug_asks_for_a_report_and_shows_the_traceback(run) -> None:
    def has_a_bug() -> None:
        raise ValueError("odd")

    result = run(has_a_bug, "act")

    assert result.exit_code == 70
    assert "Traceback" in result.stderr
    assert "error: ValueError: odd\n  hint: this is a bug" in result.stderr


def test_ctrl_c_is_quiet(run) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    result = run(interrupted, "act")

    assert result.exit_code == 130
    assert result.stderr.strip() == ""


def test_a_reader_that_went_away_is_no_news(run) -> None:
    def speaks_into_the_void() -> None:
        raise BrokenPipeError(32, "Broken pipe")

    result = run(speaks_into_the_void, "act")

    assert result.stderr == ""


def test_a_command_chooses_its_exit_code(run) -> None:
    def says_no() -> None:
        click.get_current_context().exit(4)

    assert run(says_no, "act").exit_code == 4
