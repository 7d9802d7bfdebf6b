"""A few hundred seeds with every run of the tests; `make simulate SEEDS=1000` runs more."""

from __future__ import annotations

import pytest

from tests.simulation.running import simulate

SEED_COUNT = 240
SEEDS_PER_TEST = 8

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(300)]


@pytest.mark.parametrize("first", range(0, SEED_COUNT, SEEDS_PER_TEST), ids="from-{}".format)
def test_nothing_is_lost_whatever_happens(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        outcome = simulate(seed)
        if outcome.problem:
            pytest.fail(outcome.text, pytrace=False)


FOUND = (211, 234, 22119, 22803, 31381, 34712, 41162, 43708, 43950, 44321, 920059, 920705)
FOUND_WITH_GROUPS = (57, 1000003, 1000019, 1000045, 1002705, 1003441)
FOUND_WITH_GROUPS += (2000046, 2000384, 2000422, 2001581, 2000932, 2001055, 2001192)
FOUND_WITH_GROUPS += (3000322, 3000515, 3001861)


@pytest.mark.parametrize("seed", [*FOUND, *FOUND_WITH_GROUPS])
def test_a_seed_that_found_something_once_finds_nothing_now(seed: int) -> None:
    """See docs/reliability.md."""
    outcome = simulate(seed)
    if outcome.problem:
        pytest.fail(outcome.text, pytrace=False)
