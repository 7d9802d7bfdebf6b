"""A disk that takes no more, or never did: one clear line, no more writes, and nothing is lost.

Whatever the disk does, SQLite sees a write that fails.  Here it fails because a file may not grow
(which works everywhere), because the folder may not be written to, because a small file system is
full, or because one is mounted read-only; the last two need the right to mount, and are skipped
without it.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from stowplan.apiserver.journal import SqliteJournal
from tests.apiserver.http.serving import PODS, Served, serve
from tests.apiserver.kept_cluster import (
    CONFIG_MAPS,
    STOWPLAN,
    UP,
    Client,
    Server,
    config_map,
    look,
    running,
)
from tests.apiserver.things import pod_data

REFUSED = (503, "Status", "ServiceUnavailable")
NO_MORE = "the write could not be kept, and no more are taken"
_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE = 24, 1

Limit = Callable[[], None]


def obey_file_modes() -> None:
    """In a new process: give up root's right to write where nobody may."""
    if os.geteuid() == 0:
        ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE, 0, 0, 0)


def file_bytes_max(size: int) -> Limit:
    """In a new process: no file may be larger, which to SQLite is a disk without room."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def write_until_refused(server: Server, prefix: str = "n") -> dict[str, int]:
    """What was acknowledged; checks what is said when the disk takes no more."""
    acknowledged: dict[str, int] = {}
    client = Client(server)
    for number in range(5000):
        name = f"{prefix}{number}"
        code, answer = client.ask("POST", CONFIG_MAPS, config_map(name, number))
        if code != 201:
            break
        acknowledged[name] = number
    assert (code, answer["kind"], answer["reason"]) == REFUSED
    assert NO_MORE in answer["message"]
    client.close()
    return acknowledged


def check_refuses(server: Server, kept: dict[str, int]) -> None:
    """Nothing is written any more, whatever it is; what is refused is not shown; reads go on."""
    client = Client(server)
    for method, path, body in (
        ("POST", CONFIG_MAPS, config_map("new", 1)),
        ("PUT", f"{CONFIG_MAPS}/n0", config_map("n0", 1)),
        ("DELETE", f"{CONFIG_MAPS}/n0", None),
        ("DELETE", CONFIG_MAPS, None),
    ):
        assert client.ask(method, path, body)[0] == 503
    client.close()
    assert look(server)[0] == kept


def check_told_once(server: Server) -> None:
    told = [line for line in server.log.read_text().splitlines() if "could not be kept" in line]
    assert len(told) == 1, "once, where its operator looks"
    assert "cluster.db" in told[0]


def check_all_there(folder: Path, acknowledged: dict[str, int]) -> None:
    """After a start with room, and it takes writes again."""
    with running(folder) as server:
        assert look(server)[0] == acknowledged
        client = Client(server)
        assert client.ask("POST", CONFIG_MAPS, config_map("more", 1))[0] == 201
        client.close()


@pytest.mark.slow
def test_a_full_disk(tmp_path: Path) -> None:
    with running(tmp_path, file_bytes_max(500_000)) as server:
        acknowledged = write_until_refused(server)
        assert len(acknowledged) > 10
        check_refuses(server, acknowledged)
        assert server.end(signal.SIGTERM) == 0
    check_told_once(server)
    check_all_there(tmp_path, acknowledged)


@pytest.mark.slow
def test_a_disk_that_stops_taking_writes_stays_out_of_use(tmp_path: Path) -> None:
    """Also when there is room again: only a new start makes sure that nothing is missing.

    Its log is on the same disk, and cannot be written either.
    """
    with running(tmp_path) as server:
        client = Client(server)
        for number in range(20):
            assert client.ask("POST", CONFIG_MAPS, config_map(f"n{number}", number))[0] == 201
        client.close()
        acknowledged = {f"n{number}": number for number in range(20)}
        pid, forever = server.process.pid, resource.RLIM_INFINITY
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, forever))
        assert write_until_refused(server, "late") == {}
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (forever, forever))
        check_refuses(server, acknowledged)
        server.end(signal.SIGKILL)
    check_all_there(tmp_path, acknowledged)


# -- at the start ---------------------------------------------------------------------------


def start(data: Path, limit: Limit | None = None) -> list[str]:
    """The lines of a start that fails as it should."""
    ended = subprocess.run(
        [STOWPLAN, *UP, "--data", data],
        capture_output=True,
        text=True,
        preexec_fn=limit,
        timeout=60,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    return ended.stderr.splitlines()


def filled(folder: Path) -> Path:
    with running(folder) as server:
        client = Client(server)
        assert client.ask("POST", CONFIG_MAPS, config_map("n0", 0))[0] == 201
        client.close()
        assert server.end(signal.SIGTERM) == 0
    return folder / "data"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["", "new"])
def test_a_folder_that_may_not_be_written_to(tmp_path: Path, name: str) -> None:
    tmp_path.chmod(0o555)
    error, hint = start(tmp_path / name, obey_file_modes)

    assert error.startswith(f"error: {tmp_path}")
    assert "cannot be used" in error
    assert "writ" in hint


@pytest.mark.slow
def test_a_cluster_that_may_only_be_read(tmp_path: Path) -> None:
    data = filled(tmp_path)
    for path in (*data.iterdir(), data):
        path.chmod(0o500 if path.is_dir() else 0o400)
    error, hint = start(data, obey_file_modes)
    for path in (data, *data.iterdir()):
        path.chmod(0o755)

    assert error.startswith(f"error: {data}/cluster.db: the cluster's data cannot be opened: ")
    assert "may this user write there?" in hint
    check_all_there(tmp_path, {"n0": 0})


@pytest.mark.slow
def test_a_disk_that_is_full_from_the_start(tmp_path: Path) -> None:
    error, hint = start(tmp_path / "data", file_bytes_max(0))

    assert error.startswith(f"error: {tmp_path}/data/cluster.db: the cluster's data cannot be")
    assert hint.startswith("  hint: ")


# -- real file systems ----------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one mebibyte."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    try:
        mounted = subprocess.run(mount, capture_output=True, timeout=10).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("mounting a file system is not allowed here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True, timeout=10)


@pytest.mark.slow
def test_a_file_system_without_room(small_disk: Path) -> None:
    with running(small_disk) as server:
        acknowledged = write_until_refused(server)
        assert len(acknowledged) > 10
        check_refuses(server, acknowledged)
        server.end(signal.SIGKILL)
    subprocess.run(["mount", "-o", "remount,size=20m", str(small_disk)], check=True, timeout=10)
    check_all_there(small_disk, acknowledged)


@pytest.mark.slow
def test_a_file_system_that_is_read_only(small_disk: Path) -> None:
    data = filled(small_disk)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True, timeout=10)
    error, hint = start(data)

    assert error.startswith(f"error: {data}/cluster.db: the cluster's data cannot be opened: ")
    assert "may this user write there?" in hint
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True, timeout=10)
    check_all_there(small_disk, {"n0": 0})


# -- read-only from one moment to the next, without a process of its own ---------------------


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncIterator[tuple[Served, SqliteJournal]]:
    journal = SqliteJournal(tmp_path)
    served = await serve(journal=journal)
    yield served, journal
    await served.close()
    journal.close()


async def test_a_file_system_that_becomes_read_only(
    kept: tuple[Served, SqliteJournal], tmp_path: Path
) -> None:
    served, journal = kept
    assert (await served.post(PODS, pod_data("a"))).code == 201
    before = (await served.get(PODS)).data
    async with served.watch(
        f"{PODS}?resourceVersion={before['metadata']['resourceVersion']}"
    ) as it:
        # As after an error of the disk, when the kernel takes it away from all writers.
        journal._connection.execute("PRAGMA query_only=1")
        code, reason, message = (await served.post(PODS, pod_data("b"))).status()
        assert (code, reason) == (503, "ServiceUnavailable")
        assert message.startswith(f"{NO_MORE}: attempt to write a readonly database")
        journal._connection.execute("PRAGMA query_only=0")
        assert (await served.delete(f"{PODS}/a")).code == 503
        assert (await served.get(PODS)).data == before
        served.store.end_watches()
        assert await it.ended(), "nothing was announced that is not there"
    journal.close()
    again = SqliteJournal(tmp_path)
    assert sorted(thing.name for kind, thing, _ in again.load() if kind.name == "Pod") == ["a"]
    again.close()
