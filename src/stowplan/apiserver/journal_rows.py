"""What the database of a journal holds: a checksum in every row, and sums over all rows.

A row that was changed is known by its own checksum.  Rows that got lost, or came back, are known by
how many there are and by the sum of their resource versions: every write has its own version, so
both follow each commit without a look at the rows.  These sums lie in `facts`, which has a checksum
too.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

import msgspec

from stowplan.apiserver.stored_kinds import STORED_KIND_BY_NAME
from stowplan.apiserver.watches import UntypedFields
from stowplan.objects.base import KubeObject
from stowplan.objects.codec import decode_json
from stowplan.objects.kinds import Kind
from stowplan.printable import printable

FORMAT = 2

_FACTS = "CREATE TABLE facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID"
_COLUMNS = """
    api_version TEXT NOT NULL,
    kind TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    body BLOB NOT NULL,
    rest BLOB,{}
    PRIMARY KEY (kind, api_version, namespace, name)
) WITHOUT ROWID"""
_OBJECTS = "CREATE TABLE objects (" + _COLUMNS.format("\n    sum INTEGER NOT NULL,")

SCHEMA = {"facts": _FACTS, "objects": _OBJECTS}
SCHEMA_OF_FORMAT_1 = {"facts": _FACTS, "objects": "CREATE TABLE objects (" + _COLUMNS.format("")}

STORE = "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?, ?, ?)"
REMOVE = "DELETE FROM objects WHERE api_version=? AND kind=? AND namespace=? AND name=?"
_SET_FACTS = (
    "INSERT OR REPLACE INTO facts VALUES ('format', ?), ('seed', ?), ('version', ?), "
    "('objects', ?), ('versions', ?), ('sum', ?)"
)
_SELECT = "SELECT * FROM objects ORDER BY kind {0}, api_version {0}, namespace {0}, name {0}"

Key = tuple[str, str, str, str]
Row = tuple[str, str, str, str, bytes, bytes | None, int]
Decoded = tuple[Kind, KubeObject, UntypedFields]


SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""What reading a damaged database may raise: also that the error itself holds no text."""


class Damage(Exception):
    """Not what was written."""


class Facts(NamedTuple):
    format: int
    seed: int
    version: int = 0
    """Of the last commit."""
    objects: int = 0
    """How many there are."""
    versions: int = 0
    """The sum of their resource versions."""

    def sum(self) -> int:
        return crc32(b"%d %d %d %d %d" % self)


def schema_of(connection: sqlite3.Connection) -> dict[str, str]:
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema")
    return {
        name if type_ == "table" and name == table else f"{type_} {name} of {table}": sql
        for type_, name, table, sql in rows
    }


def create_tables(connection: sqlite3.Connection) -> None:
    for statement in SCHEMA.values():
        connection.execute(statement)


def set_facts(connection: sqlite3.Connection, facts: Facts) -> None:
    connection.execute(_SET_FACTS, (*facts, facts.sum()))


def read_facts(connection: sqlite3.Connection) -> Facts:
    found = dict(connection.execute("SELECT name, value FROM facts"))
    try:
        facts = Facts(*(found[name] for name in Facts._fields))
        whole = found == facts._asdict() | {"sum": facts.sum()}
    except (KeyError, TypeError):
        whole = False
    if not whole:
        raise Damage("its facts (version, seed, number of objects) are not what was written")
    return facts


def make_row(key: Key, body: bytes, rest: bytes | None) -> Row:
    found = crc32(body, crc32("\0".join(key).encode()))
    return (*key, body, rest, found if rest is None else crc32(rest, found))


def rows_of(connection: sqlite3.Connection) -> Iterator[Row]:
    return connection.execute(_SELECT.format("ASC"))


def name_of(row: Row) -> str:
    _, kind, namespace, name = row[:4]
    return printable(f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}")


def check_row(row: Row) -> None:
    try:
        whole = make_row(row[:4], row[4], row[5]) == row
    except (TypeError, UnicodeEncodeError):
        whole = False
    if not whole:
        raise Damage(f"{name_of(row)} is not what was written")


def decode_row(row: Row, rests: dict[bytes, UntypedFields]) -> Decoded:
    """Equal rests become one; raises KeyError for a kind that is not known."""
    api_version, kind_name, _, _, body, rest, _ = row
    kind = STORED_KIND_BY_NAME[api_version, kind_name]
    try:
        thing: KubeObject = decode_json(body, kind.struct)
        if rest is not None and rest not in rests:
            rests[rest] = msgspec.json.decode(rest)
    except (msgspec.MsgspecError, TypeError, UnicodeDecodeError) as error:
        raise Damage(f"{name_of(row)} cannot be read: {error}") from None
    return kind, thing, None if rest is None else rests[rest]


def intact_rows(connection: sqlite3.Connection) -> tuple[dict[Key, Row], set[str]]:
    """All that can still be read, from both ends, and the names of rows that are damaged."""
    intact: dict[Key, Row] = {}
    damaged: set[str] = set()
    for order in ("ASC", "DESC"):
        try:
            for row in connection.execute(_SELECT.format(order)):
                try:
                    check_row(row)
                except Damage:
                    damaged.add(name_of(row))
                else:
                    intact[row[:4]] = row
        except SQLITE_ERRORS:
            continue
    return intact, damaged
