"""A table with names for its rows and columns; each column is one NumPy array."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stowplan.errors import InputError

ROWS_SHOWN = 20
"""In `repr` and in notebooks; the rest is counted."""


class Table:
    """Rows have names (`index`), columns have names (`columns`).

    `table["NodeResourcesFit"]` is a column, an array as long as the index; `table.row("node-1")`
    one row as a dict; `table.at("node-1", "NodeResourcesFit")` a cell.  `to_pandas` and
    `to_polars` need those packages.
    """

    __slots__ = ("_data", "_positions", "index", "index_name")

    def __init__(
        self, index_name: str, index: Sequence[str], columns: Mapping[str, NDArray[Any]]
    ) -> None:
        self.index_name = index_name
        self.index = list(index)
        self._data = dict(columns)
        self._positions: dict[str, int] | None = None

    @property
    def columns(self) -> list[str]:
        return list(self._data)

    def __len__(self) -> int:
        return len(self.index)

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __contains__(self, column: object) -> bool:
        return column in self._data

    def __getitem__(self, column: str) -> NDArray[Any]:
        if column not in self._data:
            raise InputError(
                f"there is no column {column!r}", hint=f"there are: {', '.join(self._data)}"
            )
        return self._data[column]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Table)
            and self.index == other.index
            and self.columns == other.columns
            and all(np.array_equal(self[name], other[name]) for name in self.columns)
        )

    __hash__ = None  # type: ignore[assignment]

    def row(self, name: str) -> dict[str, Any]:
        position = self._position(name)
        return {column: _plain(values[position]) for column, values in self._data.items()}

    def at(self, row: str, column: str) -> Any:
        return _plain(self[column][self._position(row)])

    def to_numpy(self) -> NDArray[Any]:
        """All cells as one array, rows by columns."""
        if not self._data:
            return np.zeros((len(self.index), 0))
        return np.stack(list(self._data.values()), axis=1)

    def to_dict(self) -> dict[str, dict[str, Any]]:
        """Row -> column -> cell."""
        lists = {column: values.tolist() for column, values in self._data.items()}
        return {
            name: {column: values[n] for column, values in lists.items()}
            for n, name in enumerate(self.index)
        }

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame` with the row names as its index."""
        pandas = _optional("pandas")
        index = pandas.Index(self.index, name=self.index_name)
        return pandas.DataFrame(self._data, index=index)

    def to_polars(self) -> Any:
        """A `polars.DataFrame`; the row names are its first column."""
        polars = _optional("polars")
        columns = {name: _for_polars(values) for name, values in self._data.items()}
        return polars.DataFrame({self.index_name: self.index, **columns})

    def _position(self, name: str) -> int:
        if self._positions is None:
            self._positions = {known: n for n, known in enumerate(self.index)}
        if name not in self._positions:
            raise InputError(f"there is no row {name!r}")
        return self._positions[name]

    def __repr__(self) -> str:
        return "\n".join([*self._lines(), *self._rest()])

    def _lines(self) -> Iterator[str]:
        cells = [[self.index_name, *self._data], *self._shown()]
        widths = [max(len(row[n]) for row in cells) for n in range(len(cells[0]))]
        right = [False, *(values.dtype.kind in "iuf" for values in self._data.values())]
        for row in cells:
            pairs = zip(row, widths, right, strict=True)
            padded = (
                cell.rjust(width) if to_right else cell.ljust(width)
                for cell, width, to_right in pairs
            )
            yield "  ".join(padded).rstrip()

    def _shown(self) -> list[list[str]]:
        return [
            [_printable(name), *(_printable(values[n]) for values in self._data.values())]
            for n, name in enumerate(self.index[:ROWS_SHOWN])
        ]

    def _rest(self) -> list[str]:
        more = len(self.index) - ROWS_SHOWN
        return [f"and {more} more"] if more > 0 else []

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in (self.index_name, *self._data))
        body = "".join(
            f"<tr><th>{escape(row[0])}</th>"
            + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
            + "</tr>"
            for row in self._shown()
        )
        rest = "".join(f"<p>{escape(line)}</p>" for line in self._rest())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"


def _plain(cell: Any) -> Any:
    return cell.item() if isinstance(cell, np.generic) else cell


def _printable(cell: Any) -> str:
    """One line without control characters: what comes from a cluster is text, nothing else."""
    if isinstance(cell, tuple):
        cell = ", ".join(map(str, cell))
    text = str(cell)
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def _for_polars(values: NDArray[Any]) -> Any:
    if values.dtype != object:
        return values
    return [list(cell) if isinstance(cell, tuple) else cell for cell in values.tolist()]


def _optional(package: str) -> Any:
    try:
        return import_module(package)
    except ImportError:
        raise InputError(
            f"{package} is not installed", hint=f"`pip install {package}`, or use `to_numpy()`"
        ) from None


def text_column(values: Sequence[Any]) -> NDArray[Any]:
    """A column of anything but numbers."""
    column = np.empty(len(values), object)
    column[:] = values
    return column
