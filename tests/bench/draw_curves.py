"""Does the cost per pod grow with the cluster?  Measures, prints tables, draws the pictures.

    python -m tests.bench.draw_curves [--small] [FOLDER]

From 500 to 50,000 nodes, and from 0 to 200,000 running pods on 5,000 nodes; each point is the
least disturbed of TRIES runs, in microseconds of processor time per pod, with the bare NumPy kernel
on as many nodes beside it.  Writes `nodes.svg` and `running-pods.svg`; docs/performance.md shows
them.  Half an hour on a busy machine; `--small` is for trying it out.
"""

from __future__ import annotations

import sys
from pathlib import Path

from stowplan.bench.alone import perform_alone
from stowplan.bench.yardstick import Yardstick
from tests.bench.chart import line_chart

TRIES = 3
PODS = 4000
NODES = (500, 1000, 2000, 5000, 10_000, 20_000, 50_000)
RUNNING = (0, 10_000, 25_000, 50_000, 100_000, 150_000, 200_000)
BASE_NODES = 5000
BASE_RUNNING = 1000

Row = tuple[int, float, float, float]
"""Nodes or running pods, microseconds per pod, attempt p99 in ms, MiB."""


def measured(name: str, size: int, **sizes: int) -> Row:
    best: Row | None = None
    for _ in range(TRIES):
        result = perform_alone({"workload": name, "file": None, **sizes})
        if "error" in result:
            sys.exit(f"error: {name} {sizes}: {result['error']}")
        cost_us = 1e6 / result["pods_per_cpu_s"]
        row = (size, cost_us, result["attempt_p99_ms"], result["peak_rss_mib"])
        best = row if best is None else min(best, row)
    assert best is not None
    print(f"| {best[0]:,} | {best[1]:.0f} | {1e6 / best[1]:,.0f} | {best[3]:,.0f} |", flush=True)
    return best


def over_nodes(counts: tuple[int, ...]) -> list[Row]:
    print("\n| nodes | µs per pod | pods per CPU second | MiB |\n|--:|--:|--:|--:|", flush=True)
    name = "SchedulingLarge/15000Nodes_10000Pods"
    return [
        measured(name, count, nodes=count, pods=PODS, init_pods=BASE_RUNNING) for count in counts
    ]


def over_running_pods(counts: tuple[int, ...]) -> list[Row]:
    print(
        "\n| running pods | µs per pod | pods per CPU second | MiB |\n|--:|--:|--:|--:|", flush=True
    )
    name = "StartUp/5000Nodes_50000Pods"
    return [measured(name, count, nodes=BASE_NODES, pods=PODS, init_pods=count) for count in counts]


def kernel_us(node_count: int) -> float:
    stick = Yardstick(node_count)
    for _ in range(5):
        stick.look()
    return 1e6 / stick.kept


def main() -> None:
    arguments = [argument for argument in sys.argv[1:] if argument != "--small"]
    small = "--small" in sys.argv[1:]
    folder = Path(arguments[0]) if arguments else Path("docs/images")
    folder.mkdir(parents=True, exist_ok=True)
    node_counts = NODES[:3] if small else NODES
    nodes = over_nodes(node_counts)
    running = over_running_pods(RUNNING[:3] if small else RUNNING)
    kernel = [(float(count), kernel_us(count)) for count in node_counts]
    print("\nbare kernel:", ", ".join(f"{count:,.0f}: {us:.0f} µs" for count, us in kernel))
    (folder / "nodes.svg").write_text(
        line_chart(
            "Cost of a pod, by nodes in the cluster",
            {"Stowplan": [(row[0], row[1]) for row in nodes], "bare NumPy kernel": kernel},
            x_title="nodes, all evaluated",
            y_title="µs of processor time per pod",
            x_logarithmic=True,
        )
    )
    (folder / "running-pods.svg").write_text(
        line_chart(
            "Cost of a pod, by pods already running on 5,000 nodes",
            {"Stowplan": [(row[0], row[1]) for row in running]},
            x_title="pods running",
            y_title="µs of processor time per pod",
        )
    )


if __name__ == "__main__":
    main()
