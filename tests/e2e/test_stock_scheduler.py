"""A stock kube-scheduler schedules on `stowplan up --no-scheduler`, as on any cluster.

It lists and watches a dozen kinds, holds a lease, binds, patches statuses, preempts and writes
events; all of that must work, with its bodies in JSON and in protobuf, its default.
"""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.build_control_plane import MissingControlPlane, find
from tests.e2e.harness.cluster import STOWPLAN
from tests.e2e.harness.processes import Process, eventually

PODS = "/api/v1/namespaces/default/pods"


class Stage:
    """A cluster without a scheduler, with nodes of 8 cores."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        flags = ["--no-scheduler", "--port", "0", "--nodes", "2"]
        command = [STOWPLAN, "up", *flags, "--write-kubeconfig", self.kubeconfig]
        self.server = Process("stowplan up", command, folder / "up.log", {})
        self.scheduler: Process | None = None

    def wait(self) -> None:
        eventually("there is a kubeconfig", self.kubeconfig.exists, must_live=self.server)
        written = yaml.safe_load(self.kubeconfig.read_text())
        self.url = written["clusters"][0]["cluster"]["server"]

    def schedule(self, program: Path, **connection: str) -> None:
        config = self.folder / "config.yaml"
        known = {"kubeconfig": str(self.kubeconfig), **connection}
        config.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "kubescheduler.config.k8s.io/v1",
                    "kind": "KubeSchedulerConfiguration",
                    "clientConnection": known,
                }
            )
        )
        command = [program, "--config", config, "--secure-port", "0"]
        self.scheduler = Process("kube-scheduler", command, self.folder / "scheduler.log", {})

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, method=method)
        merged = "application/merge-patch+json"
        request.add_header("Content-Type", merged if method == "PATCH" else "application/json")
        with urllib.request.urlopen(request, timeout=20.0) as response:
            return json.loads(response.read())

    def create(self, name: str, cpu: str, **spec: Any) -> None:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        body = {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}
        self.ask("POST", PODS, body)

    def eventually(self, what: str, check: Callable[[], Any]) -> None:
        assert self.scheduler is not None
        eventually(what, check, watching=[self.server], must_live=self.scheduler)

    def phases(self) -> dict[str, str]:
        found = self.ask("GET", PODS)["items"]
        return {pod["metadata"]["name"]: pod["status"]["phase"] for pod in found}

    def reasons(self) -> set[str]:
        found = self.ask("GET", "/apis/events.k8s.io/v1/namespaces/default/events")["items"]
        return {event["reason"] for event in found}

    def stop(self) -> None:
        for process in (self.scheduler, self.server):
            if process is not None:
                process.stop()


@pytest.fixture
def program() -> Path:
    try:
        return find(os.environ, ["kube-scheduler"]) / "kube-scheduler"
    except MissingControlPlane as problem:
        pytest.skip(f"{problem}; `python -m tests.e2e.build_control_plane kube-scheduler`")


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    try:
        made.wait()
        yield made
    finally:
        made.stop()


@pytest.mark.parametrize(
    "content_type", ["application/json", "application/vnd.kubernetes.protobuf"]
)
def test_a_stock_scheduler(stage: Stage, program: Path, content_type: str) -> None:
    stage.schedule(program, contentType=content_type)
    for number in range(2):
        stage.create(f"p{number}", "5")
    running = {"p0": "Running", "p1": "Running"}
    stage.eventually("both run", lambda: stage.phases() == running)
    nodes = {pod["spec"]["nodeName"] for pod in stage.ask("GET", PODS)["items"]}
    assert len(nodes) == 2

    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
    assert stage.ask("GET", lease)["spec"]["holderIdentity"]
    stage.create("third", "5")
    stage.eventually("it is told why", lambda: "FailedScheduling" in stage.reasons())
    (condition,) = stage.ask("GET", f"{PODS}/third")["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("PodScheduled", "Unschedulable")
    assert condition["message"].startswith("0/2 nodes are available: 2 Insufficient cpu.")

    urgent = {"metadata": {"name": "urgent"}, "value": 1000}
    stage.ask("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", urgent)
    stage.create("first", "6", priorityClassName="urgent")
    stage.eventually("it has its place", lambda: stage.phases().get("first") == "Running")
    assert len(stage.phases()) == 3, "one had to go"
    stage.eventually("that is told too", lambda: {"Preempted", "Scheduled"} <= stage.reasons())


@pytest.mark.parametrize(
    "content_type", ["application/json", "application/vnd.kubernetes.protobuf"]
)
def test_a_stock_scheduler_allocates_simulated_devices(
    stage: Stage, program: Path, content_type: str
) -> None:
    """Claims are made for it, and the devices of a pod that goes are free again."""
    api = "/apis/resource.k8s.io/v1"
    for name in ("node-1", "node-2"):
        annotations = {"metadata": {"annotations": {"stowplan/gpus": "1"}}}
        stage.ask("PATCH", f"/api/v1/nodes/{name}", annotations)
    stage.schedule(program, contentType=content_type)
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.stowplan.dev"}}
    template = {
        "metadata": {"name": "gpu"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }
    stage.ask("POST", f"{api}/namespaces/default/resourceclaimtemplates", template)
    claims = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    for number in range(2):
        stage.create(f"p{number}", "1", resourceClaims=claims)
    running = {"p0": "Running", "p1": "Running"}
    stage.eventually("both run", lambda: stage.phases() == running)
    made = stage.ask("GET", f"{api}/namespaces/default/resourceclaims")["items"]
    pools = [it["status"]["allocation"]["devices"]["results"][0]["pool"] for it in made]
    assert sorted(pools) == ["node-1", "node-2"]

    stage.create("third", "1", resourceClaims=claims)
    stage.eventually("it is told why", lambda: "FailedScheduling" in stage.reasons())
    stage.ask("DELETE", f"{PODS}/p0?gracePeriodSeconds=0")
    stage.eventually("it has a device", lambda: stage.phases().get("third") == "Running")
