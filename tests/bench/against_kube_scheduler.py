"""Stowplan and kube-scheduler on the same kind of API server, in the same run.

    python -m tests.bench.against_kube_scheduler [--nodes 1000] [--pods 3000] [--rounds 2]
    python -m tests.bench.against_kube_scheduler --claims [--nodes 500] [--pods 2000]
    python -m tests.bench.against_kube_scheduler --start [--nodes 1000] [--pods 3000]
    python -m tests.bench.against_kube_scheduler --memory [--nodes 2000] [--pods 30000]
    python -m tests.bench.against_kube_scheduler --steady [--nodes 1000] [--seconds 20]
    python -m tests.bench.against_kube_scheduler --standby [--nodes 1000]

For each of them, in turn, on a cluster of its own: nodes, pods, then the scheduler as a process of
its own, with its client's limits out of the way, and the pods are watched.

    (nothing)   a backlog: pods per second from the first binding to the last
    --claims    the same; nodes have eight devices each, and every pod a claim for one of its own
    --start     from the start of the process to the first binding of a backlog
    --memory    the same with a cluster full of running pods, and what is resident once at rest
    --steady    100 mixed pods a second, each deleted 10 s after it was bound: processor time per
                pod, and from created to bound as a third party sees it
    --standby   from SIGTERM of the leader to the first binding by the replica that waited

Needs etcd, kube-apiserver and kube-scheduler; builds them where there is a Go toolchain (see
`tests.e2e.build_control_plane`).
"""

from __future__ import annotations

import argparse
import signal
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench.mixed import mixed_pod, uneven_node
from tests.bench.side_by_side import (
    Stage,
    Watched,
    commands,
    processor_s,
    resident_mib,
    staged,
)
from tests.e2e.harness.api import in_parallel
from tests.e2e.harness.objects import COLLECTIONS, NAMESPACE, node, path_of, pod

Data = dict[str, Any]
Command = list[Path | str]
Figures = dict[str, float]

DRIVER = "gpu.example.com"
DEVICES = "/apis/resource.k8s.io/v1"
DEVICES_PER_NODE = 8
CLAIMS = f"{DEVICES}/namespaces/{NAMESPACE}/resourceclaims"
KINDS = {
    kind: {"apiVersion": "resource.k8s.io/v1", "kind": kind}
    for kind in ("DeviceClass", "ResourceSlice", "ResourceClaim")
}
RATE_PER_S = 100
LIFE_S = 10.0
REST_S = 5.0
RETRY_PERIOD_S = 2.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    which = parser.add_mutually_exclusive_group()
    for name in MODES:
        if name != "backlog":
            which.add_argument(f"--{name}", dest="mode", action="store_const", const=name)
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--pods", type=int)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    measure, nodes, pods = MODES[arguments.mode or "backlog"]
    nodes = arguments.nodes or nodes
    pods = RATE_PER_S * arguments.seconds if measure is steady else arguments.pods or pods
    found: dict[str, list[Figures]] = {name: [] for name in commands()}
    # In turn, so that a busy minute meets both.
    for number in range(arguments.rounds):
        for name, command in commands().items():
            with staged() as stage:
                figures = measure(stage, command, nodes, pods)
            found[name].append(figures)
            told = ", ".join(f"{what} {value:,.4g}" for what, value in figures.items())
            print(f"round {number + 1}: {name:<15} {told}", flush=True)
    for what in found["stowplan"][0]:
        ratios = [
            ours[what] / theirs[what]
            for ours, theirs in zip(found["stowplan"], found["kube-scheduler"], strict=True)
        ]
        print(f"stowplan / kube-scheduler, {what}: {', '.join(f'{r:.2f}' for r in ratios)}")


def backlog(stage: Stage, command: Command, nodes: int, pods: int) -> Figures:
    stage.create("Node", plain_node, nodes)
    stage.create("Pod", plain_pod, pods)
    return {"pods/s": _rate(stage, command, pods)}


def claims(stage: Stage, command: Command, nodes: int, pods: int) -> Figures:
    stage.create("Node", plain_node, nodes)
    stage.create(f"{DEVICES}/deviceclasses", device_class, 1)
    stage.create(f"{DEVICES}/resourceslices", slice_of, nodes)
    stage.create(CLAIMS, claim, pods)
    stage.create("Pod", pod_with_claim, pods)
    return {"pods/s": _rate(stage, command, pods)}


def _rate(stage: Stage, command: Command, pods: int) -> float:
    watched = stage.watch()
    stage.start(command)
    watched.until_bound(pods)
    times_s = watched.bound_s.values()
    return pods / (max(times_s) - min(times_s))


def start(stage: Stage, command: Command, nodes: int, pods: int) -> Figures:
    stage.create("Node", plain_node, nodes)
    stage.create("Pod", plain_pod, pods)
    return _first_bind(stage, command)


def memory(stage: Stage, command: Command, nodes: int, pods: int) -> Figures:
    stage.create("Node", plain_node, nodes)
    stage.create("Pod", lambda number: running_pod(number, nodes), pods)
    stage.create("Pod", plain_pod, 1, first=pods)
    figures = _first_bind(stage, command)
    time.sleep(REST_S)
    return {**figures, "resident MiB": resident_mib(stage.schedulers[0])}


def _first_bind(stage: Stage, command: Command) -> Figures:
    watched = stage.watch()
    started_s = time.monotonic()
    scheduler = stage.start(command)
    watched.until_bound(1)
    first_s = min(watched.bound_s.values()) - started_s
    return {"first bind s": first_s, "processor s until then": processor_s(scheduler)}


def standby(stage: Stage, command: Command, nodes: int, pods: int) -> Figures:
    stage.create("Node", plain_node, nodes)
    stage.create("Pod", plain_pod, pods)
    watched = stage.watch()
    leader = stage.start(command, elect=True)
    watched.until_bound(pods)
    stage.start(command, elect=True)
    # It has to have read everything, and to have asked for the lease.
    time.sleep(REST_S + RETRY_PERIOD_S)
    leader.signal(signal.SIGTERM)
    ended_s = time.monotonic()
    leader.wait()
    stage.create("Pod", plain_pod, 1, first=pods)
    watched.until_bound(pods + 1)
    return {"take-over s": max(watched.bound_s.values()) - ended_s}


def steady(stage: Stage, command: Command, nodes: int, pods: int) -> Figures:
    stage.create("Node", uneven_node, nodes)
    # One pod first, so that the start is not measured.
    watched = stage.watch()
    scheduler = stage.start(command)
    stage.create("Pod", plain_pod, 1, first=pods)
    watched.until_bound(1)
    before_s = processor_s(scheduler)
    load = threading.Thread(target=_play, args=(stage, watched, pods), daemon=True)
    load.start()
    watched.until_bound(pods + 1)
    load.join()
    took_s = processor_s(scheduler) - before_s
    waits_ms = sorted(
        (watched.bound_s[f"pod-{number}"] - watched.added_s[f"pod-{number}"]) * 1000
        for number in range(pods)
    )
    return {
        "processor ms/pod": took_s * 1000 / pods,
        "p50 ms": statistics.median(waits_ms),
        "p99 ms": waits_ms[len(waits_ms) * 99 // 100],
    }


def _play(stage: Stage, watched: Watched, pods: int) -> None:
    """Create so many a second, and delete each some time after it was bound."""
    api = stage.api
    begun_s = time.monotonic()
    deleted: set[int] = set()
    created = 0
    while len(deleted) < pods:
        now_s = time.monotonic()
        due = min(pods, int((now_s - begun_s) * RATE_PER_S))
        in_parallel(lambda n: api.post(COLLECTIONS["Pod"], mixed_pod(n)), range(created, due))
        created = due
        over = [
            number
            for number in range(created)
            if number not in deleted
            and watched.bound_s.get(f"pod-{number}", now_s) + LIFE_S <= now_s
        ]
        in_parallel(lambda n: api.delete(path_of("Pod", f"pod-{n}")), over)
        deleted.update(over)
        time.sleep(0.01)


# -- objects --------------------------------------------------------------------------------


def plain_node(number: int) -> Data:
    return node(f"node-{number}")


def plain_pod(number: int) -> Data:
    return pod(f"pod-{number}")


def running_pod(number: int, nodes: int) -> Data:
    return pod(f"pod-{number}", nodeName=f"node-{number % nodes}")


def device_class(number: int) -> Data:
    expression = f'device.driver == "{DRIVER}"'
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    return {**KINDS["DeviceClass"], "metadata": {"name": "gpu"}, "spec": spec}


def slice_of(number: int) -> Data:
    name = f"node-{number}"
    attributes = {"model": {"string": "A100"}, "driverVersion": {"version": "1.2.3"}}
    spec = {
        "driver": DRIVER,
        "nodeName": name,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        "devices": [
            {"name": f"gpu-{n}", "attributes": attributes} for n in range(DEVICES_PER_NODE)
        ],
    }
    return {**KINDS["ResourceSlice"], "metadata": {"name": f"{name}-gpus"}, "spec": spec}


def claim(number: int) -> Data:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]
    metadata = {"name": f"claim-{number}", "namespace": NAMESPACE}
    spec = {"devices": {"requests": requests}}
    return {**KINDS["ResourceClaim"], "metadata": metadata, "spec": spec}


def pod_with_claim(number: int) -> Data:
    claims = [{"name": "gpu", "resourceClaimName": f"claim-{number}"}]
    return pod(f"pod-{number}", resourceClaims=claims)


Measure = Callable[[Stage, Command, int, int], Figures]
MODES: dict[str, tuple[Measure, int, int]] = {
    "backlog": (backlog, 1000, 3000),
    "claims": (claims, 500, 2000),
    "start": (start, 1000, 3000),
    "memory": (memory, 2000, 30_000),
    "steady": (steady, 1000, 0),
    "standby": (standby, 1000, 1000),
}
"""What is measured, with how many nodes and pods."""


if __name__ == "__main__":
    main()
