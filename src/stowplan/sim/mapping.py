"""How to read CSV tables: which column is which field, in which unit, and which rows count.

A mapping is a YAML file; the structs here are its fields, and nothing else is accepted.  Those in
`mappings/` are shipped; `docs/traces.md` describes them and how to write one.  `csv_tables.py`
reads tables with it.
"""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import msgspec

from stowplan.errors import InputError
from stowplan.objects.yaml_reader import read_yaml

SHIPPED_FOLDER = Path(__file__).parent / "mappings"
SHIPPED = tuple(sorted(path.stem for path in SHIPPED_FOLDER.glob("*.yaml")))
VERSION = "csv-mapping/v1"
MAPPING_BYTES_MAX = 1 << 20

UNITS = {
    "": Decimal(1),
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "%": Decimal("1e-2"),
    "k": Decimal(10**3), "M": Decimal(10**6), "G": Decimal(10**9), "T": Decimal(10**12),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40),
    "us": Decimal("1e-6"), "ms": Decimal("1e-3"), "s": Decimal(1), "min": Decimal(60),
    "h": Decimal(3600), "d": Decimal(86400),
}  # fmt: skip
"""Of amounts as Kubernetes writes them, and of times in seconds."""

_FIELD = re.compile(r"\{([^{}]+)\}")


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Nothing is accepted that is not a field."""


class Number(_Strict, frozen=True):
    """A number of a row: a column, the product of several, or a constant."""

    column: str = ""
    columns: tuple[str, ...] = ()
    value: str = ""
    unit: str = ""
    times: float = 1.0
    missing: tuple[str, ...] = ()
    """Cells that mean that there is no number; an empty one always does."""

    @property
    def read(self) -> tuple[str, ...]:
        return self.columns or ((self.column,) if self.column else ())


class Values(_Strict, frozen=True):
    """Several values in one cell: a node whose label has one of them will do."""

    column: str
    split: str = "|"


class Filter(_Strict, frozen=True):
    """Rows that count."""

    is_in: tuple[str, ...] | None = msgspec.field(default=None, name="in")
    is_not: tuple[str, ...] = msgspec.field(default=(), name="not")


class Outcomes(_Strict, frozen=True):
    column: str
    values: dict[str, Literal["succeeded", "failed", "deleted"]] = {}
    default: Literal["succeeded", "failed", "deleted"] = "deleted"


class Join(_Strict, frozen=True):
    """Another table with more columns of the row; of several that match, the first counts."""

    files: tuple[str, ...]
    by: tuple[str, ...]
    header: tuple[str, ...] = ()
    optional: bool = False
    """Without a match the columns are empty; otherwise the row makes no sense."""
    adds: tuple[str, ...] = ()
    """Columns that are empty when an optional table is not there; `header` says as much."""


class Events(_Strict, frozen=True):
    """Several rows about one pod or node, told apart by a type."""

    key: tuple[str, ...]
    type: str
    time: Number
    opens: tuple[str, ...]
    """Types that begin one: it arrives or joins.  What describes it is read from this row."""
    closes: dict[str, Literal["succeeded", "failed", "deleted"]]
    starts: tuple[str, ...] = ()
    ignores: tuple[str, ...] = ()


class _Table(_Strict, frozen=True):
    name: str
    files: tuple[str, ...] = ()
    """Patterns; the first that any file of the folder matches counts."""
    header: tuple[str, ...] = ()
    """Of files whose first line is no header."""
    where: dict[str, Filter] = {}
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    manifest: dict[str, Any] = {}
    """What all have: merged below what the columns say."""
    join: tuple[Join, ...] = ()
    events: Events | None = None


class Nodes(_Table, frozen=True):
    capacity: dict[str, Number] = {}
    joins: Number | None = None
    leaves: Number | None = None


class Pods(_Table, frozen=True):
    namespace: str = "default"
    arrival: Number | None = None
    start: Number | None = None
    end: Number | None = None
    run: Number | None = None
    outcome: Outcomes | None = None
    node: str = ""
    requests: dict[str, Number] = {}
    priority: Number | None = None
    affinity: dict[str, Values] = {}
    """Label of a node -> the values of which it must have one."""


class Mapping(_Strict, frozen=True):
    version: Literal["csv-mapping/v1"]
    name: str
    pods: Pods
    nodes: Nodes | None = None
    begins: Literal["at-zero", "at-first"] = "at-zero"
    """Whether time 0 of the tables is the trace's, or the first that a pod or node has."""


def read_mapping(name: str | Path) -> Mapping:
    """One that is shipped, by its name, or a file."""
    path = SHIPPED_FOLDER / f"{name}.yaml" if str(name) in SHIPPED else Path(name)
    if not path.is_file():
        known = ", ".join(SHIPPED)
        raise InputError(f"no mapping {str(name)!r}", hint=f"a YAML file, or one of: {known}")
    if path.stat().st_size > MAPPING_BYTES_MAX:
        raise InputError(f"more than {MAPPING_BYTES_MAX:,} bytes", where=str(path))
    documents = read_yaml(path.read_bytes(), str(path))
    if len(documents) != 1:
        raise InputError(f"{len(documents)} documents, not one mapping", where=str(path))
    try:
        mapping = msgspec.convert(_spelled(documents[0]), Mapping)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InputError(_worded(str(error)), where=str(path)) from None
    _check(mapping, str(path))
    return mapping


def fields_in(text: str) -> tuple[str, ...]:
    """
    >>> fields_in("{job}-{task}")
    ('job', 'task')
    """
    return tuple(_FIELD.findall(text))


def filled(text: str, row: dict[str, str]) -> str:
    """The text with cells in it; empty when one of them is."""
    cells = {name: row[name] for name in fields_in(text)}
    return _FIELD.sub(lambda found: cells[found[1]], text) if all(cells.values()) else ""


def columns_of(table: Nodes | Pods) -> tuple[str, ...]:
    """Every column that the mapping reads, of the table or of those joined to it."""
    amounts = table.capacity if isinstance(table, Nodes) else table.requests
    numbers = [number for _, number in _numbers_of(table, "")]
    texts = [table.name, *table.labels.values(), *table.annotations.values()]
    columns = [*table.where, *(column for join in table.join for column in join.by)]
    if table.events is not None:
        columns += [*table.events.key, table.events.type]
    if isinstance(table, Pods):
        texts += [table.namespace, table.node]
        columns += [values.column for values in table.affinity.values()]
        columns += [table.outcome.column] if table.outcome else []
    columns += [column for number in (*numbers, *amounts.values()) for column in number.read]
    columns += [column for text in texts for column in fields_in(text)]
    return tuple(dict.fromkeys(columns))


_NUMBERS = {"arrival", "start", "end", "run", "priority", "joins", "leaves", "time"}
_AMOUNTS = {"requests", "capacity"}
_ONE_OR_MANY = {"files", "in", "not", "missing"}
_AS_THEY_ARE = {"manifest", "labels", "annotations", "values", "closes"}


def _spelled(data: Any, field: str = "", depth: int = 0) -> Any:
    """Short forms written out: a text is a column, a number a constant, one a list of one."""
    if depth > 20:
        raise RecursionError("nested too deeply")
    if field in _NUMBERS and isinstance(data, str | int | float):
        return {"column": data} if isinstance(data, str) else {"value": str(data)}
    if field == "where" and isinstance(data, dict):
        short = {
            key: value if isinstance(value, dict) else {"in": value} for key, value in data.items()
        }
        return {key: _spelled(value, "", depth + 1) for key, value in short.items()}
    if field in _ONE_OR_MANY:
        return [str(value) for value in (data if isinstance(data, list) else [data])]
    if field == "value":
        return str(data)
    if field in _AS_THEY_ARE or not isinstance(data, dict):
        return data
    inner = "arrival" if field in _AMOUNTS else None
    return {key: _spelled(value, inner or key, depth + 1) for key, value in data.items()}


def _worded(message: str) -> str:
    """msgspec's sentence with the path first, as our errors have it."""
    problem, _, place = message.partition(" - at `")
    place = place.rstrip("`").replace("$.", "").replace("$", "")
    problem = problem[:1].lower() + problem[1:]
    return f"{place}: {problem}" if place else problem


def _check(mapping: Mapping, where: str) -> None:
    for name, table in (("pods", mapping.pods), ("nodes", mapping.nodes)):
        if table is None:
            continue
        for path, number in _numbers_of(table, name):
            if number.unit not in UNITS:
                known = " ".join(unit for unit in UNITS if unit)
                raise InputError(
                    f"{path}: no unit {number.unit!r}", where=where, hint=f"there are: {known}"
                )
            if bool(number.value) == bool(number.read) or (number.column and number.columns):
                raise InputError(f"{path}: give one of column, columns, value", where=where)
    if (mapping.pods.arrival is None) == (mapping.pods.events is None):
        raise InputError("pods: give arrival or events, one of them", where=where)


def _numbers_of(table: Nodes | Pods, name: str) -> list[tuple[str, Number]]:
    found = []
    for field in table.__struct_fields__:
        value = getattr(table, field)
        if isinstance(value, Number):
            found.append((f"{name}.{field}", value))
        elif field in _AMOUNTS:
            found += [(f"{name}.{field}.{key}", number) for key, number in value.items()]
    if table.events is not None:
        found.append((f"{name}.events.time", table.events.time))
    return found
