"""The sign of life on stderr."""

from __future__ import annotations

import contextlib
import io

import pytest

from stowplan.bench.progress import WIDTH, Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


def drawn(text: str, done: int, total: int, *, name: str = "Basic") -> str:
    with contextlib.redirect_stderr(Terminal()) as terminal:
        Progress(name).show(text, done, total)
    return terminal.getvalue().removeprefix("\r")


def test_a_bar_is_as_long_as_what_is_done() -> None:
    half = "█" * (WIDTH // 2)

    assert drawn("measuring", 500, 1000) == f"Basic [{half:<{WIDTH}}] measuring: 500/1,000 pods"


def test_without_a_number_there_is_a_word() -> None:
    assert drawn("creating 5 nodes", 0, 0) == f"Basic [{'':<{WIDTH}}] creating 5 nodes"


def test_a_line_never_wraps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")

    assert len(drawn("measuring", 1, 2, name="A workload with a long name")) == 39


def test_at_the_end_nothing_is_left() -> None:
    with contextlib.redirect_stderr(Terminal()) as terminal:
        progress = Progress("Basic")
        progress.show("measuring", 1, 2)
        length = len(terminal.getvalue().removeprefix("\r"))
        progress.end()

    assert terminal.getvalue().endswith("\r" + " " * length + "\r")


def test_elsewhere_a_short_run_says_nothing() -> None:
    with contextlib.redirect_stderr(io.StringIO()) as written:
        progress = Progress("Basic")
        progress.show("measuring", 1, 2)
        progress.end()

    assert written.getvalue() == ""
