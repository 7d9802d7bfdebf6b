"""The folder of `stowplan up --data`: who may read it, and what is done when it is damaged."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from stowplan.apiserver.journal import SqliteJournal
from stowplan.apiserver.journal_files import FILE_NAME, LAST_NAME, LOG_NAME, DamagedData
from stowplan.apiserver.journal_rows import SCHEMA_OF_FORMAT_1
from stowplan.apiserver.journal_salvage import salvage
from stowplan.errors import InputError
from stowplan.objects.kinds import POD
from tests.apiserver.test_journal import everything, open_store
from tests.apiserver.things import create_pod, delete, names


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())}


@pytest.fixture
def open_hands() -> Iterator[None]:
    """Whatever the process's mask would allow."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_hands")
def test_only_the_owner_may_read_the_data(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "data"
    store, journal = open_store(folder)
    create_pod(store)

    assert modes(folder) == {"data": 0o700, FILE_NAME: 0o600, LAST_NAME: 0o600, LOG_NAME: 0o600}
    journal.close()


def test_data_that_others_could_read_is_closed_to_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "data"
    open_store(folder)[1].close()
    folder.chmod(0o755)
    for path in folder.iterdir():
        path.chmod(0o644)

    open_store(folder)[1].close()

    assert modes(folder) == {"data": 0o700, FILE_NAME: 0o600, LAST_NAME: 0o600}
    assert f"{folder / FILE_NAME}: others could use it (mode 0644)" in caplog.text


def test_a_folder_with_other_things_in_it_stays_as_it_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "other").write_text("")

    open_store(tmp_path)[1].close()

    assert modes(tmp_path)[tmp_path.name] == 0o755
    assert modes(tmp_path)[FILE_NAME] == 0o600


def test_data_of_the_format_before_gets_checksums(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, journal = open_store(tmp_path, seed=7)
    create_pod(store, "a")
    create_pod(store, "b")
    before, version = everything(store), store.resource_version
    journal.close()
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection, connection:
        connection.execute("ALTER TABLE objects RENAME TO new")
        connection.execute(SCHEMA_OF_FORMAT_1["objects"])
        columns = "api_version, kind, namespace, name, body, rest"
        connection.execute(f"INSERT INTO objects SELECT {columns} FROM new")
        connection.execute("DROP TABLE new")
        connection.execute("DELETE FROM facts WHERE name NOT IN ('seed', 'version')")
        connection.execute("INSERT INTO facts VALUES ('format', 1)")
    (tmp_path / LAST_NAME).unlink()

    again, journal = open_store(tmp_path)

    assert (everything(again), again.resource_version, journal.seed) == (before, version, 7)
    assert "had no checksums" in caplog.text
    delete(again, POD, "a", 0)
    journal.close()
    assert names(open_store(tmp_path)[0], POD) == ["b"]


# -- what got lost, and what can be kept -----------------------------------------------------


def spoil(folder: Path, name: str) -> None:
    with closing(sqlite3.connect(folder / FILE_NAME)) as connection, connection:
        connection.execute(f"UPDATE objects SET body=x'7b7d' WHERE name='{name}'")


def test_an_object_that_is_missing_is_noticed(tmp_path: Path) -> None:
    store, journal = open_store(tmp_path)
    create_pod(store)
    journal.close()
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection, connection:
        connection.execute("DELETE FROM objects WHERE kind='Pod'")

    with pytest.raises(DamagedData, match="not all of its objects are there; 6 of 7"):
        open_store(tmp_path)


def test_a_log_that_went_away_is_noticed(tmp_path: Path) -> None:
    store, journal = open_store(tmp_path)
    create_pod(store)
    journal.close()
    last = (tmp_path / LAST_NAME).read_bytes()
    store, journal = open_store(tmp_path)
    create_pod(store, "late")
    newer = (tmp_path / LAST_NAME).read_bytes()
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    (crashed / FILE_NAME).write_bytes((tmp_path / FILE_NAME).read_bytes())
    (crashed / LAST_NAME).write_bytes(newer)

    assert last != newer
    with pytest.raises(DamagedData, match=r"ends with version \d+, and version \d+ was ack"):
        open_store(crashed)
    (crashed / LAST_NAME).write_bytes(last)
    found, again = open_store(crashed)
    assert names(found, POD) == ["p"], "a note that is older, or none, is no reason to refuse"
    again.close()
    journal.close()


def test_what_is_intact_can_be_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store, journal = open_store(tmp_path, seed=7)
    for name in ("a", "b", "c"):
        create_pod(store, name)
    version = store.resource_version
    journal.close()
    spoil(tmp_path, "b")
    damaged = (tmp_path / FILE_NAME).read_bytes()

    salvage(tmp_path, seed=1)

    again, journal = open_store(tmp_path)
    assert names(again, POD) == ["a", "c"]
    assert (again.resource_version, journal.seed) == (version, 7)
    assert "the damaged files are in" in caplog.text
    assert (tmp_path / "damaged-1" / FILE_NAME).read_bytes() == damaged
    create_pod(again, "d")
    journal.close()
    salvage(tmp_path, seed=1)
    assert not (tmp_path / "damaged-2").exists(), "nothing to do where all is intact"
    assert names(open_store(tmp_path)[0], POD) == ["a", "c", "d"]


def test_nothing_is_touched_where_nothing_can_be_kept_or_somebody_is_at_work(
    tmp_path: Path,
) -> None:
    _, journal = open_store(tmp_path)
    with pytest.raises(InputError, match="locked"):
        salvage(tmp_path, seed=1)
    journal.close()
    (tmp_path / FILE_NAME).write_bytes(b"no database" * 1000)
    with pytest.raises(InputError, match="nothing can be kept"):
        salvage(tmp_path, seed=1)
    with pytest.raises(DamagedData):
        SqliteJournal(tmp_path)
