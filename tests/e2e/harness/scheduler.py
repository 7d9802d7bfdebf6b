"""`stowplan run` as a real process, with the rights of deploy/ and nothing more."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.harness.api import Api
from tests.e2e.harness.cluster import ADMIN, SCHEDULER, STOWPLAN, Cluster
from tests.e2e.harness.processes import Process, eventually, free_port

Data = dict[str, Any]

LEASE = "stowplan"
"""The one that deploy/ gives the right to."""
NO_ELECTION: Data = {"leaderElect": False}
QUICK_ELECTION: Data = {
    "resourceName": LEASE,
    "leaderElect": True,
    "leaseDuration": "3s",
    "renewDeadline": "2s",
    "retryPeriod": "500ms",
}
"""The usual fifteen seconds, five times as fast."""


def configuration(kubeconfig: Path, *, qps: int = -1, **changes: Any) -> Data:
    """Nobody else is on these API servers: unless a test says so, no call has to wait."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": NO_ELECTION,
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": qps, "burst": 20},
        # A pod that failed is tried again soon.
        "podMaxBackoffSeconds": 1,
        **changes,
    }


class Scheduler:
    """One replica.  `start` may be called again after it ended: files and port stay."""

    def __init__(
        self,
        cluster: Cluster,
        folder: Path,
        *,
        name: str = "scheduler",
        user: str = SCHEDULER,
        proxy_port: int | None = None,
        arguments: tuple[str, ...] = (),
        **config: Any,
    ) -> None:
        self.cluster = cluster
        self.name = name
        self.port = free_port()
        self.folder = folder / name
        self.folder.mkdir(parents=True)
        self.config_file = self.folder / "config.yaml"
        self.kubeconfig = cluster.kubeconfig(user, port=proxy_port)
        self._arguments = arguments
        self._process: Process | None = None
        self._apis: list[Api] = []
        self.write_config(**config)

    def write_config(self, **changes: Any) -> None:
        self.config_file.write_text(json.dumps(configuration(self.kubeconfig, **changes)))

    # -- life -------------------------------------------------------------------------------

    def start(self, *, wait: bool = True) -> Scheduler:
        flags = {
            "config": self.config_file,
            "secure-port": self.port,
            "bind-address": "127.0.0.1",
            "cert-dir": self.folder / "certs",
            "authentication-kubeconfig": self.kubeconfig,
            "authorization-kubeconfig": self.kubeconfig,
            "v": 2,
        }
        command = [
            STOWPLAN,
            "run",
            *(f"--{name}={it}" for name, it in flags.items()),
            *self._arguments,
        ]
        log = self.folder / "run.log"
        self._process = Process(f"stowplan run ({self.name})", command, log, {})
        if wait:
            self.wait_until_ready()
        return self

    @property
    def process(self) -> Process:
        assert self._process is not None, "not started"
        return self._process

    def stop(self) -> None:
        for api in self._apis:
            api.close()
        self._apis = []
        if self._process is not None:
            self._process.stop()

    def wait_until_ready(self) -> None:
        certificate = self.folder / "certs" / "kube-scheduler.crt"
        eventually("there is a certificate", certificate.exists, must_live=self.process)

        def ready() -> bool:
            try:
                return self.endpoint(token="").send("GET", "/readyz")[0] == 200
            except (HTTPException, OSError):
                return False

        eventually(f"{self.name} is ready", ready, timeout_s=30.0, must_live=self.process)

    # -- what it says -----------------------------------------------------------------------

    def endpoint(self, token: str | None = None) -> Api:
        """The secure port, seen by who holds `token`; by default an administrator."""
        token = self.cluster.tokens[ADMIN] if token is None else token
        for api in self._apis:
            if api.token == token:
                return api
        ca = (self.folder / "certs" / "kube-scheduler.crt").read_text()
        made = Api(f"https://127.0.0.1:{self.port}", token, ca)
        self._apis.append(made)
        return made

    def metrics(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        """Every sample by its name and labels; fails if the text is no Prometheus text."""
        code, text = self.endpoint().send("GET", "/metrics")
        assert code == 200, text
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def metric(self, name: str, labels: Mapping[str, str]) -> float:
        return self.metrics().get((name, frozenset(labels.items())), 0.0)
