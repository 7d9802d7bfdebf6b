"""The same decisions as the real kube-scheduler, in every field, in every recorded cluster."""

from __future__ import annotations

import pytest

from tests.conformance.compare import differences
from tests.conformance.run_golden import decide, families, scenarios


@pytest.mark.parametrize("family", families())
def test_decisions_equal_kube_schedulers(family: str) -> None:
    problems = [
        f"{scenario['name']}: {line}"
        for scenario in scenarios(family)
        for line in differences(scenario["expected"], decide(scenario))
    ]

    assert not problems, "\n".join(problems[:20])


def test_nothing_is_missing() -> None:
    assert sum(1 for family in families() for _ in scenarios(family)) == 408
