"""What all commands have in common: how they are called, completed, and helped with."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from stowplan._version import __version__
from stowplan.cli import COMMANDS, main

URL = "https://example.com/some/thing.yaml"


def lines_of(*words: str, exit_code: int = 0) -> list[str]:
    result = CliRunner().invoke(main, list(words))
    assert result.exit_code == exit_code, result.output
    return result.output.splitlines()


def test_it_is_a_module_too() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "stowplan", "--version"], capture_output=True, text=True, check=True
    )
    assert ended.stdout == f"stowplan {__version__}\n"


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_h_is_help(command: str) -> None:
    words = [command] if command else []

    assert lines_of(*words, "-h") == lines_of(*words, "--help")


# -- completion -----------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_a_script_and_the_help_says_where_to_put_it(shell: str) -> None:
    script, help_text = lines_of("completion", shell), "\n".join(lines_of("completion", "-h"))

    assert any(f"{shell}_complete" in line for line in script)
    assert f"stowplan completion {shell} > ~/" in help_text


def test_a_shell_that_is_not_known() -> None:
    error = lines_of("completion", "tcsh", exit_code=2)[0]

    assert error.endswith("'tcsh' is not one of 'bash', 'zsh', 'fish'")
    assert "Choose from: bash, zsh, fish" in lines_of("completion", exit_code=2)[0]


@pytest.mark.slow
def test_bash_completes_commands_and_options(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    script = tmp_path / "completion"
    script.write_text("\n".join(lines_of("completion", "bash")))
    # What bash does when the tab key is hit.
    hit = """
        source {script}; COMP_WORDS=({words}); COMP_CWORD={index}
        _stowplan_completion stowplan; echo "${{COMPREPLY[@]}}"
    """
    for words, expected in (
        ("stowplan dr", "dry-run"),
        ("stowplan up --salv", "--salvage"),
        ("stowplan completion z", "zsh"),
    ):
        command = hit.format(script=script, words=words, index=len(words.split()) - 1)
        ended = subprocess.run(
            [bash, "-c", command],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        )
        assert ended.stdout.split() == [expected]


# -- a URL where a file is expected ---------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("dry-run -f", f"curl -fsSL {URL} | stowplan dry-run -f -"),
        ("dry-run", f"curl -fsSL {URL} | stowplan dry-run -f -"),
        ("dry-run -f - --config", f"curl -fsSLO {URL}"),
        ("run --config", f"curl -fsSLO {URL}"),
        ("plugins --plugin-path", f"curl -fsSLO {URL}"),
        ("run --kubeconfig", "--master URL"),
        ("up --data", "name a path on this machine"),
        ("up --write-kubeconfig", "name a path on this machine"),
        ("bench --profile", "name a path on this machine"),
    ],
)
def test_a_url_is_no_file(words: str, hint: str) -> None:
    first, second = lines_of(*words.split(), URL, exit_code=2)

    assert first == f"error: {URL}: a file is wanted here, not a URL"
    assert hint in second
