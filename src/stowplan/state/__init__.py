"""What the scheduler believes: nodes and pods as the cache counts them, and as columns.

`Cache` takes in what the cluster says and what was decided; `NodeTable` is the snapshot that
plugins read, refreshed from the cache before every decision.
"""

from stowplan.state.cache import Cache, CacheCorrupted, CacheError
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.object_index import ObjectIndex
from stowplan.state.pod_info import PodInfo, PodKind, Term

__all__ = [
    "Cache",
    "CacheCorrupted",
    "CacheError",
    "NodeInfo",
    "NodeTable",
    "ObjectIndex",
    "PodInfo",
    "PodKind",
    "Term",
]
