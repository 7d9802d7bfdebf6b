"""Writes that survive `kill -9`: the objects of a store in a SQLite database.

One row per object, one transaction per commit, and every commit is on the disk (WAL with
`synchronous=FULL`) before anybody hears of it.  A transaction that was cut off by a crash is not
there at the next start; what was acknowledged is.  The version counter and the seed lie beside the
objects, so versions and uids go on where they stopped.

Only one process may have a journal open.  When the disk takes no more, the ledger undoes what was
not kept and refuses writes; see `ledger`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from stowplan.apiserver.stored_kinds import STORED_KIND_BY_NAME
from stowplan.apiserver.watches import Change, Rest
from stowplan.errors import InputError, Unavailable
from stowplan.objects.base import KubeObject
from stowplan.objects.codec import decode_json, encode
from stowplan.objects.kinds import Kind
from stowplan.objects.pod import Pod, PodSpec

FILE_NAME = "cluster.db"
FORMAT = 1

_SCHEMA = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS objects (
    api_version TEXT NOT NULL,
    kind TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    body BLOB NOT NULL,
    rest BLOB,
    PRIMARY KEY (kind, api_version, namespace, name)
) WITHOUT ROWID;
"""
_STORE = "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?, ?)"
_REMOVE = "DELETE FROM objects WHERE api_version=? AND kind=? AND namespace=? AND name=?"
_SET_FACT = "INSERT OR REPLACE INTO facts VALUES (?, ?)"

_Key = tuple[str, str, str, str]


class SqliteJournal:
    """A `ledger.Journal` in a folder."""

    def __init__(self, folder: Path, *, seed: int = 0) -> None:
        """`seed` is for a new journal; an old one has its own."""
        self.path = folder / FILE_NAME
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._connection = _connect(self.path)
        except OSError as error:
            raise InputError(
                f"the folder for the cluster's data cannot be used: {error.strerror}",
                where=str(folder),
                hint="name a folder that can be written to; one that does not exist is made",
            ) from error
        except sqlite3.Error as error:
            raise _unusable(self.path, error) from error
        facts = self._read_facts(seed)
        self.seed = facts["seed"]
        self.version = facts["version"]
        """The version of the last commit."""

    def _read_facts(self, seed: int) -> dict[str, int]:
        facts = {"format": FORMAT, "seed": seed, "version": 0}
        try:
            found = dict(self._connection.execute("SELECT name, value FROM facts"))
            if not found:
                with _Transaction(self._connection):
                    self._connection.executemany(_SET_FACT, list(facts.items()))
        except sqlite3.Error as error:
            self._connection.close()
            raise _unusable(self.path, error) from error
        facts |= found
        if facts["format"] != FORMAT:
            self._connection.close()
            raise InputError(
                f"the cluster's data has format {facts['format']}, this version reads {FORMAT}",
                where=str(self.path),
                hint="use the version of stowplan that wrote it, or another folder",
            )
        return facts

    def load(self) -> Iterator[tuple[Kind, KubeObject, Rest]]:
        """Everything that was committed; pods of one template share what they have in common."""
        rests: dict[bytes, Rest] = {}
        specs: dict[bytes, PodSpec] = {}
        for api_version, kind_name, body, rest in self._rows():
            kind = STORED_KIND_BY_NAME.get((api_version, kind_name))
            if kind is None:
                raise InputError(
                    f"the cluster's data has a kind that this version does not know: {kind_name}",
                    where=str(self.path),
                )
            try:
                thing: KubeObject = decode_json(body, kind.struct)
                if rest is not None and rest not in rests:
                    rests[rest] = msgspec.json.decode(rest)
            except (msgspec.MsgspecError, TypeError, UnicodeDecodeError) as error:
                raise InputError(
                    f"the cluster's data is damaged: a {kind_name} cannot be read: {error}",
                    where=str(self.path),
                    hint="take a copy from before, or begin again in another folder",
                ) from None
            if isinstance(thing, Pod):
                thing = replace(thing, spec=_shared_spec(thing.spec, specs))
            yield kind, thing, None if rest is None else rests[rest]

    def _rows(self) -> Iterator[tuple[str, str, bytes, bytes | None]]:
        try:
            yield from self._connection.execute(
                "SELECT api_version, kind, body, rest FROM objects ORDER BY kind, namespace, name"
            )
        except sqlite3.Error as error:
            raise _unusable(self.path, error) from error

    def commit(self, writes: Sequence[tuple[Kind, Change]], version: int) -> None:
        """Keep all of them or none.  Of several writes to one object only the last matters."""
        last: dict[_Key, Change] = {}
        for kind, change in writes:
            meta = change.seen[0].object.metadata
            last[kind.api_version, kind.name, meta.namespace, meta.name] = change
        stored, removed = [], []
        for key, change in last.items():
            event, rest = change.seen
            if event.type == "DELETED":
                removed.append(key)
            else:
                packed = None if rest is None else msgspec.json.encode(rest)
                stored.append((*key, encode(event.object), packed))
        try:
            with _Transaction(self._connection):
                self._connection.executemany(_REMOVE, removed)
                self._connection.executemany(_STORE, stored)
                self._connection.execute(_SET_FACT, ("version", version))
        except sqlite3.Error as error:
            raise Unavailable(
                f"the write could not be kept, and no more are taken: {error}",
                where=str(self.path),
                hint="make room, or make the file writable, and start again: "
                "everything acknowledged is there",
            ) from error
        self.version = version

    def close(self) -> None:
        self._connection.close()


class _Transaction:
    """All or nothing."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        try:
            if error is None:
                self._connection.execute("COMMIT")
        finally:
            # Also after a COMMIT that failed; SQLite may have rolled back by itself.
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=0.0, isolation_level=None)
    try:
        # Before the first read: whoever comes second is told so at once.
        connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.executescript(_SCHEMA)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("COMMIT")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _unusable(path: Path, error: sqlite3.Error) -> InputError:
    hint = "is it a folder of `stowplan up --data`, and may this user write there?"
    if "locked" in str(error):
        hint = "another process uses this folder; stop it, or choose another folder"
    return InputError(f"the cluster's data cannot be opened: {error}", where=str(path), hint=hint)


def _shared_spec(spec: PodSpec, specs: dict[bytes, PodSpec]) -> PodSpec:
    """Equal to `spec`, but with lists and mappings that pods of one template share."""
    template = replace(spec, node_name="")
    shared = specs.setdefault(encode(template), template)
    return replace(shared, node_name=spec.node_name) if spec.node_name else shared
