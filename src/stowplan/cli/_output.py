"""How commands print: tables, notes, and a sign of life.

Data goes to stdout, everything else to stderr.  Columns are plain, of a stable form, and as wide
as they need to be: a name that was cut could not be copied.  On a terminal the last column wraps
and titles are bold; `rich` shows that something is going on there.  Every command prints through
here, so that nothing others wrote reaches a terminal as it is (`printable`).
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Timer
from time import monotonic
from typing import Protocol

import click

from stowplan.printable import count_of as count_of
from stowplan.printable import printable, printable_json
from stowplan.printable import some_of as some_of

_WRAPPED_WIDTH_MIN = 20
"""In less space the last column is not wrapped beside the others, but stands below them."""
_MARGIN = 4

PATIENCE_S = 1.0
"""What takes no longer needs no sign of life."""
LINES_EVERY_S = 10.0


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    right: bool = False
    """Numbers are aligned to the right."""


def say(text: str = "", *, err: bool = False, bold: bool = False) -> None:
    """Print one line.  What others wrote in it cannot end it, nor do anything to a terminal."""
    _write(printable(text), err=err, bold=bold)


def say_trace(text: str) -> None:
    """Print a traceback.  It ends with a message of whatever lines: all but the first are
    indented, so that none can be taken for one of ours."""
    first, *lines = text.rstrip("\n").split("\n")
    say(first, err=True)
    for line in lines:
        say(f"  {line}", err=True)


def say_json(text: str, *, nl: bool = True) -> None:
    click.echo(printable_json(text), nl=nl)


def complain(text: str) -> None:
    """Say what is wrong, perhaps in several lines: further ones of ours are indented."""
    safe = "\n".join(map(printable, re.split(r"\n(?=  )", text)))
    _write(safe, err=True, label=("error:", "red"))


def note(text: str, *, hint: str = "") -> None:
    """Something the user should know that is no error."""
    _write(printable(text), err=True, label=("note:", "yellow"))
    if hint:
        say(f"  hint: {hint}", err=True)


def _write(
    safe: str, *, err: bool = False, bold: bool = False, label: tuple[str, str] | None = None
) -> None:
    if bold:
        safe = click.style(safe, bold=True)
    if label is not None:
        safe = f"{click.style(label[0], fg=label[1], bold=True)} {safe}"
    # Click takes colours out of what goes to no terminal; this also where nobody wants them.
    click.echo(safe, err=err, color=None if has_colors() else False)


def has_colors() -> bool:
    """Whether terminals may be sent more than text: https://no-color.org"""
    return not os.environ.get("NO_COLOR") and moves_cursor()


def moves_cursor() -> bool:
    return os.environ.get("TERM") != "dumb"


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    title, *lines = table_lines(columns, rows, terminal_width())
    say(title, bold=True)
    for line in lines:
        say(line)


def terminal_width() -> int | None:
    """None where the output goes elsewhere: a file has room."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def table_lines(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None = None
) -> Iterator[str]:
    """The table as text, its last column wrapped where a width is given.

    >>> for line in table_lines([Column("POD"), Column("SCORE", right=True)], [["a/b", "7"]]):
    ...     print(line)
    POD  SCORE
    a/b      7
    """
    table = [[column.title for column in columns], *([*map(printable, row)] for row in rows)]
    widths = [max(len(row[n]) for row in table) for n in range(len(columns))]
    indent = sum(widths[:-1]) + 2 * (len(columns) - 1)
    for row in table:
        *cells, last = (
            cell.rjust(cell_width) if column.right else cell.ljust(cell_width)
            for column, cell, cell_width in zip(columns, row, widths, strict=True)
        )
        first, *more = _laid_out(last.rstrip(), indent, width)
        yield "  ".join([*cells, first]).rstrip()
        yield from more


def _laid_out(text: str, indent: int, width: int | None) -> list[str]:
    """The last cell of a row: beside the others, or below them where there is no room beside."""
    if width is None or indent + len(text) <= width:
        return [text]
    beside = width - indent >= _WRAPPED_WIDTH_MIN
    margin = indent if beside else _MARGIN
    space = max(width - margin, _WRAPPED_WIDTH_MIN)
    lines = textwrap.wrap(text, space, break_long_words=False, break_on_hyphens=False)
    placed = [" " * margin + line for line in lines]
    return [lines[0], *placed[1:]] if beside else ["", *placed]


@contextmanager
def working(text: str) -> Iterator[Callable[[str], None]]:
    """A sign of life on a terminal, once something takes its time; tell it how far it is."""
    if not sys.stderr.isatty():
        yield lambda told: None
        return
    shown: _Sign = _Moving(text) if has_colors() else _InLines(text)
    timer = Timer(PATIENCE_S, shown.start)
    timer.daemon = True
    timer.start()
    try:
        yield shown.tell
    finally:
        timer.cancel()
        timer.join()
        shown.stop()


class _Sign(Protocol):
    """It is started from another thread, and stopped whether it was started or not."""

    def start(self) -> None: ...
    def tell(self, told: str) -> None: ...
    def stop(self) -> None: ...


class _InLines:
    """For terminals that are sent nothing but text: a line now and then."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._told = ""
        self._next_s = float("inf")

    def start(self) -> None:
        self._say()

    def tell(self, told: str) -> None:
        self._told = told
        if monotonic() >= self._next_s:
            self._say()

    def stop(self) -> None:
        self._next_s = float("inf")

    def _say(self) -> None:
        self._next_s = monotonic() + LINES_EVERY_S
        say(f"{self._text} {self._told}".rstrip(), err=True)


class _Moving:
    """One line that changes, and is gone in the end."""

    def __init__(self, text: str) -> None:
        from rich.console import Console

        self._text = text
        self._status = Console(stderr=True).status(printable(text))

    def start(self) -> None:
        self._status.start()

    def tell(self, told: str) -> None:
        self._status.update(printable(f"{self._text} {told}"))

    def stop(self) -> None:
        self._status.stop()
