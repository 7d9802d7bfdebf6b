"""When nodes fail and when they return: by chance, from a seed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stowplan.sim.settings import Failures

Times = tuple[NDArray[np.float64], NDArray[np.int64]]
"""Moments, and which node each is about."""

PER_NODE_MAX = 10_000
_FAILURES = 3
"""Keeps these draws apart from others of the same seed."""


def failure_times(
    failures: Failures,
    seed: int,
    joins_s: NDArray[np.float64],
    leaves_s: NDArray[np.float64],
    end_s: float,
) -> tuple[Times, Times]:
    """When nodes fail, and when they return; to the millisecond, so that no machine's logarithm
    makes a difference."""
    draws = np.random.default_rng([seed, _FAILURES])
    failed: list[tuple[float, int]] = []
    returned: list[tuple[float, int]] = []
    for node, (join_s, leave_s) in enumerate(zip(joins_s.tolist(), leaves_s.tolist(), strict=True)):
        now_s = join_s
        for _ in range(PER_NODE_MAX):
            now_s += max(0.001, round(-np.log1p(-draws.random()) * failures.mean_s, 3))
            if now_s >= min(leave_s, end_s):
                break
            failed.append((now_s, node))
            now_s += failures.repair_s
            if now_s < min(leave_s, end_s):
                returned.append((now_s, node))
    return _columns(failed), _columns(returned)


def _columns(moments: list[tuple[float, int]]) -> Times:
    times = np.array([time_s for time_s, _ in moments], np.float64)
    return times, np.array([node for _, node in moments], np.int64)
