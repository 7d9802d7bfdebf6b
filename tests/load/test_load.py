"""Small versions of the load and of the soak, with the same verdicts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.load.hostile import KINDS
from tests.load.running import problems, run
from tests.load.soak import Result, soak
from tests.load.target import Up

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(180)]

SHUT_OUT_S = 20.0
"""By then most kinds of hostile clients have come to the end of a try: they have 10 s."""
SLOWEST = {"endless_body", "stalled_body", "deaf_watch", "deaf_list"}
"""Those whose body does not end have 30 s; those who do not read a minute, or until much waits."""


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    made = Up(tmp_path, "--nodes", "20")
    yield made
    made.stop()


def test_half_of_the_clients_are_hostile(up: Up) -> None:
    result = asyncio.run(run(up, clients=6 * len(KINDS), seconds=SHUT_OUT_S))

    assert problems(result) == []
    assert result.experience.created > 100, "it hardly did anything else"
    shut_out = {
        kind
        for kind, outcomes in result.tries.outcomes.items()
        if outcomes["refused"] + outcomes["cut"] > 0
    }
    # One goes by itself; small requests of somebody known are answered, as they should be.
    assert KINDS.keys() - SLOWEST - {"reset", "flood"} <= shut_out
    assert result.tries.outcomes["huge_body"].keys() <= {"refused", "cut"}
    assert result.tries.outcomes["bad_token"].keys() <= {"refused", "cut"}
    assert up.stop() == 0
    assert len(up.log_lines()) < 20, "hostile clients can fill the disk:\n" + up.tail()
    assert up.target.token not in up.log.read_text()


def test_what_comes_and_goes_leaves_nothing_behind(up: Up) -> None:
    """Everything happens as it should; whether memory is flat takes the half hour to tell."""
    result = asyncio.run(soak(up, seconds=8.0, lives_per_s=20.0, event_count=0))

    assert result.failures == []
    assert result.lives.total() == 160
    assert up.stop() == 0
    assert len(up.log_lines()) < 20, up.tail()


@pytest.mark.parametrize(
    ("growth_per_sample", "flat"), [(0, True), (-1000, True), (100, True), (10_000, False)]
)
def test_the_verdict(growth_per_sample: int, flat: bool) -> None:
    """Of a memory of a million that fills up at first, and then grows or does not."""
    filling = [(float(at), 10_000 * at) for at in range(100)]
    then = [(float(at), 1_000_000 + growth_per_sample * (at - 100)) for at in range(100, 301)]

    assert Result(samples=filling + then).flat is flat
