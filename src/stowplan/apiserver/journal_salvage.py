"""A damaged journal set aside, and a new one with all of its objects that are intact.

For `stowplan up --salvage`.  First the old files are copied into a folder beside them; then the new
one is made, and put in their place when it is complete.
"""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from itertools import count
from pathlib import Path

from stowplan.apiserver.journal import SqliteJournal
from stowplan.apiserver.journal_files import (
    FILE_NAME,
    LAST_NAME,
    LOG_NAME,
    DamagedData,
    LastCommit,
)
from stowplan.apiserver.journal_rows import (
    SQLITE_ERRORS,
    Damage,
    Row,
    decode_row,
    intact_rows,
    read_facts,
)
from stowplan.errors import InputError
from stowplan.printable import logger

log = logger(__name__)


def salvage(folder: Path, *, seed: int) -> None:
    """Does nothing if the journal there is whole; `seed` is for one whose own cannot be read."""
    damage = _damage_of(folder)
    if damage is None:
        return
    aside, new = _free(folder, "damaged"), _free(folder, "salvaged")
    aside.mkdir(mode=0o700)
    for name in (FILE_NAME, LOG_NAME, LAST_NAME):
        if (folder / name).exists():
            shutil.copy2(folder / name, aside / name)
    with closing(sqlite3.connect(folder / FILE_NAME)) as connection:
        rows = list(intact_rows(connection)[0].values())
        try:
            _, seed, version, *_ = read_facts(connection)
        except (Damage, *SQLITE_ERRORS):
            version = 0
    if not rows:
        raise InputError(
            f"nothing can be kept of the cluster's data: {damage.problem}",
            where=damage.where,
            hint="put back a copy of the folder from before, or begin again in another folder",
        )
    with closing(SqliteJournal(new, seed=seed)) as journal:
        journal.fill(rows, max(version, _noted(folder), *map(_version, rows)))
    # A log belongs to its database: without it, the old one is refused, if this ends half-way.
    (folder / LOG_NAME).unlink(missing_ok=True)
    for name in (FILE_NAME, LAST_NAME):
        (new / name).replace(folder / name)
    new.rmdir()
    log.warning("%s: kept %d objects; the damaged files are in %s", folder, len(rows), aside)


def _damage_of(folder: Path) -> DamagedData | None:
    try:
        with closing(SqliteJournal(folder)) as journal:
            for _ in journal.load():
                pass
    except DamagedData as error:
        return error
    return None


def _noted(folder: Path) -> int:
    try:
        return LastCommit(folder).read() or 0
    except DamagedData:
        return 0


def _version(row: Row) -> int:
    return int(decode_row(row, {})[1].metadata.resource_version)


def _free(folder: Path, name: str) -> Path:
    return next(path for n in count(1) if not (path := folder / f"{name}-{n}").exists())
