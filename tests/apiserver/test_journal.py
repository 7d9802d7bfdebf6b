"""The journal: what was acknowledged is there after a crash, and half a write never is."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stowplan.apiserver.grouping import GroupedStore
from stowplan.apiserver.journal import SqliteJournal
from stowplan.apiserver.journal_files import FILE_NAME
from stowplan.apiserver.journal_rows import STORE, Facts, make_row, set_facts
from stowplan.apiserver.store import Store
from stowplan.clock import VirtualClock
from stowplan.cluster.port import ListOptions, call_one
from stowplan.errors import Gone, InputError, Unavailable
from stowplan.objects.api import Create, Get
from stowplan.objects.base import KubeObject, ObjectMeta, OwnerReference
from stowplan.objects.kinds import KINDS, POD, SERVICE
from stowplan.objects.pod import Pod
from stowplan.objects.workloads import Service
from tests.apiserver.things import (
    START_S,
    Log,
    bind,
    create,
    create_pod,
    data,
    delete,
    exists,
    make_pod,
    names,
    patch,
    pod_data,
    pod_spec,
)


def open_store(folder: Path, **options: Any) -> tuple[Store, SqliteJournal]:
    journal = SqliteJournal(folder, **options)
    return Store(VirtualClock(START_S), journal=journal), journal


def everything(store: Store) -> dict[str, list[tuple[KubeObject, Any]]]:
    return {kind.name: store.select(kind, ListOptions())[0] for kind in KINDS}


def test_the_next_start_continues_where_the_last_one_stopped(tmp_path: Path) -> None:
    store, journal = open_store(tmp_path, seed=7)
    create_pod(store, "a", labels={"x": "y"})
    create(store, POD, pod_data("b", hostname="h"))
    create_pod(store, "gone")
    delete(store, POD, "gone")
    bind(store, "a")
    patch(store, POD, "b", {"status": {"podIP": "1.2.3.4"}}, "merge", "status")
    before, version = everything(store), store.resource_version
    journal.close()

    again, journal = open_store(tmp_path)

    assert everything(again) == before
    assert again.resource_version == version
    assert data(again, POD, "b")["spec"]["hostname"] == "h"
    # New uids and versions follow the old ones.
    made = create_pod(again, "c")
    assert int(made.metadata.resource_version) == int(version) + 1
    assert made.uid.startswith("00000007-")
    journal.close()


def test_watches_from_before_the_restart_are_gone_unless_nothing_was_missed(tmp_path: Path) -> None:
    store, journal = open_store(tmp_path)
    old = store.resource_version
    create_pod(store)
    version = store.resource_version
    journal.close()

    again, journal = open_store(tmp_path)

    assert isinstance(Log(again, version=old).ended[0], Gone)
    log = Log(again, version=version)
    bind(again)
    assert log.story == [("MODIFIED", "p")]
    journal.close()


def test_specs_and_rests_are_shared_again(tmp_path: Path) -> None:
    store, journal = open_store(tmp_path)
    for name in ("a", "b", "c"):
        create(store, POD, pod_data(name, hostname="h"))
    bind(store, "b")
    journal.close()

    again, journal = open_store(tmp_path)

    (a, rest_a), (b, rest_b), (c, _) = again.select(POD, ListOptions())[0]
    assert isinstance(a, Pod)
    assert isinstance(b, Pod)
    assert isinstance(c, Pod)
    assert a.spec is c.spec
    assert a.spec.containers is b.spec.containers
    assert rest_a is rest_b
    journal.close()


def test_what_the_last_process_left_undone_is_done(tmp_path: Path) -> None:
    store, journal = open_store(tmp_path)
    owner = OwnerReference(api_version="v1", kind="Service", name="s", uid="gone")
    meta = ObjectMeta(name="orphan", owner_references=[owner])
    create(store, POD, Pod(metadata=meta, spec=pod_spec()))
    create(store, SERVICE, Service(metadata=ObjectMeta(name="kept")))
    journal.close()

    again, journal = open_store(tmp_path)

    assert not exists(again, POD, "orphan")
    assert exists(again, SERVICE, "kept")
    journal.close()


def test_a_batch_is_all_or_nothing_and_answers_come_after_it(tmp_path: Path) -> None:
    store, journal = open_store(tmp_path)
    answers: list[object] = []
    log = Log(store)

    with store.batch():
        for name in ("a", "b"):
            call_one(store, Create(POD, "default", make_pod(name)), answers.append)
        assert (answers, log.events) == ([], [])
        assert pods_on_disk(tmp_path, tmp_path / "copy1") == []

    assert len(answers) == 2
    assert pods_on_disk(tmp_path, tmp_path / "copy2") == ["a", "b"]
    journal.close()


def copy_of(folder: Path, to: Path, *, wal_bytes: int | None = None) -> Path:
    """The files as they lie there now: what a crash at this moment leaves."""
    to.mkdir()
    for suffix in ("", "-wal"):
        source = folder / (FILE_NAME + suffix)
        if source.exists():
            shutil.copy(source, to / source.name)
    if wal_bytes is not None:
        with (to / (FILE_NAME + "-wal")).open("r+b") as wal:
            wal.truncate(wal_bytes)
    return to


def pods_on_disk(folder: Path, to: Path, *, wal_bytes: int | None = None) -> list[str]:
    store, journal = open_store(copy_of(folder, to, wal_bytes=wal_bytes))
    journal.close()
    return names(store, POD)


def test_the_files_hold_every_acknowledged_write_at_any_time(tmp_path: Path) -> None:
    store, journal = open_store(tmp_path)

    for n in range(12):
        if n % 3 == 2:
            delete(store, POD, f"p{n - 1:02}")
        else:
            create_pod(store, f"p{n:02}")
        assert pods_on_disk(tmp_path, tmp_path / f"copy{n}") == names(store, POD)

    journal.close()


def test_a_write_that_was_cut_off_is_not_there_and_what_came_before_is(tmp_path: Path) -> None:
    """Cut the write-ahead log at every few hundred bytes: always a state that once was."""
    store, journal = open_store(tmp_path)
    wal = tmp_path / (FILE_NAME + "-wal")
    seen = []
    for n in range(4):
        with store.batch():
            create_pod(store, f"a{n}")
            create_pod(store, f"b{n}")
        seen.append((wal.stat().st_size, names(store, POD)))
    start = seen[0][0]

    for cut in range(start, wal.stat().st_size + 1, 701):
        found = pods_on_disk(tmp_path, tmp_path / f"cut{cut}", wal_bytes=cut)
        acknowledged = [state for size, state in seen if size <= cut]
        assert found == acknowledged[-1]

    journal.close()


def test_a_full_disk_refuses_writes_and_shows_nothing_it_did_not_keep(tmp_path: Path) -> None:
    store, journal = open_store(tmp_path)
    create_pod(store, "before")
    version, before = store.resource_version, everything(store)
    log = Log(store)
    journal._connection.execute("PRAGMA max_page_count=1")
    answers: list[object] = []

    with store.batch():
        for n in range(400):
            call_one(store, Create(POD, "default", make_pod(f"p{n}")), answers.append)

    assert len(answers) == 400
    assert all(isinstance(answer, Unavailable) for answer in answers)
    assert "no more are taken" in str(answers[0])
    assert everything(store) == before
    assert store.resource_version == version
    assert log.events == []
    with pytest.raises(Unavailable):
        create_pod(store, "after")
    with pytest.raises(Unavailable):
        delete(store, POD, "before")
    assert names(store, POD) == ["before"]
    journal.close()
    assert names(open_store(tmp_path)[0], POD) == ["before"]


def test_a_read_in_the_middle_of_a_group_does_not_hide_what_was_lost(tmp_path: Path) -> None:
    """It commits what came before; if that fails, those before it must hear of it too."""
    store, journal = open_store(tmp_path)
    turns: list[Callable[[], None]] = []
    grouped = GroupedStore(store, turns.append)
    journal._connection.execute("PRAGMA query_only=1")
    answers: list[object] = []
    call_one(grouped, Create(POD, "default", make_pod("a")), answers.append)
    call_one(grouped, Get(POD, "default", "a"), answers.append)

    turns.pop()()

    assert [type(answer) for answer in answers] == [Unavailable, Unavailable]
    assert names(store, POD) == []
    journal.close()


def test_undoing_also_undoes_deletes_changes_and_owners(tmp_path: Path) -> None:
    store, journal = open_store(tmp_path)
    service = create(store, SERVICE, Service(metadata=ObjectMeta(name="s")))
    owner = OwnerReference(api_version="v1", kind="Service", name="s", uid=service.uid)
    meta = ObjectMeta(name="owned", owner_references=[owner])
    create(store, POD, Pod(metadata=meta, spec=pod_spec()))
    create(store, POD, pod_data("other", hostname="h"))
    before = everything(store)
    journal._connection.execute("PRAGMA query_only=1")

    def write() -> None:
        with store.batch():
            delete(store, SERVICE, "s")
            bind(store, "other")
            delete(store, POD, "other", 0)
            create_pod(store, "new")

    with pytest.raises(Unavailable):
        write()

    assert everything(store) == before
    assert store._ledger.owners.dependants(service.uid)[0].name == "owned"
    journal.close()


def test_a_single_write_that_is_not_kept_is_an_error(tmp_path: Path) -> None:
    store, journal = open_store(tmp_path)
    journal._connection.execute("PRAGMA query_only=1")

    with pytest.raises(Unavailable, match="readonly"):
        create_pod(store, "p")

    assert names(store, POD) == []
    journal.close()


def test_two_processes_cannot_share_a_folder(tmp_path: Path) -> None:
    _, journal = open_store(tmp_path)

    with pytest.raises(InputError, match="cannot be opened") as raised:
        SqliteJournal(tmp_path)

    assert "another process" in raised.value.hint
    journal.close()


def test_a_file_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"not a database at all" * 100)

    with pytest.raises(InputError, match="cannot be opened"):
        SqliteJournal(tmp_path)


@pytest.mark.parametrize(
    "damage",
    ["body='{'", "body='{\"spec\":5}'", "body=5", "body=x'ff'", "rest='{'"],
)
def test_a_damaged_object_is_named(tmp_path: Path, damage: str) -> None:
    store, journal = open_store(tmp_path)
    create_pod(store)
    journal.close()
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection, connection:
        connection.execute(f"UPDATE objects SET {damage} WHERE kind='Pod'")

    with pytest.raises(
        InputError, match=r"cluster\.db: .* is damaged: .*, not Pod default/p\b"
    ) as it:
        open_store(tmp_path)
    assert "6 of 7 objects are intact" in it.value.problem
    assert "--salvage" in it.value.hint


def test_a_file_that_was_cut_off_is_refused(tmp_path: Path) -> None:
    store, journal = open_store(tmp_path)
    for number in range(200):
        create_pod(store, f"p{number}")
    journal.close()
    path = tmp_path / FILE_NAME
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    with pytest.raises(InputError, match="database disk image is malformed"):
        open_store(tmp_path)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(InputError, match="cannot be used"):
        SqliteJournal(tmp_path / "file" / "data")


def test_a_journal_of_another_format_is_refused(tmp_path: Path) -> None:
    _, journal = open_store(tmp_path)
    journal.close()
    with sqlite3.connect(tmp_path / FILE_NAME) as connection:
        set_facts(connection, Facts(99, seed=0))
    connection.close()

    with pytest.raises(InputError, match="format 99"):
        SqliteJournal(tmp_path)


def test_a_kind_that_is_not_known_is_refused(tmp_path: Path) -> None:
    _, journal = open_store(tmp_path)
    journal.close()
    with sqlite3.connect(tmp_path / FILE_NAME) as connection:
        connection.execute(STORE, make_row(("x/v1", "Y", "", "z"), b"{}", None))
    connection.close()

    with pytest.raises(InputError, match="does not know: Y"):
        open_store(tmp_path)


CHILD = """
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from stowplan.cluster.port import call_one
from stowplan.apiserver.grouping import GroupedStore
from stowplan.apiserver.journal import SqliteJournal
from stowplan.apiserver.store import Store
from stowplan.clock import VirtualClock
from stowplan.objects.api import Create, Get
from stowplan.objects.kinds import POD
from tests.apiserver.things import make_pod

store = Store(VirtualClock(), journal=SqliteJournal(Path(sys.argv[1])))
start, batch = int(sys.argv[2]), int(sys.argv[3])

def answered(pod):
    print(pod.name, flush=True)

while True:
    with store.batch():
        for n in range(start, start + batch):
            call_one(store, Create(POD, "default", make_pod(f"p{n}")), answered)
    start += batch
"""


@pytest.mark.slow
def test_killed_at_any_moment_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    """The child writes until it is killed, in the middle of whatever it does then."""
    acknowledged: set[str] = set()
    for run, (batch, answers) in enumerate([(1, 1), (1, 17), (7, 40), (50, 60), (50, 333)]):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(tmp_path), str(run * 100_000), str(batch)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert child.stdout is not None
        with child.stdout:
            for _ in range(answers):
                acknowledged.add(child.stdout.readline().strip())
            child.send_signal(signal.SIGKILL)
            child.wait()

        store, journal = open_store(tmp_path)
        found = set(names(store, POD))
        journal.close()
        assert acknowledged <= found
        # A batch is there as a whole or not at all.
        assert len([name for name in found if int(name[1:]) >= run * 100_000]) % batch == 0
