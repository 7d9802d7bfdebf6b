"""The demo's cluster through the public face, for the page: `stowplan ui --demo`."""

from __future__ import annotations

from random import Random

from stowplan.cli._demo_run import demo_nodes, demo_waves
from stowplan.world.cluster import Cluster

NODES, PODS, SEED = 300, 3000, 1
CLASSES = {"urgent": 1000, "batch": -10}


def demo_cluster(nodes: int = NODES, pods: int = PODS, seed: int = SEED) -> Cluster:
    random = Random(seed)
    cluster = Cluster(seed=seed)
    cluster.apply(list(demo_nodes(nodes, random)))
    cluster.apply(
        [
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
            }
            for name, value in CLASSES.items()
        ]
    )
    for wave in demo_waves(pods, random):
        cluster.apply(wave)
        cluster.run()
    return cluster
