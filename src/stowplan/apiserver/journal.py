"""Writes that survive `kill -9`: the objects of a store in a SQLite database.

One row per object, one transaction per commit, and every commit is on the disk (WAL with
`synchronous=FULL`) before anybody hears of it.  A transaction that was cut off by a crash is not
there at the next start; what was acknowledged is.  The version counter and the seed lie beside the
objects, so versions and uids go on where they stopped.

Whatever was changed or lost since is noticed at the start, and the start refused: the rows have
checksums (`journal_rows`), and the last commit is noted beside the database (`journal_files`).  A
refusal leaves the files with all that they held; `journal_salvage` keeps what is intact.

Only one process may have a journal open.  When the disk takes no more, the ledger undoes what was
not kept and refuses writes; see `ledger`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from stowplan.apiserver.journal_files import (
    FILE_NAME,
    LOG_NAME,
    DamagedData,
    LastCommit,
    make_private,
)
from stowplan.apiserver.journal_rows import (
    FORMAT,
    REMOVE,
    SCHEMA,
    SCHEMA_OF_FORMAT_1,
    SQLITE_ERRORS,
    STORE,
    Damage,
    Decoded,
    Facts,
    Key,
    Row,
    check_row,
    create_tables,
    decode_row,
    intact_rows,
    make_row,
    read_facts,
    rows_of,
    schema_of,
    set_facts,
)
from stowplan.apiserver.watches import CommittedWrite, UntypedFields
from stowplan.errors import InputError, Unavailable
from stowplan.objects.base import KubeObject
from stowplan.objects.codec import encode
from stowplan.objects.kinds import Kind
from stowplan.objects.pod import Pod, PodSpec
from stowplan.printable import logger

log = logger(__name__)

_NAMES_SHOWN = 5
_HINT = (
    "nothing was changed; put back a copy of the folder from before, or keep what is intact "
    "with `stowplan up --salvage --data DIR`"
)
_OF_THE_DISK = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
}
"""Errors that say nothing of what was written."""


class SqliteJournal:
    """A `ledger.Journal` in a folder."""

    def __init__(self, folder: Path, *, seed: int = 0) -> None:
        """`seed` is for a new journal; an old one has its own."""
        self.path = folder / FILE_NAME
        self._last = LastCommit(folder)
        self._log: bytes | None = None
        """What the log held at the start: SQLite drops it on closing, also what it did not read."""
        try:
            make_private(folder)
            if self._log_path.exists():
                self._log = self._log_path.read_bytes()
            noted = self._last.read()
        except OSError as error:
            raise _not_writable(folder, error) from error
        try:
            self._connection = _connect(self.path)
        except SQLITE_ERRORS as error:
            raise self._unusable(error) from error
        try:
            self._facts = self._open(seed, noted)
            if noted is None:
                self._last.write(self._facts.version)
        except (Damage, *SQLITE_ERRORS) as error:
            raise self._refusal(error) from error
        except OSError as error:
            self.close()
            raise _not_writable(folder, error) from error
        except InputError:
            self.close()
            raise

    @property
    def version(self) -> int:
        """Of the last commit."""
        return self._facts.version

    @property
    def seed(self) -> int:
        return self._facts.seed

    @property
    def _log_path(self) -> Path:
        return self.path.with_name(LOG_NAME)

    def _open(self, seed: int, noted: int | None) -> Facts:
        """Make the tables if there are none, or look at what is there; rows come in `load`."""
        connection = self._connection
        for (problem,) in connection.execute("PRAGMA quick_check(1)"):
            if problem != "ok":
                raise Damage(problem)
        schema = schema_of(connection)
        if not schema and noted is None:
            with _Transaction(connection):
                create_tables(connection)
                set_facts(connection, Facts(FORMAT, seed))
        elif schema == SCHEMA_OF_FORMAT_1:
            self._add_sums()
        elif schema != SCHEMA:
            found = connection.execute("SELECT value FROM facts WHERE name='format'").fetchone()
            self._check_format(FORMAT if found is None else found[0])
            raise Damage("its tables are not what was written")
        facts = read_facts(connection)
        self._check_format(facts.format)
        if noted is not None and facts.version < noted:
            raise Damage(
                f"it ends with version {facts.version}, and version {noted} was acknowledged"
            )
        return facts

    def _check_format(self, found: int) -> None:
        if found != FORMAT:
            raise InputError(
                f"the cluster's data has format {found}, this version reads {FORMAT}",
                where=str(self.path),
                hint="use the version of stowplan that wrote it, or another folder",
            )

    def _add_sums(self) -> None:
        """Format 1 had none: all that can be told of it is whether its objects can be read."""
        connection = self._connection
        found = dict(connection.execute("SELECT name, value FROM facts"))
        with _Transaction(connection):
            connection.execute("ALTER TABLE objects RENAME TO objects_of_format_1")
            connection.execute(SCHEMA["objects"])
            old = connection.execute("SELECT * FROM objects_of_format_1").fetchall()
            facts = Facts(FORMAT, found["seed"], found["version"])
            facts = self._store((make_row(row[:4], row[4], row[5]) for row in old), facts)
            connection.execute("DROP TABLE objects_of_format_1")
            set_facts(connection, facts)
        log.warning("%s: had no checksums; its %d objects have them now", self.path, facts.objects)

    def _store(self, rows: Iterable[Row], facts: Facts) -> Facts:
        """Into an empty table, without a look at sums; the facts that they make."""
        objects = versions = 0
        rests: dict[bytes, UntypedFields] = {}
        for row in rows:
            thing = self._decode(row, rests)[1]
            self._connection.execute(STORE, row)
            objects += 1
            versions += int(thing.metadata.resource_version)
        return facts._replace(objects=objects, versions=versions)

    def fill(self, rows: Iterable[Row], version: int) -> None:
        """Begin with these, in a journal that is new."""
        with _Transaction(self._connection):
            self._facts = self._store(rows, self._facts._replace(version=version))
            set_facts(self._connection, self._facts)
        self._last.write(version)

    def load(self) -> Iterator[Decoded]:
        """Everything that was committed; pods of one template share what they have in common.

        What it gives is to be used only when it has come to its end: then no object is missing.
        """
        rests: dict[bytes, UntypedFields] = {}
        specs: dict[bytes, PodSpec] = {}
        objects = versions = 0
        try:
            for row in rows_of(self._connection):
                check_row(row)
                kind, thing, rest = self._decode(row, rests)
                objects += 1
                versions += int(thing.metadata.resource_version)
                if isinstance(thing, Pod):
                    thing = replace(thing, spec=_shared_spec(thing.spec, specs))
                yield kind, thing, rest
            if (objects, versions) != (self._facts.objects, self._facts.versions):
                raise Damage("not all of its objects are there")
        except (Damage, *SQLITE_ERRORS) as error:
            raise self._refusal(error) from error
        self._log = None

    def _decode(self, row: Row, rests: dict[bytes, UntypedFields]) -> Decoded:
        try:
            return decode_row(row, rests)
        except KeyError:
            raise InputError(
                f"the cluster's data has a kind that this version does not know: {row[1]}",
                where=str(self.path),
            ) from None

    def commit(self, writes: Sequence[tuple[Kind, CommittedWrite]], version: int) -> None:
        """Keep all of them or none.  Of several writes to one object only the last matters."""
        before: dict[Key, KubeObject | None] = {}
        last: dict[Key, CommittedWrite] = {}
        for kind, change in writes:
            meta = change.object.metadata
            key = (kind.api_version, kind.name, meta.namespace, meta.name)
            before.setdefault(key, change.previous)
            last[key] = change
        _, seed, _, objects, versions = self._facts
        stored, removed = [], []
        for key, change in last.items():
            old = before[key]
            if old is not None:
                objects -= 1
                versions -= int(old.metadata.resource_version)
            if change.type == "DELETED":
                removed.append(key)
            else:
                objects += 1
                versions += change.version
                packed = None if change.rest is None else msgspec.json.encode(change.rest)
                stored.append(make_row(key, encode(change.object), packed))
        facts = Facts(FORMAT, seed, version, objects, versions)
        try:
            with _Transaction(self._connection):
                if removed:
                    self._connection.executemany(REMOVE, removed)
                self._connection.executemany(STORE, stored)
                set_facts(self._connection, facts)
            self._last.write(version)
        except (sqlite3.Error, OSError) as error:
            raise Unavailable(
                f"the write could not be kept, and no more are taken: {error}",
                where=str(self.path),
                hint="make room, or make the file writable, and start again: "
                "everything acknowledged is there",
            ) from error
        self._facts = facts

    def close(self) -> None:
        self._connection.close()
        self._last.close()
        if self._log is not None and not self._log_path.exists():
            self._log_path.touch(mode=0o600)
            self._log_path.write_bytes(self._log)

    def _unusable(self, error: Exception) -> InputError:
        code = _code(error)
        problem, path = f"the cluster's data cannot be opened: {error}", str(self.path)
        if code in _OF_THE_DISK:
            hint = "is it a folder of `stowplan up --data`, and may this user write there?"
            if code == sqlite3.SQLITE_BUSY:
                hint = "another process uses this folder; stop it, or choose another folder"
            return InputError(problem, where=path, hint=hint)
        return DamagedData(problem, where=path, hint=f"if it is a folder of stowplan up: {_HINT}")

    def _refusal(self, error: Exception) -> InputError:
        """Says what is lost and the way back, and closes the files with all that they held."""
        try:
            if _code(error) in _OF_THE_DISK:
                return self._unusable(error)
            return DamagedData(
                f"the cluster's data is damaged: {error}{_what_is_left(self._connection)}",
                where=str(self.path),
                hint=_HINT,
            )
        finally:
            self.close()


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
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("COMMIT")
    except SQLITE_ERRORS:
        connection.close()
        raise
    return connection


def _not_writable(folder: Path, error: OSError) -> InputError:
    return InputError(
        f"the folder for the cluster's data cannot be used: {error.strerror}",
        where=str(folder),
        hint="name a folder that can be written to; one that does not exist is made",
    )


def _code(error: Exception) -> int:
    """The kind of error; Python's own have none."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def _what_is_left(connection: sqlite3.Connection) -> str:
    """In words, after the reason; nothing when not even that can be told."""
    try:
        if schema_of(connection) != SCHEMA:
            return ""
        intact, damaged = intact_rows(connection)
        return f"; {len(intact)} of {read_facts(connection).objects} objects are intact" + _names(
            damaged
        )
    except (Damage, *SQLITE_ERRORS):
        return ""


def _names(damaged: set[str]) -> str:
    if not damaged:
        return ""
    shown = sorted(damaged)[:_NAMES_SHOWN]
    more = len(damaged) - len(shown)
    return f", not {', '.join(shown)}" + (f" and {more} more" if more else "")


def _shared_spec(spec: PodSpec, specs: dict[bytes, PodSpec]) -> PodSpec:
    """Equal to `spec`, but with lists and mappings that pods of one template share."""
    template = replace(spec, node_name="")
    shared = specs.setdefault(encode(template), template)
    return replace(shared, node_name=spec.node_name) if spec.node_name else shared
