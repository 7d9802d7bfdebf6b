"""Tables are plain and stable; only a terminal gets more."""

from __future__ import annotations

from stowplan.cli._output import Column, table_lines

COLUMNS = [Column("POD"), Column("SCORE", right=True), Column("")]


def test_columns_are_as_wide_as_they_need_to_be() -> None:
    rows = [["a-very-long-name", "7", "first"], ["b", "1234567", ""]]

    assert list(table_lines(COLUMNS, rows)) == [
        "POD                 SCORE",
        "a-very-long-name        7  first",
        "b                 1234567",
    ]


def test_on_a_terminal_the_last_column_wraps() -> None:
    rows = [["name", "7", "one two three four five six seven"]]

    assert list(table_lines(COLUMNS, rows, width=40)) == [
        "POD   SCORE",
        "name      7  one two three four five six",
        "             seven",
    ]


def test_on_a_narrow_terminal_the_last_column_stands_below() -> None:
    rows = [["name", "7", "one two three four five six seven"], ["b", "1", "short"]]

    assert list(table_lines(COLUMNS, rows, width=30)) == [
        "POD   SCORE",
        "name      7",
        "    one two three four five",
        "    six seven",
        "b         1  short",
    ]
