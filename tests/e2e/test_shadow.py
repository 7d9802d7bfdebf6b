"""Beside stock kube-scheduler, Stowplan would have decided the same.

`SHADOW_PODS=2000 SHADOW_RATE=20` makes it the full run; CI has a smaller one.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.e2e.build_control_plane import MissingControlPlane, find
from tests.e2e.harness.api import in_parallel
from tests.e2e.harness.cluster import ADMIN, STOWPLAN, Cluster
from tests.e2e.harness.kinds import KUBERNETES
from tests.e2e.harness.objects import ZONE, anti_affinity, node, pod, pod_affinity, spread
from tests.e2e.harness.processes import Process, eventually
from tests.e2e.harness.rights import READER, grant_reader
from tests.e2e.harness.scheduler import configuration
from tests.e2e.harness.world import World

Data = dict[str, Any]

PODS = int(os.environ.get("SHADOW_PODS", "400"))
RATE = float(os.environ.get("SHADOW_RATE", "40"))
BURST = min(PODS, 500)
NODES = 60
TIMEOUT_S = 90.0 + 2 * PODS / RATE


class Stock:
    """kube-scheduler on a cluster, and a shadow beside it."""

    def __init__(self, world: World, folder: Path, program: Path) -> None:
        self.world, self.folder = world, folder
        kubeconfig = world.cluster.kubeconfig(ADMIN)
        grant_reader(world.cluster)
        reader = world.cluster.kubeconfig(READER)
        config = folder / "config.yaml"
        # Its client waits for nobody, as on a cluster whose scheduler is set up for bursts.
        made = configuration(kubeconfig, percentageOfNodesToScore=100)
        config.write_text(json.dumps(made))
        command: list[Any] = [program, "--config", config, "--secure-port", "0"]
        self.scheduler = Process("kube-scheduler", command, folder / "scheduler.log", {})
        self.log = folder / "decisions.jsonl"
        options = ["--kubeconfig", reader, "--config", config, "--log", self.log, "-o", "json"]
        self.shadow = Process(
            "stowplan shadow",
            [str(STOWPLAN), "shadow", *map(str, options)],
            folder / "shadow.log",
            {},
        )
        eventually("it follows", lambda: "following" in self.shadow.text(), must_live=self.shadow)

    def decisions(self) -> list[Data]:
        if not self.log.exists():
            return []
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def until_decided(self, count: int) -> None:
        eventually(
            f"{count} pods are judged",
            lambda: len(self.decisions()) >= count,
            timeout_s=TIMEOUT_S,
            poll_s=0.5,
            watching=[self.scheduler],
            must_live=self.shadow,
        )

    def end(self) -> Data:
        """What the shadow says at the end of all."""
        self.shadow.signal(signal.SIGINT)
        assert self.shadow.wait(30.0) == 0
        text = self.shadow.text()
        told: Data = json.loads(text[text.index("{") :])
        return told

    def stop(self) -> None:
        for process in (self.shadow, self.scheduler):
            if process.exit_code is None:
                process.stop()


@pytest.fixture
def stock(clusters: Callable[[str], Cluster], tmp_path: Path) -> Iterator[Stock]:
    try:
        program = find(os.environ, ["kube-scheduler"]) / "kube-scheduler"
    except MissingControlPlane as problem:
        pytest.skip(f"{problem}; `python -m tests.e2e.build_control_plane kube-scheduler`")
    world = World(clusters(KUBERNETES))
    world.add_nodes(*(_node(number) for number in range(NODES)))
    made = Stock(world, tmp_path, program)
    try:
        yield made
    finally:
        made.stop()
        world.sweep()


def _node(number: int) -> Data:
    labels = {ZONE: f"z{number % 3}", "disk": "ssd" if number % 4 == 0 else "hdd"}
    spec: Data = {}
    if number % 10 == 0:
        spec["taints"] = [{"key": "old", "effect": "PreferNoSchedule"}]
    return node(f"node-{number:03d}", cpu=str((16, 32, 64)[number % 3]), labels=labels, **spec)


def _mixed(number: int, random: Random) -> Data:
    name, app = f"p-{number:05d}", {"app": f"a{number % 7}"}
    cpu = random.choice(["50m", "100m", "250m", "500m", "1"])
    sort = number % 8
    spec: Data = {}
    if sort == 1:
        spec["nodeSelector"] = {"disk": "ssd"}
    elif sort == 2:
        spec["topologySpreadConstraints"] = [spread(app, ZONE)]
    elif sort == 3:
        app = {"app": f"alone{number % 40}"}
        spec["affinity"] = anti_affinity(app)
    elif sort == 4:
        spec["affinity"] = pod_affinity(app, ZONE)
    elif sort == 5:
        spec["tolerations"] = [{"key": "old", "operator": "Exists"}]
    return pod(name, cpu=cpu, labels=app, **spec)


def _run_at(rate: float, count: int, action: Callable[[int], None]) -> None:
    """So many times, evenly."""
    start_s, pause = time.monotonic(), threading.Event()
    for number in range(count):
        pause.wait(max(0.0, start_s + number / rate - time.monotonic()))
        action(number)


def _report(stock: Stock) -> str:
    different = [it for it in stock.decisions() if it["outcome"] == "different"]
    return "\n".join(f"{it['pod']} {it['node']} {it['reason']}" for it in different[:20])


@pytest.mark.timeout(TIMEOUT_S + 60.0)
def test_stock_scheduler_decides_as_we_would_while_pods_come_and_go(stock: Stock) -> None:
    world, random = stock.world, Random(7)
    alive: list[str] = []

    def step(number: int) -> None:
        made = _mixed(number, random)
        world.create(made)
        alive.append(made["metadata"]["name"])
        if len(alive) > 60 and number % 2:
            world.delete("Pod", alive.pop(random.randrange(len(alive) - 30)))

    _run_at(RATE, PODS, step)
    stock.until_decided(PODS - 20)
    assert "note: no right" not in stock.shadow.text(), "deploy/reader.yaml is enough"
    told = stock.end()
    assert told["decisions"] >= PODS - 20
    assert told["agreement"] >= 99.0, _report(stock)
    for it in stock.decisions():
        assert (it["outcome"] == "different") == ("reason" in it)


@pytest.mark.timeout(TIMEOUT_S + 60.0)
def test_stock_scheduler_decides_as_we_would_in_a_burst(stock: Stock) -> None:
    world, random = stock.world, Random(8)
    pods = [_mixed(number, random) for number in range(BURST)]
    in_parallel(lambda made: world.create(made), pods, threads=8)
    stock.until_decided(BURST)
    told = stock.end()
    assert told["agreement"] >= 95.0, _report(stock)
