"""A real API server with nodes and pods on it, a scheduler started beside it, and what it takes.

`Stage` is one cluster for one measurement.  `Watched` sees pods come and get their nodes, as a
third party does.  What is measured with these is in `tests.bench.against_kube_scheduler`.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import ssl
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.e2e.build_control_plane import find_or_build
from tests.e2e.harness.api import Api, in_parallel
from tests.e2e.harness.cluster import ADMIN, STOWPLAN, Cluster, RealCluster
from tests.e2e.harness.objects import COLLECTIONS
from tests.e2e.harness.processes import Process, free_port

Data = dict[str, Any]
Maker = Callable[[int], Data]

PROGRAMS = ("etcd", "kube-apiserver", "kube-scheduler")
QPS = 5000
WATCH_TIMEOUT_S = 600.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def commands() -> dict[str, list[Path | str]]:
    """What is compared, by name."""
    programs = find_or_build(os.environ, PROGRAMS)
    return {"kube-scheduler": [programs / "kube-scheduler"], "stowplan": [STOWPLAN, "run"]}


class Stage:
    """A new cluster, and the schedulers that were started on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cluster = RealCluster(folder / "cluster", find_or_build(os.environ, PROGRAMS))
        self.schedulers: list[Process] = []

    @property
    def api(self) -> Api:
        return self.cluster.api()

    def create(self, kind: str, made: Maker, count: int, *, first: int = 0) -> None:
        path = COLLECTIONS.get(kind, kind)
        api = self.api
        in_parallel(lambda number: api.post(path, made(number)), range(first, first + count))

    def watch(self) -> Watched:
        """Open before the scheduler starts: what happens is timed as it arrives."""
        version = self.api.get(COLLECTIONS["Pod"], limit="1")["metadata"]["resourceVersion"]
        return Watched(self.cluster, version)

    def start(self, command: list[Path | str], *, elect: bool = False) -> Process:
        folder = self.folder / f"scheduler-{len(self.schedulers)}"
        folder.mkdir()
        process = start(self.cluster, command, folder, elect=elect)
        self.schedulers.append(process)
        return process


def start(
    cluster: Cluster, command: list[Path | str], folder: Path, *, elect: bool = False
) -> Process:
    """A scheduler as a process of its own, with its client's limits out of the way."""
    kubeconfig = cluster.kubeconfig(ADMIN)
    config: Data = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": elect},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": QPS, "burst": QPS},
    }
    file = folder / "config.yaml"
    file.write_text(json.dumps(config))
    flags = {"config": file, "secure-port": free_port(), "bind-address": "127.0.0.1"}
    flags["cert-dir"] = folder / "certs"
    parts = [*command, *(f"--{name}={value}" for name, value in flags.items())]
    return Process("scheduler", parts, folder / "scheduler.log", {})


@contextmanager
def staged() -> Iterator[Stage]:
    with tempfile.TemporaryDirectory() as folder:
        stage = Stage(Path(folder))
        try:
            stage.cluster.start()
            yield stage
        finally:
            for scheduler in stage.schedulers:
                scheduler.stop()
            stage.cluster.stop()


def processor_s(process: Process) -> float:
    """Seconds of processor time that it has taken so far."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def resident_mib(process: Process) -> float:
    status = Path(f"/proc/{process.pid}/status").read_text()
    found = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024


class Watched:
    """Pods as they are added and bound; `added_s` and `bound_s` by name, in `time.monotonic`."""

    def __init__(self, cluster: Cluster, version: str) -> None:
        self._cluster = cluster
        self._version = version
        self.added_s: dict[str, float] = {}
        self.bound_s: dict[str, float] = {}
        self._open()

    def _open(self) -> None:
        url = urlsplit(self._cluster.url)
        tls = ssl.create_default_context(cadata=self._cluster.ca)
        self._connection = http.client.HTTPSConnection(
            str(url.hostname), url.port, timeout=WATCH_TIMEOUT_S, context=tls
        )
        path = f"{COLLECTIONS['Pod']}?watch=1&resourceVersion={self._version}"
        token = self._cluster.tokens[ADMIN]
        self._connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        self._events = self._connection.getresponse()

    def until_bound(self, pods: int) -> None:
        """Return when so many have been seen bound."""
        for _ in self.changes():
            if len(self.bound_s) >= pods:
                return

    def changes(self) -> Iterator[str]:
        """The name of each pod that was added, changed or deleted, for as long as asked."""
        while True:
            for line in self._events:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    sys.exit(f"error: the watch failed: {event['object']}")
                metadata = event["object"]["metadata"]
                self._version = metadata["resourceVersion"]
                name = metadata["name"]
                now_s = time.monotonic()
                if event["type"] == "ADDED":
                    self.added_s.setdefault(name, now_s)
                if event["object"]["spec"].get("nodeName"):
                    self.bound_s.setdefault(name, now_s)
                yield name
            # The API server ends watches of those who are slow; on a busy machine we are.
            self._connection.close()
            self._open()
