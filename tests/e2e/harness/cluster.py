"""A cluster under test: an API server in processes of its own, real or embedded.

Both sides look the same to a test: an address, users with tokens, and a way to pull the plug.
Neither has controllers or kubelets, so whatever happens to a pod, the scheduler did it.
"""

from __future__ import annotations

import base64
import json
import secrets
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path

import yaml

from tests.e2e.harness.api import Api
from tests.e2e.harness.processes import Process, eventually, free_port

STOWPLAN = Path(sys.executable).parent / "stowplan"

ADMIN = "admin"
SCHEDULER = "scheduler"
SCRAPER = "scraper"
NOBODY = "nobody"
READER = "reader"

SCHEDULER_ACCOUNT = "system:serviceaccount:kube-system:stowplan"
"""What the API server calls the ServiceAccount of deploy/."""

USERS: Mapping[str, tuple[str, str]] = {
    # user: (the name the API server knows, its groups)
    ADMIN: ("e2e-admin", "system:masters"),
    SCHEDULER: (SCHEDULER_ACCOUNT, "system:serviceaccounts"),
    SCRAPER: ("e2e-scraper", "e2e"),
    NOBODY: ("e2e-nobody", "e2e"),
    READER: ("e2e-reader", "e2e"),
}


class Cluster(ABC):
    """Made in a folder of its own; started by `start`, killed by `kill`, the data stays."""

    kind: str
    has_roles: bool
    """Whether users may do only what roles say."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.tokens = {user: secrets.token_hex(16) for user in USERS}
        self._apis: list[Api] = []
        folder.mkdir(parents=True)
        self.token_file = folder / "tokens.csv"
        self.token_file.write_text(
            "".join(
                f'{self.tokens[user]},{name},{name},"{groups}"\n'
                for user, (name, groups) in USERS.items()
            )
        )

    @property
    @abstractmethod
    def url(self) -> str: ...

    @property
    @abstractmethod
    def ca(self) -> str:
        """PEM: what verifies the server."""

    @property
    @abstractmethod
    def processes(self) -> list[Process]: ...

    @abstractmethod
    def start(self, *, wait: bool = True) -> None: ...

    @abstractmethod
    def kill(self) -> None:
        """`kill -9` of the API server."""

    @abstractmethod
    def _stop(self) -> None: ...

    def stop(self) -> None:
        for api in self._apis:
            api.close()
        self._stop()

    def api(self, user: str = ADMIN) -> Api:
        made = Api(self.url, self.tokens[user], self.ca)
        self._apis.append(made)
        return made

    def wait_until_ready(self, process: Process) -> None:
        probe = Api(self.url, self.tokens[ADMIN], self.ca)

        def ready() -> bool:
            try:
                return probe.send("GET", "/readyz")[0] == 200
            except (HTTPException, OSError):
                return False

        eventually("the API server is ready", ready, timeout_s=60.0, must_live=process)
        probe.close()

    def kubeconfig(self, user: str, *, port: int | None = None) -> Path:
        """A file for `user`; `port` is that of a proxy in front of the API server."""
        server = self.url.replace(str(self.port), str(port)) if port else self.url
        ca = base64.b64encode(self.ca.encode()).decode()
        cluster = {"server": server, "certificate-authority-data": ca}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "e2e", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": self.tokens[user]}}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": user}}],
            "current-context": "e2e",
        }
        path = self.folder / f"{user}-{port or self.port}.kubeconfig"
        path.write_text(json.dumps(config))
        return path


class RealCluster(Cluster):
    """etcd and kube-apiserver, with roles."""

    kind = "kubernetes"
    has_roles = True

    def __init__(
        self,
        folder: Path,
        programs: Path,
        *,
        features: str = "",
        apis: str = "",
        protects_groups: bool = False,
    ) -> None:
        """`features` are feature gates to switch on, `apis` versions to serve, as flags have it;
        `protects_groups`: they stay until a controller lets them go, which nobody runs here.
        """
        super().__init__(folder)
        self._protects_groups = protects_groups
        self._programs = programs
        self._optional = {"feature-gates": features, "runtime-config": apis}
        self._etcd_port = free_port()
        self._etcd: Process | None = None
        self._server: Process | None = None
        self._key = folder / "service-accounts.pem"

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def ca(self) -> str:
        return (self.folder / "certs" / "apiserver.crt").read_text()

    @property
    def processes(self) -> list[Process]:
        return [process for process in (self._etcd, self._server) if process is not None]

    def start(self, *, wait: bool = True) -> None:
        if self._etcd is None:
            self._etcd = self._start_etcd()
            _make_key(self._key)
        self._server = self._start_server()
        if not wait:
            return
        certificate = self.folder / "certs" / "apiserver.crt"
        eventually("there is a certificate", certificate.exists, must_live=self._server)
        self.wait_until_ready(self._server)

    def kill(self) -> None:
        assert self._server is not None
        self._server.kill()

    def _stop(self) -> None:
        # Nothing of theirs is kept, and kube-apiserver takes its time to say goodbye.
        for process in reversed(self.processes):
            if process.exit_code is None:
                process.kill()

    def _start_etcd(self) -> Process:
        client, peer = (f"http://127.0.0.1:{port}" for port in (self._etcd_port, free_port()))
        flags = {
            "data-dir": self.folder / "etcd",
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
            # The disk is not what is tested here; only the API server is killed.
            "unsafe-no-fsync": "true",
            "log-level": "warn",
        }
        command = [self._programs / "etcd", *(f"--{name}={it}" for name, it in flags.items())]
        return Process("etcd", command, self.folder / "etcd.log", {})

    def _start_server(self) -> Process:
        flags = {
            "etcd-servers": f"http://127.0.0.1:{self._etcd_port}",
            "secure-port": self.port,
            "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1",
            "endpoint-reconciler-type": "none",
            "cert-dir": self.folder / "certs",
            "service-cluster-ip-range": "10.0.0.0/24",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-signing-key-file": self._key,
            "service-account-key-file": self._key,
            "token-auth-file": self.token_file,
            "authorization-mode": "RBAC",
            "delete-collection-workers": 8,
            # Served by the embedded one too, so that both can be asked.
            "runtime-config": "resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true",
            # Those that wait for controllers, which nobody runs here.
            "disable-admission-plugins": (
                "ServiceAccount,TaintNodesByCondition,StorageObjectInUseProtection"
                + ("" if self._protects_groups else ",PodGroupProtection")
            ),
            **{name: text for name, text in self._optional.items() if text},
        }
        command = [
            self._programs / "kube-apiserver",
            *(f"--{name}={it}" for name, it in flags.items()),
        ]
        return Process("kube-apiserver", command, self.folder / "kube-apiserver.log", {})


class EmbeddedCluster(Cluster):
    """`stowplan up --bare`: the API alone, with a journal so that it can be killed."""

    kind = "embedded"
    has_roles = False

    def __init__(self, folder: Path, *, features: str = "") -> None:
        """`features` are feature gates to switch on, as the flag has it."""
        super().__init__(folder)
        self._features = features
        self._server: Process | None = None
        self._written = folder / "written.kubeconfig"

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def ca(self) -> str:
        written = yaml.safe_load(self._written.read_text())
        data = written["clusters"][0]["cluster"]["certificate-authority-data"]
        return base64.b64decode(data).decode()

    @property
    def processes(self) -> list[Process]:
        return [self._server] if self._server is not None else []

    def start(self, *, wait: bool = True) -> None:
        flags = {
            "port": self.port,
            "data": self.folder / "data",
            "token-file": self.token_file,
            "write-kubeconfig": self._written,
            "feature-gates": self._features,
        }
        command = [STOWPLAN, "up", "--bare", *(f"--{name}={it}" for name, it in flags.items())]
        self._server = Process("stowplan up", command, self.folder / "up.log", {})
        if not wait:
            return
        eventually("there is a kubeconfig", self._written.exists, must_live=self._server)
        self.wait_until_ready(self._server)

    def kill(self) -> None:
        assert self._server is not None
        self._server.kill()

    def _stop(self) -> None:
        if self._server is not None:
            self._server.stop()


def _make_key(path: Path) -> None:
    """kube-apiserver signs service account tokens with it; nobody asks for one here."""
    subprocess.run(
        ["openssl", "genrsa", "-out", path, "2048"], check=True, capture_output=True, timeout=30
    )
