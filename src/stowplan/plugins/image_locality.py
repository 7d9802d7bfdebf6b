"""ImageLocality: prefer nodes that already have the pod's images, the large ones above all.

An image counts for its size times the share of nodes that have it, so that one popular node does
not draw all pods.  Mirrors kube-scheduler's `imagelocality/image_locality.go`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from stowplan.framework.cycle import Cycle
from stowplan.framework.handle import Handle
from stowplan.framework.reads import Reads
from stowplan.framework.status import MAX_NODE_SCORE, Rows, ShortScores
from stowplan.plugins._shared.rows import all_zero
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable
from stowplan.state.pod_info import PodInfo, PodKind, fact

MIN_BYTES = 23 * 1024 * 1024
MAX_BYTES_PER_CONTAINER = 1000 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Wanted:
    images: tuple[tuple[str, int], ...]
    """Normalised names, and how often the pod uses each."""
    max_bytes: int


class ImageLocality:
    name = "ImageLocality"
    reads = Reads.NODE

    def __init__(self, args: Any, handle: Handle) -> None:
        self._handle = handle

    def signature(self, pod: PodInfo) -> Hashable:
        """The number of nodes is read too, where any of the images is on a node."""
        nodes, wanted = self._handle.nodes, _wanted(pod.kind)
        somewhere = any(nodes.image(name) is not None for name, _ in wanted.images)
        return wanted.images, wanted.max_bytes, nodes.node_count if somewhere else 0

    def score_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> int:
        states = node.image_states
        if not states:
            return 0
        wanted = _wanted(pod.kind)
        node_count = float(self._handle.nodes.node_count)
        found_bytes = 0
        for name, times in wanted.images:
            if name in states:
                size, holders = states[name]
                found_bytes += times * int(size * (holders / node_count))
        clamped = min(max(found_bytes, MIN_BYTES), wanted.max_bytes)
        return MAX_NODE_SCORE * (clamped - MIN_BYTES) // (wanted.max_bytes - MIN_BYTES)

    def score_nodes(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows | slice
    ) -> ShortScores:
        wanted = _wanted(pod.kind)
        found_bytes = all_zero(nodes, rows)
        nowhere = True
        for name, times in wanted.images:
            image = nodes.image(name)
            if image is not None:
                sizes, holders = image[0][rows], image[1][rows]
                found_bytes += times * (sizes * (holders / nodes.node_count)).astype(np.int64)
                nowhere = False
        if nowhere:
            return found_bytes.astype(np.int32)
        clamped = np.minimum(np.maximum(found_bytes, MIN_BYTES), wanted.max_bytes)
        scores = MAX_NODE_SCORE * (clamped - MIN_BYTES) // (wanted.max_bytes - MIN_BYTES)
        return scores.astype(np.int32)


def normalized_name(image: str) -> str:
    """
    >>> normalized_name("registry:5000/app"), normalized_name("app:1")
    ('registry:5000/app:latest', 'app:1')
    """
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


@fact
def _wanted(kind: PodKind) -> _Wanted:
    spec = kind.spec
    containers = (*(spec.init_containers or ()), *(spec.containers or ()))
    volumes = (v.image.reference for v in spec.volumes or () if v.image is not None)
    names = Counter(normalized_name(n) for n in (*(c.image for c in containers), *volumes))
    # Volumes count as images but, as upstream has it, leave the maximum alone.
    return _Wanted(tuple(sorted(names.items())), len(containers) * MAX_BYTES_PER_CONTAINER)
