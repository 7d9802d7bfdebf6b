"""Rows of CSV tables, one at a time: opened, checked, joined and filtered as a mapping says.

Whoever wrote the file is not trusted: lines have a length, a row that does not have the header's
cells is counted, and a file that is no CSV ends in one error with its line.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import closing
from fnmatch import fnmatch
from pathlib import Path
from typing import IO

from stowplan.errors import InputError
from stowplan.sim.dirt import Dirt
from stowplan.sim.mapping import Join, Nodes, Pods, columns_of

LINE_LENGTH_MAX = 1 << 20
JOINED_ROWS_MAX = 50_000_000

Row = dict[str, str]


class Rows:
    """The rows of a table that count, with the columns of the tables that are joined to it."""

    def __init__(self, table: Pods | Nodes, files: list[Path], folder: Path, dirt: Dirt) -> None:
        self._table = table
        self._files = files
        self._dirt = dirt
        self._joined = [_Joined(join, find_files(join.files, folder), dirt) for join in table.join]

    def __iter__(self) -> Iterator[tuple[str, Row]]:
        """Where each row stands (`file:line`), and its cells by column."""
        filters = [(c, f.is_in, f.is_not) for c, f in self._table.where.items()]
        joined = tuple(column for table in self._joined for column in table.columns)
        needed = columns_of(self._table)
        for where, row in read_rows(self._files, self._table.header, self._dirt, needed, joined):
            if not all(table.extend(row, where) for table in self._joined):
                continue
            if any(_refused(row[column], is_in, is_not) for column, is_in, is_not in filters):
                self._dirt.add("rows that the mapping does not ask for: left out", where)
                continue
            yield where, row


class _Joined:
    """Another table by its key, in memory: only the first row of each key."""

    def __init__(self, join: Join, files: list[Path], dirt: Dirt) -> None:
        self._join = join
        self._dirt = dirt
        self._rows: dict[tuple[str, ...], tuple[str, ...]] = {}
        self.columns = (*join.header, *join.adds)
        if not files and not join.optional:
            raise InputError(f"no file is called {' or '.join(join.files)}")
        for where, row in read_rows(files, join.header, dirt, (*join.by, *join.adds)):
            self.columns = tuple(row)
            if len(self._rows) >= JOINED_ROWS_MAX:
                raise InputError(f"more than {JOINED_ROWS_MAX:,} rows to join", where=where)
            key = tuple([row[column] for column in join.by])
            self._rows.setdefault(key, tuple(row.values()))

    def extend(self, row: Row, where: str) -> bool:
        """The row gets the columns that it does not have; False: nothing matches."""
        key = tuple([row[column] for column in self._join.by])
        found = self._rows.get(key)
        if found is None and not self._join.optional:
            text = f"rows without a match in {self._join.files[0]}: left out"
            self._dirt.add(text, f"{where}: {', '.join(key)}")
            return False
        for column, cell in zip(self.columns, found or ("",) * len(self.columns), strict=True):
            row.setdefault(column, cell)
        return True


def find_files(patterns: tuple[str, ...], folder: Path) -> list[Path]:
    """The files of the first pattern that any matches: parts of one table, by name."""
    present = sorted(path for path in folder.iterdir() if path.is_file())
    for pattern in patterns:
        found = [path for path in present if fnmatch(path.name, pattern)]
        if found:
            return found
    return []


def read_rows(
    files: list[Path],
    header: tuple[str, ...],
    dirt: Dirt,
    needed: tuple[str, ...],
    joined: tuple[str, ...] = (),
) -> Iterator[tuple[str, Row]]:
    """Rows with a cell for each column; a file without a column that is needed is refused."""
    for path in files:
        with closing(_opened(path)) as file:
            reader = csv.reader(_lines(file, path))
            try:
                columns = header or _header(next(reader, []), str(path))
                _check_columns(columns, needed, joined, f"{path}:1")
                for cells in reader:
                    if len(cells) == len(columns):
                        if reader.line_num > 1 or tuple(cells) != header:
                            yield (
                                f"{path.name}:{reader.line_num}",
                                dict(zip(columns, cells, strict=True)),
                            )
                    elif cells:
                        where = f"{path.name}:{reader.line_num}: {len(cells)}, not {len(columns)}"
                        dirt.add("rows with too few or too many cells: left out", where)
            except (csv.Error, OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
                where = f"{path}:{reader.line_num + 1}"
                raise InputError(f"no CSV: {error}", where=where) from None


def _opened(path: Path) -> IO[str]:
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    # Opened to be read to the end elsewhere: whoever reads the rows closes it.
    data: IO[bytes] = gzip.GzipFile(path) if zipped else path.open("rb")  # type: ignore[assignment]
    return io.TextIOWrapper(data, encoding="utf-8-sig", newline="")


def _lines(file: IO[str], path: Path) -> Iterator[str]:
    while line := file.readline(LINE_LENGTH_MAX + 1):
        if len(line) > LINE_LENGTH_MAX:
            raise InputError(f"a line of more than {LINE_LENGTH_MAX:,} characters", where=str(path))
        yield line


def _header(cells: list[str], where: str) -> tuple[str, ...]:
    columns = tuple(cell.strip() for cell in cells)
    if len(set(columns)) != len(columns):
        raise InputError("two columns share a name", where=where)
    return columns


def _check_columns(
    columns: tuple[str, ...], needed: tuple[str, ...], joined: tuple[str, ...], where: str
) -> None:
    for column in needed:
        if column not in columns and column not in joined:
            hint = f"there are: {', '.join((*columns, *joined))}"
            raise InputError(f"there is no column {column!r}", where=where, hint=hint)


def _refused(cell: str, is_in: tuple[str, ...] | None, is_not: tuple[str, ...]) -> bool:
    return cell in is_not or (is_in is not None and cell not in is_in)
