"""What large claims, slices and classes cost: no more than their size, for all that a pod lives."""

from __future__ import annotations

import pytest

from tests.hostile.large_devices import DEVICES
from tests.hostile.life import Life, cost_in_calls
from tests.hostile.test_large_objects import CALLS_FREE, GROWTH_MAX, SIZES, too_steep, two


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", DEVICES)
def test_the_cost_grows_no_faster_than_the_size(name: str) -> None:
    lives = {n: Life(two(DEVICES[name], n)) for n in SIZES}
    calls = {n: cost_in_calls(life) for n, life in lives.items()}

    assert too_steep(calls, GROWTH_MAX, CALLS_FREE) == {}
    for life in lives.values():
        assert all(life.cluster.node_of(it.metadata.name) for it in life.others_left())
