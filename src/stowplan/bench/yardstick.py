"""The bare kernel: how fast NumPy alone places plain pods, with nothing around it.

Fit, least allocated, balanced allocation, pick, update; no queue, no API server, no objects.  Once
with every row computed for every pod, once with scores kept and only the row that changed computed
again.  Machines differ and are shared; a scheduler's rate as a share of the kernel's is what can be
compared.  So that both meet the same neighbours, the `Yardstick` places a few pods every few
hundredths of a second while `measure` looks, on time that is not counted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import floor
from random import Random

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.float64]

NODES = 5000
PODS_KEPT = 2000
"""After so many the kernel starts over with empty nodes."""
PODS_PER_GLANCE = 50
PODS_BEFORE = 25
"""Placed first and not counted: the scheduler has filled the processor's caches with its own."""
PODS_EVERY_ROW = 40
GLANCES = 2
"""Before and after the measuring.  Few: a machine may be twice as fast a moment later, and those
moments are not measured."""

REFERENCE_KEPT = 48_000.0
"""Pods per second on the quiet machine that the goals were set on."""

_POD = (100.0, 500.0 * 2**20, 1.0)
_NODE = (4000.0, 32.0 * 2**30, 110.0)
"""Milli-cpu, bytes, pods."""


class _Nodes:
    """A column per amount, a row per node; scores beside them."""

    def __init__(self, count: int) -> None:
        self.allocatable = [np.full(count, amount) for amount in _NODE]
        self.requested = [np.zeros(count) for _ in _NODE]
        self.score: Column = np.zeros(count)
        self._random = Random(1)

    def compute(self) -> None:
        """Least allocated plus balanced allocation; -1 where the pod does not fit."""
        fits: NDArray[np.bool_] = np.ones(len(self.score), np.bool_)
        after = []
        for requested, allocatable, amount in zip(
            self.requested, self.allocatable, _POD, strict=True
        ):
            total = requested + amount
            fits &= total <= allocatable
            after.append(total)
        cpu, memory = self.allocatable[0], self.allocatable[1]
        least = np.floor((cpu - after[0]) * 100.0 / cpu)
        least += np.floor((memory - after[1]) * 100.0 / memory)
        difference = np.abs(after[0] / cpu - after[1] / memory)
        # Of two shares the standard deviation is half their difference.
        balanced = np.floor((1.0 - difference / 2.0) * 100.0)
        self.score[:] = np.where(fits, np.floor(least / 2.0) + balanced, -1.0)

    def compute_one(self, row: int) -> None:
        """The same for one row, in plain numbers: arrays of one are slower."""
        cpu, memory, pods = (float(column[row]) for column in self.allocatable)
        used = [
            float(column[row]) + amount for column, amount in zip(self.requested, _POD, strict=True)
        ]
        if used[0] > cpu or used[1] > memory or used[2] > pods:
            self.score[row] = -1.0
            return
        least = floor((cpu - used[0]) * 100.0 / cpu) + floor((memory - used[1]) * 100.0 / memory)
        difference = abs(used[0] / cpu - used[1] / memory)
        self.score[row] = floor(least / 2.0) + floor((1.0 - difference / 2.0) * 100.0)

    def place(self) -> int:
        """Any of the best ones, as kube-scheduler picks."""
        best = np.flatnonzero(self.score == self.score.max())
        row = int(best[self._random.randrange(len(best))])
        for requested, amount in zip(self.requested, _POD, strict=True):
            requested[row] += amount
        return row


def place_every_row(node_count: int, pod_count: int) -> list[int]:
    """The row of each pod, every score computed for each."""
    nodes = _Nodes(node_count)
    rows = []
    for _ in range(pod_count):
        nodes.compute()
        rows.append(nodes.place())
    return rows


class Yardstick:
    """Pods per second of processor time, from as many glances as were taken."""

    def __init__(self, node_count: int = NODES) -> None:
        self._node_count = node_count
        self._nodes = _Nodes(node_count)
        self._left = 0
        self._kept = _Sum()
        self._every_row = _Sum()

    def glance(self) -> None:
        """A millisecond of work."""
        if self._left < PODS_BEFORE + PODS_PER_GLANCE:
            self._nodes, self._left = _Nodes(self._node_count), PODS_KEPT
            self._nodes.compute()
        self._place(PODS_BEFORE)
        with self._kept.timing(PODS_PER_GLANCE):
            self._place(PODS_PER_GLANCE)

    def _place(self, pods: int) -> None:
        nodes = self._nodes
        for _ in range(pods):
            nodes.compute_one(nodes.place())
        self._left -= pods

    def look(self) -> None:
        """Both kinds of kernel, for a few hundredths of a second."""
        for _ in range(GLANCES):
            self.glance()
        with self._every_row.timing(PODS_EVERY_ROW):
            place_every_row(self._node_count, PODS_EVERY_ROW)

    @property
    def kept(self) -> float:
        return self._kept.rate

    @property
    def every_row(self) -> float:
        return self._every_row.rate


class _Sum:
    def __init__(self) -> None:
        self._pods = 0
        self._seconds = 0.0

    @contextmanager
    def timing(self, pods: int) -> Iterator[None]:
        started_s = time.process_time()
        yield
        self._seconds += time.process_time() - started_s
        self._pods += pods

    @property
    def rate(self) -> float:
        return self._pods / max(1e-9, self._seconds)
