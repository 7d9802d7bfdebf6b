"""The same decisions as the real kube-scheduler, in every field, in every recorded cluster."""

from __future__ import annotations

from functools import cache

import pytest

from tests.conformance.run_golden import WAYS, Scenario, Way, families, problems, scenarios


@cache
def recorded() -> dict[str, Scenario]:
    return {s["name"]: s for family in families() for s in scenarios(family)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", recorded())
def test_decisions_equal_kube_schedulers(name: str, way: Way) -> None:
    assert not problems(recorded()[name], way)


def test_nothing_is_missing() -> None:
    assert len(recorded()) == 408
