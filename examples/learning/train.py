"""Teach a small policy to place pods, and let the real scheduler use it.

python examples/learning/train.py

The policy is four numbers (`learned.py`).  The cross-entropy method finds them: draw some policies,
let each play an episode, and draw the next ones near the best.  Then the policy is a Score plugin
under `sp.simulate`, beside the default configuration, on pods that it has not seen.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import stowplan as sp
from stowplan.gym import PlacementEnv
from stowplan.sim.trace import Trace

sys.path.insert(0, str(Path(__file__).parent))

from learned import FEATURES, RESOURCES, features

PLUGIN = Path(__file__).parent / "learned.py"
NODES = 6
KEPT = 0.25
"""The share of the policies that the next ones are drawn near."""


def choose(env: PlacementEnv, seen: dict[str, Any], numbers: NDArray[Any]) -> int:
    """The node the policy likes best among those the scheduler allows."""
    column = {name: position for position, name in enumerate(env.feature_names)}
    free, allocatable = (
        seen["nodes"][:, [column[f"{name}.{what}"] for name in RESOURCES]].astype(float)
        for what in ("free", "allocatable")
    )
    asked = seen["pod"][[env.resources.index(name) for name in RESOURCES]].astype(float)
    values = features(free, allocatable, asked) @ numbers
    return int(np.where(env.action_masks(), values, -np.inf).argmax())


def play(env: PlacementEnv, numbers: NDArray[Any], seed: int) -> float:
    """The sum of all rewards of one episode."""
    seen, _ = env.reset(seed=seed)
    total, is_over = 0.0, False
    while not is_over:
        seen, reward, is_over, _, _ = env.step(choose(env, seen, numbers))
        total += reward
    return total


def train(env: PlacementEnv, *, rounds: int, policies: int, seed: int) -> NDArray[Any]:
    draws = np.random.default_rng(seed)
    middle, spread = np.zeros(len(FEATURES)), np.ones(len(FEATURES))
    for number in range(rounds):
        tried = middle + spread * draws.standard_normal((policies, len(FEATURES)))
        totals = np.array([play(env, one, seed=number) for one in tried])
        best = tried[np.argsort(-totals, kind="stable")[: max(2, round(KEPT * policies))]]
        middle, spread = best.mean(axis=0), best.std(axis=0) + 0.05
        print(f"round {number + 1}: the best gets {totals.max():.3f}, the mean {totals.mean():.3f}")
    return middle


def configuration(numbers: NDArray[Any]) -> dict[str, Any]:
    """Only this plugin scores."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "plugins": {
                    "score": {"enabled": [{"name": "Learned"}], "disabled": [{"name": "*"}]}
                },
                "pluginConfig": [
                    {"name": "Learned", "args": {"numbers": numbers.round(6).tolist()}}
                ],
            }
        ],
    }


def made_up(seed: int, pods: int = 150) -> Trace:
    """Many small pods, some that need a whole node, on six nodes that are about half full."""
    draws = np.random.default_rng(seed)
    arrival_s = np.cumsum(draws.exponential(10.0, pods)).round(3)
    return Trace(
        name=f"made up, {seed}",
        start_s=0.0,
        pod_templates=(_pod("1", "1Gi"), _pod("8", "4Gi")),
        pod_template=(draws.random(pods) < 0.15).astype(np.int32),
        pod_names=None,
        pod_arrival_s=arrival_s,
        pod_run_s=draws.exponential(120.0, pods).round(3),
        pod_end_s=np.full(pods, np.nan),
        pod_outcome=np.zeros(pods, np.uint8),
        pod_node=None,
        node_templates=(
            {"status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}}},
        ),
        node_template=np.zeros(NODES, np.int32),
        node_names=tuple(f"node-{number}" for number in range(NODES)),
        node_joins_s=np.zeros(NODES),
        node_leaves_s=np.full(NODES, np.inf),
    )


def _pod(cpu: str, memory: str) -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": memory}
    container = {"name": "main", "image": "app", "resources": {"requests": requests}}
    return {"spec": {"containers": [container]}}


def main(rounds: int = 4, policies: int = 8) -> dict[str, float]:
    """Train, then run the policy on pods it has not seen; the mean wait by configuration."""
    env = PlacementEnv(made_up(seed=1), arrivals="shuffle")
    numbers = train(env, rounds=rounds, policies=policies, seed=1)
    env.close()
    for name, number in zip(FEATURES, numbers, strict=True):
        print(f"{number:8.3f}  {name}")
    result = sp.simulate(
        made_up(seed=2),
        config={"default": None, "learned": configuration(numbers)},
        plugin_paths=[str(PLUGIN)],
        ends="service",
    )
    waits = {run.config: float(np.nanmean(run.pods["wait_s"])) for run in result.runs}
    for config, wait_s in waits.items():
        print(f"{config}: a pod waits {wait_s:.1f} s on average")
    return waits


if __name__ == "__main__":
    main()
