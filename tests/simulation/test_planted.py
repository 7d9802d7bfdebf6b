"""Would the simulation notice?  Each bug is planted into the real code, and must be found."""

from __future__ import annotations

import pytest

from tests.simulation.planted import PLANTS, Plant, double_bind, split_victims
from tests.simulation.running import Outcome, simulate

SEEDS_MAX = 60
FIRST_SEED: dict[Plant, int] = {split_victims: 150}
"""Where to begin, for what few seeds show: a group that evicts a group which goes whole."""

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(300)]


def _first_failure(first: int = 0) -> Outcome | None:
    outcomes = (simulate(seed) for seed in range(first, first + SEEDS_MAX))
    return next((outcome for outcome in outcomes if outcome.problem), None)


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert _first_failure(FIRST_SEED.get(plant, 0)) is not None, plant.__doc__


def test_a_failure_says_how_to_see_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    double_bind(monkeypatch)
    outcome = _first_failure()
    assert outcome is not None
    assert "twice" in outcome.problem
    *_, last = outcome.text.splitlines()
    assert last == f"  again, step by step: make simulate SEED={outcome.seed}"
    # And it is the same again.
    again = simulate(outcome.seed)
    assert (again.problem, again.digest) == (outcome.problem, outcome.digest)
