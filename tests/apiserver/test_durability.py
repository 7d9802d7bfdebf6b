"""`stowplan up --data` is killed while clients write over HTTP; nothing acknowledged is lost.

Each round starts the server on the same folder, compares what is there with what was acknowledged
before, writes again, and kills it at some moment.  A few rounds here; many with

    STOWPLAN_KILL_ROUNDS=200 .venv/bin/pytest -q --timeout 0 tests/apiserver/test_durability.py
"""

from __future__ import annotations

import http.client
import os
import signal
import time
from pathlib import Path
from random import Random
from threading import Thread

import pytest

from tests.apiserver.kept_cluster import CONFIG_MAPS, Client, Server, config_map, look, running

ROUNDS = int(os.environ.get("STOWPLAN_KILL_ROUNDS", "3"))
WRITERS = 4

Value = int | None
"""What an object holds; None: it is not there."""


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
