"""The environment asks the scheduler and nobody else, and is what Gymnasium wants it to be."""

from __future__ import annotations

import importlib
import math
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

import stowplan.gym
from stowplan.errors import InputError
from stowplan.gym import PlacementEnv
from stowplan.sim.trace import Change
from tests.sim.making import node_template, pod_template, trace

INF = math.inf
TAINT = [{"key": "team", "value": "ml", "effect": "NoSchedule"}]


def templates() -> list[dict[str, Any]]:
    return [
        pod_template("1"),
        pod_template("3"),
        pod_template("1", nodeSelector={"kubernetes.io/hostname": "node-1"}),
        pod_template("99"),  # It fits nowhere.
    ]


def busy(**more: Any) -> Any:
    pods = [(float(n), 20.0 + n % 7, n % 4) for n in range(40)]
    return trace(pods, templates=templates(), nodes=4, **more)


def played(env: Any, seed: int) -> tuple[list[Any], list[float], dict[str, Any]]:
    """Actions by chance among those allowed: what was seen, what was given, the last info."""
    draws = np.random.default_rng(seed)
    seen, info = env.reset(seed=seed)
    all_seen, rewards, is_over = [seen], [], False
    while not is_over:
        seen, reward, is_over, _, info = env.step(draws.choice(np.flatnonzero(env.action_masks())))
        all_seen.append(seen)
        rewards.append(reward)
    return all_seen, rewards, info


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*spec.*:UserWarning")
def test_gymnasium_finds_nothing_wrong() -> None:
    env = PlacementEnv(busy(), arrivals="shuffle")

    check_env(env, skip_render_check=True)

    env.close()


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**31 - 1), st.sets(st.integers(0, 3)))
def test_the_scheduler_allows_the_nodes_and_places_the_pods(seed: int, tainted: set[int]) -> None:
    """The mask is where no plugin objects; a pod goes where the action says."""
    changes = tuple(
        Change(
            9.5,
            "apply",
            {**node_template(), "metadata": {"name": f"node-{n}"}, "spec": {"taints": TAINT}},
        )
        for n in sorted(tainted)
    )
    env = PlacementEnv(busy(changes=changes), arrivals="shuffle")
    draws = np.random.default_rng(seed)
    _, info = env.reset(seed=seed)
    is_over = False
    while not is_over:
        cluster = env._episode._run.stream.cluster  # type: ignore[union-attr]
        key, mask = info["pod"], env.action_masks()
        name = key.partition("/")[2]
        manifest = env._inputs.trace.pod(int(name.partition("-")[2]) - 1)
        with cluster.screen() as screen:
            objections = screen.objections(manifest)
        allowed = {n for n, count in zip(objections.names, objections.count(), strict=True)
                   if not count}  # fmt: skip
        assert {env.node_names[n] for n in np.flatnonzero(mask)} == allowed
        assert mask.tolist() == info["action_mask"].astype(bool).tolist()

        action = int(draws.choice(np.flatnonzero(mask)))
        stays = env._episode._run.record.stays  # type: ignore[union-attr]
        before = len(stays.who)
        _, _, is_over, _, info = env.step(action)

        nodes = env._episode._run.record.nodes  # type: ignore[union-attr]
        assert len(stays.who) == before + 1
        assert nodes[stays.where[before]].name == env.node_names[action]
    env.close()


def test_rewards_are_the_shares_of_what_was_placed_and_turned_away() -> None:
    env = PlacementEnv(busy())

    _, rewards, info = played(env, 1)

    asked = [1, 3, 1, 99]
    everything = sum(asked[n % 4] for n in range(40))
    assert info["placed"] + info["turned_away"] == 40
    assert info["turned_away"] >= 10
    placed = sum(
        asked[int(env._episode._work.template[pod])]  # type: ignore[union-attr]
        for pod in env._episode._run.record.stays.who  # type: ignore[union-attr]
    )
    away = everything - placed
    memory = (info["placed"] - info["turned_away"]) / (4 * 16)
    assert sum(rewards) == pytest.approx(((placed - away) / 16 + memory) / 2)


def test_an_action_that_is_not_allowed_turns_the_pod_away() -> None:
    env = PlacementEnv(trace([(0.0, INF, 0), (1.0, INF, 0)], templates=[templates()[2]]))
    env.reset(seed=1)

    _, reward, is_over, _, info = env.step(0)

    assert not is_over
    assert reward < 0
    assert (info["placed"], info["turned_away"]) == (0, 1)
    assert env.action_masks().tolist() == [False, True]


def test_what_is_seen_is_what_is_there() -> None:
    env = PlacementEnv(trace([(0.0, 5.0, 0), (1.0, INF, 0), (9.0, INF, 0)], nodes=2))

    first, _ = env.reset(seed=1)
    second, *_ = env.step(1)
    third, *_ = env.step(1)

    assert env.feature_names == ("cpu.free", "memory.free", "cpu.allocatable", "memory.allocatable")
    assert first["nodes"].tolist() == [[1, 1, 1, 1]] * 2
    assert first["pod"].tolist() == [0.25, 0.0625]
    assert second["nodes"][1].tolist() == [0.75, 0.9375, 1, 1]
    assert third["nodes"][1].tolist() == [0.75, 0.9375, 1, 1], "one came, one went"


def test_equal_seeds_are_equal_episodes_and_others_are_not() -> None:
    env = PlacementEnv(busy(), arrivals="shuffle")

    one, again, other = (played(env, seed) for seed in (1, 1, 2))

    assert one[1] == again[1]
    assert all(
        np.array_equal(a["nodes"], b["nodes"]) for a, b in zip(one[0], again[0], strict=True)
    )
    assert one[1] != other[1]


@pytest.mark.slow
def test_several_at_once() -> None:
    envs = gymnasium.vector.SyncVectorEnv([lambda: PlacementEnv(busy(), arrivals="shuffle")] * 3)

    seen, info = envs.reset(seed=[1, 2, 1])
    for _ in range(60):  # Longer than an episode: they begin anew by themselves.
        seen, _, _, _, info = envs.step(np.array([mask.argmax() for mask in info["action_mask"]]))

    assert seen["nodes"].shape == (3, 4, 4)
    assert np.array_equal(seen["nodes"][0], seen["nodes"][2])
    envs.close()


def test_wrong_use_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    env = PlacementEnv(trace([(0.0, 1.0, 0)]))
    with pytest.raises(InputError, match="no episode has begun"):
        env.step(0)
    env.reset()
    env.step(0)
    with pytest.raises(InputError, match="this episode is over"):
        env.step(0)
    with pytest.raises(InputError, match="no pod of the trace fits any node"):
        PlacementEnv(trace([(0.0, 1.0, 0)], templates=[pod_template("99")])).reset()
    with pytest.raises(InputError, match="has no nodes"):
        PlacementEnv(trace([(0.0, 1.0, 0)], nodes=0))


def test_without_gymnasium_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    monkeypatch.delitem(sys.modules, "stowplan.gym")

    with pytest.raises(InputError, match=r"pip install stowplan\[gym\]"):
        importlib.import_module("stowplan.gym")

    assert stowplan.gym.PlacementEnv is PlacementEnv
