"""`stowplan up` as a process of its own, with tokens and TLS, and how much memory it takes."""

from __future__ import annotations

import base64
import secrets
import signal
import ssl
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import yaml

STOWPLAN = Path(sys.executable).parent / "stowplan"
START_MAX_S = 60.0
STOP_MAX_S = 30.0

PODS = "/api/v1/namespaces/default/pods"


@dataclass(frozen=True, slots=True)
class Target:
    """Where the server is, and what an honest client knows."""

    host: str
    port: int
    token: str = field(repr=False)
    tls: ssl.SSLContext

    @property
    def url(self) -> str:
        return f"https://{self.host}:{self.port}"


class Up:
    """A running server; its log and its kubeconfig are in `folder`."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        token = secrets.token_hex(16)
        tokens, kubeconfig = folder / "tokens", folder / "kubeconfig"
        tokens.write_text(token + "\n")
        self.log = folder / "log"
        files = ["--token-file", str(tokens), "--write-kubeconfig", str(kubeconfig)]
        command = [str(STOWPLAN), "up", "--port", "0", *files, *arguments]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline_s = time.monotonic() + START_MAX_S
        while not kubeconfig.exists():
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                raise RuntimeError(f"the server did not start:\n{self.tail()}")
            time.sleep(0.02)
        cluster = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
        url = urlsplit(cluster["server"])
        ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
        tls = ssl.create_default_context(cadata=ca)
        assert url.hostname is not None
        assert url.port is not None
        self.target = Target(url.hostname, url.port, token, tls)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def rss_bytes(self) -> int:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024

    def stop(self) -> int:
        """Asks it to stop; its exit code."""
        if self.alive:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(STOP_MAX_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def tail(self, lines: int = 20) -> str:
        return "\n".join(self.log_lines()[-lines:])

    def log_lines(self) -> list[str]:
        return self.log.read_text(errors="replace").splitlines()
