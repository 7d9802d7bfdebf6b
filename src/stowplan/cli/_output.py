"""How commands print: tables, notes, and a sign of life.

Data goes to stdout, everything else to stderr.  A terminal gets colour and lines that wrap; a
pipe or a file gets plain columns of a stable form, as long as they need to be.  `rich` is only
imported for a terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import click


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    right: bool = False
    """Numbers are aligned to the right."""
    wrap: bool = False
    """On a terminal, whether its text may be broken into lines where space is short."""


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    if sys.stdout.isatty():
        _print_rich(columns, rows)
    else:
        for line in plain_table(columns, rows):
            click.echo(line)


def plain_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """
    >>> for line in plain_table([Column("POD"), Column("SCORE", right=True)], [["a/b", "7"]]):
    ...     print(line)
    POD  SCORE
    a/b      7
    """
    lines = [[column.title for column in columns], *rows]
    widths = [max(len(line[n]) for line in lines) for n in range(len(columns))]
    for line in lines:
        cells = [
            cell.rjust(width) if column.right else cell.ljust(width)
            for column, cell, width in zip(columns, line, widths, strict=True)
        ]
        yield "  ".join(cells).rstrip()


def _print_rich(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(
            column.title,
            justify="right" if column.right else "left",
            no_wrap=False,
            overflow="fold",
            ratio=1 if column.wrap else None,
        )
    for row in rows:
        table.add_row(*(Text(cell, "dim" if cell == "-" else "") for cell in row))
    Console(highlight=False).print(table)


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
