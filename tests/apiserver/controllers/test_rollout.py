"""A rolling update in numbers: at no step too many pods or too few, and it comes to its end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.apiserver.controllers.rollout import (
    Limits,
    Members,
    is_recreated,
    limits_of,
    new_size,
    old_sizes,
)
from stowplan.objects.codec import convert
from stowplan.objects.workloads import Deployment


def deployment(replicas: int | None = 10, **strategy: Any) -> Deployment:
    spec = {} if replicas is None else {"replicas": replicas}
    return convert({"metadata": {"name": "d"}, "spec": {**spec, "strategy": strategy}}, Deployment)


def rolling(**limits: Any) -> dict[str, Any]:
    return {"type": "RollingUpdate", "rollingUpdate": limits}


@pytest.mark.parametrize(
    ("asked", "limits"),
    [
        (deployment(10), Limits(3, 2)),
        (deployment(None), Limits(1, 0)),
        (deployment(4), Limits(1, 1)),
        (deployment(10, **rolling(maxSurge=5)), Limits(5, 2)),
        (deployment(10, **rolling(maxSurge="11%", maxUnavailable="19%")), Limits(2, 1)),
        (deployment(10, **rolling(maxSurge=0, maxUnavailable=3)), Limits(0, 3)),
        (deployment(10, **rolling(maxSurge=0, maxUnavailable=0)), Limits(0, 1)),
        (deployment(10, **rolling(maxSurge="0%", maxUnavailable="5%")), Limits(0, 1)),
        (deployment(3, **rolling(maxSurge=0, maxUnavailable=5)), Limits(0, 3)),
    ],
)
def test_limits_are_numbers_or_shares_of_what_is_wanted(asked: Deployment, limits: Limits) -> None:
    """A surge is rounded up, what may be missing down; one of them is not nothing."""
    assert limits_of(asked) == limits


def test_recreated_is_what_says_so() -> None:
    assert is_recreated(deployment(type="Recreate"))
    assert not is_recreated(deployment(type="RollingUpdate"))
    assert not is_recreated(convert({"metadata": {"name": "d"}}, Deployment))


def whole(key: str, wanted: int) -> Members:
    return Members(key, wanted, wanted, wanted, wanted)


@pytest.mark.parametrize(
    ("new", "old", "size"),
    [
        (None, [], 10),
        (None, [whole("a", 10)], 3),
        (whole("n", 3), [whole("a", 8)], 5),
        (whole("n", 3), [whole("a", 10)], 3),
        (whole("n", 3), [whole("a", 11)], 3),
        (whole("n", 3), [whole("a", 4), whole("b", 2)], 7),
        (whole("n", 9), [], 10),
        (whole("n", 10), [whole("a", 1)], 10),
        (whole("n", 12), [], 10),
    ],
)
def test_the_new_one_grows_into_the_room_there_is(
    new: Members | None, old: list[Members], size: int
) -> None:
    assert new_size(10, Limits(3, 2), new, old) == size


@pytest.mark.parametrize(
    ("new", "old", "sizes"),
    [
        (whole("n", 3), [whole("a", 10)], {"a": 5}),
        (Members("n", 3, 3, 0, 0), [whole("a", 10)], {"a": 8}),
        (Members("n", 3, 3, 0, 0), [whole("a", 8)], {"a": 8}),
        (whole("n", 3), [whole("a", 4), whole("b", 6)], {"a": 0, "b": 5}),
        (whole("n", 3), [Members("a", 4, 4, 4, 1), whole("b", 6)], {"a": 0, "b": 5}),
        (Members("n", 3, 3, 0, 0), [Members("a", 4, 4, 0, 0), whole("b", 6)], {"a": 2, "b": 6}),
        (whole("n", 10), [whole("a", 1)], {"a": 0}),
        (whole("n", 10), [], {}),
    ],
)
def test_old_ones_shrink_by_what_can_be_spared_the_unhealthy_first(
    new: Members, old: list[Members], sizes: dict[str, int]
) -> None:
    assert old_sizes(10, Limits(3, 2), new, old) == sizes


@given(
    replicas=st.integers(0, 12),
    surge=st.integers(0, 4),
    missing=st.integers(0, 4),
    before=st.lists(st.integers(0, 12), max_size=3),
)
def test_every_step_keeps_the_limits_and_there_is_a_last_one(
    replicas: int, surge: int, missing: int, before: list[int]
) -> None:
    asked = deployment(replicas, **rolling(maxSurge=surge, maxUnavailable=missing))
    limits = limits_of(asked)
    new, old = whole("n", 0), [whole(str(n), count) for n, count in enumerate(before)]
    for _ in range(60):
        total, there = new.wanted + sum(it.wanted for it in old), new.available
        size = new_size(replicas, limits, new, old)
        assert size <= replicas
        assert size == new.wanted or total - new.wanted + size <= replicas + limits.max_surge
        new = Members("n", size, size, there, there)
        sizes = old_sizes(replicas, limits, new, old)
        assert all(sizes[it.key] <= it.wanted for it in old)
        left = new.available + sum(sizes.values())
        least = min(replicas - limits.max_unavailable, there + sum(it.wanted for it in old))
        assert left >= least
        old = [whole(it.key, sizes[it.key]) for it in old]
        new = whole("n", size)
    assert new.wanted == replicas
    assert not any(it.wanted for it in old)
