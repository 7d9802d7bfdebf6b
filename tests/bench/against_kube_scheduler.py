"""Stowplan and kube-scheduler on the same API server, in the same run.

    python -m tests.bench.against_kube_scheduler [--nodes 1000] [--pods 3000] [--rounds 2]
    python -m tests.bench.against_kube_scheduler --claims [--nodes 500] [--pods 2000]

For each of them, in turn: nodes, a backlog of pods that nobody schedules, then the scheduler is
started as a process of its own, with its client's limits out of the way, and the pods are watched.
With `--claims` nodes have eight devices each, and every pod a claim for one of its own.
The rate is that from the first binding to the last.  Needs etcd, kube-apiserver and kube-scheduler;
builds them where there is a Go toolchain (see `tests.e2e.build_control_plane`).
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import ssl
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.e2e.build_control_plane import find_or_build
from tests.e2e.harness.api import Api, in_parallel
from tests.e2e.harness.cluster import ADMIN, STOWPLAN, Cluster, RealCluster
from tests.e2e.harness.objects import COLLECTIONS, NAMESPACE, node, pod
from tests.e2e.harness.processes import Process, free_port

PROGRAMS = ("etcd", "kube-apiserver", "kube-scheduler")
QPS = 5000
DRIVER = "gpu.example.com"
DEVICES = "/apis/resource.k8s.io/v1"
DEVICES_PER_NODE = 8
CLAIMS = f"{DEVICES}/namespaces/{NAMESPACE}/resourceclaims"
KINDS = {
    kind: {"apiVersion": "resource.k8s.io/v1", "kind": kind}
    for kind in ("DeviceClass", "ResourceSlice", "ResourceClaim")
}
WATCH_TIMEOUT_S = 600.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--claims", action="store_true")
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--pods", type=int)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    claims = arguments.claims
    nodes, pods, goal = (500, 2000, 4.0) if claims else (1000, 3000, 1.3)
    nodes, pods = arguments.nodes or nodes, arguments.pods or pods
    programs = find_or_build(os.environ, PROGRAMS)
    commands = {
        "kube-scheduler": [programs / "kube-scheduler"],
        "stowplan": [STOWPLAN, "run"],
    }
    rates: dict[str, list[float]] = {name: [] for name in commands}
    # In turn, so that a busy minute meets both.
    for number in range(arguments.rounds):
        for name, command in commands.items():
            rate = run(programs, command, nodes, pods, claims=claims)
            rates[name].append(rate)
            print(f"round {number + 1}: {name:<15} {rate:7.0f} pods/s", flush=True)
    best = {name: max(found) for name, found in rates.items()}
    ratio = best["stowplan"] / best["kube-scheduler"]
    print(
        f"best: kube-scheduler {best['kube-scheduler']:.0f}, stowplan {best['stowplan']:.0f}",
        end="",
    )
    print(f" pods/s: {ratio:.2f} times as many (goal: {goal})")


def run(
    programs: Path, command: list[Path | str], nodes: int, pods: int, *, claims: bool = False
) -> float:
    """Pods per second on a new cluster."""
    with tempfile.TemporaryDirectory() as folder:
        cluster = RealCluster(Path(folder) / "cluster", programs)
        scheduler: Process | None = None
        try:
            cluster.start()
            api = cluster.api()
            in_parallel(
                lambda number: api.post(COLLECTIONS["Node"], node(f"node-{number}")), range(nodes)
            )
            if claims:
                offer_devices(api, nodes)
                in_parallel(lambda number: api.post(CLAIMS, claim(number)), range(pods))
            made = pod_with_claim if claims else plain_pod
            in_parallel(lambda number: api.post(COLLECTIONS["Pod"], made(number)), range(pods))
            version = api.get(COLLECTIONS["Pod"], limit="1")["metadata"]["resourceVersion"]
            watch = BindingWatch(cluster, version)
            # It is open before the first binding: bindings are timed as they arrive.
            watch.open()
            scheduler = start(cluster, command, Path(folder))
            return pods / watch.seconds_until(pods)
        finally:
            if scheduler is not None:
                scheduler.stop()
            cluster.stop()


def plain_pod(number: int) -> dict[str, Any]:
    return pod(f"pod-{number}")


# -- devices --------------------------------------------------------------------------------


def offer_devices(api: Api, nodes: int) -> None:
    """Eight for each node, and a class that has them all."""
    expression = f'device.driver == "{DRIVER}"'
    class_ = {
        "metadata": {"name": "gpu"},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }
    api.post(f"{DEVICES}/deviceclasses", {**KINDS["DeviceClass"], **class_})
    in_parallel(
        lambda number: api.post(f"{DEVICES}/resourceslices", slice_of(f"node-{number}")),
        range(nodes),
    )


def slice_of(node: str) -> dict[str, Any]:
    attributes = {"model": {"string": "A100"}, "driverVersion": {"version": "1.2.3"}}
    spec = {
        "driver": DRIVER,
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": [
            {"name": f"gpu-{n}", "attributes": attributes} for n in range(DEVICES_PER_NODE)
        ],
    }
    return {**KINDS["ResourceSlice"], "metadata": {"name": f"{node}-gpus"}, "spec": spec}


def claim(number: int) -> dict[str, Any]:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]
    metadata = {"name": f"claim-{number}", "namespace": NAMESPACE}
    spec = {"devices": {"requests": requests}}
    return {**KINDS["ResourceClaim"], "metadata": metadata, "spec": spec}


def pod_with_claim(number: int) -> dict[str, Any]:
    claims = [{"name": "gpu", "resourceClaimName": f"claim-{number}"}]
    return pod(f"pod-{number}", resourceClaims=claims)


def start(cluster: Cluster, command: list[Path | str], folder: Path) -> Process:
    kubeconfig = cluster.kubeconfig(ADMIN)
    config: dict[str, Any] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": QPS, "burst": QPS},
    }
    file = folder / "config.yaml"
    file.write_text(json.dumps(config))
    flags = {"config": file, "secure-port": free_port(), "bind-address": "127.0.0.1"}
    flags["cert-dir"] = folder / "certs"
    parts = [*command, *(f"--{name}={value}" for name, value in flags.items())]
    return Process("scheduler", parts, folder / "scheduler.log", {})


class BindingWatch:
    """Sees pods get their nodes, as a third party does."""

    def __init__(self, cluster: Cluster, version: str) -> None:
        self._cluster = cluster
        self._version = version
        self._connection: http.client.HTTPSConnection | None = None
        self._events: http.client.HTTPResponse | None = None

    def open(self) -> None:
        url = urlsplit(self._cluster.url)
        tls = ssl.create_default_context(cadata=self._cluster.ca)
        self._connection = http.client.HTTPSConnection(
            str(url.hostname), url.port, timeout=WATCH_TIMEOUT_S, context=tls
        )
        path = f"{COLLECTIONS['Pod']}?watch=1&resourceVersion={self._version}"
        token = self._cluster.tokens[ADMIN]
        self._connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        self._events = self._connection.getresponse()

    def seconds_until(self, pods: int) -> float:
        """From the first pod with a node to the last of so many."""
        bound: set[str] = set()
        first_s = 0.0
        for seen in self._pods():
            if seen["spec"].get("nodeName"):
                bound.add(seen["metadata"]["name"])
                first_s = first_s or time.monotonic()
            if len(bound) == pods:
                break
        return time.monotonic() - first_s

    def _pods(self) -> Iterator[dict[str, Any]]:
        while True:
            assert self._events is not None
            assert self._connection is not None
            for line in self._events:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    sys.exit(f"error: the watch failed: {event['object']}")
                self._version = event["object"]["metadata"]["resourceVersion"]
                yield event["object"]
            # The API server ends watches of those who are slow; on a busy machine we are.
            self._connection.close()
            self.open()


if __name__ == "__main__":
    main()
