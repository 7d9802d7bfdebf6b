"""The paper's experiment on the real scheduler: how much of the GPUs is allocated, as pods arrive.

python examples/fgd/reproduce.py --nodes NODES.csv.gz --pods PODS.csv.gz \
    --arrivals ARRIVALS.json.gz --workload default --seed 42 --policy FGD -o json

prints the allocated GPUs in percent when 0, 1, ... 130 percent of them have been asked for.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import stowplan as sp
from stowplan.sim.trace import Trace

sys.path.insert(0, str(Path(__file__).parent))

from fgd import FGD, MODEL, Size, typical
from gpu_share import COUNT, GPUS, MILLI, WHOLE, GpuShare
from policies import POLICIES

Row = dict[str, str]
POLICY = {policy.name: policy for policy in (*POLICIES, FGD)}
PODS_PER_NODE = 1001
POINTS = 131


def read_text(path: str) -> str:
    data = Path(path).read_bytes()
    return (gzip.decompress(data) if path.endswith(".gz") else data).decode()


def read_csv(path: str) -> list[Row]:
    return list(csv.DictReader(read_text(path).splitlines()))


def size_of(row: Row) -> Size:
    count = int(row["num_gpu"])
    milli = int(row["gpu_milli"]) if count else 0
    return Size(int(row["cpu_milli"]), milli, count, row.get("gpu_spec") or "")


def node_of(row: Row, number: int) -> dict[str, Any]:
    amounts = {
        "cpu": f"{row['cpu_milli']}m",
        "memory": f"{row['memory_mib']}Mi",
        "pods": str(PODS_PER_NODE),
        GPUS: row["gpu"],
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"{number:04d}-{row['sn']}", "labels": {MODEL: row["model"]}},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def pod_of(row: Row, number: int) -> dict[str, Any]:
    template = template_of(row)
    return {**template, "metadata": {**template["metadata"], "name": f"{row['name']}-{number}"}}


def template_of(row: Row) -> dict[str, Any]:
    """What pods of this size have in common."""
    size = size_of(row)
    requests = {"cpu": f"{size.cpu}m", "memory": f"{row['memory_mib']}Mi"}
    spec: dict[str, Any] = {
        "containers": [{"name": "main", "image": "app", "resources": {"requests": requests}}]
    }
    if size.models:
        wanted = {"key": MODEL, "operator": "In", "values": size.models.split("|")}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        spec["affinity"] = {"nodeAffinity": required}
    labels = {COUNT: str(size.count), MILLI: str(size.milli)} if size.count else {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": labels}, "spec": spec}


def kind_of(row: Row) -> tuple[Size, str]:
    return size_of(row), row["memory_mib"]


def trace_of(pods: list[Row], came: list[int]) -> Trace:
    """Pods that come one after the other in one moment, and stay."""
    templates = {kind_of(row): template_of(row) for row in pods}
    numbers = {kind: number for number, kind in enumerate(templates)}
    count, nothing = len(came), np.zeros(0)
    return Trace(
        name="fgd",
        start_s=0.0,
        pod_templates=tuple(templates.values()),
        pod_template=np.array([numbers[kind_of(pods[row])] for row in came]),
        pod_names=None,
        pod_arrival_s=np.zeros(count),
        pod_run_s=np.full(count, np.inf),
        pod_end_s=np.full(count, np.nan),
        pod_outcome=np.zeros(count, np.uint8),
        pod_node=None,
        node_templates=(),
        node_template=np.zeros(0, np.int32),
        node_names=(),
        node_joins_s=nothing,
        node_leaves_s=nothing,
    )


def configuration(policy: str, sizes: Iterator[Size]) -> dict[str, Any]:
    """The default filters, and one score."""
    arguments = (
        [{"name": "FGD", "args": {"typicalPods": typical(sizes)}}] if policy == "FGD" else []
    )
    prepared = [{"name": policy}] if hasattr(POLICY[policy], "pre_score") else []
    profile = {
        "plugins": {
            "multiPoint": {"enabled": [{"name": "GpuShare"}]},
            "score": {"disabled": [{"name": "*"}], "enabled": [{"name": policy}]},
            "preScore": {"disabled": [{"name": "*"}], "enabled": prepared},
            "postFilter": {"disabled": [{"name": "*"}]},
            "bind": {"disabled": [{"name": "*"}], "enabled": [{"name": "GpuShare"}]},
        },
        "pluginConfig": arguments,
    }
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }


def place(
    nodes: list[Row], pods: list[Row], arrivals: dict[str, Any], policy: str, seed: int
) -> list[bool]:
    """Whether each pod found its place, in the order in which they came."""
    named = zip(sorted(nodes, key=lambda row: row["sn"]), arrivals["nodes"], strict=True)
    result = sp.simulate(
        trace_of(pods, arrivals["pods"]),
        nodes=[node_of(row, number) for row, number in named],
        config=configuration(policy, map(size_of, pods)),
        plugins=[GpuShare, POLICY[policy]],
        seeds=[seed],
        tie_break="name",
        strict=True,
        samples=2,
    )
    return [state == "running" for state in result.runs[0].pods["state"]]


def allocation(nodes: list[Row], came: list[Row], placed: list[bool]) -> list[float]:
    """Percent of all GPUs that are allocated, by percent asked for: a mean over pods."""
    total = WHOLE * sum(int(row["gpu"]) for row in nodes)
    arrived = used = 0
    points = defaultdict(list)
    for row, is_placed in zip(came, placed, strict=True):
        size = size_of(row)
        arrived += size.milli * size.count
        used += size.milli * size.count * is_placed
        points[round(100 * arrived / total)].append(100 * used / total)
    means = {point: sum(values) / len(values) for point, values in points.items()}
    return [round(means.get(point, 0.0), 2) for point in range(POINTS)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--nodes", required=True, metavar="CSV")
    parser.add_argument("--pods", required=True, metavar="CSV")
    parser.add_argument("--arrivals", required=True, metavar="JSON")
    parser.add_argument("--workload", default="default")
    parser.add_argument("--seed", default="42")
    parser.add_argument("--policy", default="FGD", choices=POLICY)
    parser.add_argument("-o", "--output", default="text", choices=("text", "json"))
    options = parser.parse_args()
    nodes, pods = read_csv(options.nodes), read_csv(options.pods)
    arrivals = json.loads(read_text(options.arrivals))[options.workload][options.seed]
    placed = place(nodes, pods, arrivals, options.policy, int(options.seed))
    curve = allocation(nodes, [pods[row] for row in arrivals["pods"]], placed)
    if options.output == "json":
        print(json.dumps({"allocation": curve}))
    else:
        for point in (80, 90, 95, 100, 110, 130):
            print(f"{point:4} % asked for: {curve[point]:6.2f} % allocated")


if __name__ == "__main__":
    main()
