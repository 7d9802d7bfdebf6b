"""What uneven pods cost, against equal ones: real sizes on real nodes, in one run.

    python -m tests.bench.uneven [--rounds 3]

The pods and GPU nodes of `tests/examples/openb`, default plugins, everything in this process.  Pods
and nodes are each the real ones, or as many of one size.  Processor time from the first decision to
the last, per pod; the cheapest of some rounds that take turns: times are the machine's, too.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import time
from pathlib import Path
from typing import Any

import stowplan as sp

DATA = Path(__file__).parent.parent / "examples" / "openb"
GPU = "example.com/gpu-milli"
"""Thousandths, added up: default plugins know nothing of single GPUs."""
PODS_PER_NODE = 1001
PODS = 6000
"""Of 8,152: nearly all of them find room without sharing GPUs as the trace's owner did."""
GOAL = 2.0

Amounts = dict[str, str]
EQUAL_NODE = {"cpu": "96", "memory": "384Gi", GPU: "8000", "pods": str(PODS_PER_NODE)}
EQUAL_POD = {"cpu": "6", "memory": "20Gi", GPU: "500"}


def rows(name: str) -> list[dict[str, str]]:
    with gzip.open(DATA / name, "rt") as file:
        return list(csv.DictReader(file))


def amounts(row: dict[str, str], gpus: int) -> Amounts:
    found = {"cpu": f"{row['cpu_milli']}m", "memory": f"{row['memory_mib']}Mi"}
    return {**found, GPU: str(gpus)} if gpus else found


def node(number: int, amounts: Amounts) -> dict[str, Any]:
    status = {"capacity": amounts, "allocatable": amounts}
    metadata = {"name": f"node-{number}"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def pod(number: int, amounts: Amounts) -> dict[str, Any]:
    resources = {"requests": amounts, "limits": amounts}
    spec = {"containers": [{"name": "main", "image": "app", "resources": resources}]}
    metadata = {"name": f"pod-{number}"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def cost_us(nodes: list[Amounts], pods: list[Amounts]) -> float:
    """Processor time per pod."""
    with sp.Cluster(detail=False) as cluster:
        cluster.apply([node(*it) for it in enumerate(nodes)])
        cluster.apply([pod(*it) for it in enumerate(pods)])
        started_s = time.process_time()
        cluster.run(60.0)
        spent_s = time.process_time() - started_s
        pending = len(cluster.pods(pending=True))
        assert pending < len(pods) / 100, f"{pending} pods do not fit: another benchmark"
        return 1e6 * spent_s / len(pods)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    real_nodes = [
        {**amounts(row, 1000 * int(row["gpu"])), "pods": str(PODS_PER_NODE)}
        for row in rows("nodes_gpu_node.csv.gz")
    ]
    real_pods = [
        amounts(row, int(row["num_gpu"]) * int(row["gpu_milli"]))
        for row in rows("pods_default.csv.gz")[:PODS]
    ]
    equal_nodes, equal_pods = [EQUAL_NODE] * len(real_nodes), [EQUAL_POD] * len(real_pods)
    cases = {
        "equal pods on equal nodes": (equal_nodes, equal_pods),
        "equal pods on real nodes": (real_nodes, equal_pods),
        "real pods on equal nodes": (equal_nodes, real_pods),
        "real pods on real nodes": (real_nodes, real_pods),
    }
    found: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, case in cases.items():
            found[name].append(cost_us(*case))
    cheapest = {name: min(costs) for name, costs in found.items()}
    equal = cheapest["equal pods on equal nodes"]
    for name, cost in cheapest.items():
        print(f"{name:<27} {cost:6.0f} µs a pod, {cost / equal:4.2f} times", flush=True)
    print(f"goal: at most {GOAL:.0f} times")


if __name__ == "__main__":
    main()
