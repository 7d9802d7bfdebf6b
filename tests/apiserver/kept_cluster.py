"""`stowplan up --data` as a process, and a client that writes to it over HTTP and looks."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

STOWPLAN = Path(sys.executable).parent / "stowplan"
UP = ("up", "--bare", "--port", "0")
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
START_MAX_S = 60.0

Data = dict[str, Any]


class Server:
    def __init__(self, folder: Path, limit: Callable[[], None] | None = None) -> None:
        kubeconfig = folder / "kubeconfig"
        kubeconfig.unlink(missing_ok=True)
        command = [STOWPLAN, *UP, "--data", folder / "data"]
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


def look(server: Server) -> tuple[dict[str, int], int]:
    """Every object's value, and the version of the store."""
    client = Client(server)
    code, listed = client.ask("GET", CONFIG_MAPS)
    client.close()
    assert code == 200, listed
    values = {item["metadata"]["name"]: value_of(item) for item in listed["items"]}
    return values, int(listed["metadata"]["resourceVersion"])
