"""How well the volumes that a pod would get fit its claims: VolumeBinding's score.

Per storage class, what the claims ask for against what there is, put on a curve; the score is the
mean over classes.  Free volumes count where any is used, else the pools that new volumes come
from.  Only with the gate StorageCapacityScoring.  Mirrors kube-scheduler's
`volumebinding/scorer.go`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stowplan.framework.status import NodeMask, Scores
from stowplan.objects.quantity import ceil_value
from stowplan.objects.storage import PersistentVolumeClaim
from stowplan.plugins._shared.scoring_strategies import score_at
from stowplan.plugins._shared.volumes import capacity_nanos, class_of, requested_nanos
from stowplan.plugins.volume_binding.places import NOTHING
from stowplan.plugins.volume_binding.volume_search import AllVolumes, PodVolumes, VolumeSearch
from stowplan.state.node_info import NodeInfo
from stowplan.state.node_table import NodeTable

Ints = NDArray[np.int64]


class VolumeScores:
    def __init__(self, shape: Sequence[tuple[int, int]]) -> None:
        """`shape`: points (utilization in percent, score of 0..10), by rising utilization."""
        self._curve = [score_at(shape, percent) for percent in range(101)]
        self._curve_column = np.array(self._curve, np.int64)

    def of_node(self, search: VolumeSearch, node: NodeInfo) -> int:
        found = search.on_node(node.name, node.labels)
        classes = _classes_of(found) if isinstance(found, PodVolumes) else {}
        if not classes:
            return 0
        rated = [
            self._curve[100 if total == 0 or asked > total else asked * 100 // total]
            for asked, total in classes.values()
        ]
        # Half up, as Go rounds; in whole numbers, so exactly.
        return (2 * sum(rated) + len(rated)) // (2 * len(rated))

    def of_all(self, search: VolumeSearch, nodes: NodeTable) -> Scores:
        found = search.on_all(nodes)
        summed = np.zeros(nodes.size, np.int64)
        count = np.zeros(nodes.size, np.int64)
        for asked, total, present in _class_columns(search, found, nodes.size):
            full = (total == 0) | (asked > total)
            percent = np.where(full, 100, asked * 100 // np.where(full, 1, total))
            summed += np.where(present, self._curve_column[percent], 0)
            count += present
        summed[found.why != 0] = 0
        count = np.maximum(count, 1)
        scores: Scores = (2 * summed + count) // (2 * count)
        return scores


def _asked(claim: PersistentVolumeClaim) -> int:
    return ceil_value(requested_nanos(claim) or 0)


def _classes_of(found: PodVolumes) -> dict[str, tuple[int, int]]:
    """Class -> bytes asked for, bytes there are."""
    classes: dict[str, tuple[int, int]] = {}
    for claim, volume in found.bindings:
        asked, total = classes.get(class_of(claim), (0, 0))
        capacity = ceil_value(capacity_nanos(volume))
        classes[class_of(claim)] = (asked + _asked(claim), total + capacity)
    if found.bindings:
        return classes
    for claim, pool in found.provisions:
        if pool is not None:
            asked, _ = classes.get(class_of(claim), (0, 0))
            # Several claims draw on one pool: its size counts once, the last one's.
            classes[class_of(claim)] = (asked + _asked(claim), pool.capacity_bytes)
    return classes


def _class_columns(
    search: VolumeSearch, found: AllVolumes, size: int
) -> list[tuple[Ints, Ints, NodeMask]]:
    """The same per row and class: asked, there, and whether the class counts on that row."""
    columns: dict[str, tuple[Ints, Ints, NodeMask]] = {}

    def of_class(name: str) -> tuple[Ints, Ints, NodeMask]:
        if name not in columns:
            zeros = np.zeros(size, np.int64), np.zeros(size, np.int64)
            columns[name] = (*zeros, np.zeros(size, np.bool_))
        return columns[name]

    offered = _amounts([ceil_value(offer.capacity) for offer in search.offers])
    any_bound = np.zeros(size, np.bool_)
    for claim, numbers in zip(search.claims, found.bound, strict=True):
        asked, total, present = of_class(class_of(claim))
        bound = numbers != NOTHING
        asked[bound] += _asked(claim)
        total[bound] += offered[numbers[bound]]
        present |= bound
        any_bound |= bound
    for provision, pools, needed in found.made:
        if pools is None or provision.pools is None:
            continue
        asked, total, present = of_class(class_of(provision.claim))
        drawn = needed & ~any_bound & (pools != NOTHING)
        sizes = _amounts([pool.capacity_bytes for pool in provision.pools])
        asked[drawn] += _asked(provision.claim)
        total[drawn] = sizes[pools[drawn]]
        present |= drawn
    return list(columns.values())


def _amounts(values: list[int]) -> Ints:
    return np.array(values, np.int64)
