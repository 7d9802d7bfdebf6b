"""`stowplan up`: what runs, what is printed, how it ends, and what it refuses.

The command in a process of its own where a process is the point; the cluster under the virtual
clock where it is not.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import signal
import socket
import ssl
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from stowplan.apiserver.simulated_nodes import read_nodes
from stowplan.apiserver.store import Store
from stowplan.cli import main
from stowplan.cli._up_kubeconfig import NAME, kubeconfig, write_kubeconfig
from stowplan.cli._up_serve import tell_changes
from stowplan.clock import VirtualClock
from stowplan.cluster.port import ListOptions
from stowplan.config import load_config
from stowplan.embedded import EmbeddedCluster, Parts, Scheduling
from stowplan.errors import InputError
from stowplan.objects.kinds import DEPLOYMENT, NODE, POD, RESOURCE_SLICE
from tests.apiserver.things import START_S, create, create_pod, data, get_pod, names, pod_data

STOWPLAN = Path(sys.executable).parent / "stowplan"
TOKEN = "a-token-of-some-length"


@pytest.fixture(autouse=True)
def python_logging() -> Iterator[None]:
    """The command takes over the log of its process, which here is that of all tests."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def refused(*arguments: str | Path) -> list[str]:
    """The lines on stderr of a command that must end with 2, at once."""
    result = CliRunner().invoke(main, ["up", *map(str, arguments)])
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.stderr
    return result.stderr.splitlines()


# -- what is refused ----------------------------------------------------------------------


def test_an_open_door_needs_a_lock() -> None:
    first, hint = refused("--bind", "0.0.0.0")

    assert first == "error: --bind 0.0.0.0 lets others in: it needs --token-file"
    assert hint.startswith("  hint: ")


@pytest.mark.parametrize("address", ["192.0.2.1", "::", "example.com"])
def test_every_address_that_is_not_loopback(address: str) -> None:
    assert "needs --token-file" in refused("--bind", address)[0]


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        first, hint = refused("--bare", "--port", str(port))

    assert first == f"error: cannot listen on 127.0.0.1:{port}: Address already in use"
    assert "--port" in hint


def test_an_address_of_another_machine(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(TOKEN)
    first, hint = refused("--bare", "--port", "0", "--bind", "192.0.2.1", "--token-file", tokens)

    assert first == "error: cannot listen on 192.0.2.1:0: Cannot assign requested address"
    assert "--bind" in hint


def test_a_configuration_that_is_wrong(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        "parallelism: -1\n"
    )
    first, *_ = refused("--config", config)

    assert first.startswith(f"error: {config}")
    assert "parallelism: Invalid value: -1" in first


def test_a_configuration_that_names_what_is_not_there(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {score: {enabled: [{name: Guesswork}]}}}]\n"
    )
    first, *_ = refused("--config", config)

    assert first.startswith("error: ")
    assert 'ScorePlugin "Guesswork" does not exist' in first


@pytest.mark.parametrize("flag", ["--bare", "--no-scheduler"])
def test_a_configuration_without_a_scheduler(flag: str, tmp_path: Path) -> None:
    assert f"which {flag} leaves out" in refused("--config", tmp_path / "x", flag)[0]


def test_gates_that_do_not_go_together() -> None:
    lines = refused("--feature-gates", "GangScheduling=true")
    assert lines[0] == (
        "error: --feature-gates: GangScheduling is enabled, but depends on features that are "
        "disabled: [GenericWorkload]"
    )


def test_data_that_is_no_folder(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x")

    assert refused("--data", path)[0].startswith(f"error: {path}: ")


def test_a_journal_that_is_broken(tmp_path: Path) -> None:
    (tmp_path / "cluster.db").write_bytes(b"SQLite format 3\x00" + b"\xff" * 5000)
    (tmp_path / "cluster.db").chmod(0o600)
    first, hint = refused("--data", tmp_path)

    assert first.startswith(f"error: {tmp_path / 'cluster.db'}: the cluster's data cannot be")
    assert hint.startswith("  hint: ")
    kept = refused("--data", tmp_path, "--salvage")[0]
    assert kept.startswith(f"error: {tmp_path / 'cluster.db'}: nothing can be kept of the cluster")


def test_salvage_is_for_data_that_is_kept() -> None:
    assert "needs --data" in refused("--salvage")[0]


def test_tokens_that_are_not_there(tmp_path: Path) -> None:
    path = tmp_path / "nope"

    assert refused("--token-file", path)[0] == f"error: {path}: No such file or directory"


def test_a_kubeconfig_of_somebody_else(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("clusters: [{name: production, cluster: {}}]\n")
    first, _ = refused("--write-kubeconfig", path)

    assert "exists and is not one that `stowplan up` wrote" in first
    assert "production" in path.read_text()


def test_a_kubeconfig_that_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "nope" / "config"
    (first,) = refused("--bare", "--port", "0", "--write-kubeconfig", path)

    assert first == f"error: {path}: the kubeconfig cannot be written: No such file or directory"


def test_help_has_examples() -> None:
    text = CliRunner().invoke(main, ["up", "--help"]).stdout

    assert "stowplan up --nodes 100 --data ./cluster" in text


# -- the kubeconfig -----------------------------------------------------------------------


def test_a_kubeconfig_is_private_and_replaced_by_its_successor(tmp_path: Path) -> None:
    path = tmp_path / "config"
    write_kubeconfig(path, kubeconfig("https://127.0.0.1:1", ca=b"pem", token=TOKEN))
    write_kubeconfig(path, kubeconfig("https://127.0.0.1:2", ca=b"pem", token=TOKEN))
    written = yaml.safe_load(path.read_text())

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert written["current-context"] == NAME
    assert written["clusters"][0]["cluster"] == {
        "server": "https://127.0.0.1:2",
        "certificate-authority-data": "cGVt",
    }
    assert written["users"][0]["user"] == {"token": TOKEN}
    assert os.listdir(tmp_path) == ["config"]


@pytest.mark.parametrize("text", ["[]", "{", "clusters: 5", "clusters: [5]", "\x00"])
def test_files_that_are_no_kubeconfig_are_left_alone(text: str, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(text)

    with pytest.raises(InputError):
        write_kubeconfig(path, kubeconfig("http://127.0.0.1:1"))
    assert path.read_text() == text


# -- the cluster, under the virtual clock -------------------------------------------------


class Local:
    def __init__(self, *, schedules: bool = True, workers: bool = True) -> None:
        self.clock = VirtualClock(START_S)
        self.store = Store(self.clock)
        parts = Parts(
            Scheduling(load_config(None)) if schedules else None,
            controllers=workers,
            kubelet=workers,
        )
        self.cluster = EmbeddedCluster(
            self.store,
            parts,
            clock=self.clock,
            timers=self.clock,
            random=Random(1),
        )


@pytest.fixture
def local() -> Iterator[Local]:
    made = Local()
    made.cluster.add_nodes(2)
    made.cluster.start()
    yield made
    made.cluster.stop()
    made.cluster.close()


def deployment(replicas: int) -> dict[str, Any]:
    labels = {"app": "web"}
    return {
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod_data()["spec"]},
        },
    }


def test_from_a_deployment_to_running_pods(local: Local) -> None:
    create(local.store, DEPLOYMENT, deployment(4))
    local.clock.advance(5.0)

    pods = [get_pod(local.store, name) for name in names(local.store, POD)]
    assert [pod.status.phase for pod in pods] == ["Running"] * 4
    assert {pod.spec.node_name for pod in pods} == {"node-1", "node-2"}


def test_it_is_ready_when_everybody_knows_everything() -> None:
    local = Local()
    assert not local.cluster.ready
    local.cluster.start()
    local.clock.advance(1.0)

    assert local.cluster.ready


def test_without_a_scheduler_pods_wait() -> None:
    local = Local(schedules=False)
    local.cluster.add_nodes(None)
    local.cluster.start()
    create(local.store, DEPLOYMENT, deployment(1))
    local.clock.advance(5.0)

    (name,) = names(local.store, POD)
    assert get_pod(local.store, name).spec.node_name == ""
    assert names(local.store, NODE) == ["node-1", "node-2", "node-3"]


def test_bare_nobody_does_anything() -> None:
    local = Local(schedules=False, workers=False)
    local.cluster.start()
    create(local.store, DEPLOYMENT, deployment(1))
    local.clock.advance(5.0)

    assert local.cluster.ready
    assert names(local.store, POD) == []


def test_nodes_that_are_there_stay_as_they_are(local: Local) -> None:
    before = local.store.read(NODE, "", "node-1")[0]
    local.cluster.add_nodes(3)
    local.cluster.add_nodes(None)

    assert local.store.read(NODE, "", "node-1")[0] is before
    assert names(local.store, NODE) == ["node-1", "node-2", "node-3"]


def test_a_scheduler_that_breaks_is_replaced(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    local.clock.advance(1.0)
    broken = local.cluster.scheduler
    assert broken is not None

    def fail(*_: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(type(broken.machine), "handle", fail)
    create_pod(local.store, "a")
    with pytest.raises(ZeroDivisionError):
        local.clock.advance(0.5)
    monkeypatch.undo()
    local.clock.advance(10.0)

    assert local.cluster.scheduler is not broken
    assert get_pod(local.store, "a").spec.node_name


def test_watchers_hear_where_they_are(local: Local) -> None:
    marks: list[Any] = []
    local.store.follow(POD, ListOptions(), "", marks.extend, lambda error: None)
    local.clock.advance(61.0)

    assert [event.type for event, _ in marks] == ["BOOKMARK"]


# -- the process --------------------------------------------------------------------------


class Up:
    """The command at work; `url` is where it says that it listens."""

    def __init__(self, *arguments: str | Path) -> None:
        command = [STOWPLAN, "up", "--port", "0", *arguments]
        self.process = subprocess.Popen(
            [str(part) for part in command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.greeting: list[str] = []
        while "Ctrl-C ends it." not in self.greeting:
            line = self.process.stdout.readline()
            assert line, f"it ended: {self.greeting}"
            self.greeting.append(line.strip())
        self.url = self.greeting[0].rpartition(" at ")[2]

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=30.0) as response:
            return json.loads(response.read())

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """The exit code, and what it complained about."""
        self.process.send_signal(number)
        _, err = self.process.communicate(timeout=30.0)
        return self.process.returncode, err


@pytest.fixture
def start() -> Iterator[Any]:
    started: list[Up] = []

    def make(*arguments: str | Path) -> Up:
        started.append(Up(*arguments))
        return started[-1]

    yield make
    for up in started:
        if up.process.poll() is None:
            up.process.kill()
        up.process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_well(start: Any, number: signal.Signals) -> None:
    up = start()
    assert up.greeting[0].startswith("a cluster, in memory, at http://127.0.0.1:")
    assert up.greeting[1] == f"kubectl --server {up.url} get nodes"
    assert len(up.get("/api/v1/nodes")["items"]) == 3
    # Whoever watches must not hold it up.
    watch = urllib.request.urlopen(f"{up.url}/api/v1/pods?watch=1", timeout=30.0)
    code, err = up.end(number)
    watch.close()

    assert (code, err) == (0, "")


@pytest.mark.slow
def test_data_is_there_again(start: Any, tmp_path: Path) -> None:
    first = start("--data", tmp_path / "data", "--nodes", "2")
    version = first.get("/api/v1/nodes")["metadata"]["resourceVersion"]
    assert first.end(signal.SIGTERM)[0] == 0
    second = start("--data", tmp_path / "data", "--bare")
    listed = second.get("/api/v1/nodes")

    assert [node["metadata"]["name"] for node in listed["items"]] == ["node-1", "node-2"]
    assert int(listed["metadata"]["resourceVersion"]) >= int(version)
    assert "another process uses this folder" in " ".join(refused("--data", tmp_path / "data"))
    assert second.end(signal.SIGTERM) == (0, ""), "nobody asked for a number of nodes"
    third = start("--data", tmp_path / "data", "--nodes", "1")
    assert len(third.get("/api/v1/nodes")["items"]) == 2
    note, hint = third.end(signal.SIGTERM)[1].splitlines()
    assert note == f"note: {tmp_path}/data has 2 nodes, more than --nodes 1; they all stay"
    assert "kubectl delete node" in hint


@pytest.mark.slow
def test_with_tokens_it_speaks_tls(start: Any, tmp_path: Path) -> None:
    tokens, config = tmp_path / "tokens", tmp_path / "kubeconfig"
    tokens.write_text(f"{TOKEN}\n")
    up = start("--token-file", tokens, "--write-kubeconfig", config, "--bare")
    cluster = yaml.safe_load(config.read_text())["clusters"][0]["cluster"]
    pem = base64.b64decode(cluster["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=pem)
    request = urllib.request.Request(f"{up.url}/api/v1/nodes")
    with pytest.raises(urllib.error.HTTPError) as refusal:
        urllib.request.urlopen(request, context=context, timeout=30.0)
    refusal.value.close()
    request.add_header("Authorization", f"Bearer {TOKEN}")
    with urllib.request.urlopen(request, context=context, timeout=30.0) as response:
        assert response.status == 200

    code, err = up.end(signal.SIGTERM)
    assert cluster["server"] == up.url
    assert up.url.startswith("https://127.0.0.1:")
    assert (code, err) == (0, "")
    assert refusal.value.code == 401
    assert TOKEN not in "".join(up.greeting)


NODES = """
apiVersion: v1
kind: Node
metadata: {name: big, labels: {disk: ssd}}
spec: {taints: [{key: gpu, effect: NoSchedule}]}
status: {capacity: {cpu: "64", memory: 262144Mi, pods: "200", example.com/gpu: "8"}}
---
kind: List
items:
- metadata: {name: small}
"""


def test_nodes_of_a_file_are_as_it_says(local: Local, tmp_path: Path) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text(NODES)

    local.cluster.furnish(read_nodes(path))

    big = data(local.cluster.store, NODE, "big")
    assert big["status"]["allocatable"] == {
        "cpu": "64", "memory": "256Gi", "pods": "200", "example.com/gpu": "8",
        "ephemeral-storage": "100Gi",
    }  # fmt: skip
    assert big["metadata"]["labels"]["disk"] == "ssd"
    assert "topology.kubernetes.io/zone" not in big["metadata"]["labels"]
    assert big["spec"]["taints"] == [{"key": "gpu", "effect": "NoSchedule"}]
    assert data(local.cluster.store, NODE, "small")["status"]["capacity"]["cpu"] == "8"


def test_gpus_are_published_with_the_nodes(local: Local, tmp_path: Path) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text('metadata: {name: own, annotations: {stowplan/gpus: "3"}}')
    local.cluster.furnish(read_nodes(path))
    # Nodes that were there without get theirs too.
    local.cluster.add_nodes(3, gpus=2)
    local.clock.advance(1.0)

    store = local.cluster.store
    counts = {
        name: len(data(store, RESOURCE_SLICE, name)["spec"]["devices"])
        for name in names(store, RESOURCE_SLICE)
    }
    driver = "gpu.stowplan.dev"
    assert counts == {f"own-{driver}": 3, **{f"node-{n}-{driver}": 2 for n in (1, 2, 3)}}


def test_gpus_need_somebody_who_publishes_them() -> None:
    assert "--gpus" in " ".join(refused("--gpus", "2", "--bare"))


@pytest.mark.parametrize("text", ["kind: Node", "{kind: Pod, metadata: {name: p}}", "5"])
def test_what_is_no_node(text: str, tmp_path: Path) -> None:
    path = tmp_path / "nodes.yaml"
    path.write_text(text)

    with pytest.raises(InputError, match=r"[nN]ode"):
        read_nodes(path)


def test_changes_are_told(local: Local) -> None:
    said: list[str] = []
    tell_changes(local.cluster.store, said.append)

    create(local.cluster.store, POD, pod_data("web"))
    local.clock.advance(5.0)

    assert said[0] == "  Pod default/web: created"
    assert said[-1].startswith("  Pod default/web: Running on node-")
