"""Servers whose every text is hostile: nothing of it reaches a log line, a page or a terminal.

`stowplan run` is started against an API server and an extender that put escape sequences, newlines
and marks that turn text around into every name and message; `stowplan up` is sent the same by its
clients.  All that the two say is looked at: both streams, metrics, and every page.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
import yaml

from tests.cli.test_hostile_text import EVIL, unsafe
from tests.e2e.harness.processes import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

Data = dict[str, Any]
WAIT_S = 60.0
WIRE = EVIL.encode().decode("latin-1")
"""As a header can carry it."""


def metadata(name: str) -> Data:
    return {
        "name": name,
        "namespace": f"ns{EVIL}",
        "uid": f"uid-{name}",
        "resourceVersion": "5",
        "labels": {EVIL: EVIL},
        "annotations": {EVIL: EVIL},
    }


def pod(name: str, **spec: Any) -> Data:
    container = {"name": EVIL, "image": EVIL}
    return {
        "metadata": metadata(name),
        "spec": {"schedulerName": "default-scheduler", "containers": [container], **spec},
        "status": {"phase": "Pending", "message": EVIL, "reason": EVIL},
    }


def node(name: str, **spec: Any) -> Data:
    condition = {"type": "Ready", "status": "True", "reason": EVIL, "message": EVIL}
    room = {"cpu": "4", "memory": "8Gi", "pods": "110", f"example.com/{EVIL}": "1"}
    images = [{"names": [EVIL], "sizeBytes": 10}]
    status = {"allocatable": room, "conditions": [condition], "images": images}
    return {"metadata": metadata(name), "spec": spec, "status": status}


LISTS: dict[str, list[Data]] = {
    "pods": [
        pod(f"fits{EVIL}"),
        pod("gated", schedulingGates=[{"name": EVIL}]),
        pod("choosy", nodeSelector={EVIL: EVIL}),
        pod("claiming", volumes=[{"name": EVIL, "persistentVolumeClaim": {"claimName": EVIL}}]),
        pod("ours", nodeName=f"node{EVIL}"),
        pod("greedy", containers=[
            {"name": EVIL, "resources": {"requests": {f"example.com/{EVIL}": "9", "cpu": EVIL}}}
        ]),
    ],
    "nodes": [
        node(f"node{EVIL}"),
        node("tainted", taints=[{"key": EVIL, "value": EVIL, "effect": "NoSchedule"}]),
    ],
    "namespaces": [{"metadata": metadata(f"ns{EVIL}")}],
}  # fmt: skip


class HostileServer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        kind = urlsplit(self.path).path.rpartition("/")[2]
        if "watch=" in self.path:
            status = {"kind": "Status", "code": 500, "reason": EVIL, "message": EVIL}
            self._answer(200, {"type": "ERROR", "object": status})
        elif kind in ("leases", "version"):
            self._answer(500, {"kind": "Status", "message": EVIL, "reason": EVIL})
        else:
            items = LISTS.get(kind, [])
            self._answer(200, {"metadata": {"resourceVersion": "5"}, "items": items})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        if body.get("kind") == "TokenReview":
            status: Data = {"authenticated": True, "user": {"username": EVIL, "groups": [EVIL]}}
            self._answer(201, {**body, "status": status})
        elif "AccessReview" in body.get("kind", ""):
            self._answer(201, {**body, "status": {"allowed": True, "reason": EVIL}})
        elif "filter" in self.path:
            self._answer(200, {"Error": EVIL, "FailedNodes": {EVIL: EVIL}})
        else:
            refusal = {"kind": "Status", "code": 422, "reason": EVIL, "message": EVIL}
            self._answer(422, refusal, WIRE)

    do_PATCH = do_PUT = do_DELETE = do_POST  # noqa: N815 - so the base class calls them

    def _answer(self, code: int, body: Data, reason: str = "OK") -> None:
        data = json.dumps(body).encode()
        self.send_response(code, reason.replace("\n", " ").replace("\r", " "))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Warning", '299 - "' + WIRE.replace("\n", " ").replace("\r", " ") + '"')
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def hostile_url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), HostileServer)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


class Command:
    """A `stowplan` process with all that it printed."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.log = folder / "log"
        with self.log.open("wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "stowplan", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=dict(os.environ),
            )

    def text(self) -> str:
        return self.log.read_bytes().decode()

    def until(self, check: Callable[[], object]) -> None:
        deadline_s = time.monotonic() + WAIT_S
        while not check():
            assert self._process.poll() is None, self.text()
            assert time.monotonic() < deadline_s, self.text()
            time.sleep(0.05)

    def end(self) -> str:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(20)
        finally:
            self._process.kill()
        return self.text()


def assert_safe(text: str) -> None:
    # The lines of a traceback or a report begin with a tab, as klog's do.
    lines = [line.removeprefix("\t") for line in text.split("\n")]
    assert not [line for line in lines if unsafe(line)]
    assert not [line for line in lines if line.lstrip().startswith("note: forged")]


def get(url: str, path: str, **headers: str) -> str:
    parts = urlsplit(url)
    tls = ssl._create_unverified_context()
    made: http.client.HTTPConnection
    if parts.scheme == "https":
        made = http.client.HTTPSConnection(parts.netloc, timeout=20, context=tls)
    else:
        made = http.client.HTTPConnection(parts.netloc, timeout=20)
    with closing(made):
        made.request("GET", path, headers=headers)
        answer = made.getresponse()
        assert not unsafe(answer.reason)
        with answer:
            return answer.read().decode()


@pytest.mark.parametrize("form", ["text", "json"])
def test_run_with_a_hostile_api_server_and_extender(
    tmp_path: Path, hostile_url: str, form: str
) -> None:
    context = {"cluster": EVIL, "user": EVIL, "namespace": EVIL}
    kubeconfig = {
        "clusters": [{"name": EVIL, "cluster": {"server": hostile_url}}],
        "users": [{"name": EVIL, "user": {"token": "secret-token"}}],
        "contexts": [{"name": EVIL, "context": context}],
        "current-context": EVIL,
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig))
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": "kubeconfig"},
        "leaderElection": {"leaderElect": False},
        "extenders": [{"urlPrefix": f"{hostile_url}/extender", "filterVerb": "filter"}],
    }
    (tmp_path / "config.yaml").write_text(json.dumps(config))
    port = free_port()
    command = Command(
        tmp_path, "run", "--config", "config.yaml", "-v", "10", "--logging-format", form,
        "--secure-port", str(port), "--bind-address", "127.0.0.1",
        "--authentication-kubeconfig", "kubeconfig", "--authorization-kubeconfig", "kubeconfig",
    )  # fmt: skip
    try:
        command.until(
            lambda: command.text().count("owned") > 20 and "Error scheduling" in command.text()
        )
        if form == "text":
            pages = ["/metrics", "/debug", "/debug/queue", "/debug/cache", "/debug/decisions"]
            pages += [
                "/configz",
                "/flagz",
                "/statusz",
                f"/debug/{quote(EVIL)}",
                "/debug/bottlenecks",
            ]
            pages += [f"/debug/decisions/{quote(EVIL)}/x", "/metrics/resources"]
            for page in pages:
                for accept in ("text/plain", "application/json"):
                    found = get(
                        f"https://127.0.0.1:{port}", page, Authorization="Bearer x", Accept=accept
                    )
                    assert_safe(found)
    finally:
        said = command.end()
    assert_safe(said)
    assert "owned" in said, "it is told, only written out"


def test_up_with_hostile_clients(tmp_path: Path, hostile_url: str) -> None:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [{"urlPrefix": f"{hostile_url}/extender", "filterVerb": "filter"}],
    }
    (tmp_path / "config.yaml").write_text(json.dumps(config))
    written = tmp_path / "kubeconfig"
    command = Command(
        tmp_path, "up", "-v", "--port", "0", "--nodes", "2", "--config", "config.yaml",
        "--write-kubeconfig", "kubeconfig",
    )  # fmt: skip
    try:
        command.until(written.exists)
        url = yaml.safe_load(written.read_text())["clusters"][0]["cluster"]["server"]
        send_all(url)
        events = "/api/v1/events"
        command.until(lambda: "owned" in get(url, events))
    finally:
        said = command.end()
    assert_safe(said)


def send_all(url: str) -> None:
    """Everything that a client can say, in every place that takes text."""
    parts = urlsplit(url)
    fields = {"annotations": {"example.com/a": EVIL}}
    good = pod("web", schedulerName="default-scheduler")
    good["metadata"] = {"name": "web", **fields}
    good["spec"]["containers"][0]["name"] = "main"
    odd = pod("odd", schedulerName=EVIL)
    bodies: list[tuple[str, Any]] = [
        ("/api/v1/namespaces/default/pods", good),
        ("/api/v1/namespaces/default/pods", {**odd, "metadata": {"name": "odd", **fields}}),
        ("/api/v1/namespaces/default/pods", odd),
        ("/api/v1/nodes", {**node("n9"), "metadata": {"name": "n9", **fields}}),
        ("/api/v1/nodes", node(f"n{EVIL}")),
        (f"/api/v1/namespaces/{quote(EVIL)}/pods", good),
        (f"/apis/{quote(EVIL)}/v1/things", {"kind": EVIL, "apiVersion": EVIL}),
        ("/api/v1/namespaces/default/pods", {"kind": EVIL, EVIL: EVIL}),
        ("/api/v1/namespaces/default/pods?fieldValidation=Strict", {**good, EVIL: EVIL}),
    ]
    headers = {"User-Agent": "x", "Content-Type": "application/json"}
    for path, body in bodies:
        made = http.client.HTTPConnection(parts.netloc, timeout=20)
        made.request("POST", path, json.dumps(body), headers)
        answer = made.getresponse()
        assert not unsafe(answer.reason + str(answer.headers).replace("\n", ""))
        answer.read()
        made.close()
    for noise in (EVIL.encode(), f"GET /{EVIL} HTTP/1.1\r\n\r\n".encode()):
        made = http.client.HTTPConnection(parts.netloc, timeout=20)
        made.connect()
        assert made.sock is not None
        made.sock.sendall(noise)
        made.close()
