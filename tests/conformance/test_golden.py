"""The same decisions as the real kube-scheduler, in every field, in every recorded cluster."""

from __future__ import annotations

from functools import cache

import pytest

from tests.conformance.run_golden import (
    GOLDEN,
    WAYS,
    Scenario,
    Way,
    families,
    problems,
    scenarios,
)
from tests.small_limits import small_limits

FOLDERS = (GOLDEN, GOLDEN / "dra")


@cache
def recorded() -> dict[str, Scenario]:
    return {
        scenario["name"]: scenario
        for folder in FOLDERS
        for family in families(folder)
        for scenario in scenarios(family, folder)
    }


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", recorded())
def test_decisions_equal_kube_schedulers(name: str, way: Way) -> None:
    assert not problems(recorded()[name], way)


@pytest.mark.parametrize("name", [*recorded()][::3])
def test_decisions_do_not_depend_on_how_much_is_kept(name: str) -> None:
    with small_limits():
        assert not problems(recorded()[name], "brief")


def test_nothing_is_missing() -> None:
    assert len(recorded()) == 408 + 288
