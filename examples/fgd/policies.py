"""The six policies of the paper: each a Score plugin on what is left of CPU and GPUs.

Weng et al., "Beware of Fragmentation" (USENIX ATC 2023).  Scores are whole numbers, cut off.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gpu_share import GPUS, GPUS_MAX, WHOLE, Ask, GpusLeft, all_asked, gpus_asked
from numpy.typing import NDArray

from stowplan.plugin import (
    Cycle,
    Handle,
    NodeInfo,
    NodeTable,
    PodInfo,
    Reads,
    Rows,
    Scores,
)

CPU_MAX, GPU_MAX = 128_000, 8_000
Ints = NDArray[np.int64]


class Policy:
    """What all have in common: the answer for one node is that for many, of one row."""

    reads = Reads.PODS | Reads.SIZE

    def __init__(self, args: Any, handle: Handle) -> None:
        self._gpus = handle.shared(GpusLeft)

    def score_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> int:
        cpu = node.allocatable["cpu"] - node.requested["cpu"]
        left = np.array([self._gpus.of(node)])
        return int(self._score(all_asked(pod), np.array([cpu]), left, [node])[0])

    def score_nodes(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows | slice
    ) -> Scores:
        cpu = nodes.allocatable("cpu")[rows] - nodes.requested("cpu")[rows]
        infos = nodes.infos[rows] if isinstance(rows, slice) else [nodes.infos[row] for row in rows]
        return self._score(all_asked(pod), cpu, self._gpus.columns()[rows], infos)

    def _score(self, ask: Ask, cpu: Ints, left: Ints, nodes: list[NodeInfo | None]) -> Scores:
        """`cpu` and `left`: what is free, one row per node."""
        raise NotImplementedError


class Random:
    """One of the nodes that fit, and one of its GPUs that fit."""

    name = "Random"

    def __init__(self, args: Any, handle: Handle) -> None:
        self._random = handle.random
        handle.shared(GpusLeft).choose = self._any_gpu
        self._chosen = ""

    def pre_score(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> None:
        self._chosen = cycle.nodes.names[int(rows[self._random.randrange(len(rows))])]

    def score_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> int:
        return 100 if node.name == self._chosen else 0

    def score_nodes(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows | slice
    ) -> Scores:
        scores = np.zeros(nodes.size, np.int64)
        scores[nodes.row_of[self._chosen]] = 100
        return scores[rows]

    def _any_gpu(self, pod: PodInfo, left: list[int], node: NodeInfo) -> int:
        milli = gpus_asked(pod).milli
        return self._random.choice([n for n in range(GPUS_MAX) if left[n] >= milli])


class DotProd(Policy):
    """The smaller the product of what is asked for and what is left, the better."""

    name = "DotProd"

    def _score(self, ask: Ask, cpu: Ints, left: Ints, nodes: list[NodeInfo | None]) -> Scores:
        wanted = ask.milli * ask.count / GPU_MAX
        product = cpu / CPU_MAX * (ask.cpu / CPU_MAX) + left.sum(axis=1) / GPU_MAX * wanted
        return np.trunc(100 * (1 - product / 2)).astype(np.int64)


class GpuClustering(Policy):
    """Pods that want as many GPUs as each other, side by side."""

    name = "GpuClustering"

    def _score(self, ask: Ask, cpu: Ints, left: Ints, nodes: list[NodeInfo | None]) -> Scores:
        if not ask.count:
            return np.zeros(len(nodes), np.int64)
        mine = _affinity(ask)
        bonus = np.array([_company(mine, node) for node in nodes], np.int64)
        return bonus + 25 * (GPU_MAX - left.sum(axis=1)) // GPU_MAX


def _affinity(ask: Ask) -> tuple[int, bool]:
    return ask.count, ask.is_share


def _company(mine: tuple[int, bool], node: NodeInfo | None) -> int:
    asks = map(gpus_asked, node.pods.values()) if node is not None else ()
    there = {_affinity(ask) for ask in asks if ask.count}
    if not there:
        return 25
    if mine not in there:
        return 0
    return 75 if len(there) == 1 else 50


class GpuPacking(Policy):
    """GPUs in use before idle ones, nodes in use before idle ones."""

    name = "GpuPacking"

    def _score(self, ask: Ask, cpu: Ints, left: Ints, nodes: list[NodeInfo | None]) -> Scores:
        if not ask.count:
            return np.zeros(len(nodes), np.int64)
        count = np.array([node.allocatable.get(GPUS, 0) if node else 0 for node in nodes], np.int64)
        fullest = np.sort(np.where(left >= ask.milli, left, WHOLE + 1), axis=1)[:, : ask.count]
        idle = np.count_nonzero(fullest == WHOLE, axis=1)
        spare = (fullest * 100 // WHOLE).sum(axis=1) // 10
        in_use = np.where(idle > 0, np.maximum(50 - idle, 33), np.maximum(100 - spare, 50))
        all_idle = left.sum(axis=1) == WHOLE * count
        return np.where(all_idle, np.maximum(33 - count, count), in_use)


class BestFit(Policy):
    """The less is left afterwards, the better."""

    name = "BestFit"

    def _score(self, ask: Ask, cpu: Ints, left: Ints, nodes: list[NodeInfo | None]) -> Scores:
        gpu = left.sum(axis=1) - ask.milli * ask.count
        rest = (cpu - ask.cpu) / CPU_MAX / 2 + gpu / GPU_MAX / 2
        return np.trunc(100 * (1 - rest)).astype(np.int64)

    def normalize_scores(
        self, cycle: Cycle, pod: PodInfo, nodes: NodeTable, rows: Rows, scores: Scores
    ) -> Scores:
        least, most = int(scores.min()), int(scores.max())
        return (scores - least) * 100 // (most - least) if most > least else scores * 0


POLICIES = (Random, DotProd, GpuClustering, GpuPacking, BestFit)
