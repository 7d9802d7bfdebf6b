"""Learned: a Score plugin whose numbers a program has found.

`features` says what the policy looks at, for who trains it (`train.py`) and for the plugin alike:
how full a node would be with the pod on it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stowplan.plugin import MAX_NODE_SCORE, Cycle, Handle, NodeInfo, PodInfo, Reads

RESOURCES = ("cpu", "memory")
FEATURES = ("cpu left", "memory left", "difference of the two", "hardly any left of one")

Floats = NDArray[np.float64]


def features(free: Floats, allocatable: Floats, asked: Floats) -> Floats:
    """Nodes by features; the arguments are nodes by resources, and the pod's resources."""
    left = (free - asked) / np.maximum(allocatable, 1e-9)
    difference = np.abs(left[:, 0] - left[:, 1])
    scarce = (left.min(axis=1) < 0.05).astype(float)
    return np.stack([left[:, 0], left[:, 1], difference, scarce], axis=1)


class Learned:
    name = "Learned"
    reads = Reads.SUMS | Reads.SIZE

    def __init__(self, args: Any, handle: Handle) -> None:
        self._numbers = np.array((args or {}).get("numbers", ()), float)
        if self._numbers.shape != (len(FEATURES),):
            raise ValueError(f"numbers must be {len(FEATURES)} of them, as train.py writes them")

    def score_node(self, cycle: Cycle, pod: PodInfo, node: NodeInfo) -> int:
        amounts = [
            np.array([found.get(name, 0) for name in RESOURCES], float)
            for found in (node.allocatable, node.requested, pod.kind.requests)
        ]
        allocatable, requested, asked = amounts
        (row,) = features((allocatable - requested)[None], allocatable[None], asked)
        return score(float(row @ self._numbers))


def score(value: float) -> int:
    """Any number to one from 0 to 100, larger ones to larger ones."""
    return round(MAX_NODE_SCORE / (1 + float(np.exp(-np.clip(value, -50, 50)))))
