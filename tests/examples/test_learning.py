"""examples/learning: what the policy learned in the environment holds in the scheduler."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

LEARNING = Path(__file__).parents[2] / "examples" / "learning"


@pytest.fixture(scope="module")
def train() -> Iterator[Any]:
    sys.path.insert(0, str(LEARNING))
    try:
        import train

        yield train
    finally:
        sys.path.remove(str(LEARNING))


@pytest.mark.slow
def test_a_policy_that_was_trained_a_little_beats_the_default(train: Any) -> None:
    waits = train.main(rounds=2, policies=5)

    assert waits["learned"] < waits["default"] / 2, "large pods find whole nodes free"


def test_the_plugin_refuses_what_is_no_policy(train: Any) -> None:
    from learned import Learned

    with pytest.raises(ValueError, match="must be 4 of them"):
        Learned({"numbers": [1, 2]}, None)  # type: ignore[arg-type]


def test_a_fuller_node_is_told_from_an_emptier_one(train: Any) -> None:
    from learned import features

    free, allocatable = np.array([[8.0, 32.0], [4.0, 30.0]]), np.array([[8.0, 32.0]] * 2)

    assert features(free, allocatable, np.array([4.0, 2.0])).tolist() == [
        [0.5, 0.9375, 0.4375, 0.0],
        [0.0, 0.875, 0.875, 1.0],
    ]
