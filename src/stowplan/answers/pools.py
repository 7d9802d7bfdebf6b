"""Which pool a node is of: by a label that says so."""

from __future__ import annotations

from stowplan.errors import InputError
from stowplan.world.cluster import Cluster

POOLS = (
    "karpenter.sh/nodepool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "node.kubernetes.io/instance-type",
)
"""Labels that say which pool a node is of, the first that nodes have."""

NO_POOL = "(no pool)"
ALL = "all nodes"


def pool_label(cluster: Cluster, wanted: str = "") -> str:
    """The label that pools are told by; empty where nodes have none that is known."""
    known = {key for node in cluster.objects("Node") for key in node.metadata.labels or ()}
    if wanted and wanted not in known:
        raise InputError(f"no node has the label {wanted!r}", hint="`--pool-label` names a label")
    return wanted or next((key for key in POOLS if key in known), "")


def pools_of(cluster: Cluster, wanted: str = "") -> dict[str, str]:
    """Node -> the name of its pool; all of one pool where no label tells them apart."""
    label = pool_label(cluster, wanted)
    return {
        node.name: (node.metadata.labels or {}).get(label, NO_POOL) if label else ALL
        for node in cluster.objects("Node")
    }
