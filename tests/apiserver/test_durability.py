"""`stowplan up --data` is killed while clients write over HTTP; nothing acknowledged is lost.

Each round starts the server on the same folder, compares what is there with what was acknowledged
before, writes again, and kills it at some moment.  A few rounds here; many with

    STOWPLAN_KILL_ROUNDS=200 .venv/bin/pytest -q --timeout 0 tests/apiserver/test_durability.py
"""

from __future__ import annotations

import http.client
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

STOWPLAN = Path(sys.executable).parent / "stowplan"
ROUNDS = int(os.environ.get("STOWPLAN_KILL_ROUNDS", "3"))
WRITERS = 4
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
START_MAX_S = 60.0

Data = dict[str, Any]
Value = int | None
"""What an object holds; None: it is not there."""


class Server:
    def __init__(self, folder: Path, limit: Callable[[], None] | None = None) -> None:
        kubeconfig = folder / "kubeconfig"
        kubeconfig.unlink(missing_ok=True)
        command = [STOWPLAN, "up", "--bare", "--port", "0", "--data", folder / "data"]
        self.log = folder / "log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--write-kubeconfig", kubeconfig],
                stdout=log,
                stderr=log,
                preexec_fn=limit,
            )
        deadline_s = time.monotonic() + START_MAX_S
        while not kubeconfig.exists():
            assert self.process.poll() is None, self.log.read_text()[-2000:]
            assert time.monotonic() < deadline_s, self.log.read_text()[-2000:]
            time.sleep(0.02)
        found = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        self.host = urlsplit(found).netloc

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(START_MAX_S)


@contextmanager
def running(folder: Path, limit: Callable[[], None] | None = None) -> Iterator[Server]:
    server = Server(folder, limit)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.end(signal.SIGKILL)


class Client:
    """One connection.  `ask` raises OSError or HTTPException when the server has gone."""

    def __init__(self, server: Server) -> None:
        self._connection = http.client.HTTPConnection(server.host, timeout=30.0)

    def ask(self, method: str, path: str, body: Data | None = None) -> tuple[int, Data]:
        headers = {"Content-Type": "application/json"}
        text = None if body is None else json.dumps(body)
        self._connection.request(method, path, text, headers)
        response = self._connection.getresponse()
        return response.status, json.loads(response.read())

    def close(self) -> None:
        self._connection.close()


def config_map(name: str, value: int) -> Data:
    """The value stands in it three times, far apart: half of a write would show."""
    text = str(value)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "annotations": {"value": text}},
        "data": {"a": text, "padding": text * 300, "z": text},
    }


def value_of(data: Data) -> int:
    text: str = data["metadata"]["annotations"]["value"]
    assert data["data"] == {"a": text, "padding": text * 300, "z": text}, "half of a write"
    return int(text)


class Writer:
    """Creates, changes and deletes objects that nobody else writes to, and remembers."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._random = Random(number)
        self._serial = 0
        self.acknowledged: dict[str, Value] = {}
        self.on_its_way: dict[str, Value] = {}
        """Sent, and not answered: it may be there or not."""
        self.version = 0
        """The highest that an answer showed."""

    def write_until_the_end(self, server: Server) -> None:
        client = Client(server)
        try:
            while True:
                self._write_one(client)
        except (OSError, http.client.HTTPException):
            pass
        finally:
            client.close()

    def _write_one(self, client: Client) -> None:
        name = f"w{self._number}-{self._random.randrange(20)}"
        self._serial += 1
        known = self.acknowledged.get(name)
        new: Value = self._serial
        if known is None:
            request = ("POST", CONFIG_MAPS, config_map(name, self._serial))
        elif self._random.random() < 0.3:
            request, new = ("DELETE", f"{CONFIG_MAPS}/{name}", None), None
        else:
            request = ("PUT", f"{CONFIG_MAPS}/{name}", config_map(name, self._serial))
        self.on_its_way[name] = new
        code, answer = client.ask(*request)
        assert code in (200, 201), answer
        self.acknowledged[name] = new
        del self.on_its_way[name]
        version = answer["metadata"].get("resourceVersion")
        self.version = max(self.version, int(version or 0))

    def compare(self, found: dict[str, int]) -> None:
        """What is there must be what was acknowledged, or what was on its way."""
        for name in self.acknowledged.keys() | self.on_its_way.keys():
            allowed = {self.acknowledged.get(name)}
            if name in self.on_its_way:
                allowed.add(self.on_its_way[name])
            assert found.get(name) in allowed, f"{name}: {found.get(name)} not in {allowed}"
            self.acknowledged[name] = found.get(name)
        self.on_its_way.clear()


def look(server: Server) -> tuple[dict[str, int], int]:
    """Every object's value, and the version of the store."""
    client = Client(server)
    code, listed = client.ask("GET", CONFIG_MAPS)
    client.close()
    assert code == 200, listed
    values = {item["metadata"]["name"]: value_of(item) for item in listed["items"]}
    return values, int(listed["metadata"]["resourceVersion"])


@pytest.mark.slow
@pytest.mark.timeout(60 + 30 * ROUNDS)
def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    moments = Random(ROUNDS)
    writers = [Writer(number) for number in range(WRITERS)]
    for number in range(ROUNDS + 1):
        with running(tmp_path) as server:
            found, version = look(server)
            for writer in writers:
                writer.compare(found)
            known = set().union(*(writer.acknowledged for writer in writers))
            assert set(found) <= known, "nobody wrote that"
            assert version >= max(writer.version for writer in writers)
            if number < ROUNDS:
                _write_and_kill(server, writers, moments)
    assert max(writer.version for writer in writers) > ROUNDS, "hardly anything was written"


def _write_and_kill(server: Server, writers: list[Writer], moments: Random) -> None:
    threads = [Thread(target=it.write_until_the_end, args=(server,)) for it in writers]
    for thread in threads:
        thread.start()
    time.sleep(moments.uniform(0.0, 0.4))
    server.end(signal.SIGKILL)
    for thread in threads:
        thread.join()


@pytest.mark.slow
def test_a_full_disk(tmp_path: Path) -> None:
    """No file may grow beyond a limit: to SQLite that is a disk without room."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

    acknowledged: dict[str, int] = {}
    with running(tmp_path, limit) as server:
        client = Client(server)
        for number in range(3000):
            name = f"n{number}"
            code, answer = client.ask("POST", CONFIG_MAPS, config_map(name, number))
            if code != 201:
                break
            acknowledged[name] = number
        assert (code, answer["kind"], answer["reason"]) == (503, "Status", "ServiceUnavailable")
        assert "the write could not be kept, and no more are taken" in answer["message"]
        assert len(acknowledged) > 10
        # What is refused is not shown either, and reading goes on.
        assert look(server)[0] == acknowledged
        assert client.ask("DELETE", f"{CONFIG_MAPS}/n0")[0] == 503
        client.close()
        assert server.end(signal.SIGTERM) == 0
    told = [line for line in server.log.read_text().splitlines() if "could not be kept" in line]
    assert len(told) == 1, "once, where its operator looks"
    assert "cluster.db" in told[0]

    with running(tmp_path) as server:
        assert look(server)[0] == acknowledged
        client = Client(server)
        assert client.ask("POST", CONFIG_MAPS, config_map("more", 1))[0] == 201
        client.close()
