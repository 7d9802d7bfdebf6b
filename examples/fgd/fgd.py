"""Fragmentation gradient descent: place a pod where it makes the least of what is left useless.

What is left of a node's GPUs is a fragment to those who cannot use it.  `Fragments` says how much
that is on average over the pods that typically come; the policy likes nodes, and GPUs, where a pod
makes it grow least.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from gpu_share import GPUS_MAX, WHOLE, Ask, all_asked
from numpy.typing import NDArray
from policies import Ints, Policy

from stowplan.plugin import Handle, NodeInfo, PodInfo, Scores

MODEL = "example.com/gpu-model"
COVERED = 0.95
_BEFORE = np.tri(GPUS_MAX, k=-1, dtype=np.bool_)
"""By two GPUs: whether the second comes before the first."""


class Size(NamedTuple):
    """In this order the most frequent sizes are sorted, the largest first."""

    cpu: int
    milli: int
    count: int
    models: str
    """`A|B`; empty: any."""


def typical(sizes: Iterable[Size]) -> list[tuple[Size, int]]:
    """The sizes that cover most pods, the most frequent first, and how many pods have each."""
    counts = Counter(sizes)
    found, covered = [], 0
    for size, count in sorted(counts.items(), key=lambda item: (item[1], item[0]), reverse=True):
        if covered >= COVERED * counts.total():
            break
        found.append((size, count))
        covered += count
    return found


class Counts(NamedTuple):
    """What is left of the GPUs of some nodes, one row each."""

    left: Ints
    fitting: NDArray[np.int8]
    """By typical pod: how many GPUs have enough left for it."""
    scrap: NDArray[np.int16]
    """By typical pod: what is left of the other GPUs."""


class Fragments:
    """How much of what is left is of no use, summed up over typical pods.

    Whole numbers, exact: `total` times the average.
    """

    def __init__(self, pods: list[tuple[Size, int]]) -> None:
        sizes = [Size(*size) for size, _ in pods]
        self._weights = np.array([count for _, count in pods], np.float64)
        self.total = float(self._weights.sum())
        self._cpu = np.array([size.cpu for size in sizes])
        self._milli = np.array([size.milli for size in sizes])
        # Who wants no GPU can use none.
        self._count = np.array([size.count or GPUS_MAX + 1 for size in sizes])
        self._models = [size.models.split("|") if size.models else None for size in sizes]
        self._suits: dict[str, NDArray[np.bool_]] = {}
        parts = np.arange(WHOLE + 1)[:, None]
        self._fits = (parts >= self._milli).astype(np.int8)
        """By parts left of a GPU and typical pod: whether it fits."""
        self._scrap = np.where(parts < self._milli, parts, 0).astype(np.int16)
        """The same: what is left if it does not fit."""

    def suits(self, nodes: list[NodeInfo | None]) -> NDArray[np.bool_]:
        """By node and typical pod: whether the node has a model that the pod takes."""
        models = [node.labels.get(MODEL, "") if node else "" for node in nodes]
        return np.concatenate([*map(self._suits_model, models)]).reshape(len(nodes), -1)

    def _suits_model(self, model: str) -> NDArray[np.bool_]:
        if model not in self._suits:
            found = [models is None or model in models for models in self._models]
            self._suits[model] = np.array(found)
        return self._suits[model]

    def count(self, left: Ints) -> Counts:
        """Of each row of `left`."""
        return Counts(
            left.sum(axis=1),
            self._fits[left].sum(axis=1, dtype=np.int8),
            self._scrap[left].sum(axis=1, dtype=np.int16),
        )

    def without(self, counts: Counts, gpu: Ints | int, times: int, milli: int) -> Counts:
        """The same once `milli` are taken of a GPU that has `gpu` left, or of several such."""
        return Counts(
            counts.left - times * milli,
            counts.fitting + np.int8(times) * (self._fits[gpu - milli] - self._fits[gpu]),
            counts.scrap + np.int16(times) * (self._scrap[gpu - milli] - self._scrap[gpu]),
        )

    def of(self, cpu: Ints, counts: Counts, suits: NDArray[np.bool_]) -> NDArray[np.float64]:
        """One number per row."""
        can_run = suits & (cpu[:, None] >= self._cpu) & (counts.fitting >= self._count)
        return np.where(can_run, counts.scrap, counts.left[:, None]) @ self._weights


class FGD(Policy):
    name = "FGD"

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._fragments = Fragments([(Size(*size), count) for size, count in args["typicalPods"]])
        self._gpus.choose = self._best_gpu

    def _score(self, ask: Ask, cpu: Ints, left: Ints, nodes: list[NodeInfo | None]) -> Scores:
        return self._ratings(ask, cpu, left, nodes).max(axis=1)

    def _best_gpu(self, pod: PodInfo, left: list[int], node: NodeInfo) -> int:
        # The node is rated as it was without the pod.
        used = node.requested["cpu"] - pod.kind.requests.get("cpu", 0)
        cpu = np.array([node.allocatable["cpu"] - used])
        return int(self._ratings(all_asked(pod), cpu, np.array([left]), [node])[0].argmax())

    def _ratings(self, ask: Ask, cpu: Ints, left: Ints, nodes: list[NodeInfo | None]) -> Ints:
        """Of each node, one per GPU that a share could get; else one.  -1 for all others."""
        fragments = self._fragments
        suits, counts = fragments.suits(nodes), fragments.count(left)
        before = fragments.of(cpu, counts, suits)
        ratings = np.full((len(left), GPUS_MAX), -1)
        if ask.is_share:
            # Of GPUs with as much left as each other only the first counts.
            repeats = ((left[:, :, None] == left[:, None, :]) & _BEFORE).any(axis=2)
            row, gpu = ((left >= ask.milli) & ~repeats).nonzero()
            here = Counts(*(column[row] for column in counts))
            after = fragments.without(here, left[row, gpu], 1, ask.milli)
            grown = fragments.of(cpu[row] - ask.cpu, after, suits[row]) - before[row]
            ratings[row, gpu] = self._rate(grown)
        else:
            after = fragments.without(counts, WHOLE, ask.count, WHOLE)
            ratings[:, 0] = self._rate(fragments.of(cpu - ask.cpu, after, suits) - before)
        return ratings

    def _rate(self, grown: NDArray[np.float64]) -> NDArray[np.float64]:
        return 100 / (1 + np.exp(grown / self._fragments.total / WHOLE))
