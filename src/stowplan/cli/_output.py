"""How commands print: tables, notes, and a sign of life.

Data goes to stdout, everything else to stderr.  Columns are plain, of a stable form, and as wide
as they need to be: a name that was cut could not be copied.  On a terminal the last column wraps
and titles are bold; `rich` shows that something is going on there.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import click

_WRAPPED_WIDTH_MIN = 20
"""In less space the last column is not wrapped: a word a line is no easier to read."""


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    right: bool = False
    """Numbers are aligned to the right."""


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    title, *lines = table_lines(columns, rows, terminal_width())
    click.secho(title, bold=True)
    for line in lines:
        click.echo(line)


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
    table = [[column.title for column in columns], *rows]
    widths = [max(len(row[n]) for row in table) for n in range(len(columns))]
    indent = sum(widths[:-1]) + 2 * (len(columns) - 1)
    space = None if width is None else width - indent
    for row in table:
        *cells, last = (
            cell.rjust(cell_width) if column.right else cell.ljust(cell_width)
            for column, cell, cell_width in zip(columns, row, widths, strict=True)
        )
        first, *more = _wrapped(last.rstrip(), space)
        yield "  ".join([*cells, first]).rstrip()
        for line in more:
            yield " " * indent + line


def _wrapped(text: str, space: int | None) -> list[str]:
    if space is None or space < _WRAPPED_WIDTH_MIN or len(text) <= space:
        return [text]
    return textwrap.wrap(text, space, break_long_words=False, break_on_hyphens=False)


def note(text: str, *, hint: str = "") -> None:
    """Something the user should know that is no error."""
    click.echo(f"{click.style('note:', fg='yellow', bold=True)} {text}", err=True)
    if hint:
        click.echo(f"  hint: {hint}", err=True)


@contextmanager
def working(text: str) -> Iterator[None]:
    """A sign of life on a terminal, while something takes its time."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(text):
        yield


def count_of(count: int, thing: str) -> str:
    """
    >>> count_of(1, "pod"), count_of(2, "pod")
    ('1 pod', '2 pods')
    """
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def some_of(names: Sequence[str], shown_max: int = 3) -> str:
    """
    >>> some_of(["a", "b", "c"]), some_of(["a", "b", "c", "d", "e"])
    ('a, b, c', 'a, b, c and 2 more')
    """
    shown = ", ".join(names[:shown_max])
    rest = len(names) - shown_max
    return f"{shown} and {rest} more" if rest > 0 else shown
