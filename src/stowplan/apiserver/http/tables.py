"""Tables for `kubectl get`: the columns of each kind, and a row per object.

The server decides what kubectl prints.  Which columns a kind has, and what is in them, is in
`tables.txt`; what takes more than a look at a field is in `table_cells`.  Works on JSON data;
mirrors `pkg/printers/internalversion/printers.go`.  `encoding` wraps the result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from stowplan.apiserver.http.durations import UNKNOWN
from stowplan.apiserver.http.pod_cells import pod_cells
from stowplan.apiserver.http.table_cells import CELLS, Cell, name, part
from stowplan.objects.kinds import Kind

Data = dict[str, Any]
Row = list[Any]

_GENERIC = "Name=name Age=age"
_CALL = re.compile(r"(len|bool)\((.*)\)")


class Table(NamedTuple):
    columns: list[Data]
    rows: list[Row]


class Columns(NamedTuple):
    definitions: list[Data]
    cells: Callable[[Data, float], Row]


def table_of(kind: Kind, objects: Sequence[Data], now_s: float) -> Table:
    columns = _columns().get(kind.name) or _read(kind.name, _GENERIC.split())
    return Table(columns.definitions, [_row(columns, data, now_s) for data in objects])


def _row(columns: Columns, data: Data, now_s: float) -> Row:
    try:
        return columns.cells(data, now_s)
    except (AttributeError, KeyError, TypeError, ValueError):
        # Fields that nobody checks may hold anything; one odd object must not hide the others.
        return [name(data, now_s), *[UNKNOWN] * (len(columns.definitions) - 1)]


@cache
def _columns() -> dict[str, Columns]:
    lines = files(__package__).joinpath("tables.txt").read_text().splitlines()
    words = (line.split() for line in lines if not line.startswith("#"))
    return {kind: _read(kind, columns) for kind, *columns in words}


def _read(kind: str, columns: list[str]) -> Columns:
    pairs = [column.partition("=") for column in columns]
    definitions = [_definition(title) for title, _, _ in pairs]
    if kind == "Pod":
        return Columns(definitions, pod_cells)
    cells = [_cell(text) for _, _, text in pairs]
    return Columns(definitions, lambda data, now_s: [cell(data, now_s) for cell in cells])


def _definition(word: str) -> Data:
    title = word.strip("+#").replace("_", " ")
    return {
        "name": title,
        "type": "integer" if word.endswith("#") else "string",
        "format": "name" if title == "Name" else "",
        "description": "",
        "priority": int(word.startswith("+")),
    }


def _cell(text: str) -> Cell:
    if text in CELLS:
        return CELLS[text]
    call = _CALL.fullmatch(text)
    path, _, default = (call[2] if call else text).partition(":")
    *above, last = path.split(".")
    if call:
        made: Callable[[Any], Any] = len if call[1] == "len" else bool
        return lambda data, now_s: made(part(data, *above).get(last) or ())
    other: Any = 0 if default == "0" else default
    return lambda data, now_s: part(data, *above).get(last) or other
