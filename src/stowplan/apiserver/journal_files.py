"""The files of a journal: for their owner alone, and a note of the last commit beside the database.

SQLite takes a log whose checksums do not agree for one that a crash cut off, and forgets the rest
of it without a word.  So the version of every commit is also written to a small file of its own,
before anybody hears of it: the file is not ahead of the database unless something got lost.  It is
not synced: it survives the end of the process, and after a power failure it may be behind.

`journal` is the only user.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from zlib import crc32

from stowplan.errors import InputError
from stowplan.printable import logger

log = logger(__name__)

FILE_NAME = "cluster.db"
LOG_NAME = FILE_NAME + "-wal"
LAST_NAME = FILE_NAME + "-last"
_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class DamagedData(InputError):
    """Data that is not what was written."""


def make_private(folder: Path) -> None:
    """Make folder and database, or take away what others may do with those that are there.

    A folder that also holds other files is somebody's choice, and stays as it is: the files of the
    journal are closed either way.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        inside = list(folder.iterdir())
        ours = [path for path in inside if path.name.startswith(FILE_NAME)]
        if inside and len(inside) == len(ours):
            _tighten(folder)
        for path in ours:
            _tighten(path)
    # What SQLite puts beside it gets the same mode.
    path = folder / FILE_NAME
    if not path.exists():
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


def _tighten(path: Path) -> None:
    mode = stat.S_IMODE(path.stat().st_mode)
    if not mode & _OF_OTHERS:
        return
    try:
        path.chmod(mode & ~_OF_OTHERS)
    except PermissionError:
        raise InputError(
            f"others may use this file (mode {mode:04o}), and it belongs to another user",
            where=str(path),
            hint="the cluster's data holds its secrets: let its owner run `chmod go-rwx` on it",
        ) from None
    log.warning("%s: others could use it (mode %04o); now only its owner can", path, mode)


class LastCommit:
    """The version of the last commit that anybody may have heard of, in a file."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / LAST_NAME
        self._file: int | None = None

    def read(self) -> int | None:
        """None: there is no such file."""
        try:
            found = self.path.read_bytes()
        except FileNotFoundError:
            return None
        number = found[8:28]
        version = int(number) if number.isdigit() else -1
        if found != _line(version):
            raise DamagedData(
                "the note of the last commit is damaged",
                where=str(self.path),
                hint="it tells whether the end of the log got lost; put back a copy of the whole "
                "folder, or remove this file to go on without knowing",
            )
        return version

    def write(self, version: int) -> None:
        if self._file is None:
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600)
        os.pwrite(self._file, _line(version), 0)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _line(version: int) -> bytes:
    """Always equally long, so that it is written over in place."""
    text = b"version %020d" % version
    return b"%s %08x\n" % (text, crc32(text))
