"""`stowplan bench` on a real API server: what it creates there, it takes away again."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.e2e.harness.cluster import ADMIN, STOWPLAN
from tests.e2e.harness.processes import Process
from tests.e2e.harness.world import World

WORKLOAD = "SchedulingBasic/5000Nodes_10000Pods"
KINDS = ("nodes", "pods", "namespaces")


def names(world: World) -> dict[str, set[str]]:
    return {
        kind: {it["metadata"]["name"] for it in world.api.items(f"/api/v1/{kind}")}
        for kind in KINDS
    }


def start(world: World, folder: Path, pods: int) -> Process:
    size = ("--nodes", "10", "--init-pods", "10", "--pods", str(pods))
    return Process(
        "stowplan bench",
        [STOWPLAN, "bench", WORKLOAD, *size, "--cluster", "kubeconfig"],
        folder / "bench.log",
        {"KUBECONFIG": str(world.cluster.kubeconfig(ADMIN))},
    )


def test_a_run_leaves_nothing_behind(world: World, tmp_path: Path) -> None:
    before = names(world)
    bench = start(world, tmp_path, pods=100)
    assert bench.wait(60.0) == 0, bench.tail()
    assert WORKLOAD in bench.text()
    assert names(world) == before


def test_nor_does_one_that_is_interrupted(world: World, tmp_path: Path) -> None:
    before = names(world)
    # More than the nodes can take: it would go on for long.
    bench = start(world, tmp_path, pods=5000)
    world.until("pods have been created", lambda: len(names(world)["pods"]) > 100)
    bench.signal(signal.SIGINT)
    assert bench.wait(60.0) == 130, bench.tail()
    assert "Traceback" not in bench.text()
    assert names(world) == before
