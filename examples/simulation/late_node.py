"""A minute of a cluster in no time: six pods, room for four, and a second node that comes late.

The whole scheduler runs on an embedded cluster under a virtual clock: queue, backoff, binding.
The same seed gives the same run.

python examples/simulation/late_node.py
"""

from __future__ import annotations

import stowplan as sp


def pod(name: str) -> dict[str, object]:
    requests = {"cpu": "1", "memory": "1Gi"}
    container = {"name": "main", "image": "app", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container]},
    }


def show(cluster: sp.Cluster) -> None:
    bound, pending = cluster.pods(pending=False), cluster.pods(pending=True)
    print(f"after {cluster.now:g} s: {len(bound)} bound, {len(pending)} pending")
    for key in pending.keys:
        print(f"  {key}: {cluster.decision(key).message}")


with sp.Cluster(seed=1) as cluster:
    cluster.add_nodes(1, cpu="4", memory="8Gi", prefix="early")
    cluster.apply([pod(f"p{number}") for number in range(6)])
    cluster.run(seconds=1)
    show(cluster)
    cluster.run(seconds=59)
    cluster.add_nodes(1, cpu="4", memory="8Gi", prefix="late")
    cluster.run(seconds=1)
    show(cluster)
